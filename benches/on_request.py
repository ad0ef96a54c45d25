"""Studies that run on request against what a user would write in torch for the same numbers.

    python benches/on_request.py HEADSCOPE MINILM_DIR [--study effect] [--runs 3]

One thread on both sides, float32, a sample of the box's corpus, in turn. The peer runs batches of sentences of like length, replaces
the context of a head by a hook at the input of the output projection, and takes logits at masked positions alone.

    effect        box:small, masks of phase 0: per head the mean loss without it less that with it; all heads removed as well
    gradient      box:small, the same masks: per head the derivative of the loss by its gate where it is open, of all sentences
                  together (first_order_effect) and the mean of its size over sentences (gradient_importance)
    output-shift  all-MiniLM-L6-v2: per head the mean of 1 - cos of the last hidden states, over tokens of text and of their mean
                  over sentences (pooled_shift); all heads removed as well

The peer makes these numbers only; headscope makes intervals, verdicts and its report beside them, and, of effect, the same by
class and relation.
Of headscope's time that of a run with the study `attention` alone over the same corpus is taken off, so that loading,
reading and writing are in neither side; of the peer only the study is timed, from token ids on.
Both sides must agree in every head within 1e-3 of the largest number, or the run fails.
Not covered: norms, choice, knockout, pruning, edges, similarity, cluster-effect, cluster-shift, probes, parser, examples;
nor `integrated_gradient`, which is left off, as it is unless --gradient-steps asks for it.
"""

import argparse
import hashlib
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModel, BertForMaskedLM

from end_to_end import sentences

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "fixtures/corpus/gold.conllu"
SMALL = ROOT / "fixtures/models/small"
FIRST, OTHER, MASK, TEXT, PADDING = range(5)
BATCH = 16
TOLERANCE = 1e-3


def encoded(folder, sample, masks):
    """(ids, classes, truths) of the sampled sentences, `truths` by position; the shorter ones first."""
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    mask, unknown = tokenizer.token_to_id("[MASK]"), tokenizer.token_to_id("[UNK]")
    found = sentences(CORPUS)
    key = lambda s: hashlib.sha256(f"headscope/sample/{s}".encode()).digest()
    sequences = []
    for s in sorted(range(len(found)), key=key)[:sample]:
        one = tokenizer.encode(found[s], is_pretokenized=True)
        ids, truths = list(one.ids), {}
        classes = [FIRST] + [TEXT] * (len(ids) - 2) + [OTHER]
        for at, word in enumerate(one.word_ids):
            if masks and word is not None and (word + s) % 7 == 0:
                if ids[at] != unknown:
                    truths[at] = ids[at]
                ids[at], classes[at] = mask, MASK
        if truths or not masks:
            sequences.append((ids, classes, truths))
    return sorted(sequences, key=lambda sequence: len(sequence[0]))


def batches(sequences):
    """(ids [b, n], classes [b, n], rows and columns of the scored positions, truths) of sentences of like length."""
    for start in range(0, len(sequences), BATCH):
        own = sequences[start : start + BATCH]
        pad = lambda rows, value: torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, value)
        scored = [(row, at, truth) for row, (_, _, truths) in enumerate(own) for at, truth in truths.items()]
        rows, columns, truths = torch.tensor(scored).T if scored else (None, None, None)
        yield pad([one[0] for one in own], 0), pad([one[1] for one in own], PADDING), rows, columns, truths


class Heads:
    """A model whose contexts can be replaced, head by head, and gated."""

    def __init__(self, model):
        self.model, config = model, model.config
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.size = config.hidden_size // self.heads
        # [classes, hidden] a layer; gates are [sentences, layers, heads]
        self.sums = [torch.zeros(PADDING + 1, config.hidden_size) for _ in range(self.layers)]
        self.collect, self.gone, self.gates = False, set(), None
        for layer, block in enumerate(model.base_model.encoder.layer):
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
        """The last hidden states of a batch."""
        self.classes = batch[1]
        return self.model.base_model(input_ids=batch[0], attention_mask=(batch[1] != PADDING).long()).last_hidden_state

    def loss(self, batch):
        """The summed loss of the masked tokens."""
        _, _, rows, columns, truths = batch
        logits = self.model.cls(self.run(batch)[rows, columns])
        return torch.nn.functional.cross_entropy(logits, truths, reduction="sum")

    def pass_with_means(self, data, of):
        """`of` each batch with all heads; the means of contexts are known then."""
        for sums in self.sums:
            sums.zero_()
        self.collect = True
        found = [of(batch) for batch in data]
        self.collect = False
        counts = sum(torch.bincount(batch[1].flatten(), minlength=PADDING + 1) for batch in data)
        self.means = [sums / counts.clamp_min(1)[:, None] for sums in self.sums]
        return found

    def places(self):
        return [(layer, head) for layer in range(self.layers) for head in range(self.heads)]


@torch.inference_mode()
def effect(heads, data):
    whole = sum(heads.pass_with_means(data, lambda batch: heads.loss(batch).item()))
    tokens = sum(len(batch[4]) for batch in data)
    found = []
    for gone in [*({place} for place in heads.places()), set(heads.places())]:
        heads.gone = gone
        found.append((sum(heads.loss(batch).item() for batch in data) - whole) / tokens)
    heads.gone = set()
    return {"loss_effect": found[:-1]}


def gradient(heads, data):
    with torch.no_grad():
        heads.pass_with_means(data, heads.run)
    found, tokens = [], []
    for batch in data:
        heads.gates = torch.ones(len(batch[0]), heads.layers, heads.heads, requires_grad=True)
        found.append(torch.autograd.grad(heads.loss(batch), heads.gates)[0].flatten(1))
        tokens.append(torch.bincount(batch[2], minlength=len(batch[0])))
    heads.gates = None
    found, tokens = torch.cat(found), torch.cat(tokens)[:, None]
    return {
        "first_order_effect": (-found.sum(0) / tokens.sum()).tolist(),
        "gradient_importance": (found.abs() / tokens).mean(0).tolist(),
    }


def pooled(batch, states):
    there = (batch[1] != PADDING)[..., None].float()
    return (states * there).sum(1) / there.sum(1)


@torch.inference_mode()
def output_shift(heads, data):
    whole = heads.pass_with_means(data, heads.run)
    tokens, count = sum((batch[1] == TEXT).sum().item() for batch in data), sum(len(batch[0]) for batch in data)
    turned = lambda a, b: 1 - torch.nn.functional.cosine_similarity(a, b, dim=-1)
    found = []
    for gone in [*({place} for place in heads.places()), set(heads.places())]:
        heads.gone = gone
        of_tokens = of_sentences = 0.0
        for batch, states in zip(data, whole):
            moved = heads.run(batch)
            of_tokens += turned(states, moved)[batch[1] == TEXT].sum().item()
            of_sentences += turned(pooled(batch, states), pooled(batch, moved)).sum().item()
        found.append((of_tokens / tokens, of_sentences / count))
    heads.gone = set()
    return dict(zip(("output_shift", "pooled_shift"), zip(*found[:-1])))


# What the peer does for each study, the model in the binary or else all-MiniLM-L6-v2, and how many sentences are drawn.
STUDIES = {
    "effect": (effect, "box:small", 300),
    "gradient": (gradient, "box:small", 300),
    "output-shift": (output_shift, None, 40),
}


def analyze(binary, model, sample, study):
    """The report of a run with a study, or with `attention` alone, and its seconds, of the clock and of the processor."""
    others = "trees,dependency,words,frequency,explained-variance,coreference,choice,repeats"
    if model != "box:small":
        others = others.replace(",repeats", "")
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        command = [binary, "analyze", model, "-c", CORPUS, "--threads", "1", "-q", "-o", report]
        command += ["--without", others] + (["--with", study, "--sample", sample] if study else [])
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([str(part) for part in command], check=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(Path(report).read_text()), seconds, processor


def compare(study, binary, minilm, runs):
    """One study: both sides in turn, and whether their numbers are the same."""
    peer, name, sample = STUDIES[study]
    folder = SMALL if name else minilm
    kind = BertForMaskedLM if name else AutoModel
    model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    heads = Heads(model.requires_grad_(False))
    data = list(batches(encoded(folder, sample, bool(name))))
    clock, processor = [], []
    for _ in range(runs):
        start = time.perf_counter(), time.process_time()
        theirs = peer(heads, data)
        own = time.perf_counter() - start[0], time.process_time() - start[1]
        report, *with_study = analyze(binary, name or minilm, sample, study)
        _, *without = analyze(binary, name or minilm, sample, None)
        clock.append((own[0], with_study[0] - without[0]))
        processor.append((own[1], with_study[1] - without[1]))
    apart = 0.0
    for metric, values in theirs.items():
        ours = [head["metrics"][metric] for head in report["heads"]]
        apart = max(apart, max(abs(a - b) for a, b in zip(ours, values, strict=True)) / max(map(abs, ours)))
    assert apart < TOLERANCE, f"{study}: {', '.join(theirs)} differ by {apart:.1e} of the largest"
    shown = lambda values: f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    print(f"{study}: {len(ours)} heads, sample of {sample}, {runs} runs in turn, numbers within {apart:.0e} of the largest")
    for what, pairs in (("seconds", clock), ("processor", processor)):
        peers, owns = zip(*pairs)
        print(f"  {what}: peer {shown(peers)}, headscope {shown(owns)}, ratio {shown([a / b for a, b in pairs])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("model", help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--study", choices=STUDIES)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for study in [given.study] if given.study else STUDIES:
        compare(study, given.headscope, given.model, given.runs)


if __name__ == "__main__":
    main()
