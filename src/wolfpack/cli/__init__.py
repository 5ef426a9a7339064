"""The command line: `wolfpack`, or `python -m wolfpack`."""

from wolfpack.cli.app import app, main

__all__ = ["app", "main"]
