"""`python -m septum` is `septum`."""

from septum.cli import program

program()
