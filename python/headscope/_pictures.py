"""Figures and pages as texts that a notebook shows, and the attention of heads over sentences."""

from __future__ import annotations

import html
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from . import _keywords
from ._document import write
from ._options import RESULT, arguments, model_argument, texts
from ._program import PathLike, run

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Picture(str):
    """A figure: its SVG."""

    def save(self, path: PathLike) -> None:
        """Writes the SVG."""
        write(path, self.encode("utf-8"))

    def __repr__(self) -> str:
        return f"<headscope.Picture: {len(self):,} characters of SVG>"

    def _repr_html_(self) -> str:
        # What is wider than the cell scrolls by itself.
        return f'<div style="max-width: 100%; overflow-x: auto">{self}</div>'


class Page(str):
    """A page: its HTML, which needs no other file."""

    def save(self, path: PathLike) -> None:
        """Writes the HTML."""
        write(path, self.encode("utf-8"))

    def __repr__(self) -> str:
        return f"<headscope.Page: {len(self):,} characters of HTML>"

    def _repr_html_(self) -> str:
        # In a frame of its own neither its style nor its script meets those of the notebook. It is as high as its page.
        return (
            f'<iframe srcdoc="{html.escape(self)}" style="width: 100%; height: 50rem; border: 0" '
            "onload=\"this.style.height = this.contentDocument.documentElement.scrollHeight + 'px'\"></iframe>"
        )


class View(NamedTuple):
    """Attention of heads over sentences. A cell of a notebook shows the page: each sentence to play with."""

    picture: Picture
    page: Page

    def _repr_html_(self) -> str:
        return self.page._repr_html_()


def view(
    model: PathLike | None = None,
    text: str | Iterable[str] | None = None,
    *,
    head: str | Iterable[str],
    **options: Unpack[_keywords.View],
) -> View:
    """Runs ``headscope view``: ``view("box:small", "The cat sat.", head="L2H8")``.

    ``text`` is one sentence or several; without it sentences of ``corpus`` are shown, or of the corpus in the program.
    ``head`` is a head, several or ``"all"``, and the other options are those of the command line with ``_`` for ``-``.

    Raises ``HeadscopeError`` if the program fails, ``ValueError`` if ``text`` is the name of a file, and ``TypeError`` of an
    option that the program does not have, or that chooses sentences of a corpus beside ``text``.
    """
    wanted = {"head": head, "text": texts(text, options), **options}
    given = ["view", *arguments("view", wanted, RESULT | {"numbers"})]
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        picture, page = Path(folder, "view.svg"), Path(folder, "view.html")
        run([*given, f"--output={picture}", f"--output={page}", *model_argument(model)])
        read = [path.read_text(encoding="utf-8") for path in (picture, page)]
        return View(Picture(read[0]), Page(read[1]))
