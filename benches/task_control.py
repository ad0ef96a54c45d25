#!/usr/bin/env python3
"""How often heads are found where none can matter: tasks whose answers are exchanged at random, and models that learnt nothing.

    python benches/task_control.py HEADSCOPE [--trials 20] [--untrained 10] [--only cloze,tags]

Exchanged: answer and foil, good and bad text, or positive and negative text change places in a random half of the units, so that no head
can matter for the score. Classes have no foil of their own: SHA-256 draws one of the other classes for each label in each trial.
Printed is the share of heads with q at most 5 % in each trial, though no head has a verdict where a model is not above its baseline.
The classifier and the tagger are box:small with a head that is fitted here, on the sentences whose family has an even number: the
class is the root's part of speech, tags are parts of speech; items are of the other sentences.
Untrained: cloze items of mixed answers go through weights drawn anew. Printed is how many of these models have a head with a verdict.
The run fails where more than 5 % of all heads have such a q, in either direction. Needs numpy and safetensors from PyPI, for classes torch
and transformers as well.
"""

import argparse
import hashlib
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).parent.parent
MOST = 0.05
# Model, task, and the two sides that change places.
TASKS = [
    ("box:small", "cloze", ("answer", "foil")),
    ("box:causal", "copies", ("answer", "foil")),
    ("box:causal", "pairs", ("good", "bad")),
    (str(ROOT / "fixtures/models/tiny-bert"), "triples", ("positive", "negative")),
    ("a classifier", "roots", ("label", "foil")),
    ("a tagger", "tags", ("labels", "foils")),
]
OTHERS = "attention,trees,dependency,links,words,classes,frequency,explained-variance,coreference,repeats,in-context,norms"


# The classes of roots; sentences with other ones are no items.
ROOTS = ["ADJ", "NOUN", "VERB"]
# The weight of the squares of the fitted head.
RIDGE = 1e-3


def items(task):
    return [json.loads(line) for line in open(ROOT / f"fixtures/tasks/{task}.jsonl", encoding="utf-8")]


def sentences():
    """The family, the words, their parts of speech and that of the root of each sentence."""
    for block in (ROOT / "fixtures/corpus/gold.conllu").read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.splitlines()
        family = next(line.removeprefix("# family = ") for line in lines if line.startswith("# family = "))
        rows = [line.split("\t") for line in lines if line[0] != "#"]
        yield family, [row[1] for row in rows], [row[3] for row in rows], next(row[3] for row in rows if row[6] == "0")


def of_classes(folder):
    """A classifier and a tagger in this folder, each with its items."""
    import torch
    from safetensors.torch import load_file as tensors_of, save_file as save_tensors
    from tokenizers import Tokenizer
    from transformers import AutoModel

    box = ROOT / "fixtures/models/small"
    tokenizer, model = Tokenizer.from_file(str(box / "tokenizer.json")), AutoModel.from_pretrained(box, add_pooling_layer=False).float().eval()
    tokenizer.no_padding()
    width = model.config.hidden_size
    found = list(sentences())
    numbers = {family: number for number, family in enumerate(dict.fromkeys(family for family, *_ in found))}
    items, rows, labels = {"roots": [], "tags": []}, {"roots": [], "tags": []}, {"roots": [], "tags": []}
    for family, words, tags, root in found:
        if numbers[family] % 2:
            items["tags"].append({"words": words, "labels": tags, "family": family})
            if root in ROOTS:
                items["roots"].append({"words": words, "label": root, "family": family})
            continue
        encoding = tokenizer.encode(words, is_pretokenized=True)
        with torch.no_grad():
            states = model(torch.tensor([encoding.ids])).last_hidden_state[0]
        rows["tags"] += [states[encoding.word_ids.index(word)] for word in range(len(words))]
        labels["tags"] += tags
        if root in ROOTS:
            rows["roots"].append(states[0].tanh())
            labels["roots"].append(root)
    made = {}
    for task, given in items.items():
        names = sorted(set(labels[task]))
        # A class that was never fitted is not scored.
        if task == "tags":
            given = [item | {"labels": [label if label in names else None for label in item["labels"]]} for item in given]
        x, y = torch.stack(rows[task]), torch.tensor([names.index(label) for label in labels[task]])
        head = torch.nn.Linear(width, len(names))
        optimiser = torch.optim.LBFGS(head.parameters(), max_iter=200, line_search_fn="strong_wolfe")

        def loss():
            optimiser.zero_grad()
            value = torch.nn.functional.cross_entropy(head(x), y) + RIDGE * sum((part ** 2).sum() for part in head.parameters())
            value.backward()
            return value

        optimiser.step(loss)
        to = folder / task
        shutil.copytree(box, to)
        kind = "Sequence" if task == "roots" else "Token"
        config = json.loads((box / "config.json").read_text()) | {
            "architectures": [f"BertFor{kind}Classification"], "id2label": dict(enumerate(names)),
            "label2id": {name: number for number, name in enumerate(names)}, "dtype": "float32"}
        (to / "config.json").write_text(json.dumps(config))
        tensors = {name: tensor.float() for name, tensor in tensors_of(box / "model.safetensors").items() if name.startswith("bert.")}
        if task == "roots":
            tensors |= {"bert.pooler.dense.weight": torch.eye(width), "bert.pooler.dense.bias": torch.zeros(width)}
        tensors |= {"classifier.weight": head.weight.detach().contiguous(), "classifier.bias": head.bias.detach()}
        save_tensors(tensors, to / "model.safetensors", {"format": "pt"})
        made[task] = (str(to), given, names)
    return made


def foil(label, names, key):
    """One of the other classes, drawn by SHA-256."""
    others = [name for name in names if name != label]
    return others[int.from_bytes(hashlib.sha256(f"headscope/task-control/{key}".encode()).digest()[:8], "big") % len(others)]


def with_foils(given, names, trial):
    """Items of classes, each label beside another class."""
    for number, item in enumerate(given):
        if "labels" in item:
            foils = [label and foil(label, names, f"{trial}/{number}/{word}") for word, label in enumerate(item["labels"])]
            yield item | {"foils": foils}
        else:
            yield item | {"foil": foil(item["label"], names, f"{trial}/{number}")}


def exchanged(given, task, sides, trial):
    """The items with the sides of a random half of the units exchanged."""
    rng = random.Random(f"{task} {trial}")
    units = list(dict.fromkeys(item.get("family", number) for number, item in enumerate(given)))
    chosen = set(rng.sample(units, len(units) // 2))
    first, second = sides
    for number, item in enumerate(given):
        if item.get("family", number) in chosen:
            item[first], item[second] = item[second], item[first]
    return given


def found(headscope, model, given, folder):
    """The section `task` of a report on these items."""
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in given), encoding="utf-8")
    command = [headscope, "analyze", model, "-c", str(ROOT / "fixtures/corpus/gold.conllu"), "--limit", "1", "--task", str(path),
               "--without", OTHERS, "--threads", "1", "-q", "-o", "-"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)["task"]


def untrained(folder, seed):
    """The box's decoder with weights as they are before training."""
    model = folder / f"untrained-{seed}"
    shutil.copytree(ROOT / "fixtures/models/causal", model)
    rng, path = np.random.default_rng(seed), model / "model.safetensors"
    drawn = {name: (rng.normal(0, 0.02, tensor.shape) if tensor.ndim > 1 else np.full(tensor.shape, float("norm.weight" in name)))
             for name, tensor in load_file(path).items()}
    save_file({name: np.ascontiguousarray(tensor, np.float32) for name, tensor in drawn.items()}, path, {"format": "pt"})
    return str(model)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--untrained", type=int, default=10)
    parser.add_argument("--only", help="some of the tasks, with commas between them")
    given = parser.parse_args()
    known = [task for _, task, _ in TASKS]
    asked = known if given.only is None else given.only.split(",")
    if unknown := set(asked) - set(known):
        parser.error(f"--only: {', '.join(sorted(unknown))}: the tasks are {', '.join(known)}")
    firm, heads = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        classes = of_classes(folder) if {"roots", "tags"} & set(asked) else {}
        for model, task, sides in TASKS:
            if task not in asked:
                continue
            path, own, names = classes.get(task, (model, None, None))
            if names is not None:
                alone = found(given.headscope, path, own, folder)
                print(f"{model}: {len(names)} classes, {alone['items']} items, right {alone['right']['share']:.3f}, baseline "
                      f"{alone['baseline']:.3f}, {alone['verdicts']['helpful']} heads helpful", flush=True)
            shares = []
            for trial in range(given.trials):
                of_trial = items(task) if own is None else list(with_foils(own, names, trial))
                found_heads = found(given.headscope, path, exchanged(of_trial, task, sides, trial), folder)["heads"]
                tested = [head["q"] for head in found_heads]
                firm, heads = firm + sum(q is not None and q <= MOST for q in tested), heads + len(tested)
                shares.append(sum(q is not None and q <= MOST for q in tested) / len(tested))
            over = sum(share > MOST for share in shares)
            print(f"{Path(model).name} {task}: mean share {np.mean(shares):.3f}, largest {max(shares):.3f}, above {MOST} in {over} of {len(shares)} trials",
                  flush=True)
        judged = [found(given.headscope, untrained(folder, seed), items("copies"), folder) for seed in range(given.untrained)]
    with_verdict = sum(any(head["verdict"] for head in task["heads"]) for task in judged)
    print(f"untrained: {with_verdict} of {len(judged)} models have a head with a verdict; right {[round(task['right']['share'], 3) for task in judged]}")
    if firm > MOST * heads:
        sys.exit(f"{firm} of {heads} heads")


if __name__ == "__main__":
    main()
