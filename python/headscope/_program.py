"""The program: where it is, and how it is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Container, Sequence
from pathlib import Path

from ._errors import error_of

NAME = "headscope.exe" if sys.platform == "win32" else "headscope"

PathLike = str | os.PathLike[str]


def program() -> Path:
    """The program: that of the environment variable ``HEADSCOPE``, that of this installation, or that of ``PATH``.

    Raises ``FileNotFoundError`` if there is none, ``PermissionError`` if what ``HEADSCOPE`` names cannot be run.
    """
    named = os.environ.get("HEADSCOPE")
    if named:
        return runnable(named)
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


def runnable(named: str) -> Path:
    """The program that ``HEADSCOPE`` names, by its path or as one of ``PATH``."""
    found = shutil.which(named)
    if found is not None:
        return Path(found)
    said = f"the environment variable HEADSCOPE names {named!r}, "
    way_out = "name the program, such as target/release/headscope in a checkout"
    if os.path.isdir(named):
        raise PermissionError(f"{said}which is a folder: {way_out}")
    if os.path.exists(named):
        raise PermissionError(f"{said}which may not be run: {way_out}")
    raise FileNotFoundError(f"{said}which is not there: {way_out}")


def run(arguments: Sequence[PathLike], accepted: Container[int] = (0,)) -> str:
    """Runs the program with these arguments, as on its command line, and returns what it prints.

    Raises ``HeadscopeError`` if it ends with a status that is not ``accepted``, and ``OSError`` if it is no program.
    """
    path = program()
    command = [path, "--error-format", "json", *arguments]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", check=False)
    except OSError as error:
        raise OSError(f"{path} is no program that runs here, see the environment variable HEADSCOPE: {error.strerror}") from None
    if done.returncode not in accepted:
        raise error_of(done.returncode, done.stderr)
    return done.stdout


def version() -> str:
    """The program's version."""
    return run(["--version"]).split()[-1]
