"""Reports in other formats."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ._document import Document, as_files
from ._options import RESULT, Value, arguments
from ._program import PathLike, run


def export(
    reports: PathLike | Document | Iterable[PathLike | Document],
    *outputs: PathLike,
    figure: str | None = None,
    table: str | None = None,
    **options: Value,
) -> None:
    """Runs ``headscope export``: writes a report to ``outputs``, or one ``figure`` or ``table`` of it.

    The format is that of the extension: ``.html`` is a page, of several reports one with them side by side; ``.json`` is a
    report, ``.csv`` a row for each head, ``.svg`` a figure, ``.parquet`` a table. The other options are those of the command
    line with ``_`` for ``-``.

    Raises ``HeadscopeError`` if the program fails.
    """
    inputs = [reports] if isinstance(reports, (str, os.PathLike, Document)) else reports
    given = arguments({"figure": figure, "table": table, **options}, RESULT)
    with as_files(inputs) as paths:
        run(["export", *given, *(f"--output={os.fspath(path)}" for path in outputs), "--", *paths])


def exported(report: Document, name: str, figure: str | None = None, table: str | None = None) -> str:
    """The text that is written to a file of this name."""
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        path = Path(folder, name)
        export(report, path, figure=figure, table=table)
        return path.read_text(encoding="utf-8")
