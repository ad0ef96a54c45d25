"""The peer of the study `edges`: how far the attention of later heads shifts without an earlier one."""

import torch
from transformers import AutoConfig, AutoModel

from removal import Heads
from sample import TEXT, batches, encoded


def with_untrained(folder, study, report):
    """Batches, and a model of the same shape that was not trained; its weights are torch's, not those of the program."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager").float()
    return list(batches(encoded(folder, study.sample, study.phases))), Heads(model.eval().requires_grad_(False))


def distances(batch, roots, weights):
    """The squared Hellinger distances between the attention of heads with all of them, [b, heads, n, n], and without one or each of
    some, [..., b, heads, n, n], summed over tokens of text."""
    of_rows = (roots - weights.sqrt()).square_().sum(-1) / 2
    return (of_rows * (batch.classes == TEXT)[:, None]).sum((-3, -1))


def total_shifts(heads, batch, roots, found):
    """Adds the shifts of all pairs of heads in a batch to [layers, heads, layers, heads]."""
    mask, heads.classes = heads.mask(batch), batch.classes
    for layer, head in heads.places()[: -heads.heads]:
        heads.remove([(layer, head)])
        states = heads.through(layer, batch.inputs[layer], mask)
        for later in range(layer + 1, heads.layers):
            found[layer, head, later] += distances(batch, roots[later], heads.weights(later, states, mask))
            if later < heads.layers - 1:
                states = heads.through(later, states, mask)
    heads.remove([])


def direct_shifts(heads, batch, roots, found):
    """The same with all but the residual stream held: the heads of a layer side by side, each missing in what its layer writes."""
    mask, heads.classes = heads.mask(batch), batch.classes
    contexts, attended, fed = [], [], []
    for block, states in zip(heads.blocks, batch.inputs):
        contexts.append(block.attention.self(states, mask)[0])
        attended.append(block.attention.output.dense(contexts[-1]))
        between = block.attention.output.LayerNorm(states + attended[-1])
        fed.append(block.output.dense(block.intermediate(between)))
    split = lambda of: of.unflatten(-1, (heads.heads, heads.size))
    for layer in range(heads.layers - 1):
        missing = split(heads.means[layer][batch.classes] - contexts[layer])
        projection = split(heads.blocks[layer].attention.output.dense.weight)
        written = attended[layer] + torch.einsum("bnhd,ohd->hbno", missing, projection)
        stream = batch.inputs[layer]
        for later in range(layer, heads.layers - 1):
            block = heads.blocks[later]
            stream = block.attention.output.LayerNorm(stream + written)
            stream = block.output.LayerNorm(stream + fed[later])
            written = attended[later + 1]
            weights = heads.weights(later + 1, stream, mask)
            found[layer, :, later + 1] += distances(batch, roots[later + 1], weights)


def excesses(shift):
    """ln of [layers, heads, layers, heads] less the means of source and target, plus that of all, between each two layers."""
    logs = shift.log()
    return logs - logs.mean(-1, True) - logs.mean(1, True) + logs.mean((1, 3), True)


def pairs(heads):
    return [(source, target) for source in range(heads) for target in range(source + 1, heads)]


def all_shifts(heads, data, with_direct):
    """The mean shifts of a token of text, and the direct ones, [layers, heads, layers, heads]."""
    heads.pass_with_means(data, heads.run)
    found = torch.zeros(2, *(heads.layers, heads.heads) * 2, dtype=torch.float64)
    for batch in data:
        mask = heads.mask(batch)
        roots = [heads.weights(layer, states, mask).sqrt() for layer, states in enumerate(batch.inputs)]
        total_shifts(heads, batch, roots, found[0])
        if with_direct:
            direct_shifts(heads, batch, roots, found[1])
    return found / sum((batch.classes == TEXT).sum() for batch in data)


@torch.inference_mode()
def edges(heads, data, untrained):
    """The shift, the direct shift and the excess of each pair of heads, and the margin, the 95th percentile of the excesses of an
    untrained model; that is of other weights than the program's, so it is not compared.
    """
    shift, direct = all_shifts(heads, data, True)
    null, _ = all_shifts(untrained, data, False)
    between = pairs(heads.layers)
    torch.cat([excesses(null)[source, :, target].flatten() for source, target in between]).quantile(0.95)
    excess = excesses(shift)
    flat = lambda of: [value for source, target in between for value in of[source, :, target].flatten().tolist()]
    return {"shift": flat(shift), "direct": flat(direct), "excess": flat(excess)}


def of_edges(report):
    layers = report["edges"]["layers"]
    flat = lambda name: [value for layer in layers for row in layer[name] for value in row]
    return {name: flat(name) for name in ("shift", "direct", "excess")}
