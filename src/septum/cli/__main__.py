"""`python -m septum.cli` is `septum`."""

import sys

from septum.cli import main

sys.exit(main())
