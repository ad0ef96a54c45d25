"""Tables as data frames of pandas or polars, with a type for each column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

if TYPE_CHECKING:
    import pandas
    import polars

Kind = type[bool] | type[int] | type[float] | type[str]


class Column(NamedTuple):
    """A column: the type of its values, and the values, ``None`` where there is none."""

    kind: Kind
    values: list[Any]


Columns = dict[str, Column]


class Tabular:
    """What has tables: each of them is a data frame on request."""

    def _columns(self, table: str | None, wide: bool) -> Columns:
        raise NotImplementedError

    @overload
    def frame(
        self, table: str | None = None, *, wide: bool = False, library: Literal["pandas"] = "pandas"
    ) -> pandas.DataFrame: ...

    @overload
    def frame(self, table: str | None = None, *, wide: bool = False, library: Literal["polars"]) -> polars.DataFrame: ...

    def frame(
        self, table: str | None = None, *, wide: bool = False, library: Literal["pandas", "polars"] = "pandas"
    ) -> pandas.DataFrame | polars.DataFrame:
        """A table as a data frame of ``library``, which is to be installed.

        Integers, numbers, flags and texts have columns of their types in pandas (``int64``, ``float64``, ``bool``,
        ``string``; ``Int64`` and ``boolean`` where a value is missing) and in polars (``Int64``, ``Float64``, ``Boolean``,
        ``String``). A missing number is NaN in pandas, and any other missing value null.

        Raises ``ImportError`` if the library is not there, ``HeadscopeError`` or ``KeyError`` if there is no such table.
        """
        if library == "polars":
            return polars_frame(self._columns(table, wide))
        if library == "pandas":
            return pandas_frame(self._columns(table, wide))
        raise ValueError(f"library is 'pandas' or 'polars', not {library!r}")


def of_csv(text: str) -> Columns:
    """The columns of a table as the program writes it; an empty cell is a missing value."""
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    names = [name for name in header if name]
    return {name: of_cells([row[at] for row in rows]) for at, name in enumerate(names)}


# As the program writes them: a number that is no integer has a point or an exponent.
INTEGER = re.compile(r"-?\d+")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")


def of_cells(cells: list[str]) -> Column:
    """Cells as values of the narrowest type that all have; where none has a value they are numbers."""
    filled = [cell for cell in cells if cell]
    kind: Kind = str
    if filled and all(cell in ("true", "false") for cell in filled):
        kind = bool
    elif filled and all(map(INTEGER.fullmatch, filled)):
        kind = int
    elif all(map(NUMBER.fullmatch, filled)):
        kind = float
    read = (lambda cell: cell == "true") if kind is bool else kind
    return Column(kind, [read(cell) if cell else None for cell in cells])


def of_objects(objects: Iterable[Mapping[str, Any]], texts: Collection[str] = ()) -> Columns:
    """Objects of JSON as rows, as the program's own flat tables have them.

    A key within an object stands after a dot, the ends of an interval are ``ci95_low`` and ``ci95_high``, lists of texts are
    joined by spaces, and lists of objects are left out. Where no row has a value, those of ``texts`` are texts all the same.
    """
    rows = [dict(cells("", one)) for one in objects]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: of_values([row.get(name) for row in rows]) for name in names}
    return {name: Column(str, column.values) if name in texts else column for name, column in columns.items()}


def cells(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from cells(f"{name}.{key}" if name else key, inner)
    elif isinstance(value, list) and len(value) == 2 and all(isinstance(end, (int, float)) for end in value):
        yield from zip((f"{name}_low", f"{name}_high"), value)
    elif not isinstance(value, list):
        yield name, value
    elif not any(isinstance(inner, (Mapping, list)) for inner in value):
        yield name, " ".join(map(str, value)) or None


def of_values(values: list[Any]) -> Column:
    """Values of JSON as a column; values of several types become texts."""
    kinds: set[Kind] = {type(value) for value in values if value is not None}
    if len(kinds) == 1:
        return Column(kinds.pop(), values)
    if kinds <= {int, float}:
        return Column(float, values)
    return Column(str, [None if value is None else str(value) for value in values])


def needed(library: str, pip: str | None = None) -> ModuleType:
    """A library that is not needed for anything else.

    Raises ``ImportError``, with the command that installs it.
    """
    import importlib

    try:
        return importlib.import_module(library)
    except ImportError:
        raise ImportError(f"this needs {library}, which is not installed: pip install {pip or library}") from None


def pandas_frame(columns: Columns) -> pandas.DataFrame:
    needed("pandas")
    import pandas

    def series(column: Column) -> pandas.Series[Any]:
        missing = any(value is None for value in column.values)
        types = {int: "Int64" if missing else "int64", bool: "boolean" if missing else "bool", float: "float64"}
        return pandas.Series(column.values, dtype=types.get(column.kind, "string"))

    return pandas.DataFrame({name: series(column) for name, column in columns.items()})


def polars_frame(columns: Columns) -> polars.DataFrame:
    needed("polars")
    import polars

    types = {int: polars.Int64, bool: polars.Boolean, float: polars.Float64, str: polars.String}
    return polars.DataFrame([polars.Series(name, column.values, dtype=types[column.kind]) for name, column in columns.items()])
