"""`python -m septum.cli` is `septum`."""

from septum.cli import program

program()
