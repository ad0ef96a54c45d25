"""What the program writes as JSON, by name; and files of it to give to the program."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ._frames import Tabular
from ._program import PathLike

RENAMED = {
    "likeness": "similarity",
    "use_of_arcs": "knockout",
    "dependence": "edges",
    "drift": "output_shift",
    "cluster_drift": "cluster_shift",
    "explained": "explained_variance",
}
"""Sections that had another name: files of either are read by either."""
OTHER_NAME = {**RENAMED, **{new: old for old, new in RENAMED.items()}}


class Document(Mapping[str, Any], Tabular):
    """JSON of the program: ``document["key"]`` and ``document.key`` are the same."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._data: dict[str, Any] = json.loads(text)
        if not isinstance(self._data, dict):
            raise ValueError("it is no object")

    def __getitem__(self, key: str) -> Any:
        if key not in self._data and OTHER_NAME.get(key) in self._data:
            key = OTHER_NAME[key]
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no key {name!r}: there are {', '.join(self._data)}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def to_json(self) -> str:
        """The JSON as the program wrote it."""
        return self._text

    def save(self, path: PathLike) -> None:
        """Writes the JSON, compressed if the name ends in ``.gz``; ``headscope.export`` writes reports in other formats."""
        name = os.fspath(path)
        if not name.endswith((".json", ".json.gz")):
            raise ValueError(f"{name}: save() writes .json and .json.gz; headscope.export() writes other formats")
        data = self._text.encode("utf-8")
        # Without a time in it equal reports are equal files.
        write(path, gzip.compress(data, mtime=0) if name.endswith(".gz") else data)


def read_json(path: PathLike) -> str:
    """The text of a file of JSON, which may be compressed.

    Raises ``ValueError`` of what is no text.
    """
    data = Path(path).read_bytes()
    try:
        return (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(str(error)) from None


def write(path: PathLike, data: bytes) -> None:
    """Writes a file that is there whole or not at all."""
    beside = f"{os.fspath(path)}.{os.getpid()}.tmp"
    try:
        Path(beside).write_bytes(data)
        os.replace(beside, path)
    finally:
        Path(beside).unlink(missing_ok=True)


@contextmanager
def as_files(inputs: Iterable[PathLike | Document]) -> Iterator[list[str]]:
    """Paths as they are, and documents as files that last as long as the context."""
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        paths = []
        for number, one in enumerate(inputs, 1):
            if isinstance(one, Document):
                path = Path(folder, f"report-{number}.json")
                path.write_bytes(one.to_json().encode("utf-8"))
                paths.append(str(path))
            else:
                paths.append(os.fspath(one))
        yield paths
