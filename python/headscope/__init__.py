"""Analyses of attention heads, run by the program ``headscope`` and read from what it writes.

The module calls the program that is installed with it; it computes nothing.
Each function is a command, its options are those of the command line (``headscope analyze --help``), and what it returns has
the names of the program's JSON (docs/REPORT.md). docs/PYTHON.md shows all of it.
"""

from ._errors import HeadscopeError
from ._program import program, run, version
from ._report import Report, load
from ._analyze import analyze, analyze_shard, merge, merge_parts, missing_shards
from ._batch import Batch, batch
from ._changes import Changes, Comparison, compare, compare_numbers, diff
from ._export import export
from ._maps import Maps, SentenceMap, load_maps, maps
from ._pictures import Page, Picture, View, view

__all__ = [
    "Batch",
    "Changes",
    "Comparison",
    "HeadscopeError",
    "Maps",
    "Page",
    "Picture",
    "Report",
    "SentenceMap",
    "View",
    "analyze",
    "analyze_shard",
    "batch",
    "compare",
    "compare_numbers",
    "diff",
    "export",
    "load",
    "load_maps",
    "maps",
    "merge",
    "merge_parts",
    "missing_shards",
    "program",
    "run",
    "version",
    "view",
]

__version__: str
"""The version of the package, or of the program where the module is not installed."""


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("headscope")
    except PackageNotFoundError:
        return version()
