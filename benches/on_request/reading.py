"""A BERT whose attention, values and contexts are laid open, for the peers of studies that remove no head."""

from collections import defaultdict
from dataclasses import dataclass

import torch


@dataclass
class Layer:
    """A layer at work on a batch: what goes in, `[b, n, hidden]`, attention, `[b, heads, n, n]`, and the values and contexts
    without the value bias, `[b, heads, n, size]`."""

    inputs: torch.Tensor
    attention: torch.Tensor
    values: torch.Tensor
    contexts: torch.Tensor


class Reader:
    """A BERT whose attention, values and contexts are laid open."""

    def __init__(self, heads):
        self.model, self.heads, self.size = heads.model.base_model, heads.heads, heads.size
        self.blocks = [block.attention for block in self.model.encoder.layer]
        self.biases = [self.split(block.self.value.bias[None]) for block in self.blocks]

    def split(self, rows):
        """`[..., n, hidden]` -> `[..., heads, n, size]`"""
        return rows.unflatten(-1, (self.heads, self.size)).transpose(-3, -2)

    def run(self, batch, *parts):
        """What the model makes of a batch, and for each of these parts of attention what goes in and what comes out, by layer."""
        seen = [[] for _ in parts]
        hooks = []
        for block in self.blocks:
            for part, own in zip(parts, seen):
                watch = lambda _, given, made, own=own: own.append((given[0], made))
                hooks.append(block.get_submodule(part).register_forward_hook(watch))
        made = self.model(batch.ids, batch.there.long(), output_attentions=True, output_hidden_states=True)
        for hook in hooks:
            hook.remove()
        return made, *seen

    def __call__(self, batch):
        """The layers at work on a batch."""
        made, values, outputs = self.run(batch, "self.value", "output.dense")
        bare = lambda rows: [self.split(own) - bias for own, bias in zip(rows, self.biases)]
        values, contexts = bare(out for _, out in values), bare(into for into, _ in outputs)
        return [Layer(*one) for one in zip(made.hidden_states, made.attentions, values, contexts)]

    def turns(self):
        """For each layer, `[heads, size, size]`, what gives contexts the lengths and angles of what heads write: the output
        projection of a head is orthonormal but for that."""
        return [torch.linalg.qr(self.split(block.output.dense.weight)).R.mT for block in self.blocks]


def of_heads(report):
    """The metrics of heads, those that are given by sink, offset or variant under `metric.key`."""
    found = defaultdict(list)
    for head in report["heads"]:
        for metric, value in head["metrics"].items():
            for key, one in value.items() if isinstance(value, dict) else [(None, value)]:
                found[f"{metric}.{key}" if key else metric].append(one)
    return found
