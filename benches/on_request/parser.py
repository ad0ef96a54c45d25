"""The peer of the study `parser`: the loss that the program minimises, by SciPy's Newton's method in a trust region.

There are 145 parameters for 72 heads, so that the matrix of second derivatives costs little. The program also fits a parser on
embeddings, which the peer does not."""

import numpy as np
import scipy.optimize
import torch
from torch.nn.functional import one_hot
from transformers import AutoConfig, AutoModel

from corpus import annotated
from reading import Reader
from removal import Heads

PENALTY, TOLERANCE = 1e-4, 1e-6
REACH = 10
# Indicators of the place of a node: its offset, whether it is farther on either side, and whether it is the root.
PLACES = 2 * REACH + 3


def with_untrained(folder, study, report):
    """The annotated corpus, and a model of the same shape that was not trained; its weights are torch's, not the program's."""
    torch.manual_seed(0)
    model = AutoModel.from_config(AutoConfig.from_pretrained(folder), attn_implementation="eager").float()
    return *annotated(folder, study, report), Heads(model.eval().requires_grad_(False))


class Pairs:
    """All words of a corpus, each with the nodes that could be its head: the root, which comes first, and all other words.

    Pairs of a word and a node have `features`, `[pairs, 2 * heads + PLACES]`: the attention from the word and to it, and indicators
    of the place. They are where `there`, `[words, nodes]`, is true, and `gold`, `[words, 1]`, is the node of the head."""

    def __init__(self, heads, data, corpus):
        reader, attention = Reader(heads), [None] * len(corpus)
        for batch in data:
            attentions = torch.cat(reader.run(batch)[0].attentions, 1)
            # The first special token is the root, and the last belongs to no node.
            node = torch.full(batch.ids.shape, -1)
            node[:, 0] = 0
            node[batch.text] = torch.tensor([1 + word for s in batch.at for word in corpus[s].word_of if word is not None])
            nodes = torch.arange(1 + max(len(corpus[s].words) for s in batch.at))
            member = (node[:, None] == nodes[:, None]).float()[:, None]
            # Summed over the tokens of a node that is looked at, and the mean of those of a node that looks.
            folded = (member / member.sum(-1, keepdim=True).clamp_min(1)) @ attentions @ member.mT
            for s, own in zip(batch.at, folded):
                n = len(corpus[s].words)
                both = torch.cat([own, own.mT])[:, 1 : n + 1, : n + 1].permute(1, 2, 0)
                attention[s] = both[torch.arange(n + 1) != torch.arange(1, n + 1)[:, None]]
        lengths = torch.tensor([len(sentence.words) for sentence in corpus])
        sizes = lengths.repeat_interleave(lengths)
        own = torch.cat([torch.arange(1, n + 1) for n in lengths.tolist()])
        head = torch.tensor([int(word[6]) for sentence in corpus for word in sentence.words])
        rank = torch.arange(sizes.max())
        self.there = rank < sizes[:, None]
        self.gold = (head - (head > own).long())[:, None]
        offset = rank + (rank >= own[:, None]) - own[:, None]
        place = torch.where(offset.abs() > REACH, 2 * REACH + (offset > 0), offset + REACH - (offset > 0).long())
        place[:, 0] = PLACES - 1
        self.features = torch.cat([torch.cat(attention), one_hot(place[self.there], PLACES)], 1)
        self.fold = torch.tensor([sentence.block % 2 for sentence in corpus]).repeat_interleave(lengths)
        self.evidence = self.features.shape[1] - PLACES

    def halves(self, fold):
        """The features of the words of a fold, where they are and the gold heads, and the same of the other words; attention is
        divided by its standard deviation within the nodes of a word, over the fold."""
        of = lambda at: (self.features[at[:, None].expand_as(self.there)[self.there]], self.there[at], self.gold[at])
        own, other = of(self.fold == fold), of(self.fold != fold)
        attention, there = own[0][:, : self.evidence], own[1]
        word = there.nonzero()[:, 0]
        means = torch.zeros(len(there), self.evidence).index_add_(0, word, attention) / there.sum(1, keepdim=True)
        deviation = (attention - means[word]).square().mean(0).sqrt()
        for features in (own[0], other[0]):
            features[:, : self.evidence] /= deviation
        return own, other


def fit(features, there, gold):
    """The weights of features with which the gold heads are likeliest."""
    word, words, size = there.nonzero()[:, 0], len(there), features.shape[1]

    def log_shares(theta):
        scores = torch.full(there.shape, -torch.inf, dtype=torch.float64)
        scores[there] = (features @ torch.from_numpy(theta).float()).double()
        return scores.log_softmax(1)

    def loss(theta):
        found = log_shares(theta)
        left = found.exp().scatter_add_(1, gold, torch.full(gold.shape, -1.0, dtype=torch.float64))[there]
        slope = (left.float() @ features).double().numpy() / words + 2 * PENALTY * theta
        return -found.gather(1, gold).mean().item() + PENALTY * theta @ theta, slope

    def curvature(theta):
        weighted = features * log_shares(theta).exp()[there].float()[:, None]
        means = torch.zeros(words, size).index_add_(0, word, weighted)
        return (features.T @ weighted - means.T @ means).double().numpy() / words + 2 * PENALTY * np.eye(size)

    options = {"gtol": TOLERANCE}
    found = scipy.optimize.minimize(loss, np.zeros(size), jac=True, hess=curvature, method="trust-exact", options=options)
    return torch.from_numpy(found.x).float()


class Fitted:
    """Parsers by some columns of the features, each fitted on one fold and used on the other: the predicted head of each word,
    whether the root is likelier than any word, and the mean weights."""

    def __init__(self, pairs, evidence):
        self.best = {name: torch.zeros(len(pairs.fold), dtype=torch.long) for name in evidence}
        self.is_root = {name: torch.zeros(len(pairs.fold), dtype=torch.bool) for name in evidence}
        self.weights = dict.fromkeys(evidence, 0.0)
        for fold in (0, 1):
            (features, there, gold), (held, where, _) = pairs.halves(fold)
            for name, columns in evidence.items():
                theta = fit(features[:, columns], there, gold)
                scores = torch.full(where.shape, -torch.inf)
                scores[where] = held[:, columns] @ theta
                best = scores[:, 1:].max(1)
                self.best[name][pairs.fold != fold] = best.indices + 1
                self.is_root[name][pairs.fold != fold] = scores[:, 0] > best.values
                self.weights[name] += theta / 2


@torch.inference_mode()
def parser(heads, data, corpus, untrained):
    """The accuracies of parsers on attention, on distances and on both, of attention on roots and without each layer, and the
    weights of heads. The parser on the attention of an untrained model is made as well, of other weights than the program's, and is
    not compared.

    Not accuracies by relation, what is not fitted, nor intervals."""
    pairs = Pairs(heads, data, corpus)
    count = heads.layers * heads.heads
    own = torch.arange(count)
    root, places = torch.tensor([2 * count + PLACES - 1]), torch.arange(2 * count, 2 * count + PLACES)
    columns = lambda heads, others: torch.cat([heads, heads + count, others])
    whole = {"attention": columns(own, root)}
    layers = {layer: columns(own[own // heads.heads != layer], root) for layer in range(heads.layers)}
    fitted = Fitted(pairs, {**whole, "distances": places, "both": columns(own, places), **layers})
    Fitted(Pairs(untrained, data, corpus), whole)
    is_mark = torch.tensor([word[7].split(":")[0] == "punct" for sentence in corpus for word in sentence.words])
    is_alone = torch.tensor([len(sentence.words) == 1 for sentence in corpus for _ in sentence.words])
    gold = pairs.gold[:, 0]
    share = lambda hits, of: hits[of].double().mean().item()
    accuracy = lambda name: share(fitted.best[name] == gold, (gold > 0) & ~is_mark)
    return {
        "accuracies": [accuracy(name) for name in ("attention", "distances", "both")],
        "without": [accuracy(layer) for layer in layers],
        "roots": [share(fitted.is_root["attention"], (gold == 0) & ~is_alone)],
        "weights": fitted.weights["attention"][:-1].tolist(),
    }


def of_parser(report):
    section = report["parser"]
    weights = lambda direction: [head["weight"][direction] for head in section["heads"]]
    accuracy = {one["parser"]: one["accuracy"] for one in section["accuracies"]}
    return {
        "accuracies": [accuracy[name] for name in ("attention", "distances", "attention and distances")],
        "without": [layer["without"] for layer in section["layers"]],
        "roots": [section["root_accuracy"]["accuracy"]],
        "weights": weights("dep->head") + weights("head->dep"),
    }
