"""Runs an analysis."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Iterable, Optional, Sequence, Union

from ._program import run
from ._report import Report, load

PathLike = Union[str, "os.PathLike[str]"]
Value = Union[str, int, float, bool, PathLike, Iterable[Union[str, int, float, PathLike]], None]


def analyze(
    model: Optional[PathLike] = None,
    corpus: Union[PathLike, Sequence[PathLike], None] = None,
    **options: Value,
) -> Report:
    """Runs ``headscope analyze`` and reads its report.

    ``model`` is a Hub id, a folder or a name in the box, ``corpus`` a path or several; without them the model and the corpus
    in the program are taken. ``options`` are those of the command line with ``_`` for ``-``: ``max_tokens=256``,
    ``control=["random-init"]``, ``no_run_info=True``. ``with`` is a word of Python: write ``with_=["norms"]``.

    Raises ``HeadscopeError`` if the program fails.
    """
    corpora = [] if corpus is None else [corpus] if isinstance(corpus, (str, os.PathLike)) else list(corpus)
    arguments = ["analyze", "--quiet"]
    arguments += [f"--corpus={os.fspath(path)}" for path in corpora]
    for name, value in options.items():
        arguments += option(name, value)
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        path = Path(folder, "report.json")
        arguments.append(f"--output={path}")
        if model is not None:
            arguments += ["--", os.fspath(model)]
        run(arguments)
        return load(path)


REFUSED = {"output", "quiet", "shard", "after", "error-format", "help"}
"""Options that say where the report goes, or that there is none."""


def option(name: str, value: Value) -> list[str]:
    """An option as it stands on the command line; of ``None`` and ``False`` nothing does."""
    spelt = name.rstrip("_").replace("_", "-")
    if spelt in REFUSED:
        raise TypeError(f"analyze() returns the report, so it takes no option {name!r}: run headscope itself")
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{spelt}"]
    if isinstance(value, (str, int, float, os.PathLike)):
        value = [value]
    return [f"--{spelt}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in value]
