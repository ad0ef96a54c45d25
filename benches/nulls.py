#!/usr/bin/env python3
"""What the program finds where nothing is to be found: a table of nulls, as docs/methodology/controls.md has it.

    python benches/nulls.py HEADSCOPE MODEL_DIR CORPUS.conllu [--seeds 10] [--slow-seeds 3] [--sample 300] [--limit N]
        [--threads 2]

Nulls that are controls of the program (`--control`) give labels only. The others are models and corpora that are written here:

    random-init    all weights of the layers and of the embeddings are fresh
    random-heads   the trained embeddings stay, and the weights of all layers are fresh
    rotated        each head's part of the output projection is turned by a random rotation
    relabelled     the trained model, with the names of relations exchanged within each sentence

For each null: firm labels but `broad`, heads with one, firm syntactic labels that reach their relation, firm `chooses:` labels, the lead of the parser over
distances and embeddings in points, and edges above the untrained model's; mean and range over seeds, the last two over
--slow-seeds. The model is a BERT. Needs numpy and safetensors.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import numpy as np
from safetensors.numpy import load_file, save_file

# As BERT initialises its weights.
DEVIATION = 0.02
CONTROLS = ["random-init", "random-sharp", "rotated", "shuffled-words"]


def fresh(name, tensor, rng):
    """A tensor as it is before training."""
    if "LayerNorm" in name:
        return np.full_like(tensor, 0.0 if name.endswith("bias") else 1.0)
    if name.endswith("bias"):
        return np.zeros_like(tensor)
    return rng.normal(0, DEVIATION, tensor.shape).astype(tensor.dtype)


def turned(name, tensor, rng, width):
    """An output projection with the columns of each head turned by a rotation of Haar's measure."""
    if not name.endswith("attention.output.dense.weight"):
        return tensor
    parts = []
    for start in range(0, tensor.shape[1], width):
        q, r = np.linalg.qr(rng.normal(size=(width, width)))
        parts.append(tensor[:, start:start + width] @ (q * np.sign(np.diag(r))))
    return np.concatenate(parts, axis=1).astype(tensor.dtype)


def relabelled(text, seed):
    """The corpus with the names of relations exchanged within each sentence."""
    rng, blocks = random.Random(seed), []
    for block in text.strip().split("\n\n"):
        rows = [line.split("\t") for line in block.splitlines()]
        words = [row for row in rows if len(row) == 10 and row[0].isdigit()]
        names = [row[7] for row in words]
        rng.shuffle(names)
        for row, name in zip(words, names):
            row[7] = name
        blocks.append("\n".join("\t".join(row) for row in rows))
    return "\n\n".join(blocks) + "\n\n"


def written_model(folder, model, change):
    """A folder with the model whose tensors are changed."""
    shutil.copytree(model, folder)
    weights = {name: change(name, tensor) for name, tensor in load_file(model / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def firm(labels):
    """The firm ones of the labels of a head."""
    return [label for label in labels if not label["borderline"]]


def found(report):
    """What a report says, by column."""
    heads = [[label for label in firm(head["labels"]) if label["label"] != "broad"] for head in report["heads"]]
    labels = [label for head in heads for label in head]
    row = {
        "firm labels": len(labels),
        "heads": sum(map(bool, heads)),
        "firm, beyond relation": sum(label["beyond"] in ("relation", "tags") for label in labels),
        "chooses": sum(bool(head["chooses"]) and not head["chooses"]["borderline"] for head in report["heads"]),
    }
    if report.get("parser"):
        ahead = {one["parser"]: one["ahead"]["difference"] for one in report["parser"]["accuracies"]}
        row["parser"] = 100 * ahead["distances and embeddings"]
    if report.get("edges"):
        row["edges"] = report["edges"]["above"]
    return row


def shown(values):
    """Mean and range."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    return f"{np.mean(values):.1f} [{min(values):.3g}, {max(values):.3g}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--slow-seeds", type=int, default=3)
    parser.add_argument("--sample", default="300")
    parser.add_argument("--limit", help="about so many sentences, whole documents; all of them if it is left out")
    parser.add_argument("--threads", default="2")
    given = parser.parse_args()
    config = json.loads((given.model / "config.json").read_text())
    width = config["hidden_size"] // config["num_attention_heads"]
    text = given.corpus.read_text(encoding="utf-8")

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def run(model, corpus, *more):
            """The report of a run."""
            output = scratch / "report.json"
            limit = ["--limit", given.limit] if given.limit else []
            subprocess.run([given.headscope, "analyze", model, "-c", corpus, "--with", "choice", "--threads", given.threads,
                            *limit, *more, "-q", "-o", output], check=True)
            return json.loads(output.read_text())

        def of_model(change):
            """The row of a model whose tensors are changed, with each seed."""
            def row(seed, more):
                rng = np.random.default_rng(seed)
                folder = written_model(scratch / f"model-{seed}", given.model, lambda name, tensor: change(name, tensor, rng))
                report = run(folder, given.corpus, *more)
                shutil.rmtree(folder)
                return found(report)
            return row

        def of_corpus(seed, more):
            """The row of the trained model over relabelled trees."""
            corpus = scratch / "relabelled.conllu"
            corpus.write_text(relabelled(text, seed), encoding="utf-8")
            return found(run(given.model, corpus, *more))

        heads_only = lambda name, tensor, rng: fresh(name, tensor, rng) if "encoder.layer" in name else tensor
        nulls = {
            "random-init": of_model(fresh),
            "random-heads": of_model(heads_only),
            "rotated": of_model(lambda name, tensor, rng: turned(name, tensor, rng, width)),
            "relabelled": of_corpus,
        }
        columns = ["firm labels", "heads", "firm, beyond relation", "chooses", "parser", "edges"]
        print("| null | seeds | " + " | ".join(columns) + " |\n|---|---|" + "---|" * len(columns), flush=True)

        def print_row(name, seeds, rows):
            cells = [shown([row.get(column) for row in rows]) for column in columns]
            print(f"| {name} | {seeds} | " + " | ".join(cells) + " |", flush=True)

        slow = ["--with", "parser,edges", "--sample", given.sample]
        print_row("none: the trained model", 1, [found(run(given.model, given.corpus, *(slow if given.slow_seeds else [])))])
        for name, row in nulls.items():
            print_row(name, given.seeds, [row(seed, slow if seed < given.slow_seeds else []) for seed in range(given.seeds)])
        chosen = [option for control in CONTROLS for option in ("--control", control)]
        controls = run(given.model, given.corpus, *chosen, "--control-seeds", str(given.seeds))["controls"]
        for name in CONTROLS:
            rows = [{"heads": control["firm_roles"]} for control in controls if control["control"] == name]
            print_row(f"`--control {name}`", given.seeds, rows)


if __name__ == "__main__":
    main()
