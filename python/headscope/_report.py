"""A report: its JSON by name, as data frames, as a page and as figures."""

from __future__ import annotations

import html
import os
from typing import Any

from ._document import Document, as_files, read_json
from ._errors import HeadscopeError
from ._export import exported
from ._frames import Columns, of_csv
from ._heads import heads
from ._kinds import REPORT, Rows, of_table, of_wide
from ._pictures import Page, Picture
from ._program import PathLike, run


ON_REQUEST = {
    "mixing": "norms",
    **{
        study.replace("-", "_"): study
        for study in (
            "segments effect in-context-effect task interchange direct gradient knockout pruning gates output-shift edges similarity "
            "cluster-effect cluster-shift probes parser examples clark2019"
        ).split()
    },
}
"""Sections of studies that only run on request, as a rule, and the studies."""


class Report(Document):
    """What each head of a model does, with the evidence: the JSON that ``headscope analyze -o report.json`` writes.

    ``report["heads"]`` and ``report.heads`` are the same; docs/REPORT.md explains every key.
    """

    def __repr__(self) -> str:
        model, corpus = self["model"], self["corpus"]
        grid = f"{model['layers']} x {model['heads']} heads"
        sentences = f"{corpus['sentences']} sentence{'' if corpus['sentences'] == 1 else 's'}"
        return f"<headscope.Report: {model['id']}, {grid}, over {corpus['name']}, {sentences}>"

    def head(self, name: str) -> dict[str, Any]:
        """The head of this name, such as ``L0H3``; ``l0h3`` is the same."""
        for head in self["heads"]:
            if head["name"] == name.upper():
                found: dict[str, Any] = head
                return found
        raise KeyError(f"the model has no head {name!r}: heads are named L0H0 to {self['heads'][-1]['name']}")

    @property
    def heads(self) -> list[dict[str, Any]]:
        """What was found of each head, layer by layer."""
        found: list[dict[str, Any]] = self["heads"]
        return found

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name not in ON_REQUEST:
                raise
            study = ON_REQUEST[name]
            way_out = f'`headscope.analyze(..., with_=["{study}"])` runs it'
            raise AttributeError(f"the study `{study}` was not run: {way_out}") from error

    def _columns(self, table: str | None, wide: bool) -> Columns:
        """``heads`` has a row for each head, wide as in ``export -o heads.csv``; other names are those of ``--table``."""
        if wide and table not in (None, "heads"):
            raise TypeError(f"the table {table!r} has one form: wide=True is for 'heads'")
        if table in (None, "heads") and not wide:
            return heads(self)
        if wide:
            return of_csv(exported(self, "heads.csv"), of_wide)
        return of_csv(exported(self, "table.csv", table=table), lambda _: of_table(REPORT.get(table or "", Rows())))

    def summary(self, full: bool = False) -> str:
        """The summary that ``headscope show`` prints; in full with what each study found."""
        with as_files([self]) as paths:
            return run(["show", *paths, "--summary", "full" if full else "brief"])

    def figure(self, name: str = "grid") -> Picture:
        """A figure as SVG, by its name in ``headscope export --figure``: ``grid``, ``heatmap:entropy``, ``effects``."""
        return Picture(exported(self, "figure.svg", figure=name))

    def page(self) -> Page:
        """The report as a page in HTML, which a cell of a notebook shows."""
        return Page(exported(self, "report.html"))

    def _repr_html_(self) -> str:
        """The report for a notebook: the grid of the heads' labels, which ``page()`` has more of."""
        title = html.escape(repr(self).strip("<>"))
        try:
            grid = self.figure("grid")
        except (HeadscopeError, OSError) as error:
            return f"<p>{title}</p><p>The grid of its heads cannot be drawn: {html.escape(str(error))}</p>"
        return f"<p>{title}</p>{grid._repr_html_()}<p><code>.page()</code> shows all, <code>.frame()</code> has a row for each head.</p>"


def load(path: PathLike) -> Report:
    """Reads a report that the program wrote as JSON, which may be compressed (``.json.gz``).

    Raises ``ValueError``, with the file's name, of a file that is no such report.
    """
    try:
        report = Report(read_json(path))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: this is no report of headscope in JSON: {error}") from None
    if not {"schema_version", "heads", "model"} <= report.keys():
        raise ValueError(f"{os.fspath(path)}: this is no report of headscope in JSON: it has no heads of a model")
    return report
