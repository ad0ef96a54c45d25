"""The peer of the study `knockout`: the loss of masked words with other attention from them in one head.

Only the rows of a query word change in the layer of its head, so these alone go through the rest of that layer, and all tokens
through the layers above it.
"""

import hashlib
from dataclasses import dataclass

import torch

from sample import TREES, batches, encoded, tokenizer_of


@dataclass
class Arcs:
    """The arcs of a layer's claims in a batch; `rows` and what follows are of each token of their query words."""

    layer: int
    # [arcs]: the sentence of the batch, and the sums that an arc is part of.
    sentences: torch.Tensor
    places: torch.Tensor
    # [rows]: the arc, its sentence, the token, the head.
    arcs: torch.Tensor
    rows: torch.Tensor
    tokens: torch.Tensor
    heads: torch.Tensor
    # [rows, tokens]: the word of each token, the last number where its weight stays, and the number of that word's tokens.
    words: torch.Tensor
    lengths: torch.Tensor
    # [2, rows, words + 1]: whose mass each word has, while the partner keeps its own and while it is exchanged.
    sources: torch.Tensor
    # [scored]: the arc, the position, and the token that stood there.
    scored: torch.Tensor
    positions: torch.Tensor
    truths: torch.Tensor


def arcs_of(label, direction, offset, rows):
    """-> (query word, its partner, whether off the relation's best offset)"""
    name = label.split(":", 1)[1]
    for dependent, columns in enumerate(rows):
        head, relation = int(columns[6]) - 1, columns[7]
        base = relation.split(":")[0]
        if head >= 0 and name in {relation, base} | ({"all"} if base != "punct" else set()):
            query, partner = (dependent, head) if direction == "dep->head" else (head, dependent)
            yield query, partner, head != dependent + offset


def dealt(number, count, query, partner):
    """Whose mass each word has, while the partner keeps its own and while it is exchanged; None without a third word."""
    others = [word for word in range(count) if word not in (query, partner)]
    if not others:
        return None
    as_far = min(others, key=lambda word: (abs(abs(word - query) - abs(partner - query)), word))
    ring = sorted(others, key=lambda word: hashlib.sha256(f"headscope/use/0/{number}/{query}/{word}".encode()).digest())
    kept = list(range(count))
    for word, before in zip(ring, [ring[-1], *ring[:-1]]):
        kept[word] = before
    exchanged = list(kept)
    exchanged[partner], exchanged[as_far] = kept[as_far], kept[partner]
    return kept, exchanged


def with_arcs(folder, study, report):
    """Batches of the masked sentences with an arc of a claim, each with its arcs by layer, and the number of claims."""
    offsets = {relation["relation"]: relation["baseline"]["offset"] for relation in report["relations"]}
    claims = [(one["layer"], one["head"], one["label"], one["direction"]) for one in report["knockout"]]
    tokenizer = tokenizer_of(folder)
    sequences, found = [], {}
    for one in encoded(folder, study.sample, study.phases):
        rows = TREES[one.number]
        word_of = tokenizer.encode([columns[1] for columns in rows], is_pretokenized=True).word_ids
        tokens = [[at for at, of in enumerate(word_of) if of == word] for word in range(len(rows))]
        hidden = {word for word in range(len(rows)) if (word + one.number) % 7 == one.phase}
        arcs = []
        for place, (layer, head, label, direction) in enumerate(claims):
            for query, partner, is_off in arcs_of(label, direction, offsets[label.split(":", 1)[1]], rows):
                truths = [(at, one.truths[at]) for at in tokens[query] if at in one.truths]
                sources = dealt(one.number, len(rows), query, partner)
                if query in hidden and partner not in hidden and truths and sources:
                    arcs.append((layer, head, 2 * place + is_off, tokens[query], query, sources, truths))
        if arcs:
            sequences.append(one)
            found[id(one)] = arcs, word_of, tokens
    data = list(batches(sequences))
    return data, [list(by_layer(batch, [found[id(one)] for one in batch.sequences])) for batch in data], len(claims)


def by_layer(batch, found):
    """The arcs of a batch, layer by layer."""
    most, width = max(len(tokens) for _, _, tokens in found), batch.ids.shape[1]
    for layer in sorted({arc[0] for arcs, _, _ in found for arc in arcs}):
        sentences, places, rows, words, lengths, sources, scored = [], [], [], [], [], [], []
        for sentence, (arcs, word_of, tokens) in enumerate(found):
            for _, head, place, own, query, dealt_out, truths in (arc for arc in arcs if arc[0] == layer):
                moves = [most if word in (None, query) else word for word in word_of] + [most] * (width - len(word_of))
                arc = len(sentences)
                sentences.append(sentence)
                places.append(place)
                scored += [(arc, *truth) for truth in truths]
                for token in own:
                    rows.append((arc, sentence, token, head))
                    words.append(moves)
                    lengths.append([1 if word == most else len(tokens[word]) for word in moves])
                    sources.append([[*of, *range(len(of), most + 1)] for of in dealt_out])
        yield Arcs(
            layer, torch.tensor(sentences), torch.tensor(places), *torch.tensor(rows).T, torch.tensor(words), torch.tensor(lengths),
            torch.tensor(sources).transpose(0, 1), *torch.tensor(scored).T,
        )


@torch.inference_mode()
def knockout(heads, data, arcs, claims):
    """The loss of the query word while the weight on its partner is exchanged less that while it is kept, in the mean over the arcs
    of each label, and over those off the relation's best offset.
    """
    more, count = torch.zeros(2, 2 * claims, dtype=torch.float64)
    for batch, of_batch in zip(data, arcs):
        mask = heads.mask(batch)
        inputs, attended = with_all_heads(heads, batch, mask)
        for own in of_batch:
            losses = patched(heads, own, inputs, attended[own.layer], mask)
            more.index_add_(0, own.places[own.scored], (losses[1] - losses[0]).double())
            count.index_add_(0, own.places, torch.ones(len(own.places), dtype=torch.float64))
    more, count = more.view(-1, 2), count.view(-1, 2)
    return {"loss_effect": (more.sum(1) / count.sum(1)).tolist(), "off_offset": (more[:, 1] / count[:, 1]).tolist()}


def with_all_heads(heads, batch, mask):
    """What goes into each layer and comes out of the last, and the contexts and weights of each layer's heads."""
    inputs, attended = [heads.model.base_model.embeddings(input_ids=batch.ids)], []
    for block in heads.blocks:
        attended.append(block.attention.self(inputs[-1], mask, output_attentions=True))
        inputs.append(block.feed_forward_chunk(block.attention.output(attended[-1][0], inputs[-1])))
    return inputs, attended


def patched(heads, own, inputs, attended, mask):
    """The losses at each scored position while weights are kept and while they are exchanged, [2, scored]."""
    block, states, (contexts, weights) = heads.blocks[own.layer], inputs[own.layer], attended
    before = weights[own.rows, own.heads, own.tokens]
    masses = torch.zeros(len(before), own.sources.shape[2]).scatter_add_(1, own.words, before)
    after = torch.stack([masses.gather(1, sources).gather(1, own.words) / own.lengths for sources in own.sources])
    after = torch.where(own.words == own.sources.shape[2] - 1, before, after)
    # The contexts of the heads, in place of those that they had.
    part = (own.heads[:, None] * heads.size + torch.arange(heads.size)).expand(2, -1, -1)
    values = block.attention.self.value(states).unflatten(-1, (heads.heads, heads.size))[own.rows, :, own.heads]
    contexts = contexts[own.rows, own.tokens].expand(2, -1, -1).scatter(2, part, torch.einsum("krn,rnd->krd", after, values))
    written = block.attention.output(contexts, states[own.rows, own.tokens])
    above = inputs[own.layer + 1][own.sentences].repeat(2, 1, 1, 1)
    above[:, own.arcs, own.tokens] = block.feed_forward_chunk(written)
    states = above.flatten(0, 1)
    for later in range(own.layer + 1, heads.layers):
        states = heads.through(later, states, mask[own.sentences].repeat(2, 1, 1, 1))
    logits = heads.model.cls(states.unflatten(0, (2, -1))[:, own.scored, own.positions])
    truths = own.truths.repeat(2)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), truths, reduction="none").view(2, -1)


def of_knockout(report):
    return {
        "loss_effect": [one["loss_effect"] for one in report["knockout"]],
        "off_offset": [one["off_offset"]["loss_effect"] for one in report["knockout"]],
    }
