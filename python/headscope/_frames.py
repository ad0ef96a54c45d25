"""Tables as data frames of pandas or polars, with a type for each column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType, ModuleType
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

Kinds = Mapping[str, Kind]
"""The types of columns by their names, as a table has them whatever its rows are."""


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


def of_csv(text: str, kinds_of: Callable[[list[str]], Kinds] = lambda names: {}) -> Columns:
    """The columns of a table as the program writes it; an empty cell is a missing value.

    ``kinds_of`` has the types of the columns with these names; those of others are the narrowest that their cells have.
    """
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    names = [name for name in header if name]
    kinds = kinds_of(names)
    columns: Columns = {}
    for at, name in enumerate(names):
        columns.update(typed(name, [row[at] or None for row in rows], kinds, of_cells))
    return columns


def typed(name: str, values: list[Any], kinds: Kinds, otherwise: Callable[[list[Any]], Column]) -> Columns:
    """A column with its type; an object or an interval that is null in every row is the columns that it has in other tables."""
    if name in kinds:
        kind = kinds[name]
        return {name: Column(kind, [None if value is None else read(kind, value) for value in values])}
    parts = [one for one in kinds if one.startswith(f"{name}.") or one in (f"{name}_low", f"{name}_high")]
    if parts and all(value is None for value in values):
        return {part: Column(kinds[part], values) for part in parts}
    return {name: otherwise(values)}


def read(kind: Kind, value: Any) -> Any:
    """A value of JSON, or a cell, as one of this type."""
    return value in (True, "true") if kind is bool else kind(value)


# As the program writes them: a number that is no integer has a point or an exponent.
INTEGER = re.compile(r"-?\d+")
NUMBER = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")


def of_cells(cells: list[str | None]) -> Column:
    """Cells as values of the narrowest type that all have; where none has a value they are numbers."""
    filled = [cell for cell in cells if cell]
    kind: Kind = str
    if filled and all(cell in ("true", "false") for cell in filled):
        kind = bool
    elif filled and all(map(INTEGER.fullmatch, filled)):
        kind = int
    elif all(map(NUMBER.fullmatch, filled)):
        kind = float
    return Column(kind, [read(kind, cell) if cell else None for cell in cells])


def of_objects(objects: Iterable[Mapping[str, Any]], kinds: Kinds = MappingProxyType({})) -> Columns:
    """Objects of JSON as rows, as the program's own flat tables have them.

    A key within an object stands after a dot, the ends of an interval are ``ci95_low`` and ``ci95_high``, lists of texts are
    joined by spaces, and lists of objects are left out. Without rows the columns are those of ``kinds``.
    """
    rows = [dict(cells("", one)) for one in objects]
    names = list(dict.fromkeys(name for row in rows for name in row)) if rows else list(kinds)
    names = [name for name in names if not any(other.startswith((f"{name}.", f"{name}_low")) for other in names)]
    columns: Columns = {}
    for name in names:
        columns.update(typed(name, [row.get(name) for row in rows], kinds, of_values))
    return columns


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
