"""The sentences of the box's corpus with what is annotated in them, and batches of those of like length."""

import sys
import unicodedata
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from sample import CORPUS, ROOT

sys.path.insert(0, str(ROOT / "fixtures"))
import conllu_rows  # noqa: E402
import reference_verdicts  # noqa: E402

BLOCKS = 64
# Of the sizes 8, 16, 32 and 64 the one with which the peers take least time.
BATCH = 32


@dataclass
class Sentence:
    ids: list[int]
    # The word of each token, None of the special ones at both ends.
    word_of: list[int | None]
    # The ten columns of each word in CoNLL-U.
    words: list[list[str]]
    block: int
    begins_family: bool


@dataclass
class Batch:
    """Sentences side by side, `at` by their places in the corpus: ids `[b, n]` and, alike, which tokens there are, which are of
    text, which end a sentence and which are punctuation."""

    at: list[int]
    ids: torch.Tensor
    there: torch.Tensor
    text: torch.Tensor
    end: torch.Tensor
    marks: torch.Tensor


def read(folder, sample=None):
    """The sentences in the order of the corpus, or so many drawn of them."""
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = list(conllu_rows.read(CORPUS))
    forms = [tuple(word[1] for word in words) for _, words in found]
    begins = [first for _, first in reference_verdicts.families([name for name, _ in found], forms)]
    units = conllu_rows.units(CORPUS)
    for s in conllu_rows.drawn(len(found), sample or len(found)):
        one = tokenizer.encode(list(forms[s]), is_pretokenized=True)
        yield Sentence(one.ids, one.word_ids, found[s][1], units[s] % BLOCKS, begins[s])


def annotated(folder, study, _):
    """What peers that read the annotated corpus start from: batches, and the sentences in the order of the corpus."""
    corpus = list(read(folder, study.sample))
    return side_by_side(folder, corpus), corpus


def side_by_side(folder, corpus):
    """Batches of sentences of like length, the shorter ones first."""
    vocabulary = Tokenizer.from_file(f"{folder}/tokenizer.json").get_vocab()
    is_mark = torch.zeros(max(vocabulary.values()) + 1, dtype=torch.bool)
    for token, number in vocabulary.items():
        is_mark[number] = all(unicodedata.category(c)[0] == "P" for c in token.removeprefix("##") or "x")
    batches, order = [], sorted(range(len(corpus)), key=lambda s: len(corpus[s].ids))
    for start in range(0, len(order), BATCH):
        at = order[start : start + BATCH]
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(corpus[s].ids) for s in at], batch_first=True)
        place, lengths = torch.arange(ids.shape[1]), torch.tensor([len(corpus[s].ids) for s in at])[:, None]
        text = (place > 0) & (place < lengths - 1)
        batches.append(Batch(at, ids, place < lengths, text, place == lengths - 1, is_mark[ids] & text))
    return batches
