"""The peer of the study `examples`: how much each head does what its label says in each short sentence, and what is kept.

It makes the scores of the best, the worst and the most typical sentence of each head with a label, not the words and arcs that are
drawn of them. Which words are whose arc is read before, as token ids are.
"""

import unicodedata
from dataclasses import dataclass

import torch

from sample import FIRST, OTHER, TEXT, TREES, UNIT_OF, Batch, batches, encoded, tokenizer_of

LEAST_WORDS, MOST_WORDS = 5, 16
OFFSETS = {"previous-token": -1, "next-token": 1, "self": 0}
SPECIAL = {"first-special": FIRST, "separator": OTHER}


@dataclass
class Sentences:
    """A batch of short sentences with their words, [sentences, words]."""

    batch: Batch
    # [sentences, tokens]: whether a token is punctuation, and its word, -1 of special tokens and padding.
    punctuation: torch.Tensor
    words: torch.Tensor
    # The part of speech of each word, -1 where there is none.
    tags: torch.Tensor
    # By relation: the sentence, the dependent and the head of each arc.
    arcs: dict


def short_sentences(folder, study, report):
    """Batches of the short sentences with their words, the labels, and the names of parts of speech."""
    tokenizer = tokenizer_of(folder)
    is_kept = lambda s: LEAST_WORDS <= len(TREES[s]) <= MOST_WORDS and UNIT_OF.index(UNIT_OF[s]) == s
    tags = sorted({columns[3] for rows in TREES for columns in rows} - {"_"})
    pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)
    is_mark = lambda token: all(unicodedata.category(letter)[0] == "P" for letter in token.removeprefix("##"))
    marks = {number for token, number in tokenizer.get_vocab().items() if is_mark(token)}
    data = []
    for batch in batches([one for one in encoded(folder, None, ()) if is_kept(one.number)]):
        words, classes, arcs = [], [], {}
        for row, one in enumerate(batch.sequences):
            rows = TREES[one.number]
            of = tokenizer.encode([columns[1] for columns in rows], is_pretokenized=True).word_ids
            words.append([-1 if word is None else word for word in of])
            classes.append([tags.index(columns[3]) if columns[3] in tags else -1 for columns in rows])
            for dependent, columns in enumerate(rows):
                base = columns[7].split(":")[0]
                for name in {columns[7], base} | ({"all"} if base != "punct" else set()):
                    if int(columns[6]) > 0:
                        arcs.setdefault(name, []).append((row, dependent, int(columns[6]) - 1))
        punctuation = pad([[number in marks for number in one.ids] for one in batch.sequences], False)
        arcs = {name: torch.tensor(found).T for name, found in arcs.items()}
        data.append(Sentences(batch, punctuation, pad(words, -1), pad(classes, -2), arcs))
    return data, report["examples"]["heads"], tags


def goals_of_tokens(label, one):
    """[sentences, tokens, tokens]: which keys a label says that each query attends to; and which queries are counted."""
    classes, text = one.batch.classes, one.batch.classes == TEXT
    both = text[:, :, None] & text[:, None]
    steps = torch.arange(classes.shape[1])
    away = steps[None] - steps[:, None]
    if label in SPECIAL or label == "punctuation":
        keys = one.punctuation if label == "punctuation" else classes == SPECIAL[label]
        return text[:, :, None] & keys[:, None], text & keys.any(1, True)
    if label == "local":
        goals = both & (away != 0) & (away.abs() <= 2)
    elif label == "same-token":
        goals = both & (away != 0) & (one.batch.ids[:, :, None] == one.batch.ids[:, None])
    else:
        offset = OFFSETS[label] if label in OFFSETS else int(label.removeprefix("offset:"))
        goals = both & (away == offset)
    return goals, goals.any(2)


def goals_of_words(label, one, tags):
    """The same of words."""
    there = one.tags > -2
    others = there[:, :, None] & there[:, None] & ~torch.eye(there.shape[1], dtype=torch.bool)
    if label == "same-tag":
        goals = others & (one.tags[:, :, None] == one.tags[:, None]) & (one.tags >= 0)[:, None]
        return goals, goals.any(2)
    goals = others & (one.tags == tags.index(label.removeprefix("tag:")))[:, None]
    return goals, there & goals.flatten(1).any(1)[:, None]


def between_words(weights, words, count):
    """Attention between words, [heads, sentences, words, words]: summed over tokens of keys, the mean over those of queries."""
    fold = (words[:, None] == torch.arange(count)[:, None]).float()
    return fold / fold.sum(2, True).clamp_min(1) @ weights @ fold.mT


def scores(label, direction, weights, one, tags):
    """How much heads do in each sentence what the label says, [heads, sentences], and of how many queries, [sentences].

    `weights` are [heads, sentences, tokens, tokens].
    """
    if label == "broad":
        text = one.batch.classes == TEXT
        most = (one.words >= 0).sum(1).add(2).log()
        return torch.special.entr(weights).sum(3).mul(text).sum(2) / most / text.sum(1), text.sum(1)
    is_of_words = label.startswith(("tag:", "same-tag"))
    if label.startswith("syntactic:"):
        count = len(weights[0])
        rows, dependents, heads = one.arcs.get(label.split(":", 1)[1], torch.zeros(3, 0, dtype=torch.long))
        own = between_words(weights, one.words, one.tags.shape[1])
        own = own if direction == "dep->head" else own.mT
        absent = (one.tags == -2)[:, None] | torch.eye(one.tags.shape[1], dtype=torch.bool)
        taken = own.masked_fill(absent, -1).argmax(3)[:, rows, dependents]
        queries = torch.bincount(rows, minlength=count)
        return torch.zeros(len(weights), count).index_add_(1, rows, (taken == heads).float()) / queries, queries
    if is_of_words:
        weights = between_words(weights, one.words, one.tags.shape[1])
    goals, counted = goals_of_words(label, one, tags) if is_of_words else goals_of_tokens(label, one)
    queries = counted.sum(1)
    return (weights * goals).sum((2, 3)) / queries, queries


@torch.inference_mode()
def examples(heads, data, labels, tags):
    """The scores of the sentences that are kept of each head with a label."""
    groups = {}
    for place, one in enumerate(labels):
        groups.setdefault((one["layer"], one["label"], one["direction"]), []).append(place)
    found, asked = [[] for _ in labels], [[] for _ in labels]
    for one in data:
        states, mask = heads.model.base_model.embeddings(input_ids=one.batch.ids), heads.mask(one.batch)
        for layer, block in enumerate(heads.blocks):
            own = {group: places for group, places in groups.items() if group[0] == layer}
            context, weights = block.attention.self(states, mask, output_attentions=True)
            for (_, label, direction), places in own.items():
                of_heads = weights[:, [labels[place]["head"] for place in places]].transpose(0, 1)
                values, queries = scores(label, direction, of_heads, one, tags)
                for place, of_head in zip(places, values):
                    found[place].append(of_head)
                    asked[place].append(queries)
            if layer < heads.layers - 1:
                states = block.feed_forward_chunk(block.attention.output(context, states))
    numbers = torch.tensor([sequence.number for one in data for sequence in one.batch.sequences])
    kept = [chosen(torch.cat(f), torch.cat(a), numbers, label["mean"]) for f, a, label in zip(found, asked, labels)]
    return {"scores": [score for of_head in kept for score in of_head]}


def chosen(score, queries, numbers, mean):
    """The scores of the typical, the best and the worst sentence; one that has a place already is passed over."""
    score, queries, numbers = (of[queries > 0].tolist() for of in (score, queries, numbers))
    ranked = lambda of: sorted(range(len(score)), key=lambda at: (of(score[at]), -queries[at], numbers[at]))
    taken = []
    for order in (ranked(lambda value: -value), ranked(lambda value: value), ranked(lambda value: abs(value - mean))):
        taken += [at for at in order if at not in taken][:1]
    return [score[at] for at in [*taken[2:], *taken[:2]]]


def of_examples(report):
    return {"scores": [example["score"] for head in report["examples"]["heads"] for example in head["examples"]]}
