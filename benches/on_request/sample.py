"""The sentences that a study draws, their masks, and batches of those of like length."""

import hashlib
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "fixtures"))
import conllu_rows  # noqa: E402

CORPUS = ROOT / "fixtures/corpus/gold.conllu"
# The words of each sentence, each its ten columns.
TREES = [rows for _, rows in conllu_rows.read(CORPUS)]
# The unit of each sentence, and its block.
UNIT_OF = conllu_rows.units(CORPUS)
BLOCK_OF = [unit % 64 for unit in UNIT_OF]
FIRST, OTHER, MASK, TEXT, PADDING = range(5)
BATCH = 16


@dataclass
class Sequence:
    """A sentence: its number in the corpus, the phase of its masks, its tokens with their classes, and the tokens that stood where
    it is masked, by position.
    """

    number: int
    phase: int | None
    ids: list
    classes: list
    truths: dict


@dataclass
class Batch:
    """Sentences of like length, [sentences, tokens]; the rows and columns of masked positions with the tokens that stood there."""

    sequences: list
    ids: torch.Tensor
    classes: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor
    truths: torch.Tensor
    # What goes into each layer, once the whole model has run.
    inputs: list = field(default_factory=list)


def tokenizer_of(folder):
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def encoded(folder, sample, phases):
    """The sampled sentences, or all of them, each once for each phase of masks, or once without any; the shorter ones first."""
    tokenizer = tokenizer_of(folder)
    mask, unknown = tokenizer.token_to_id("[MASK]"), tokenizer.token_to_id("[UNK]")
    key = lambda s: hashlib.sha256(f"headscope/sample/{s}".encode()).digest()
    sequences = []
    for s in sorted(range(len(TREES)), key=key)[:sample]:
        one = tokenizer.encode([columns[1] for columns in TREES[s]], is_pretokenized=True)
        for phase in phases or [None]:
            ids, truths = list(one.ids), {}
            classes = [FIRST] + [TEXT] * (len(ids) - 2) + [OTHER]
            for at, word in enumerate(one.word_ids):
                if word is not None and (word + s) % 7 == phase:
                    if ids[at] != unknown:
                        truths[at] = ids[at]
                    ids[at], classes[at] = mask, MASK
            if truths or not phases:
                sequences.append(Sequence(s, phase, ids, classes, truths))
    return sorted(sequences, key=lambda sequence: len(sequence.ids))


def batches(sequences):
    pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)
    for start in range(0, len(sequences), BATCH):
        own = sequences[start : start + BATCH]
        scored = [(row, at, truth) for row, one in enumerate(own) for at, truth in one.truths.items()]
        positions = torch.tensor(scored, dtype=torch.long).reshape(-1, 3).T
        yield Batch(own, pad([one.ids for one in own], 0), pad([one.classes for one in own], PADDING), *positions)
