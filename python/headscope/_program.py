"""The program: where it is, how it is called, and what it says when it fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Optional, Sequence

NAME = "headscope.exe" if sys.platform == "win32" else "headscope"


class HeadscopeError(Exception):
    """An error of the program, with the keys of ``--error-format json``."""

    code: str
    """``usage``, ``input``, ``model``, ``output``, ``incomplete``, ``temporary`` or ``failed``."""
    status: int
    """The exit status of the program; 128 + n if signal n ended it."""
    message: str
    file: Optional[str]
    line: Optional[int]
    value: Optional[str]
    hint: Optional[str]

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code = error["code"]
        self.status = error["status"]
        self.message = error["message"]
        self.file = error["file"]
        self.line = error["line"]
        self.value = error["value"]
        self.hint = error["hint"]


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
            "the program headscope is not installed beside this module: pip install headscope, "
            "or name it in the environment variable HEADSCOPE"
        )
    return Path(found)


def run(arguments: Sequence[str], text: Optional[str] = None) -> str:
    """Runs the program and returns what it prints."""
    command = [str(program()), "--error-format", "json", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise error_of(done.returncode, done.stderr)
    return done.stdout


def error_of(status: int, printed: str) -> HeadscopeError:
    """The error that was printed last; of a program that was killed there is none.

    ``status`` is as ``subprocess`` has it: -n of a program that signal n ended.
    """
    status = 128 - status if status < 0 else status
    for line in reversed(printed.splitlines()):
        try:
            error = json.loads(line)
        except ValueError:
            continue
        if isinstance(error, dict) and error.keys() >= HeadscopeError.__annotations__.keys():
            return HeadscopeError(error)
    message = printed.strip() or f"headscope ended with status {status}"
    none = {"file": None, "line": None, "value": None, "hint": None}
    return HeadscopeError({"code": "failed", "status": status, "message": message, **none})


def version() -> str:
    """The program's version."""
    return run(["--version"]).split()[-1]
