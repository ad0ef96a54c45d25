"""The peer of the study `choice`: ridge regressions of what goes into layers, and attention from what they give.

Queries and keys are linear, so those of replaced inputs are added up of what each position and each type of token gives."""

import torch
from torch.nn.functional import pad

from reading import Reader, of_heads

RIDGES = (0.001, 0.01, 0.1, 1.0)
VARIANTS = ("special", "position", "token", "position_token", "keys", "queries")


class Run:
    """A batch and what its pass is kept of: what goes into the layers, `[b, n, layers, hidden]`, and by layer queries, keys and
    attention; the place of each token, and the quarter of the blocks in which its sentence is."""

    def __init__(self, reader, batch, corpus):
        made, queries, keys = reader.run(batch, "self.query", "self.key")
        self.batch, self.inputs, self.attention = batch, torch.stack(made.hidden_states[:-1], 2), made.attentions
        self.queries, self.keys = ([out for _, out in seen] for seen in (queries, keys))
        self.place = torch.arange(batch.ids.shape[1]).expand_as(batch.ids)
        self.quarter = torch.tensor([corpus[s].block % 4 for s in batch.at])[:, None].expand_as(batch.ids)


class Regression:
    """Ridge regressions of the rows of all layers, `[tokens, layers * hidden]`, on embeddings, both less their means at the
    token's position."""

    def __init__(self, rows, embeddings, positions):
        counts = torch.bincount(positions)
        # A position without a token has the mean of the nearest lower one, else of the nearest higher one.
        nearest = torch.where(counts > 0, torch.arange(len(counts)), counts.nonzero()[0, 0]).cummax(0).values
        sums = lambda of: torch.zeros(len(counts), of.shape[1]).index_add_(0, positions, of)
        means = lambda of: (sums(of) / counts[:, None])[nearest]
        self.row_means, self.embedding_means = means(rows), means(embeddings)
        own_rows, own = self.less_means(rows, embeddings, positions)
        self.values, self.vectors = torch.linalg.eigh((own.T @ own).double())
        self.turned = self.vectors.T @ (own.T @ own_rows).double()

    def less_means(self, rows, embeddings, positions):
        at = positions.clamp_max(len(self.row_means) - 1)
        return rows - self.row_means[at], embeddings - self.embedding_means[at]

    def weights(self, ridge):
        """`[embedding, layers * hidden]`"""
        return (self.vectors @ (self.turned / (self.values + ridge * self.values.mean())[:, None])).float()

    def left(self, held, layers):
        """What each ridge leaves of other tokens, `[ridges, layers]`."""
        rows, embeddings = self.less_means(*held)
        # The sum of |x - e B|², by products of the size of embeddings.
        by_layer = lambda products: products.sum(0).unflatten(0, (layers, -1)).sum(1)
        whole, product, square = by_layer(rows.square()), embeddings.T @ rows, embeddings.T @ embeddings
        return torch.stack([whole - by_layer(b * (2 * product - square @ b)) for b in map(self.weights, RIDGES)])


class Parts:
    """What a fold says of the inputs of layers: `base` of all tokens of text, of first and of last tokens, and what is added to it,
    `of_position` and `of_type`, `[..., layers, hidden]` each; the first row of both is nothing, for special tokens."""

    def __init__(self, runs, fold, table, types):
        layers = runs[0].inputs.shape[2]
        by_layer = lambda rows: rows.unflatten(-1, (layers, -1))
        gathered = lambda of, at: torch.cat([of(run)[at(run) & (run.quarter % 2 == fold)] for run in runs])
        inputs, text = lambda run: run.inputs, lambda run: run.batch.text
        rows = gathered(inputs, text).flatten(1)
        own = rows, table[types], gathered(lambda run: run.place, text)
        halves = [[part[gathered(lambda run: run.quarter, text) == half] for part in own] for half in (fold, fold + 2)]
        fits = [Regression(*half) for half in halves]
        best = (fits[0].left(halves[1], layers) + fits[1].left(halves[0], layers)).argmin(0).tolist()
        fit = Regression(*own)
        weights = {ridge: by_layer(fit.weights(RIDGES[ridge])) for ridge in set(best)}
        weights = torch.stack([weights[ridge][:, layer] for layer, ridge in enumerate(best)], 1)
        linear = lambda embeddings: torch.einsum("te,elh->tlh", embeddings - own[1].mean(0), weights)
        special = lambda at: gathered(inputs, at).mean(0)
        first, last = special(lambda run: run.place == 0), special(lambda run: run.batch.end)
        self.base = torch.stack([by_layer(rows.mean(0)), first, last])
        self.of_position = by_layer(fit.row_means - rows.mean(0)) - linear(fit.embedding_means)
        # Special tokens alone are first.
        self.of_position[0] = 0
        self.of_type = pad(linear(table), (0, 0, 0, 0, 1, 0))


@torch.inference_mode()
def choice(heads, data, corpus):
    """All metrics of heads, and of each layer `own_share`, which is neither of position nor of the token.

    Not intervals and labels. The corpus is run once, for all that is asked of the runs is kept."""
    reader = Reader(heads)
    runs = [Run(reader, batch, corpus) for batch in data]
    known = torch.unique(torch.cat([run.batch.ids.flatten() for run in runs]))
    table = reader.model.embeddings.word_embeddings.weight[known]
    types = [torch.searchsorted(known, run.batch.ids) for run in runs]
    of_fold = lambda fold: torch.cat([own[run.batch.text & (run.quarter % 2 == fold)] for own, run in zip(types, runs)])
    # Sentences of fold 0 have the parts of fold 1.
    folds = [Parts(runs, fold, table, of_fold(fold)) for fold in (1, 0)]
    longest = max(run.place.shape[1] for run in runs)
    to_longest = lambda rows: torch.cat([rows, rows[-1:].expand(longest - len(rows), -1, -1)])
    tables = [
        torch.stack([own.base for own in folds]),
        torch.stack([to_longest(own.of_position) for own in folds]),
        torch.stack([own.of_type for own in folds]),
    ]
    sums = lambda *shape: torch.zeros(heads.layers, *shape, dtype=torch.float64)
    even, apart, share = sums(heads.heads), sums(len(VARIANTS), heads.heads), sums(2)
    for layer, block in enumerate(reader.blocks):
        inputs = [part[:, :, layer] for part in tables]
        project = lambda linear: [linear(inputs[0]), *(part @ linear.weight.T for part in inputs[1:])]
        of_queries, of_keys = project(block.self.query), project(block.self.key)
        for run, own_types in zip(runs, types):
            there, text, fold = run.batch.there, run.batch.text, run.quarter % 2
            at = (fold, (run.place == 0) + 2 * run.batch.end), (fold, run.place * text), (fold, (own_types + 1) * text)
            of_tokens = lambda parts: [part[own] for part, own in zip(parts, at)]

            def variants(parts, last):
                """The rows of all variants; in the last two one side is of position and token (None) and the other as it is."""
                base, position, token = of_tokens(parts)
                both = base + position + token
                last = [both if own is None else own for own in last]
                return reader.split(torch.stack([base, base + position, base + token, both, *last]))

            scores = variants(of_queries, [run.queries[layer], None]) @ variants(of_keys, [None, run.keys[layer]]).mT
            scores = scores * heads.size**-0.5 + torch.where(there, 0.0, -torch.inf)[:, None, None]
            root = run.attention[layer].sqrt()
            of_rows = lambda other: (root - other).square().sum(-1) / 2
            distances = lambda other: (of_rows(other) * text[:, None]).sum((-3, -1), dtype=torch.float64)
            apart[layer] += distances(scores.softmax(-1).sqrt())
            even[layer] += distances((there / there.sum(1, keepdim=True)).sqrt()[:, None, None])
            own = run.inputs[:, :, layer]
            parts = own - sum(of_tokens(inputs)), own - inputs[0][:, 0][fold]
            share[layer] += torch.stack([rows[text].square().sum(dtype=torch.float64) for rows in parts])
    rebuilt = 1 - apart / even[:, None]
    tokens = sum(run.batch.text.sum() for run in runs)
    return {
        "distance_from_even": (even / tokens).flatten().tolist(),
        **{f"rebuilt.{name}": rebuilt[:, variant].flatten().tolist() for variant, name in enumerate(VARIANTS)},
        "context": (1 - rebuilt[:, VARIANTS.index("position_token")]).flatten().tolist(),
        "own_share": (share[:, 0] / share[:, 1]).tolist(),
    }


def of_choice(report):
    return {**of_heads(report), "own_share": [layer["own_share"] for layer in report["choice"]["layers"]]}
