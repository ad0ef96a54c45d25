"""The peer of the study `norms`: vectors in the basis of each head's output projection, which is as long as a head is wide."""

from collections import defaultdict

import torch

from reading import Reader, of_heads

REACH = 8
SINKS = ("first-special", "separator", "punctuation")


class LayerSums:
    """The sums over tokens of text that the metrics of a layer are made of, `[heads]` each, by name."""

    def __init__(self, block, turn, bias):
        self.block, self.turn, self.bias = block, turn, bias
        self.sums = defaultdict(float)

    def add(self, name, rows):
        """Adds up values of tokens, `[b, heads, n]` or `[b, n]`."""
        self.sums[name] += (rows * (self.text[:, None] if rows.dim() == 3 else self.text)).sum((0, -1), dtype=torch.float64)

    def add_vectors(self, name, vectors):
        """Adds up vectors, their squares and those of the means of sentences, each as often as it has tokens."""
        of_sentences = torch.einsum("bhnd,bn->bhd", vectors, self.text)
        self.add(f"{name} squares", vectors.square().sum(-1))
        of_means = of_sentences.square().sum(-1) / self.text.sum(1, keepdim=True)
        self.sums[f"{name} means"] += of_means.sum(0, dtype=torch.float64)
        self.sums[f"{name} sum"] += of_sentences.sum(0, dtype=torch.float64)

    def observe(self, batch, layer):
        """Adds what the layer does on a batch."""
        self.text, n = batch.text.float(), batch.ids.shape[1]
        lengths = self.text.sum(1)
        for name, value in (("rows", lengths.sum()), ("sentences", len(lengths)), ("squared lengths", lengths.square().sum())):
            self.sums[name] += value
        values, outputs, bias = layer.values @ self.turn, layer.contexts @ self.turn, self.bias @ self.turn
        weighted = layer.attention * (values + bias).norm(dim=-1)[:, :, None]
        spent, size = weighted.sum(-1), (outputs + bias).norm(dim=-1)
        self.observe_shares(weighted / spent[..., None], batch)
        self.observe_mixing(layer)
        self.add("spent", spent)
        self.add("size", size)
        self.add("ratio", size / layer.inputs.norm(dim=-1)[:, None])
        self.add("bare size", outputs.norm(dim=-1))
        self.add_vectors("output", outputs)
        for sink, keys in zip(SINKS, (torch.arange(n).expand_as(batch.ids) == 0, batch.end, batch.marks)):
            part = layer.attention @ (values * keys[:, None, :, None])
            self.add(f"part {sink}", (part * outputs).sum(-1))
            self.add_vectors(sink, part)

    def observe_shares(self, shares, batch):
        """Adds the masses of attention by norm, `[b, heads, n, n]`."""
        text, n = self.text, shares.shape[-1]
        for offset in range(-REACH, REACH + 1):
            if abs(offset) < n:
                asked, there = (text[:, max(0, side) : n - max(0, -side)] for side in (-offset, offset))
                self.sums[f"offset {offset}"] += (shares.diagonal(offset, -2, -1) * (asked * there)[:, None]).sum((0, 2))
                self.sums[f"offset rows {offset}"] += (asked * there).sum()
        place = torch.arange(n)
        distance = (place[:, None] - place).abs()
        near = ((distance > 0) & (distance <= 2)) * text[:, None]
        self.add("window", (shares * near[:, None]).sum(-1))
        keys = torch.stack([(place == 0).expand_as(text), batch.end, batch.marks], -1).float()
        for sink, mass in zip(SINKS, (shares @ keys[:, None]).unbind(-1)):
            self.add(f"mass {sink}", mass)

    def observe_mixing(self, layer):
        """Adds how much of the layer's sum is of other tokens, as its normalisation turns it."""
        output, normalisation = self.block.output.dense, self.block.output.LayerNorm
        itself = layer.attention.diagonal(0, -2, -1)[..., None] * (layer.values + self.bias)
        parts = torch.stack([layer.contexts + self.bias, itself]).transpose(-3, -2).flatten(-2)
        whole, itself = parts @ output.weight.T
        turned = lambda rows: ((rows - rows.mean(-1, keepdim=True)) * normalisation.weight).norm(dim=-1)
        mixed, preserved = turned(whole - itself), turned(layer.inputs + itself)
        self.add("mixing", mixed / (mixed + preserved))

    def metrics(self):
        sums, n, count = self.sums, self.sums["rows"], self.sums["sentences"]
        squares = lambda name: sums[f"{name} squares"]
        constant = lambda name: sums[f"{name} sum"].square().sum(-1) / n
        within = (squares("output") - sums["output means"]) / (n - count)
        effective = (n - sums["squared lengths"] / n) / (count - 1)
        between = ((sums["output means"] - constant("output")) / (count - 1) - within) / effective
        found = {
            "norm_window_mass": sums["window"] / n,
            "output_ratio": sums["ratio"] / n,
            "cancellation": sums["size"] / sums["spent"],
            "output_share": sums["bare size"] / sums["bare size"].mean(),
            "constant_share": constant("output") / squares("output"),
            "sentence_share": between / (between + within),
        }
        for offset in range(-REACH, REACH + 1):
            found[f"norm_offset_mass.{offset}"] = sums[f"offset {offset}"] / sums[f"offset rows {offset}"]
        for sink in SINKS:
            found[f"norm_{sink.replace('-', '_')}_mass"] = sums[f"mass {sink}"] / n
            found[f"sink_part.{sink}"] = sums[f"part {sink}"] / squares("output")
            found[f"sink_constant_share.{sink}"] = constant(sink) / squares(sink)
            found[f"sink_sentence_share.{sink}"] = (sums[f"{sink} means"] - constant(sink)) / squares(sink)
        return found


@torch.inference_mode()
def norms(heads, data, _):
    """All metrics of heads, and the mixing ratio of each layer.

    Not their levels under even attention, intervals, nor types of sinks."""
    reader = Reader(heads)
    layers = [LayerSums(*own) for own in zip(reader.blocks, reader.turns(), reader.biases)]
    for batch in data:
        for own, layer in zip(layers, reader(batch)):
            own.observe(batch, layer)
    found = defaultdict(list)
    for own in layers:
        for metric, values in own.metrics().items():
            found[metric] += values.tolist()
        found["mixing_ratio"].append((own.sums["mixing"] / own.sums["rows"]).item())
    return found


def of_norms(report):
    return {**of_heads(report), "mixing_ratio": [layer["mixing_ratio"] for layer in report["mixing"]]}
