"""The peer of the study `similarity`: products of all pairs of heads at once."""

import torch

from reading import Reader


def packs(corpus):
    """The sentences of each pack, by their places: at most 512 tokens, and none across a multiple of 256 sentences."""
    pack, tokens = [], 0
    for s, sentence in enumerate(corpus):
        if pack and (tokens + len(sentence.ids) > 512 or s % 256 == 0):
            yield pack
            pack, tokens = [], 0
        pack.append(s)
        tokens += len(sentence.ids)
    yield pack


def covariances(outputs):
    """`(n - 3) HSIC1` of each pair of heads, for `n` tokens, `[heads, n, size]`, by Song et al. 2012."""
    n = outputs.shape[1]
    kernels = outputs @ outputs.mT
    kernels.diagonal(0, -2, -1).zero_()
    rows = kernels.sum(-1)
    whole = rows.sum(-1)
    products = kernels.flatten(1) @ kernels.flatten(1).T
    return (products + torch.outer(whole, whole) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (rows @ rows.T)) / n


def composition(blocks, split):
    """The mean of each kind of composition of heads of different layers, less that of matrices turned at random."""
    # The squared norm of `A B` for `A = a b` and `B = c d` is the trace of (aᵀa)(b c)(d dᵀ)(b c)ᵀ, all of the size of a head.
    of_layers = lambda weight: torch.stack([split(weight(block)) for block in blocks])
    query, key, value = (of_layers(lambda block: block.self.get_submodule(name).weight.T) for name in ("query", "key", "value"))
    output = of_layers(lambda block: block.output.dense.weight)
    layers, hidden = len(query), query.shape[-2]
    pairs = torch.triu_indices(layers, layers, 1)
    size = lambda a, b: ((a.mT @ a) * (b.mT @ b)).sum((-2, -1)).sqrt()
    written, found = size(value, output), []
    for first, second in ((query, key), (key, query), (value, output)):
        left, right = (value.mT @ value)[pairs[0]], (second.mT @ second)[pairs[1]]
        # [pairs of layers, heads, heads, size, size]
        between = torch.einsum("pahi,pbhj->pabij", output[pairs[0]], first[pairs[1]])
        squares = ((left[:, :, None] @ between) * (between @ right[:, None])).sum((-2, -1))
        read = size(first, second)
        scores = squares.sqrt() / written[pairs[0]][:, :, None] / read[pairs[1]][:, None]
        found.append(scores.mean().item() - hidden**-0.5)
    return found


def dimensions(*parts):
    """How many dimensions have 90 % of the squared singular values of `a bᵀ`."""
    (_, a), (_, b) = map(torch.linalg.qr, parts)
    squares = torch.linalg.svdvals(a @ b.mT).square().cumsum(-1)
    return ((squares < 0.9 * squares[..., -1:]).sum(-1) + 1).flatten().tolist()


@torch.inference_mode()
def similarity(heads, data, corpus):
    """Distances and CKA of all pairs of heads, the disagreement of each layer, spectra and mean composition of the weights.

    Not intervals, clusters and their resampling, the map, nor tests by dealing out heads."""
    reader = Reader(heads)
    turns = reader.turns()
    count = len(turns) * reader.heads
    affinity, tokens = torch.zeros(count, count, dtype=torch.float64), 0
    disagreement = torch.zeros(3, len(turns), dtype=torch.float64)
    outputs = {}
    for batch in data:
        layers = reader(batch)
        tokens += batch.text.sum().item()
        # [heads of all layers, tokens of text, n]
        rows = torch.cat([layer.attention.transpose(0, 1)[:, batch.text] for layer in layers])
        roots = rows.sqrt().flatten(1)
        affinity += roots @ roots.T
        written = []
        for number, (layer, turn, bias) in enumerate(zip(layers, turns, reader.biases)):
            # Products of all pairs of heads add up to the square of the sum.
            square = lambda rows: rows.sum(0).square().sum(dtype=torch.float64)
            unit = lambda vectors: torch.nn.functional.normalize(vectors, dim=-1)
            of_text = lambda vectors: vectors.transpose(0, 1)[:, batch.text]
            values, contexts = of_text(layer.values), of_text(layer.contexts)
            there = slice(number * reader.heads, (number + 1) * reader.heads)
            alike = unit(values + bias), rows[there], unit(contexts + bias)
            disagreement[:, number] -= torch.stack([square(kind) for kind in alike])
            written.append(contexts @ turn)
        parts = torch.cat(written).split(batch.text.sum(1).tolist(), 1)
        outputs.update((s, part) for s, part in zip(batch.at, parts) if corpus[s].begins_family)
    shared = torch.zeros(count, count, dtype=torch.float64)
    for pack in packs(corpus):
        own = [outputs[s] for s in pack if s in outputs]
        if own:
            # Each batch has one token of a sentence at most.
            step = 1 + max(part.shape[1] for part in own)
            dealt = torch.cat(own, 1)
            shared += sum(covariances(dealt[:, at::step]) for at in range(step) if dealt[:, at::step].shape[1] >= 4)
    lower = torch.tril_indices(count, count, -1)
    pairs = lambda matrix: matrix[lower[0], lower[1]].tolist()
    spectra = []
    for block in reader.blocks:
        query, key = block.self.query.weight.T, block.self.key.weight.T
        spectra += dimensions(reader.split(query), reader.split(key)) + dimensions(query, key)
    return {
        "distance": pairs((1 - affinity / tokens).clamp_min(0).sqrt()),
        "cka": pairs(shared / torch.outer(shared.diag(), shared.diag()).sqrt()),
        **dict(zip(("subspace", "position", "output"), (disagreement / reader.heads**2 / tokens).tolist())),
        "spectra": spectra,
        "composition": composition(reader.blocks, reader.split),
    }


def of_similarity(report):
    section = report["similarity"]
    kinds = ("subspace", "position", "output")
    composed = section["weights"]["composition"]
    return {
        "distance": sum(section["distance"], []),
        "cka": sum(section["cka"], []),
        **{kind: [layer[kind] for layer in section["disagreement"]] for kind in kinds},
        "spectra": sum(([*layer["heads"], layer["concatenated"]] for layer in section["weights"]["spectra"]), []),
        "composition": [composed[kind]["mean_above_random"] for kind in ("queries", "keys", "values")],
    }
