#!/usr/bin/env python3
"""How often the study `knockout` says "used" where nothing is: with a random word in the place of each arc's partner.

    python benches/knockout_control.py HEADSCOPE CORPUS.conllu [--seeds 5] [--sample 500]

For each syntactic label of box:small on the corpus it prints the use as the program has it, as the independent computation
of fixtures/reference_knockout.py has it, and with a random word in the partner's place, once for each seed: of the words that
are neither masked nor an end of the arc that with the lowest SHA-256 of
`headscope/use-control/SEED/SENTENCE/QUERY/PARTNER/WORD`. Then the share of labels called used with a random word, each
seed corrected as the program corrects its labels; it exits with 1 where that is above 5 %.
Needs torch, transformers, tokenizers, numpy and scipy from PyPI.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
from scipy.stats import t as student

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "fixtures"))
import reference_knockout  # noqa: E402

LABEL_Q, MIN_ARCS, MIN_BLOCKS, MOST = 0.05, 100, 10, 0.05


def block_test(more, arcs):
    """the one-sided p of a ratio being above 0, by leaving out one block at a time"""
    there = np.flatnonzero(arcs)
    m = len(there)
    if m < MIN_BLOCKS or arcs.sum() < MIN_ARCS:
        return None
    without = (more.sum() - more[there]) / (arcs.sum() - arcs[there])
    error = np.sqrt((m - 1) / m * ((without - without.mean()) ** 2).sum())
    freedom = arcs.sum() ** 2 / (arcs**2).sum() - 1
    return student.sf(more.sum() / arcs.sum() / error, freedom)


def used(p_values, uses):
    """Benjamini & Hochberg over the labels whose use is above 0, each p doubled"""
    tested = [number for number, (p, use) in enumerate(zip(p_values, uses)) if p is not None and use > 0]
    ranked = sorted(tested, key=lambda number: p_values[number])
    least, found = 1.0, set()
    for rank in range(len(ranked), 0, -1):
        least = min(least, 2 * p_values[ranked[rank - 1]] * len(ranked) / rank)
        if least <= LABEL_Q:
            found.add(ranked[rank - 1])
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headscope")
    parser.add_argument("corpus")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sample", type=int, default=500)
    given = parser.parse_args()
    command = [given.headscope, "analyze", "box:small", "-c", given.corpus, "--with", "knockout", "--no-run-info", "-o", "-",
               "--without", "attention,trees,words,frequency,explained-variance", "--sample", str(given.sample)]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    seeds = [None, *range(given.seeds)]
    claims, sums = reference_knockout.measured(ROOT / "fixtures/models/small", given.corpus, report, given.sample, seeds)
    # [seeds, labels, arcs or loss, blocks]
    sums = sums.sum(2)
    arcs, uses = sums[:, :, 0], sums[:, :, 1].sum(-1) / np.maximum(1, sums[:, :, 0].sum(-1))
    p_values = [[block_test(more, own) for own, more in of_seed] for of_seed in sums]
    print("head\tlabel\tdirection\tarcs\tuse (program)\tq\tused\tuse (reference)\tuse of a random word, by seed")
    for number, (label, claim) in enumerate(zip(report["knockout"], claims)):
        of_program = "-" if label["loss_effect"] is None else f"{label['loss_effect']:+.3f}"
        q = "-" if label["q"] is None else f"{label['q']:.2g}"
        randomly = " ".join(f"{use:+.3f}" for use in uses[1:, number])
        print(label["name"], claim[2], claim[3], label["arcs"], of_program, q, label["used"],
              f"{uses[0, number]:+.3f}", randomly, sep="\t")
    found = [len(used(p, use)) for p, use in zip(p_values[1:], uses[1:])]
    tested = [sum(p is not None for p in of_seed) for of_seed in p_values[1:]]
    nominal = sum(p is not None and p <= 0.05 for of_seed in p_values[1:] for p in of_seed)
    share = sum(found) / max(1, sum(tested))
    print(f"a random word in the partner's place: {sum(found)} of {sum(tested)} labels used ({share:.1%}), "
          f"{nominal} with p <= .05; mean use {uses[1:].mean():+.4f}")
    sys.exit(share > MOST)


if __name__ == "__main__":
    main()
