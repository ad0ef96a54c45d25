"""Arguments of the command line, of values of Python."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from ._program import PathLike

One = str | int | float | os.PathLike[str]

Value = None | bool | One | Iterable[One]
"""An option's value: ``True`` for a flag, several for an option that may be repeated, ``None`` for one that is not given."""

Paths = PathLike | Iterable[PathLike]

RESULT = frozenset({"output", "quiet", "json", "color", "error-format", "help"})
"""Options that say where a result goes, or that there is none: a function returns it."""


def arguments(options: Mapping[str, Value], refused: Collection[str] = RESULT) -> list[str]:
    """Options as they stand on the command line, ``_`` for ``-``; raises as ``option`` does."""
    return [argument for name, value in options.items() for argument in option(name, value, refused)]


def option(name: str, value: Value, refused: Collection[str]) -> list[str]:
    """An option as it stands on the command line; of ``None`` and ``False`` nothing does.

    Raises ``TypeError`` of a refused option, and ``ValueError`` of an empty list, which would be taken for the default.
    """
    spelt = name.rstrip("_").replace("_", "-")
    if spelt in refused:
        raise TypeError(f"the option {name!r} is not for Python, where a function returns its result: run headscope itself")
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{spelt}"]
    values = several(value)
    if not values:
        raise ValueError(f"{name} is an empty list: give None, or leave it out, for the default")
    return [f"--{spelt}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in values]


def several(values: One | Iterable[One]) -> list[One]:
    """One value or several as a list."""
    return [values] if isinstance(values, (str, int, float, os.PathLike)) else list(values)


def model_argument(model: PathLike | None) -> list[str]:
    """The model as the last argument; without one the program takes that in the box."""
    return [] if model is None else ["--", os.fspath(model)]
