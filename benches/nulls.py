#!/usr/bin/env python3
"""What the program finds where nothing is to be found: a table of nulls, as docs/methodology/controls.md has it.

    python benches/nulls.py HEADSCOPE MODEL_DIR CORPUS.conllu [--decoder MODEL_DIR] [--decoder-corpus CORPUS.conllu]
        [--seeds 10] [--slow-seeds 3] [--sample 300] [--edges-sample 60] [--limit N] [--threads 2] [--only NULL,NULL]

All nulls are models and corpora that are written here, apart from the program's own controls:

    random-init    all weights are fresh
    random-sharp   likewise, with queries and keys scaled until each layer attends as sharply as the trained one
    random-heads   the trained embeddings stay, and the weights of all layers are fresh
    rotated        what each head writes is turned by a random rotation of the residual stream
    shuffled       the trained model over sentences whose words are in random order, with their arcs
    relabelled     the trained model over trees whose relations have exchanged their names within each sentence
    sharp decoder  random-sharp of --decoder

For each null: firm labels but `broad`, of those how many the trained model has too, heads with one, firm syntactic labels that
reach their relation, firm `chooses:` labels, the lead of the parser over distances and embeddings in points, and edges above
chance; mean and range over seeds, the last two over --slow-seeds. The model is a BERT, the decoder a GPT-NeoX. Needs torch and
transformers.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModel

# The studies that run unless they are left out.
DEFAULT_STUDIES = "attention,trees,dependency,links,words,classes,frequency,explained-variance,coreference"
# Sentences over which sharpness is measured.
SHARP_SENTENCES = 50


def fresh(name, tensor, rng, deviation):
    """A tensor as it is before training."""
    # Numbers of positions, which some checkpoints keep.
    if not tensor.is_floating_point():
        return tensor
    if "norm" in name.lower():
        return torch.zeros_like(tensor) if name.endswith("bias") else torch.ones_like(tensor)
    if name.endswith("bias"):
        return torch.zeros_like(tensor)
    return torch.from_numpy(rng.normal(0, deviation, tensor.shape)).to(tensor.dtype)


def turned(name, tensor, rng, heads):
    """An output projection with what each head writes turned by a rotation of Haar's measure."""
    if not name.endswith("attention.output.dense.weight"):
        return tensor
    parts = []
    for part in tensor.double().chunk(heads, dim=1):
        q, r = np.linalg.qr(rng.normal(size=(len(tensor), len(tensor))))
        parts.append(torch.from_numpy(q * np.sign(np.diag(r))) @ part)
    return torch.cat(parts, dim=1).to(tensor.dtype)


def loaded(folder):
    """A model. Older versions of transformers look for a rotary share elsewhere."""
    config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
    rotary = getattr(config, "rope_parameters", None) or {}
    if "partial_rotary_factor" in rotary:
        config.rotary_pct = config.partial_rotary_factor = rotary["partial_rotary_factor"]
        config.rotary_emb_base = rotary["rope_theta"]
    return AutoModel.from_pretrained(folder, config=config).float().eval()


def layer_rows(model, layer, sentences):
    """The logarithms of a layer's rows of text tokens, one tensor a sentence: -inf of keys that are not seen."""
    for encoding in sentences:
        with torch.no_grad():
            attention = model(torch.tensor([encoding.ids]), output_attentions=True).attentions[layer][0]
        text = torch.tensor([not special for special in encoding.special_tokens_mask])
        if bool((attention[:, 0, 1:] == 0).all()):
            attention = attention.masked_fill(torch.ones_like(attention).triu(1) > 0, 0)
            text[0] = False
        yield attention[:, text].double().log()


def from_even(rows, power=1.0):
    """Mean squared Hellinger distance from even attention, of rows whose scores are multiplied by `power`."""
    distances = []
    for row in rows:
        seen = row.isfinite().sum(-1, keepdim=True)
        distances.append((1 - ((row * power).softmax(-1) / seen).sqrt().sum(-1)).flatten())
    return float(torch.cat(distances).mean())


def sharpened(folder, trained, sentences):
    """Scales queries and keys of the model in a folder until its layers are as far from even attention as the trained ones."""
    weights, model = load_file(folder / "model.safetensors"), loaded(folder)
    for layer, asked in enumerate(trained):
        rows = list(layer_rows(model, layer, sentences))
        low, high = 0.0, 24.0
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (middle, high) if from_even(rows, 2**middle) < asked else (low, middle)
        factor = 2 ** (low / 2)
        for name, parameter in list(model.named_parameters()):
            if f"layer.{layer}." not in name and f"layers.{layer}." not in name:
                continue
            heads = model.config.num_attention_heads
            scale = torch.full((len(parameter),), factor if ".query." in name or ".key." in name else 1.0)
            if "query_key_value" in name:
                scale = scale.view(heads, 3, -1).clone()
                scale[:, :2] = factor
                scale = scale.flatten()
            parameter.data *= scale.view(-1, *[1] * (parameter.dim() - 1))
            stored = next(key for key in weights if key.endswith(name))
            weights[stored] = parameter.data.to(weights[stored].dtype).contiguous()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def sentence_words(block):
    """The rows of a sentence's words."""
    rows = [line.split("\t") for line in block.splitlines()]
    return [row for row in rows if len(row) == 10 and row[0].isdigit()]


def written_corpus(text, change):
    """A corpus whose sentences are changed, with the comments that say to which document they belong."""
    blocks = []
    for block in text.strip().split("\n\n"):
        kept = [line for line in block.splitlines() if line.startswith(("# newdoc", "# sent_id"))]
        blocks.append("\n".join(kept + ["\t".join(row) for row in change(sentence_words(block))]))
    return "\n\n".join(blocks) + "\n\n"


def relabelled(words, rng):
    """Words with the names of their relations exchanged; the root keeps its name."""
    arcs = [row for row in words if row[6] != "0"]
    names = [row[7] for row in arcs]
    rng.shuffle(names)
    for row, name in zip(arcs, names):
        row[7] = name
    return words


def shuffled(words, rng):
    """Words in random order, with their arcs."""
    rng.shuffle(words)
    places = {row[0]: str(place) for place, row in enumerate(words, 1)} | {"0": "0", "_": "_"}
    return [[places[row[0]], *row[1:6], places[row[6]], row[7], "_", "_"] for row in words]


def firm_labels(report):
    """The firm labels but `broad`, each with its head and direction."""
    heads = report["heads"]
    labels = ((head["name"], label) for head in heads for label in head["labels"])
    return {
        (name, label["label"], label["direction"]): label
        for name, label in labels
        if label["label"] != "broad" and not label["borderline"]
    }


def found(report, edges, trained):
    """What the reports say, by column."""
    labels = firm_labels(report)
    row = {
        "firm labels": len(labels),
        "also without the null": len(labels.keys() & trained.keys()),
        "heads": len({name for name, _, _ in labels}),
        "reach their relation": sum(label["beyond"] in ("relation", "tags") for label in labels.values()),
        "`chooses:`": sum(bool(head["chooses"]) and not head["chooses"]["borderline"] for head in report["heads"]),
    }
    if report.get("parser"):
        ahead = {one["parser"]: one["ahead"]["difference"] for one in report["parser"]["accuracies"]}
        row["parser"] = 100 * ahead["distances and embeddings"]
    if edges:
        row["edges"] = edges["edges"]["above"]
    return row


COLUMNS = ["firm labels", "also without the null", "heads", "reach their relation", "`chooses:`", "parser", "edges"]


def shown(values):
    """Mean and range."""
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    mean, low, high = np.mean(values), min(values), max(values)
    return f"{mean:.3g}" if low == high else f"{mean:.1f} [{low:.3g}, {high:.3g}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("corpus", type=pathlib.Path)
    parser.add_argument("--decoder", type=pathlib.Path)
    parser.add_argument("--decoder-corpus", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--slow-seeds", type=int, default=3)
    parser.add_argument("--sample", default="300", help="sentences of the parser")
    parser.add_argument("--edges-sample", default="60")
    parser.add_argument("--limit", help="about so many sentences, whole documents; all of them if it is left out")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--only", help="some of the nulls above; all of them if it is left out")
    given = parser.parse_args()
    limit = ["--limit", given.limit] if given.limit else []
    labels_only = ["--with", "choice"]
    labels_and_parser = ["--with", "choice,parser", "--sample", given.sample]
    edges_only = ["--with", "edges", "--sample", given.edges_sample, "--without", DEFAULT_STUDIES]

    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def analyzed(model, corpus, studies):
            """The report of a run."""
            output = scratch / "report.json"
            common = ["analyze", model, "-c", corpus, "--threads", given.threads, "-q", "-o", output]
            subprocess.run([given.headscope, *common, *limit, *studies], check=True)
            return json.loads(output.read_text())

        def both(model, corpus, is_slow):
            """The report with labels, and that with edges where they are asked for."""
            report = analyzed(model, corpus, labels_and_parser if is_slow else labels_only)
            return report, analyzed(model, corpus, edges_only) if is_slow else None

        def print_row(name, rows):
            cells = [shown([row.get(column) for row in rows]) for column in COLUMNS]
            print(f"| {name} | {len(rows)} | " + " | ".join(cells) + " |", flush=True)

        def rows(trained, seeded):
            """The rows of a null; `seeded` makes its model and corpus for a seed."""
            for seed in range(given.seeds):
                yield found(*both(*seeded(seed), seed < given.slow_seeds), trained)

        def of_model(model, corpus, change, then=lambda folder: None):
            """A model whose tensors are changed, over a corpus."""
            def seeded(seed):
                folder, rng = scratch / "model", np.random.default_rng(seed)
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(model, folder)
                weights = load_file(model / "model.safetensors")
                weights = {name: change(name, tensor, rng).contiguous() for name, tensor in weights.items()}
                save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
                then(folder)
                return folder, corpus
            return seeded

        def of_corpus(change):
            """The trained model over a corpus whose sentences are changed."""
            def seeded(seed):
                corpus, rng = scratch / "changed.conllu", random.Random(seed)
                corpus.write_text(written_corpus(text, lambda words: change(words, rng)), encoding="utf-8")
                return given.model, corpus
            return seeded

        def sharp(model, corpus):
            """A fresh model as sharp as a trained one over the first sentences of a corpus."""
            tokenizer, blocks = Tokenizer.from_file(str(model / "tokenizer.json")), corpus.read_text(encoding="utf-8").split("\n\n")
            words = [[row[1] for row in sentence_words(block)] for block in blocks[:SHARP_SENTENCES]]
            tokenizer.no_padding()
            sentences = [tokenizer.encode(one, is_pretokenized=True) for one in words]
            deviation = json.loads((model / "config.json").read_text())["initializer_range"]
            change = lambda name, tensor, rng: fresh(name, tensor, rng, deviation)
            trained = loaded(model)
            asked = [from_even(layer_rows(trained, layer, sentences)) for layer in range(trained.config.num_hidden_layers)]
            return of_model(model, corpus, change, lambda folder: sharpened(folder, asked, sentences))

        config = json.loads((given.model / "config.json").read_text())
        text = given.corpus.read_text(encoding="utf-8")
        init = lambda name, tensor, rng: fresh(name, tensor, rng, config["initializer_range"])
        layers_only = lambda name, tensor, rng: init(name, tensor, rng) if "encoder.layer" in name else tensor
        rotated = lambda name, tensor, rng: turned(name, tensor, rng, config["num_attention_heads"])
        nulls = {
            "random-init": of_model(given.model, given.corpus, init),
            "random-sharp": sharp(given.model, given.corpus) if not given.only or "random-sharp" in given.only else None,
            "random-heads": of_model(given.model, given.corpus, layers_only),
            "rotated": of_model(given.model, given.corpus, rotated),
            "shuffled": of_corpus(shuffled),
            "relabelled": of_corpus(relabelled),
        }
        print("| null | seeds | " + " | ".join(COLUMNS) + " |\n|---|---|" + "---|" * len(COLUMNS), flush=True)
        reports = both(given.model, given.corpus, given.slow_seeds > 0)
        trained = firm_labels(reports[0])
        print_row("none", [found(*reports, trained)])
        only = given.only.split(",") if given.only else [*nulls, "sharp decoder"]
        for name in filter(nulls.get, only):
            print_row(name, list(rows(trained, nulls[name])))
        if given.decoder and "sharp decoder" in only:
            reports = both(given.decoder, given.decoder_corpus, given.slow_seeds > 0)
            trained = firm_labels(reports[0])
            print_row("none: the decoder", [found(*reports, trained)])
            print_row("sharp decoder", list(rows(trained, sharp(given.decoder, given.decoder_corpus))))


if __name__ == "__main__":
    main()
