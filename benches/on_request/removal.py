"""A model whose heads can be removed or gated, and the peers of the studies that remove heads."""

import torch

from sample import BLOCK_OF, PADDING, TEXT, batches, encoded


class Heads:
    """A model whose contexts can be replaced, head by head, and gated."""

    def __init__(self, model):
        self.model, config = model, model.config
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.size = config.hidden_size // self.heads
        self.blocks = model.base_model.encoder.layer
        # [classes, hidden] a layer; gates are [sentences, layers, heads]
        self.sums = [torch.zeros(PADDING + 1, config.hidden_size) for _ in range(self.layers)]
        self.collect, self.gone, self.gates = False, {}, None
        for layer, block in enumerate(self.blocks):
            block.attention.output.dense.register_forward_pre_hook(lambda _, given, l=layer: self.hook(l, given[0]))

    def hook(self, layer, context):
        if self.collect:
            self.sums[layer].index_add_(0, self.classes.flatten(), context.flatten(0, 1))
        if layer in self.gone:
            context = torch.where(self.gone[layer], self.means[layer][self.classes], context)
        if self.gates is not None:
            instead = self.means[layer][self.classes]
            context = instead + self.gates[:, layer].repeat_interleave(self.size, -1)[:, None] * (context - instead)
        return (context,)

    def remove(self, places):
        """From now on these heads, (layer, head), are gone, and no others."""
        self.gone = {layer: torch.zeros(self.heads * self.size, dtype=torch.bool) for layer, _ in places}
        for layer, head in places:
            self.gone[layer][head * self.size : (head + 1) * self.size] = True

    def mask(self, batch):
        """What is added to scores, so that no padding is attended to."""
        return torch.zeros(batch.ids.shape).masked_fill(batch.classes == PADDING, -torch.inf)[:, None, None]

    def run(self, batch):
        """The last hidden states of a batch; where heads are gone, from the first of their layers on."""
        self.classes = batch.classes
        start = min(self.gone, default=0)
        states = batch.inputs[start] if start else self.model.base_model.embeddings(input_ids=batch.ids)
        mask = self.mask(batch)
        for layer in range(start, self.layers):
            if self.collect:
                batch.inputs.append(states)
            states = self.through(layer, states, mask)
        return states

    def through(self, layer, states, mask):
        """The states behind a layer, which transformers before version 5 wraps into a tuple."""
        behind = self.blocks[layer](states, mask)
        return behind if torch.is_tensor(behind) else behind[0]

    def weights(self, layer, states, mask):
        """What the heads of a layer attend to from these states, [..., sentences, heads, tokens, tokens]."""
        attention = self.blocks[layer].attention.self
        split = lambda of: of.unflatten(-1, (self.heads, self.size)).transpose(-2, -3)
        queries, keys = split(attention.query(states)), split(attention.key(states))
        return torch.softmax(queries @ keys.mT * self.size**-0.5 + mask, -1)

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
def losses(heads, data, sets):
    """The mean loss of a masked token with all heads, and by set without these heads."""
    whole = sum(heads.pass_with_means(data, lambda batch: heads.loss(batch).item()))
    tokens = sum(len(batch.truths) for batch in data)
    without = {}
    for gone in sets:
        heads.remove(gone)
        without[gone] = sum(heads.loss(batch).item() for batch in data) / tokens
    heads.remove([])
    return whole / tokens, without


def effect(heads, data):
    """loss_effect of each head; all heads are removed as well."""
    alone = [frozenset({place}) for place in heads.places()]
    whole, without = losses(heads, data, {*alone, frozenset(heads.places())})
    return {"loss_effect": [without[place] - whole for place in alone]}


def pooled(batch, states):
    there = (batch.classes != PADDING)[..., None].float()
    return (states * there).sum(1) / there.sum(1)


@torch.inference_mode()
def shifts(heads, data, sets):
    """By set the mean of 1 - cos of the last hidden states with all heads and without these, of tokens of text and of sentences."""
    whole = heads.pass_with_means(data, heads.run)
    tokens, count = sum((batch.classes == TEXT).sum().item() for batch in data), sum(len(batch.ids) for batch in data)
    turned = lambda a, b: 1 - torch.nn.functional.cosine_similarity(a, b, dim=-1)
    found = {}
    for gone in sets:
        heads.remove(gone)
        of_tokens = of_sentences = 0.0
        for batch, states in zip(data, whole):
            moved = heads.run(batch)
            of_tokens += turned(states, moved)[batch.classes == TEXT].sum().item()
            of_sentences += turned(pooled(batch, states), pooled(batch, moved)).sum().item()
        found[gone] = of_tokens / tokens, of_sentences / count
    heads.remove([])
    return found


def output_shift(heads, data):
    """output_shift and pooled_shift of each head; all heads are removed as well."""
    alone = [frozenset({place}) for place in heads.places()]
    found = shifts(heads, data, {*alone, frozenset(heads.places())})
    of_tokens, of_sentences = zip(*(found[place] for place in alone))
    return {"output_shift": of_tokens, "pooled_shift": of_sentences}


def places_of(heads):
    """Heads of the report, as (layer, head)."""
    return [(head["layer"], head["head"]) for head in heads]


def in_odd_blocks(folder, study, report):
    """The half of the sample on which losses are measured, the orders in which heads go, and the heads that are negligible."""
    of_odd = [one for one in encoded(folder, study.sample, study.phases) if BLOCK_OF[one.number] % 2]
    found = report["pruning"]
    orders = [places_of(order["heads"]) for order in found["orders"]]
    return list(batches(of_odd)), orders, places_of((found["interaction"] or {"heads": []})["heads"])


def pruning(heads, data, orders, negligible):
    """The loss without the first heads of each order, and what negligible heads are worth together and one by one."""
    curves = [[frozenset(order[:count]) for count in range(1, len(order) + 1)] for order in orders]
    alone, together = [frozenset({place}) for place in negligible], frozenset(negligible)
    sets = {*sum(curves, []), *alone, *([together] if negligible else [])}
    whole, without = losses(heads, data, sets)
    found = {"loss": [without[gone] for curve in curves for gone in curve]}
    if negligible:
        found["interaction"] = [without[together] - whole, sum(without[place] - whole for place in alone)]
    return found


def of_pruning(report):
    found, interaction = report["pruning"], report["pruning"]["interaction"]
    return {
        "loss": [loss for order in found["orders"] for loss in order["loss"]],
        "interaction": interaction and [interaction["together"], interaction["sum"]],
    }
