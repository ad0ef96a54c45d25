"""A model whose heads can be removed or gated, and the peers of the studies that remove heads one by one."""

import torch

from sample import PADDING, TEXT


class Heads:
    """A model whose contexts can be replaced, head by head, and gated."""

    def __init__(self, model):
        self.model, config = model, model.config
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.size = config.hidden_size // self.heads
        self.blocks = model.base_model.encoder.layer
        # [classes, hidden] a layer; gates are [sentences, layers, heads]
        self.sums = [torch.zeros(PADDING + 1, config.hidden_size) for _ in range(self.layers)]
        self.collect, self.gone, self.gates = False, set(), None
        for layer, block in enumerate(self.blocks):
            block.attention.output.dense.register_forward_pre_hook(lambda _, given, l=layer: self.hook(l, given[0]))

    def hook(self, layer, context):
        if self.collect:
            self.sums[layer].index_add_(0, self.classes.flatten(), context.flatten(0, 1))
        own = [head for at, head in self.gone if at == layer]
        if own:
            context, instead = context.clone(), self.means[layer][self.classes]
            for head in own:
                part = slice(head * self.size, (head + 1) * self.size)
                context[..., part] = instead[..., part]
        if self.gates is not None:
            instead = self.means[layer][self.classes]
            context = instead + self.gates[:, layer].repeat_interleave(self.size, -1)[:, None] * (context - instead)
        return (context,)

    def run(self, batch):
        """The last hidden states of a batch; without some heads from the first of their layers on."""
        self.classes = batch.classes
        start = min((layer for layer, _ in self.gone), default=0)
        states = batch.inputs[start] if start else self.model.base_model.embeddings(input_ids=batch.ids)
        mask = torch.zeros(batch.ids.shape).masked_fill(batch.classes == PADDING, -torch.inf)[:, None, None]
        for layer in range(start, self.layers):
            if self.collect:
                batch.inputs.append(states)
            states = self.blocks[layer](states, mask)
        return states

    def loss(self, batch):
        """The summed loss of the masked tokens."""
        logits = self.model.cls(self.run(batch)[batch.rows, batch.columns])
        return torch.nn.functional.cross_entropy(logits, batch.truths, reduction="sum")

    def pass_with_means(self, data, of):
        """`of` each batch with all heads; the means of contexts and what goes into each layer are known then."""
        for sums in self.sums:
            sums.zero_()
        for batch in data:
            batch.inputs.clear()
        self.collect = True
        found = [of(batch) for batch in data]
        self.collect = False
        counts = sum(torch.bincount(batch.classes.flatten(), minlength=PADDING + 1) for batch in data)
        self.means = [sums / counts.clamp_min(1)[:, None] for sums in self.sums]
        return found

    def places(self):
        return [(layer, head) for layer in range(self.layers) for head in range(self.heads)]


@torch.inference_mode()
def effect(heads, data):
    whole = sum(heads.pass_with_means(data, lambda batch: heads.loss(batch).item()))
    tokens = sum(len(batch.truths) for batch in data)
    found = []
    for gone in [*({place} for place in heads.places()), set(heads.places())]:
        heads.gone = gone
        found.append((sum(heads.loss(batch).item() for batch in data) - whole) / tokens)
    heads.gone = set()
    return {"loss_effect": found[:-1]}


def pooled(batch, states):
    there = (batch.classes != PADDING)[..., None].float()
    return (states * there).sum(1) / there.sum(1)


@torch.inference_mode()
def output_shift(heads, data):
    whole = heads.pass_with_means(data, heads.run)
    tokens, count = sum((batch.classes == TEXT).sum().item() for batch in data), sum(len(batch.ids) for batch in data)
    turned = lambda a, b: 1 - torch.nn.functional.cosine_similarity(a, b, dim=-1)
    found = []
    for gone in [*({place} for place in heads.places()), set(heads.places())]:
        heads.gone = gone
        of_tokens = of_sentences = 0.0
        for batch, states in zip(data, whole):
            moved = heads.run(batch)
            of_tokens += turned(states, moved)[batch.classes == TEXT].sum().item()
            of_sentences += turned(pooled(batch, states), pooled(batch, moved)).sum().item()
        found.append((of_tokens / tokens, of_sentences / count))
    heads.gone = set()
    return dict(zip(("output_shift", "pooled_shift"), zip(*found[:-1])))
