"""The sentences that a study draws, their masks, and batches of those of like length."""

import hashlib
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benches"))
from end_to_end import sentences  # noqa: E402

CORPUS = ROOT / "fixtures/corpus/gold.conllu"
FIRST, OTHER, MASK, TEXT, PADDING = range(5)
BATCH = 16


def encoded(folder, sample, masks):
    """(ids, classes, truths) of the sampled sentences, `truths` by position; the shorter ones first."""
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    mask, unknown = tokenizer.token_to_id("[MASK]"), tokenizer.token_to_id("[UNK]")
    found = sentences(CORPUS)
    key = lambda s: hashlib.sha256(f"headscope/sample/{s}".encode()).digest()
    sequences = []
    for s in sorted(range(len(found)), key=key)[:sample]:
        one = tokenizer.encode(found[s], is_pretokenized=True)
        ids, truths = list(one.ids), {}
        classes = [FIRST] + [TEXT] * (len(ids) - 2) + [OTHER]
        for at, word in enumerate(one.word_ids):
            if masks and word is not None and (word + s) % 7 == 0:
                if ids[at] != unknown:
                    truths[at] = ids[at]
                ids[at], classes[at] = mask, MASK
        if truths or not masks:
            sequences.append((ids, classes, truths))
    return sorted(sequences, key=lambda sequence: len(sequence[0]))


def batches(sequences):
    """(ids [b, n], classes [b, n], rows and columns of the scored positions, truths) of sentences of like length."""
    for start in range(0, len(sequences), BATCH):
        own = sequences[start : start + BATCH]
        pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)
        scored = [(row, at, truth) for row, (_, _, truths) in enumerate(own) for at, truth in truths.items()]
        rows, columns, truths = torch.tensor(scored).T if scored else (None, None, None)
        yield pad([one[0] for one in own], 0), pad([one[1] for one in own], PADDING), rows, columns, truths
