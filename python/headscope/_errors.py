"""What the program says when it fails, and the words of Python for what it says of its command line."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Sequence
from typing import Any


class HeadscopeError(Exception):
    """An error of the program, with the keys of ``--error-format json``; its text has the message and the hint, in the words of Python."""

    KEYS = ("code", "status", "message", "file", "line", "value", "hint")

    code: str
    """``usage``, ``input``, ``model``, ``output``, ``incomplete``, ``temporary``, ``interrupted`` or ``failed``."""
    status: int
    """The exit status of the program; 128 + n if signal n ended it."""
    message: str
    file: str | None
    line: int | None
    value: str | None
    hint: str | None
    earlier: tuple[HeadscopeError, ...]
    """Errors that the program went on after, such as those of the runs of ``batch`` that failed."""

    def __init__(self, error: dict[str, Any], earlier: Sequence[HeadscopeError] = ()) -> None:
        message, hint = error["message"], error["hint"]
        # Some messages end with their hint.
        said = message if not hint or hint in message else f"{message}\nhint: {hint}"
        super().__init__("\n".join([in_python(said), *(f"- {one.message}" for one in earlier)]))
        self.code = error["code"]
        self.status = error["status"]
        self.message = message
        self.file = error["file"]
        self.line = error["line"]
        self.value = error["value"]
        self.hint = hint
        self.earlier = tuple(earlier)

    def __reduce__(self) -> tuple[type[HeadscopeError], tuple[dict[str, Any], tuple[HeadscopeError, ...]]]:
        # As it is made, so that one goes from a process of a pool to another.
        return type(self), (self.as_json(), self.earlier)

    def as_json(self) -> dict[str, Any]:
        """The error as the program printed it."""
        return {key: getattr(self, key) for key in self.KEYS}


def error_of(status: int, printed: str) -> HeadscopeError:
    """The error that was printed last, with those before it; of a program that was killed there is none.

    ``status`` is as ``subprocess`` has it: -n of a program that signal n ended.
    """
    errors: list[HeadscopeError] = []
    for line in printed.splitlines():
        try:
            error = json.loads(line)
        except ValueError:
            continue
        if isinstance(error, dict) and error.keys() >= set(HeadscopeError.KEYS):
            errors.append(HeadscopeError(error, errors))
    if errors:
        return errors[-1]
    status = 128 - status if status < 0 else status
    message = printed.strip() or f"headscope ended with status {status}"
    none = {"file": None, "line": None, "value": None, "hint": None}
    return HeadscopeError({"code": "failed", "status": status, "message": message, **none})


def python_name(option: str) -> str:
    """The name of an option as a keyword: ``max_tokens`` of ``max-tokens``, ``with_`` of ``with``."""
    name = option.replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


HELP = re.compile(r"`headscope ([a-z]+) --help`")
COMMAND = re.compile(r"`headscope ([a-z]+) --([a-z][a-z-]*) ([\w:-]+)`")
OPTION = re.compile(r"'--([a-z][a-z-]*)(?: <[^<>']*>)?'")


def in_python(said: str) -> str:
    """A sentence on the command line as one on functions and keywords: ``limit=`` for ``'--limit <N>'``."""
    said = HELP.sub(r'`print(headscope.run(["\1", "--help"]))`', said)
    said = COMMAND.sub(lambda found: f'`headscope.{found[1]}(..., {python_name(found[2])}=["{found[3]}"])`', said)
    return OPTION.sub(lambda found: f"`{python_name(found[1])}=`", said)
