"""Analyses of attention heads, run by the program ``headscope`` and read from its reports.

The module calls the program that is installed with it and reads what that writes; it computes nothing.
Names are those of the report's JSON (docs/REPORT.md), options those of the command line (``headscope analyze --help``).
"""

from ._program import HeadscopeError, program, version
from ._report import Report, load
from ._analyze import analyze

__all__ = ["HeadscopeError", "Report", "analyze", "load", "program", "version"]
