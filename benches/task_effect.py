#!/usr/bin/env python3
"""What every head of a classifier is worth for a task, against what a user would write in torch.

    python benches/task_effect.py HEADSCOPE TOKENIZER_DIR [--items 500] [--words 7] [--threads 2] [--runs 3]
        [--layers 12]

The model is a BertForSequenceClassification of BERT-base's size with random weights and three labels; the items are the first
words of the sentences of the box's corpus. The peer runs batches of texts of like length, replaces the context of a head by a hook with the means of its kind of
position, and runs the model from the layer of that head on. Both sides run in turn with the same number of threads; seconds are by the
clock, without loading. The run fails where an effect differs by more than 1e-3 of the largest. Needs torch and transformers.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification

sys.path.append(str(Path(__file__).parent / "on_request"))
from removal import Heads, effect  # noqa: E402
from sample import CORPUS, FIRST, OTHER, TEXT, TREES, Sequence, batches, tokenizer_of  # noqa: E402

TOLERANCE = 1e-3
LABELS = 3
# What else would run.
OTHERS = "attention,trees,dependency,links,words,classes,frequency,explained-variance,coreference"


class Classifier(Heads):
    def loss(self, batch):
        """The summed loss of the labels."""
        logits = self.model.classifier(self.model.bert.pooler(self.run(batch)))
        return torch.nn.functional.cross_entropy(logits, batch.truths, reduction="sum")


def classifier(tokenizer, layers, folder):
    """The model's folder."""
    torch.manual_seed(0)
    vocabulary = tokenizer_of(tokenizer).get_vocab_size()
    config = BertConfig(vocab_size=vocabulary, num_hidden_layers=layers, num_labels=LABELS)
    BertForSequenceClassification(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(tokenizer, name), folder)
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("tokenizer", help="a folder with a tokenizer.json")
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--words", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--layers", type=int, default=12)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        model = classifier(given.tokenizer, given.layers, folder / "model")
        texts = [" ".join(columns[1] for columns in tree[: given.words]) for tree in TREES][: given.items]
        items = [{"text": text, "label": number % LABELS} for number, text in enumerate(texts)]
        task = folder / "items.jsonl"
        task.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        encode = tokenizer_of(model).encode
        sequences = []
        for number, item in enumerate(items):
            ids = encode(item["text"]).ids
            classes = [FIRST] + [TEXT] * (len(ids) - 2) + [OTHER]
            sequences.append(Sequence(number, None, ids, classes, {0: item["label"]}))
        sequences.sort(key=lambda sequence: len(sequence.ids))
        heads = Classifier(BertForSequenceClassification.from_pretrained(model, attn_implementation="eager").eval())
        command = [given.headscope, "analyze", model, "-c", CORPUS, "--limit", 1, "--task", task, "--sample", given.items]
        command += ["--without", OTHERS, "--threads", given.threads, "-q", "-o", folder / "report.json"]
        seconds = []
        for _ in range(given.runs):
            start = time.perf_counter()
            theirs = effect(heads, list(batches(sequences)))["loss_effect"]
            peer = time.perf_counter() - start
            subprocess.run([str(part) for part in command], check=True)
            report = json.loads((folder / "report.json").read_text())
            seconds.append((peer, report["run"]["analysis_seconds"]))
        own = [head["effect"] for head in report["task"]["heads"]]
        assert report["task"]["items"] == len(items), report["task"]["items"]
        apart = max(abs(a - b) for a, b in zip(theirs, own, strict=True)) / max(map(abs, theirs))
    shown = lambda values: f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"
    print(f"{len(items)} items, {sum(len(one.ids) for one in sequences)} tokens, {len(own)} heads, {given.threads} threads, {given.runs} runs in turn")
    print(f"peer {shown([peer for peer, _ in seconds])} s, headscope {shown([own for _, own in seconds])} s, "
          f"ratio {shown([peer / own for peer, own in seconds])}; effects apart by {apart:.1e} of the largest")
    if apart > TOLERANCE:
        sys.exit("the effects differ")


if __name__ == "__main__":
    main()
