"""Analyses, and shards of them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import _keywords
from ._options import RESULT, Paths, arguments, model_argument, several
from ._program import PathLike, run
from ._report import Report, load

if TYPE_CHECKING:
    from typing_extensions import Unpack

SHARD = {"shard", "after"}
"""Options of what is no report yet."""


def analyze(model: PathLike | None = None, corpus: Paths | None = None, **options: Unpack[_keywords.Analyze]) -> Report:
    """Runs ``headscope analyze`` and reads its report.

    ``model`` is a Hub id, a folder or a name in the box, ``corpus`` a path or several; without them the model and the corpus
    in the program are taken. ``options`` are those of the command line with ``_`` for ``-``: ``max_tokens=256``,
    ``control=["random-init"]``, ``no_run_info=True``. ``with`` is a word of Python: write ``with_=["norms"]``.

    Raises ``HeadscopeError`` if the program fails, and ``TypeError`` of an option that it does not have.
    """
    given = arguments("analyze", {"corpus": corpus, **options}, RESULT | SHARD)
    return reported(["analyze", *given], model_argument(model))


def analyze_shard(
    model: PathLike | None = None,
    corpus: Paths | None = None,
    *,
    shard: str,
    output: PathLike,
    after: PathLike | None = None,
    **options: Unpack[_keywords.AnalyzeShard],
) -> Path:
    """Runs ``headscope analyze --shard``: writes shard ``"I/N"`` of an analysis to ``output``, a file named ``.headscope``.

    ``after`` is what ``merge_parts`` made of all shards of the first stage, for studies that look at the corpus twice.

    Raises ``HeadscopeError`` if the program fails.
    """
    given = arguments("analyze", {"corpus": corpus, "shard": shard, "after": after, **options})
    run(["analyze", "--quiet", *given, f"--output={Path(output)}", *model_argument(model)])
    return Path(output)


def merge(parts: Paths, **options: Unpack[_keywords.Merge]) -> Report:
    """Runs ``headscope merge``: the report of all shards, which is that of one run over the whole corpus.

    ``parts`` are files that ``analyze_shard`` or ``headscope analyze --shard`` wrote, or folders of them.

    Raises ``HeadscopeError`` if the program fails, with status 6 if shards are missing.
    """
    return reported(["merge", *arguments("merge", options, RESULT | {"missing"})], ["--", *map(str, several(parts))])


def merge_parts(parts: Paths, output: PathLike, **options: Unpack[_keywords.Merge]) -> Path:
    """Runs ``headscope merge -o FILE.headscope``: adds parts up to one, which a second stage is run after.

    Raises ``HeadscopeError`` if the program fails, with status 6 if shards are missing.
    """
    given = arguments("merge", options, RESULT | {"missing"})
    run(["merge", "--quiet", *given, f"--output={Path(output)}", "--", *map(str, several(parts))])
    return Path(output)


def missing_shards(parts: Paths, of: int) -> str:
    """Runs ``headscope merge --missing``: which of ``of`` shards are not there or not whole, as ``3,7-9``.

    The text is empty if none is missing of the stage that these are of.
    """
    # Status 6 says that shards are missing.
    return run(["merge", f"--missing={of}", "--", *map(str, several(parts))], accepted=(0, 6)).strip()


def reported(command: list[str], inputs: list[str]) -> Report:
    """The report that a command writes."""
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        path = Path(folder, "report.json")
        run([*command, "--quiet", f"--output={path}", *inputs])
        return load(path)
