#!/usr/bin/env python3
"""Accuracies of the study `parser` beside an independent optimum.

    python benches/parser_optimum.py HEADSCOPE MODEL_DIR CORPUS.conllu [--sample 500]

The optimum is that of `fixtures/reference_parser.py`: attention of transformers in float64, SciPy's L-BFGS-B down to a gradient of
1e-8 (1e-7 with embeddings), no code of the program.
A row for each parser: the program's accuracy, the optimum's, and their difference in points.
The run fails where a difference is above .1 point. Needs torch, transformers, tokenizers, scipy and numpy from PyPI.
"""

import argparse
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "fixtures"))
import reference_parser  # noqa: E402

MOST = 0.1
# The studies that run unless they are left out, less those that the parser needs.
OTHERS = "attention,trees,links,words,classes,frequency,explained-variance,coreference"


def optimum(model, corpus, sample):
    """The words that each parser has right, and the words that are scored."""
    words = reference_parser.Words(model, corpus, sample)
    every = list(range(words.layers * words.heads))
    scored = sum("all" in reference_parser.names(word["relation"]) and word["gold"] < word["n"] for word in words.words)
    simple = reference_parser.simple(words)
    right = {
        "attention": reference_parser.parse(words, every)[0]["all"],
        "distances": reference_parser.parse(words, [], True)[0]["all"],
        "attention and distances": reference_parser.parse(words, every, True)[0]["all"],
        "distances and embeddings": reference_parser.lexical(words)[0],
    }
    return right | simple, scored


def found(headscope, model, corpus, sample):
    """The accuracies of the program."""
    command = [headscope, "analyze", model, "-c", corpus, "--words", "spaced", "--with", "parser", "--without", OTHERS,
               "--sample", str(sample), "--threads", "1", "-q", "-o", "-"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return {one["parser"]: one["accuracy"] for one in report["parser"]["accuracies"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--sample", type=int, default=500)
    given = parser.parse_args()
    right, scored = optimum(given.model, given.corpus, given.sample)
    ours = found(given.headscope, given.model, given.corpus, given.sample)
    print(f"{pathlib.Path(given.corpus).name}: {scored} words\n| parser | program | optimum | difference |\n|---|---|---|---|")
    differences = []
    for name, count in right.items():
        if ours.get(name) is None:
            continue
        program, optimal = 100 * ours[name], 100 * count / scored
        differences.append(abs(program - optimal))
        print(f"| {name} | {program:.2f} | {optimal:.2f} | {program - optimal:+.2f} |", flush=True)
    if max(differences) > MOST:
        sys.exit(f"a difference of {max(differences):.2f} points")


if __name__ == "__main__":
    main()
