"""The peer of the study `probes`: linear discriminants of all heads at once, from products of features that tasks share."""

import hashlib
from collections import Counter, defaultdict

import numpy as np
import torch
from torch.nn.functional import one_hot

from reading import Reader

BUCKETS, RIDGE = 128, 1e-3


class Words:
    """All words of a corpus: their forms, the columns of both tasks, whether their block is even, and means over their tokens of
    embeddings, `[words, embedding]`, inputs of layers, `[words, layers * hidden]`, and contexts, `[words, layers * hidden]`."""

    def __init__(self, reader, data, corpus):
        rows = [word for sentence in corpus for word in sentence.words]
        self.forms = np.array([word[1].lower() for word in rows])
        self.columns = {"upos": [word[3] for word in rows], "relation": [word[7].split(":")[0] for word in rows]}
        lengths = [len(sentence.words) for sentence in corpus]
        self.even = np.repeat([sentence.block % 2 == 0 for sentence in corpus], lengths)
        starts = np.cumsum([0, *lengths])
        table = reader.model.embeddings.word_embeddings.weight
        hidden = table.shape[1] * len(reader.blocks)
        self.features = [torch.zeros(len(rows), width) for width in (table.shape[1], hidden, hidden)]
        tokens = torch.zeros(len(rows), 1)
        for batch in data:
            made, outputs = reader.run(batch, "output.dense")
            word = torch.tensor([starts[s] + of for s in batch.at for of in corpus[s].word_of if of is not None])
            of_text = lambda parts: torch.cat([part[batch.text] for part in parts], 1)
            more = table[batch.ids[batch.text]], of_text(made.hidden_states[:-1]), of_text([context for context, _ in outputs])
            for features, own in zip(self.features, more):
                features.index_add_(0, word, own)
            tokens.index_add_(0, word, torch.ones(len(word), 1))
        for features in self.features:
            features /= tokens


class Discriminant:
    """Linear discriminants of the same words on many sets of features at once.

    `scatter`, `[..., features, features]`, is within classes, `means`, `[..., classes, features]`, is less the mean of all words;
    `sizes` are those of blocks of features, each of which is scaled by one factor."""

    def __init__(self, scatter, means, counts, sizes):
        freedom = counts.sum() - len(counts)
        traces = [part.sum(-1, keepdim=True) for part in scatter.diagonal(0, -2, -1).split(sizes, -1)]
        scales = [(size * freedom / trace).sqrt().expand(*trace.shape[:-1], size) for size, trace in zip(sizes, traces)]
        scale = torch.cat(scales, -1)
        covariance = scatter * scale[..., None] * scale[..., None, :] / freedom
        covariance.diagonal(0, -2, -1).add_(RIDGE)
        means = (means * scale[..., None, :]).mT
        weights = torch.cholesky_solve(means, torch.linalg.cholesky(covariance))
        # [..., features, classes] and [..., classes]
        self.weights = (weights * scale[..., None]).float()
        self.bias = ((counts / counts.sum()).log() - (means * weights).sum(-2) / 2).float()

    def scores(self, features):
        return features @ self.weights + self.bias[..., None, :]


def most_frequent(labels, forms, even):
    """The shares of words that are right by the most frequent class, and by that of the form."""
    right = np.zeros(2)
    for train in (even, ~even):
        first = lambda counts: min(counts, key=lambda label: (-counts[label], label))
        by_form = defaultdict(Counter)
        for form, label in zip(forms[train], labels[train]):
            by_form[form][label] += 1
        best = first(Counter(labels[train]))
        known = {form: first(counts) for form, counts in by_form.items()}
        by_form = [known.get(form, best) for form in forms[~train]]
        right += (labels[~train] == best).sum(), (labels[~train] == by_form).sum()
    return (right / len(labels)).tolist()


def control(labels, forms):
    """A class at random for each form, as frequent as it is among words."""
    ends = np.cumsum(np.bincount(labels)) / len(labels)
    digest = lambda form: hashlib.sha256(f"headscope/probes/0/{form}".encode()).digest()
    bucket = {form: digest(form)[0] * BUCKETS // 256 for form in set(forms)}
    found = np.searchsorted(ends, [(bucket[form] + 0.5) / BUCKETS for form in forms], side="right")
    return found.clip(max=len(ends) - 1)


@torch.inference_mode()
def probes(heads, data, corpus):
    """All accuracies of both tasks: by the most frequent class and that of the form (`simple`), on embeddings, inputs of layers,
    contexts (`accuracy`), embeddings and contexts (`together`), and of the control task.

    Not intervals and tests. The corpus is run once, for means over the tokens of each word are kept."""
    reader = Reader(heads)
    words = Words(reader, data, corpus)
    count, size, embedding = heads.layers * heads.heads, heads.size, words.features[0].shape[1]
    by_layer = lambda part: part.unflatten(-1, (heads.layers, -1)).transpose(0, 1)
    by_head = lambda part: part.unflatten(-1, (count, size)).transpose(0, 1)
    splits = (lambda part: part), by_layer, by_head
    found, tasks = {}, {}
    for task, column in words.columns.items():
        labels = np.unique(column, return_inverse=True)[1]
        tasks[task], tasks[f"{task} control"] = labels, control(labels, words.forms)
        found[f"{task} simple"] = most_frequent(labels, words.forms, words.even)
    right = defaultdict(float)
    for train in (words.even, ~words.even):
        own, held = ([part[at] - part[train].mean(0) for part in words.features] for at in (train, ~train))
        # Products of features with themselves, and of embeddings with contexts.
        products = [(split(part).mT @ split(part)).double() for split, part in zip(splits, own)]
        between = by_head((own[0].T @ own[2]).double())
        held = [split(part) for split, part in zip(splits, held)]
        for task, labels in tasks.items():
            classes, label = np.unique(labels[train], return_inverse=True)
            # Places among the classes that are trained on, where there is one.
            truth = torch.from_numpy((labels[~train][:, None] == classes) @ np.arange(1, len(classes) + 1) - 1)
            members = one_hot(torch.from_numpy(label)).float()
            counts = members.sum(0).double()
            means = [split((members.T @ part).double() / counts[:, None]) for split, part in zip(splits, own)]
            roots = [part * counts.sqrt()[:, None] for part in means]
            within = [product - root.mT @ root for product, root in zip(products, roots)]

            def score(name, scores):
                right[name] += (scores.argmax(-1) == truth).sum(-1).double()

            on = lambda part, size: Discriminant(within[part], means[part], counts, [size]).scores(held[part])
            if task.endswith("control"):
                score(task, on(2, size))
                continue
            score(f"{task} embedding", on(0, embedding))
            score(f"{task} input", on(1, embedding))
            score(f"{task} accuracy", on(2, size))
            crossed = between - roots[0].mT @ roots[2]
            above = torch.cat([within[0].expand(count, -1, -1), crossed], -1)
            scatter = torch.cat([above, torch.cat([crossed.mT, within[2]], -1)], -2)
            together = Discriminant(scatter, torch.cat([means[0].expand(count, -1, -1), means[2]], -1), counts, [embedding, size])
            of_word, of_context = together.weights.split([embedding, size], -2)
            scores = torch.baddbmm(together.bias[:, None], held[2], of_context)
            # One product for all heads, since they have the embeddings in common.
            scores += (held[0] @ of_word.transpose(0, 1).flatten(1)).unflatten(-1, (count, -1)).transpose(0, 1)
            score(f"{task} together", scores)
    return {**found, **{name: (hits / len(words.forms)).reshape(-1).tolist() for name, hits in right.items()}}


def of_probes(report):
    found = {}
    for task in report["probes"]:
        name, of_heads = task["task"], lambda probe: [head[probe] for head in task["heads"]]
        found[f"{name} simple"] = [task[rule]["accuracy"] for rule in ("majority", "form")]
        found[f"{name} embedding"] = [task["embedding"]["accuracy"]]
        found[f"{name} input"] = [layer["input"]["accuracy"] for layer in task["layers"]]
        found.update({f"{name} {probe}": of_heads(probe) for probe in ("accuracy", "together", "control")})
    return found
