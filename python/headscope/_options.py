"""Arguments of the command line, of values of Python."""

from __future__ import annotations

import difflib
import functools
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ._errors import python_name
from ._program import PathLike, program, run

One = str | int | float | os.PathLike[str]

Value = None | bool | One | Iterable[One]
"""An option's value: ``True`` for a flag, several for an option that may be repeated, ``None`` for one that is not given."""

Paths = PathLike | Iterable[PathLike]

RESULT = frozenset({"output", "quiet", "json", "color", "error-format", "help"})
"""Options that say where a result goes, or that there is none: a function returns it."""

MEANT = {"study": "with_", "studies": "with_", "max_length": "max_tokens", "seed": "control_seeds"}
"""What other programs call an option."""


def arguments(command: str, options: Mapping[str, Any], refused: Collection[str] = RESULT) -> list[str]:
    """Options of a command as they stand on the command line, ``_`` for ``-``; raises as ``option`` does.

    Raises ``TypeError`` of an option that the command does not have.
    """
    given = [argument for name, value in options.items() for argument in option(name, value, refused)]
    known = options_of(program(), command)
    for name in options:
        if spelt(name) not in known:
            raise TypeError(unknown(command, name, sorted(python_name(one) for one in known - set(refused))))
    return given


def option(name: str, value: Value, refused: Collection[str]) -> list[str]:
    """An option as it stands on the command line; of ``None`` and ``False`` nothing does.

    Raises ``TypeError`` of a refused option, and ``ValueError`` of an empty list, which would be taken for the default.
    """
    if spelt(name) in refused:
        raise TypeError(f"the option {name!r} is not for Python, where a function returns its result: run headscope itself")
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{spelt(name)}"]
    values = several(value)
    if not values:
        raise ValueError(f"{name} is an empty list: give None, or leave it out, for the default")
    return [f"--{spelt(name)}={os.fspath(one) if isinstance(one, os.PathLike) else one}" for one in values]


def spelt(name: str) -> str:
    """The name of an option on the command line."""
    return name.rstrip("_").replace("_", "-")


@functools.cache
def options_of(path: Path, command: str) -> frozenset[str]:
    """The names of the options that a command of this program has."""
    # As its help lists them, each on a line that begins with it.
    return frozenset(re.findall(r"^(?:  -\w, | {6})--([a-z][a-z-]*)", run([command, "--help"]), re.M))


def unknown(command: str, name: str, known: list[str]) -> str:
    """The message on an option that a command does not have."""
    close = [MEANT[name]] if MEANT.get(name) in known else difflib.get_close_matches(name, known, n=1)
    end = f"did you mean {close[0]}= ?" if close else f"it has {', '.join(known)}"
    return f"{command} has no option {name!r}: {end}"


def several(values: One | Iterable[One]) -> list[One]:
    """One value or several as a list."""
    return [values] if isinstance(values, (str, int, float, os.PathLike)) else list(values)


def model_argument(model: PathLike | None) -> list[str]:
    """The model as the last argument; without one the program takes that in the box."""
    return [] if model is None else ["--", os.fspath(model)]


OF_CORPUS = ("corpus", "sentence", "find")
"""Options that choose sentences of a corpus."""


def texts(text: str | Iterable[str] | None, options: Mapping[str, Any]) -> list[str] | None:
    """The sentences that were given as texts.

    Raises ``ValueError`` of what is the name of a file, which would be analysed as words, and ``TypeError`` if options choose
    sentences of a corpus as well.
    """
    if text is None:
        return None
    found = several(text)
    for one in found:
        named = str(one)
        if isinstance(one, os.PathLike) or os.path.isfile(named) or (os.sep in named and os.path.isdir(named)):
            raise ValueError(f"text is the words of a sentence, and {named!r} is a file: did you mean corpus=... ?")
    for name in OF_CORPUS:
        if options.get(name) is not None:
            raise TypeError(f"{name}= chooses sentences of a corpus, and text is one itself: leave out one of the two")
    return [str(one) for one in found]
