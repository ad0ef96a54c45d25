"""A report: its JSON by name, as data frames and as a page."""

from __future__ import annotations

import html
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Optional, Union

from ._program import HeadscopeError, run

if TYPE_CHECKING:
    import pandas

PathLike = Union[str, "os.PathLike[str]"]


class Report(Mapping[str, Any]):
    """What each head of a model does, with the evidence: the JSON that ``headscope analyze -o report.json`` writes.

    ``report["heads"]`` and ``report.heads`` are the same; docs/REPORT.md explains every key.
    """

    def __init__(self, data: dict[str, Any], text: Optional[str] = None) -> None:
        self._data = data
        self._text = text

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._data[name]
        except KeyError:
            raise AttributeError(f"the report has no key {name!r}: it has {', '.join(self._data)}") from None

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._data})

    def __repr__(self) -> str:
        model, corpus = self["model"], self["corpus"]
        grid = f"{model['layers']} x {model['heads']} heads"
        sentences = f"{corpus['sentences']} sentence{'' if corpus['sentences'] == 1 else 's'}"
        return f"<headscope.Report: {model['id']}, {grid}, over {corpus['name']}, {sentences}>"

    def head(self, name: str) -> dict[str, Any]:
        """The head of this name, such as ``L0H3``."""
        for head in self["heads"]:
            if head["name"] == name:
                return head
        raise KeyError(f"the model has no head {name!r}: heads are named L0H0 to {self['heads'][-1]['name']}")

    def to_json(self) -> str:
        """The report as the program wrote it."""
        return self._text if self._text is not None else json.dumps(self._data, ensure_ascii=False, indent=2) + "\n"

    def save(self, path: PathLike) -> None:
        """Writes the report as JSON."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def frame(self, key: str = "heads") -> "pandas.DataFrame":
        """A list of the report as a data frame, one row for each of its objects; needs pandas.

        ``key`` is ``heads`` or another key whose value is a list of objects, or several joined by dots: ``corpus.files``.
        Columns are named as in the JSON, joined by dots: ``metrics.entropy_ratio``.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError("data frames need pandas: pip install pandas") from None
        value: Any = self._data
        for part in key.split("."):
            value = value[part]
        if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
            raise TypeError(f"{key!r} of the report is no list of objects")
        return pandas.json_normalize(value)

    def labels(self) -> "pandas.DataFrame":
        """Every label of every head as a row, with the head's ``layer``, ``head`` and ``name``; needs pandas."""
        try:
            import pandas
        except ImportError:
            raise ImportError("data frames need pandas: pip install pandas") from None
        columns = ["layer", "head", "name"]
        return pandas.json_normalize(self["heads"], record_path="labels", meta=columns)

    def page(self) -> str:
        """The report as a page in HTML, as ``headscope export`` writes it."""
        with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
            path = Path(folder, "report.html")
            run(["export", "-", "--output", str(path)], self.to_json())
            return path.read_text(encoding="utf-8")

    def _repr_html_(self) -> str:
        """The report for a notebook: its page in a frame of its own, else its heads and their labels in a table."""
        try:
            page = self.page()
        except (HeadscopeError, OSError):
            return self._table()
        return f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: 40rem; border: 0"></iframe>'

    def _table(self) -> str:
        """The primary label of each head, layers down, heads across."""
        model = self["model"]
        rows: list[list[str]] = [[""] * model["heads"] for _ in range(model["layers"])]
        for head in self["heads"]:
            rows[head["layer"]][head["head"]] = html.escape(head["primary"])
        header = "".join(f"<th>H{number}</th>" for number in range(model["heads"]))
        lines = [
            f"<tr><th>L{number}</th>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for number, row in enumerate(rows)
        ]
        title = html.escape(repr(self))
        return f"<p>{title}</p><table><tr><th></th>{header}</tr>{''.join(lines)}</table>"


def load(path: PathLike) -> Report:
    """Reads a report that the program wrote as JSON.

    Raises ``ValueError``, with the file's name, of a file that is no such report.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        data = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: this is no report of headscope in JSON: {error}") from None
    if not isinstance(data, dict) or "schema_version" not in data or "heads" not in data:
        raise ValueError(f"{os.fspath(path)}: this is no report of headscope in JSON")
    return Report(data, text)
