"""Reports in other formats."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from . import _keywords
from ._document import Document, as_files
from ._options import RESULT, arguments
from ._program import PathLike, run

if TYPE_CHECKING:
    from typing_extensions import Unpack


def export(
    reports: PathLike | Document | Iterable[PathLike | Document],
    *outputs: PathLike,
    figure: str | None = None,
    table: str | None = None,
    **options: Unpack[_keywords.Export],
) -> None:
    """Runs ``headscope export``: writes a report to ``outputs``, or one ``figure`` or ``table`` of it.

    The format is that of the extension: ``.html`` is a page, of several reports one with them side by side; ``.json`` is a
    report, ``.csv`` a row for each head, ``.svg`` a figure, ``.parquet`` a table. The other options are those of the command
    line with ``_`` for ``-``.

    Raises ``HeadscopeError`` if the program fails.
    """
    inputs = [reports] if isinstance(reports, (str, os.PathLike, Document)) else reports
    given = arguments("export", {"figure": figure, "table": table, **options}, RESULT)
    with as_files(inputs) as paths:
        run(["export", *given, *(f"--output={os.fspath(path)}" for path in outputs), "--", *paths])


def exported(report: Document, name: str, figure: str | None = None, table: str | None = None) -> str:
    """The text that is written to a file of this name."""
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        path = Path(folder, name)
        export(report, path, figure=figure, table=table)
        return path.read_text(encoding="utf-8")
