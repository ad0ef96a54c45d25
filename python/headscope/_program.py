"""The program: where it is, how it is called, and what it says when it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

NAME = "headscope.exe" if sys.platform == "win32" else "headscope"

PathLike = str | os.PathLike[str]


class HeadscopeError(Exception):
    """An error of the program, with the keys of ``--error-format json``."""

    KEYS = ("code", "status", "message", "file", "line", "value", "hint")

    code: str
    """``usage``, ``input``, ``model``, ``output``, ``incomplete``, ``temporary`` or ``failed``."""
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
        super().__init__("\n".join([error["message"], *(f"- {one.message}" for one in earlier)]))
        self.code = error["code"]
        self.status = error["status"]
        self.message = error["message"]
        self.file = error["file"]
        self.line = error["line"]
        self.value = error["value"]
        self.hint = error["hint"]
        self.earlier = tuple(earlier)

    def __reduce__(self) -> tuple[type[HeadscopeError], tuple[dict[str, Any], tuple[HeadscopeError, ...]]]:
        # As it is made, so that one goes from a process of a pool to another.
        return type(self), ({key: getattr(self, key) for key in self.KEYS}, self.earlier)


def program() -> Path:
    """The program: that of the environment variable ``HEADSCOPE``, that of this installation, or that of ``PATH``."""
    named = os.environ.get("HEADSCOPE")
    if named:
        return Path(named)
    schemes = ["posix_user", "nt_user"]
    folders = [sysconfig.get_path("scripts")]
    folders += [sysconfig.get_path("scripts", scheme) for scheme in schemes if scheme in sysconfig.get_scheme_names()]
    for folder in folders:
        path = Path(folder, NAME)
        if path.is_file():
            return path
    found = shutil.which(NAME)
    if found is None:
        raise FileNotFoundError(
            "the program headscope is not installed beside this module: run `pip install .` in a checkout of headscope, "
            "or name the program in the environment variable HEADSCOPE"
        )
    return Path(found)


def run(arguments: Sequence[PathLike], accepted: Container[int] = (0,)) -> str:
    """Runs the program with these arguments, as on its command line, and returns what it prints.

    Raises ``HeadscopeError`` if it ends with a status that is not ``accepted``.
    """
    command = [program(), "--error-format", "json", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    if done.returncode not in accepted:
        raise error_of(done.returncode, done.stderr)
    return done.stdout


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


def version() -> str:
    """The program's version."""
    return run(["--version"]).split()[-1]
