"""Tables of models and corpora."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import _keywords
from ._frames import Columns, Tabular, of_csv
from ._kinds import of_batch
from ._options import RESULT, arguments
from ._program import PathLike, run
from ._report import Report, load

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Batch(Mapping[str, Report], Tabular):
    """The folder that ``headscope batch`` writes: reports by the names of their runs; ``frame()`` has a row for each run."""

    def __init__(self, folder: PathLike) -> None:
        self.folder = Path(folder)
        columns = self._columns(None, wide=False)
        self._runs = {name: files.split() for name, files in zip(columns["run"].values, columns["reports"].values) if files}

    def __getitem__(self, run: str) -> Report:
        if run not in self._runs:
            raise KeyError(f"{self.folder} has no report of {run!r}: it has those of {', '.join(self._runs) or 'no run'}")
        plain = f"{run}.json"
        return load(self.folder / (plain if plain in self._runs[run] else f"{run}.json.gz"))

    def __iter__(self) -> Iterator[str]:
        return iter(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<headscope.Batch: {self.folder}, {len(self)} report{'' if len(self) == 1 else 's'}>"

    def _columns(self, table: str | None, wide: bool) -> Columns:
        if wide or table not in (None, "runs"):
            raise TypeError(f"a batch has one table, 'runs', in one form, and not {table!r}")
        return of_csv((self.folder / "runs.csv").read_text(encoding="utf-8"), of_batch)


def batch(table: PathLike, output: PathLike, **options: Unpack[_keywords.Batch]) -> Batch:
    """Runs ``headscope batch``: every model of a table, a TOML file, over every corpus of it, into the folder ``output``.

    Raises ``HeadscopeError`` if a run fails, with the errors of all that did; ``Batch(output)`` has the reports of the others.
    """
    given = arguments("batch", options, RESULT | {"dry-run"})
    run(["batch", "--quiet", *given, f"--output={Path(output)}", "--", table])
    return Batch(output)
