"""Analyses of attention heads, run by the program ``headscope`` and read from what it writes.

The module calls the program that is installed with it; it computes nothing.
Each function is a command, its options are those of the command line (``headscope analyze --help``), and what it returns has
the names of the program's JSON (docs/REPORT.md). docs/PYTHON.md shows all of it.
"""

from ._program import HeadscopeError, program, run, version
from ._report import Report, load
from ._analyze import analyze, analyze_shard, merge, merge_parts, missing_shards
from ._batch import Batch, batch
from ._changes import Changes, Comparison, compare, diff
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
