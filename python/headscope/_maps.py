"""The attention of sentences as numpy arrays."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _keywords
from ._frames import needed
from ._options import arguments, model_argument, texts
from ._program import PathLike, run

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from typing_extensions import Unpack


@dataclass(frozen=True)
class SentenceMap:
    """A sentence with the attention of heads over its tokens."""

    index: int
    """Its number in the corpus, or among the texts, from 0."""
    tensors: Mapping[str, NDArray[numpy.float32]] = field(repr=False)
    """``attentions``, or ``rollout`` and ``rollout_even``."""
    tokens: list[str]
    words: list[str]
    word_ids: list[int | None]
    """The word of each token; special tokens have none."""
    gold_heads: list[int | None] | None
    """The head of each word in the tree, where the corpus has trees; the root has none."""
    relations: list[str] | None
    """The relation of each word to its head, where the corpus has trees."""
    sentence_id: str | None

    @property
    def attention(self) -> NDArray[numpy.float32]:
        """Attention from the token of the row to that of the column: ``[layers, heads, tokens, tokens]``.

        Each row sums to 1. With ``head=`` the shape is ``[heads, tokens, tokens]``, in the order in which they were named.
        """
        return self._tensor("attentions")

    @property
    def rollout(self) -> NDArray[numpy.float32]:
        """How much of each token there is in each after each layer (Abnar & Zuidema 2020): ``[layers, tokens, tokens]``."""
        return self._tensor("rollout")

    @property
    def rollout_even(self) -> NDArray[numpy.float32]:
        """The rollout of attention that is the same to all tokens: ``[layers, tokens, tokens]``."""
        return self._tensor("rollout_even")

    def _tensor(self, name: str) -> NDArray[numpy.float32]:
        if name not in self.tensors:
            if name == "attentions":
                raise AttributeError("there is no attention here: maps(..., rollout=True) has rollout in its place")
            raise AttributeError(f"there is no {name} here: maps(..., rollout=True) has it, in place of attention")
        return self.tensors[name]


class Maps(Mapping[int, SentenceMap]):
    """Sentences by their numbers, with the identity of the model."""

    model: dict[str, Any]
    """As ``model`` of a report."""
    axes: list[str]
    """What the axes of the tensors are."""
    layers: list[int] | None
    """The layers of the tensors, where some were chosen."""
    heads: list[str] | None
    """The heads of the tensors, where some were chosen."""

    def __init__(self, tensors: Mapping[str, NDArray[numpy.float32]], metadata: Mapping[str, Any]) -> None:
        self.model, self.axes = metadata["model"], metadata["axes"]
        self.layers, self.heads = metadata.get("layers"), metadata.get("heads")
        by_sentence: dict[int, dict[str, NDArray[numpy.float32]]] = {}
        for name, tensor in tensors.items():
            kind, _, index = name.rpartition(".")
            by_sentence.setdefault(int(index), {})[kind] = tensor
        self._sentences = {index: sentence(index, by_sentence[index], metadata) for index in sorted(by_sentence)}

    def __getitem__(self, index: int) -> SentenceMap:
        return self._sentences[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._sentences)

    def __len__(self) -> int:
        return len(self._sentences)

    def __repr__(self) -> str:
        return f"<headscope.Maps: {self.model['id']}, {len(self)} sentence{'' if len(self) == 1 else 's'}>"


def sentence(index: int, tensors: Mapping[str, NDArray[numpy.float32]], metadata: Mapping[str, Any]) -> SentenceMap:
    """A sentence of what the file has on all; what the corpus does not have is not there."""
    return SentenceMap(
        index=index,
        tensors=tensors,
        tokens=metadata[f"tokens.{index}"],
        words=metadata[f"words.{index}"],
        word_ids=metadata[f"word_ids.{index}"],
        gold_heads=metadata.get(f"gold_heads.{index}"),
        relations=metadata.get(f"relations.{index}"),
        sentence_id=metadata.get(f"sentence_id.{index}"),
    )


def maps(
    model: PathLike | None = None, text: str | Iterable[str] | None = None, **options: Unpack[_keywords.Maps]
) -> Maps:
    """Runs ``headscope view -o maps.safetensors``; needs numpy: ``maps("box:small", "The cat sat.")[0].attention``.

    ``text`` is one sentence or several; without it all sentences of ``corpus`` are mapped, or of the corpus in the program,
    unless ``sentence`` or ``limit`` says otherwise. The other options are those of the command line with ``_`` for ``-``.

    Raises ``HeadscopeError`` if the program fails, ``ImportError`` without numpy, ``ValueError`` if ``text`` is the name of a
    file, and ``TypeError`` of an option that the program does not have, or that chooses sentences of a corpus beside ``text``.
    """
    needed("numpy")
    given = arguments("view", {"text": texts(text, options), **options})
    with tempfile.TemporaryDirectory(prefix="headscope-") as folder:
        path = Path(folder, "maps.safetensors")
        run(["view", *given, f"--output={path}", *model_argument(model)])
        return load_maps(path)


def load_maps(path: PathLike) -> Maps:
    """Reads a file of tensors that ``headscope view`` wrote; needs numpy.

    The format is that of safetensors: the length of the header in 8 bytes, the header in JSON, the tensors one after the
    other. All tensors are float32.

    Raises ``ValueError``, with the file's name, of a file that is no such file.
    """
    needed("numpy")
    import numpy

    data = numpy.fromfile(path, dtype=numpy.uint8)
    try:
        end = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header = json.loads(data[8:end].tobytes())
        written = header.pop("__metadata__")
        if written.pop("format") != "headscope.maps":
            raise ValueError("its format is another one")
        # Names and the identities of sentences are texts; all else is JSON.
        metadata = {key: value if key.startswith("sentence_id.") else json.loads(value) for key, value in written.items()}
        tensors = {}
        for name, tensor in header.items():
            first, last = tensor["data_offsets"]
            tensors[name] = data[end + first : end + last].view("<f4").reshape(tensor["shape"])
        return Maps(tensors, metadata)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{os.fspath(path)}: this is no file of headscope maps: {error}") from None
