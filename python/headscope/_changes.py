"""Two analyses side by side: what changed between them, and which labels heads keep."""

from __future__ import annotations

from ._document import Document, as_files
from ._frames import Columns, of_objects
from ._options import RESULT, Value, arguments
from ._program import PathLike, run


class Changes(Document):
    """What changed between two analyses, beyond chance: the JSON of ``headscope diff --json`` (``headscope schema diff``).

    ``changes.changed`` says whether anything did; ``changes.frame("labels")``, ``"relations"``, ``"metrics"`` and ``"heads"`` have a
    row for each label, accuracy, metric and head that did.
    """

    def __repr__(self) -> str:
        a, b = (f"{side['model']} over {side['corpus']}" for side in (self["a"], self["b"]))
        changed = ", ".join(f"{len(self[part])} {part}" for part in ("labels", "relations", "metrics"))
        return f"<headscope.Changes: from {a} to {b}: {changed}>"

    def _columns(self, table: str | None, wide: bool) -> Columns:
        return rows(self, table or "metrics", wide)


class Comparison(Document):
    """Which heads keep, gain or lose a label between two analyses: the JSON that ``headscope compare -o compare.json`` writes.

    ``comparison.frame()`` has a row for each head.
    """

    def _columns(self, table: str | None, wide: bool) -> Columns:
        return rows(self, table or "heads", wide)


def rows(document: Document, key: str, wide: bool) -> Columns:
    """The list of objects under a key as columns."""
    if wide:
        raise TypeError(f"the table {key!r} has one form: wide=True is for 'heads' of a report")
    tables = {name: value for name, value in document.items() if is_table(value)}
    if key not in tables:
        raise KeyError(f"there is no table {key!r}: there are {', '.join(tables)}")
    return of_objects(tables[key])


def is_table(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def diff(a: PathLike | Document, b: PathLike | Document, **options: Value) -> Changes:
    """Runs ``headscope diff --json`` on two reports, or files of reports or of partials (``.headscope``).

    Raises ``HeadscopeError`` if the program fails.
    """
    given = arguments(options, RESULT | {"full"})
    with as_files([a, b]) as paths:
        # Status 1 says that something changed.
        return Changes(run(["diff", "--json", *given, "--", *paths], accepted=(0, 1)))
