"""Figures and pages as texts that a notebook shows, and the attention of heads over sentences."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ._document import write
from ._options import RESULT, Value, arguments, model_argument
from ._program import PathLike, run


class Picture(str):
    """A figure: its SVG."""

    def save(self, path: PathLike) -> None:
        """Writes the SVG."""
        write(path, self.encode("utf-8"))

    def _repr_html_(self) -> str:
        return str(self)


class Page(str):
    """A page: its HTML, which needs no other file."""

    def save(self, path: PathLike) -> None:
        """Writes the HTML."""
        write(path, self.encode("utf-8"))

    def _repr_html_(self) -> str:
        # In a frame of its own neither its style nor its script meets those of the notebook.
        return f'<iframe srcdoc="{html.escape(self)}" style="width: 100%; height: 40rem; border: 0"></iframe>'


class View(NamedTuple):
    """Attention of heads over sentences, which a cell of a notebook shows as arcs; that of all heads as their page."""

    picture: Picture
    page: Page
    of_all: bool

    def _repr_html_(self) -> str:
        return self.page._repr_html_() if self.of_all else self.picture._repr_html_()


def view(model: PathLike | None = None, text: str | Iterable[str] | None = None, **options: Value) -> View:
    """Runs ``headscope view``: ``view("box:small", "The cat sat.", head="L2H8")``.

    ``text`` is one sentence or several; without it sentences of ``corpus`` are shown, or of the corpus in the program.
    ``head`` is a head, several or ``"all"``, and the other options are those of the command line with ``_`` for ``-``.

    Raises ``HeadscopeError`` if the program fails.
    """
    given = ["view", *arguments({"text": text, **options}, RESULT | {"numbers"})]
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        picture, page = Path(folder, "view.svg"), Path(folder, "view.html")
        run([*given, f"--output={picture}", f"--output={page}", *model_argument(model)])
        read = [path.read_text(encoding="utf-8") for path in (picture, page)]
        return View(Picture(read[0]), Page(read[1]), of_all=options.get("head") == "all")
