"""Two analyses side by side: what changed between them, and which labels heads keep."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import _keywords
from ._document import Document, as_files
from ._frames import Columns, of_objects
from ._kinds import COMPARE, NUMBERS, Rows, of_table
from ._options import RESULT, arguments
from ._pictures import Page
from ._program import PathLike, run

if TYPE_CHECKING:
    from typing_extensions import Unpack


class SideBySide(Document):
    """What the program says of two analyses."""

    TABLE: str
    """The table that ``frame()`` gives."""
    ABOUT: tuple[str, ...] = ()
    """What ``headscope compare`` is told for it."""
    SCHEMA: str
    """The name of its schema."""
    KINDS: Mapping[str, Rows]
    """Where the types of the columns of each table are."""

    def __init__(self, text: str, page: str) -> None:
        super().__init__(text)
        self._page = page

    def page(self) -> Page:
        """The same as a page in HTML, which a cell of a notebook shows."""
        return Page(self._page)

    def _repr_html_(self) -> str:
        return self.page()._repr_html_()

    def _tables(self) -> dict[str, Iterable[Mapping[str, Any]]]:
        raise NotImplementedError

    def _columns(self, table: str | None, wide: bool) -> Columns:
        tables = self._tables()
        name = table or self.TABLE
        if wide:
            raise TypeError(f"the table {name!r} has one form: wide=True is for 'heads' of a report")
        if name not in tables:
            raise KeyError(f"there is no table {name!r}: there are {', '.join(tables)}")
        return of_objects(tables[name], of_table(self.KINDS[name], self.SCHEMA))

    def _sides(self) -> str:
        a, b = (f"{side['model']} over {side['corpus']}" for side in (self["a"], self["b"]))
        return f"from {a} to {b}"


class Changes(SideBySide):
    """What changed between two analyses, beyond chance: the JSON of ``headscope compare --numbers --json``.

    ``changes.changed`` says whether anything did.
    ``frame()`` has a row for each metric that did, ``frame("labels")``, ``frame("relations")`` and ``frame("heads")`` for each
    label, accuracy on a relation, and head.
    """

    TABLE = "metrics"
    ABOUT = ("--numbers",)
    SCHEMA = "numbers"
    KINDS = NUMBERS

    def __repr__(self) -> str:
        changed = ", ".join(f"{len(self[part])} {part}" for part in ("labels", "relations", "metrics"))
        return f"<headscope.Changes: {self._sides()}: {changed}>"

    def _tables(self) -> dict[str, Iterable[Mapping[str, Any]]]:
        return {name: self[name] for name in ("metrics", "labels", "relations", "heads", "left_aside")}


class Comparison(SideBySide):
    """Which heads keep, gain or lose a label: the JSON of ``headscope compare --json`` (``headscope explain --schema compare``).

    ``comparison.agreement`` says how far the two agree, with intervals.
    ``frame()`` has a row for each head, ``frame("labels")`` for each label of each head, with its evidence on both sides,
    ``frame("families")`` for each family of labels.
    """

    TABLE = "heads"
    SCHEMA = "compare"
    KINDS = COMPARE

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{count} {outcome.replace('_', ' ')}" for outcome, count in self["labels_by_outcome"].items() if count
        )
        return f"<headscope.Comparison: {self._sides()}: labels {counts or 'none'}>"

    def _tables(self) -> dict[str, Iterable[Mapping[str, Any]]]:
        heads = self["heads"]
        return {
            "heads": map(head_outcome, heads),
            "labels": [
                {**place(head), **label} for head in heads for label in [*head["labels"], *choice(head).get("labels", [])]
            ],
            "families": self["families"],
        }


def place(head: Mapping[str, Any]) -> dict[str, Any]:
    return {name: head[name] for name in ("layer", "head", "name")}


def choice(head: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = head["choice"] or {}
    return found


def head_outcome(head: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a head, with its labels by what became of them, as the program's own table has it."""
    outcomes = ("kept", "gained", "lost", "could_not_tell")
    return {
        **place(head),
        **{name: head[name] for name in ("outcome", "primary_a", "primary_b")},
        **{outcome: [label["label"] for label in head["labels"] if label["outcome"] == outcome] for outcome in outcomes},
        **{f"choice_{name}": choice(head).get(name) for name in ("outcome", "a", "b")},
    }


def compare_numbers(a: PathLike | Document, b: PathLike | Document, **options: Unpack[_keywords.CompareNumbers]) -> Changes:
    """Runs ``headscope compare --numbers --json`` on two reports, or files of reports or of partials (``.headscope``).

    Raises ``HeadscopeError`` if the program fails.
    """
    return side_by_side(Changes, a, b, options)


def diff(a: PathLike | Document, b: PathLike | Document, **options: Unpack[_keywords.CompareNumbers]) -> Changes:
    """The name of ``compare_numbers`` in the version before."""
    warnings.warn("headscope.diff is headscope.compare_numbers now", DeprecationWarning, stacklevel=2)
    return compare_numbers(a, b, **options)


def compare(a: PathLike | Document, b: PathLike | Document, **options: Unpack[_keywords.Compare]) -> Comparison:
    """Runs ``headscope compare --json`` on two reports, or files of reports or of partials (``.headscope``).

    Raises ``HeadscopeError`` if the program fails, or the models do not have the same layers and heads.
    """
    return side_by_side(Comparison, a, b, options)


Kind = TypeVar("Kind", bound=SideBySide)


WRITTEN = RESULT | {"full", "table", "fail-on", "numbers"}
"""Options of what the command prints and writes, and of its exit status, which says nothing here."""


def side_by_side(kind: type[Kind], a: PathLike | Document, b: PathLike | Document, options: Mapping[str, Any]) -> Kind:
    given = arguments("compare", options, WRITTEN)
    with as_files([a, b]) as paths, tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        page = Path(folder, "page.html")
        # Status 1 says that something changed.
        text = run(["compare", *kind.ABOUT, "--json", *given, f"--output={page}", "--", *paths], accepted=(0, 1))
        return kind(text, page.read_text(encoding="utf-8"))
