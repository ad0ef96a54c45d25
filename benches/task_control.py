#!/usr/bin/env python3
"""How often heads are found where none can matter: tasks whose answers are exchanged at random, and models that learnt nothing.

    python benches/task_control.py HEADSCOPE [--trials 20] [--untrained 10]

Exchanged: answer and foil, good and bad text, or positive and negative text change places in a random half of the units, so that no head
can matter for the score. Printed is the share of heads with q at most 5 % in each trial, though no head has a verdict where a model is
not above its baseline.
Untrained: cloze items of mixed answers go through weights drawn anew. Printed is how many of these models have a head with a verdict.
The run fails where more than 5 % of all heads have such a q, in either direction. Needs numpy and safetensors from PyPI.
"""

import argparse
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
]
OTHERS = "attention,trees,dependency,links,words,classes,frequency,explained-variance,coreference,repeats,in-context,norms"


def items(task):
    return [json.loads(line) for line in open(ROOT / f"fixtures/tasks/{task}.jsonl", encoding="utf-8")]


def exchanged(task, sides, trial):
    """The items with the sides of a random half of the units exchanged."""
    given, rng = items(task), random.Random(f"{task} {trial}")
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
    given = parser.parse_args()
    firm, heads = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for model, task, sides in TASKS:
            shares = []
            for trial in range(given.trials):
                tested = [head["q"] for head in found(given.headscope, model, exchanged(task, sides, trial), folder)["heads"]]
                firm, heads = firm + sum(q is not None and q <= MOST for q in tested), heads + len(tested)
                shares.append(sum(q is not None and q <= MOST for q in tested) / len(tested))
            over = sum(share > MOST for share in shares)
            print(f"{Path(model).name} {task}: mean share {np.mean(shares):.3f}, largest {max(shares):.3f}, above {MOST} in {over} of {len(shares)} trials")
        judged = [found(given.headscope, untrained(folder, seed), items("copies"), folder) for seed in range(given.untrained)]
    with_verdict = sum(any(head["verdict"] for head in task["heads"]) for task in judged)
    print(f"untrained: {with_verdict} of {len(judged)} models have a head with a verdict; right {[round(task['right']['share'], 3) for task in judged]}")
    if firm > MOST * heads:
        sys.exit(f"{firm} of {heads} heads")


if __name__ == "__main__":
    main()
