"""Studies that run on request against what a user would write in torch for the same numbers.

    python benches/on_request HEADSCOPE MINILM_DIR [--study effect] [--runs 3]

One thread on both sides, float32, a sample of the box's corpus, in turn. The peer runs batches of sentences of like length,
replaces the context of a head by a hook at the input of the output projection, runs the model from the layer of that head on, and
takes logits at masked positions alone.

    effect          box:small, masks of phase 0: per head the mean loss without it less that with it; all heads removed as well
    gradient        box:small, the same masks: per head the derivative of the loss by its gate where it is open, of all sentences
                    together (first_order_effect) and the mean of its size over sentences (gradient_importance)
    pruning         box:small, the same masks, sentences in odd blocks: the loss without the first heads of each of the five orders,
                    and what negligible heads are worth together and one by one; not `can_go`, which follows from the losses
    knockout        box:small, masks of all phases: per label how much more is lost while the weight on an arc's partner is
                    exchanged than while it is kept, over all arcs and over those off the best offset
    output-shift    all-MiniLM-L6-v2: per head the mean of 1 - cos of the last hidden states, over tokens of text and of their mean
                    over sentences (pooled_shift); all heads removed as well
    edges           all-MiniLM-L6-v2: per pair of heads of different layers the shift, the direct shift and the excess; the shifts
                    and excesses of an untrained model as well, which has other weights than the program's and is not compared
    cluster-effect  box:small, masks of phase 0: the loss without each cluster, each of its heads and all of them but each, less
                    that with all heads; without all but each head of the random sets as well, of which the report has p-values only
    cluster-shift   all-MiniLM-L6-v2: the same changes of 1 - cos of tokens of text
    examples        all-MiniLM-L6-v2, all sentences of 5 to 16 words: per head with a label the scores of the best, the worst and
                    the most typical sentence, not what is drawn of them
    norms           all-MiniLM-L6-v2, all sentences: all metrics of heads, and the mixing ratio of each layer, not their levels
                    under even attention
    similarity      the same: distances and CKA of all pairs of heads, the disagreement of each layer, spectra and mean composition
                    of the weights, not clusters, the map and the closest pairs
    choice          the same: all metrics of heads, and the share of each layer's input that is its own
    probes          the same: the accuracies of both tasks by all that is probed, and by the most frequent class
    parser          all-MiniLM-L6-v2: the accuracies of the parsers on attention, distances and both, of roots and without each
                    layer, and the weights of heads; a parser on an untrained model as well, which has other weights than the
                    program's and is not compared; not the rules that are not fitted, nor accuracies by relation

The peer makes these numbers only; headscope makes intervals, verdicts and its report beside them, and, of effect, the same by
class and relation.
What other studies find (orders, labels, clusters) the peer reads from the report, and neither side's time has it in: of headscope's
that of a run over the same corpus with `attention` and the studies that it builds on is taken off, and so loading, reading and
writing; of the peer only the study is timed, from token ids on, with the words and arcs of sentences read before and, of knockout,
the words put in the order of their hashes.
The last five read what heads do and remove none: there `attention` does not run, and no more is taken off headscope's time than
loading, a run over one sentence, so that passes through the model are in both sides.
Both sides run the model once over the corpus and keep what they need of that.
Both sides must agree in every number within 1e-3 of the largest, or the run fails.
Not covered: `integrated_gradient`, which is left off, as it is unless --gradient-steps asks for it.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# NumPy and SciPy read these as they are loaded: the waiting of their threads would count as processor time.
os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import torch  # noqa: E402
from transformers import AutoModel, BertForMaskedLM  # noqa: E402

import edges as of_pairs  # noqa: E402
import parser as of_trees  # noqa: E402
from choice import choice, of_choice  # noqa: E402
from clusters import cluster_effect, cluster_shift, clusters_of, of_clusters  # noqa: E402
from corpus import annotated  # noqa: E402
from examples import examples, of_examples, short_sentences  # noqa: E402
from gradient import gradient  # noqa: E402
from knockout import knockout, of_knockout, with_arcs  # noqa: E402
from norms import norms, of_norms  # noqa: E402
from probes import of_probes, probes  # noqa: E402
from removal import Heads, effect, in_odd_blocks, of_pruning, output_shift, pruning  # noqa: E402
from sample import CORPUS, ROOT, batches, encoded  # noqa: E402
from similarity import of_similarity, similarity  # noqa: E402

SMALL = ROOT / "fixtures/models/small"
TOLERANCE = 1e-3


@dataclass
class Study:
    """A peer and what both sides run: the model in the binary or else all-MiniLM-L6-v2, with so many sentences drawn."""

    # `(heads, *given) -> {metric: values by head}`, all that is timed.
    peer: Callable
    model: str | None
    sample: int | None
    # The studies whose report is made beside it, and whose time is taken off.
    after: tuple = ()
    # The phases of masks, where the study is of the loss.
    phases: tuple = ()
    # `(model's folder, study, report) -> given`, what the peer starts from.
    given: Callable = lambda folder, study, report: (list(batches(encoded(folder, study.sample, study.phases))),)
    # `report -> {metric: values}` where the numbers are not metrics of heads.
    ours: Callable | None = None
    # Whether it runs without `attention`, whose pass it would share: no more is taken off than loading, a run over one sentence.
    alone: bool = False


STUDIES = {
    "effect": Study(effect, "box:small", 300, phases=(0,)),
    "gradient": Study(gradient, "box:small", 300, phases=(0,)),
    "pruning": Study(pruning, "box:small", 300, ("effect", "gradient"), (0,), in_odd_blocks, of_pruning),
    "knockout": Study(knockout, "box:small", 300, ("dependency",), tuple(range(7)), with_arcs, of_knockout),
    "output-shift": Study(output_shift, None, 40),
    "edges": Study(of_pairs.edges, None, 40, (), (), of_pairs.with_untrained, of_pairs.of_edges),
    "cluster-effect": Study(
        cluster_effect, "box:small", 300, ("similarity", "effect"), (0,), clusters_of("cluster_effect"),
        of_clusters("cluster_effect"),
    ),
    "cluster-shift": Study(
        cluster_shift, None, 40, ("similarity", "output-shift"), (), clusters_of("cluster_shift"), of_clusters("cluster_shift")
    ),
    "examples": Study(examples, None, None, ("dependency",), (), short_sentences, of_examples),
    "norms": Study(norms, None, None, given=annotated, ours=of_norms, alone=True),
    "similarity": Study(similarity, None, None, given=annotated, ours=of_similarity, alone=True),
    "choice": Study(choice, None, None, given=annotated, ours=of_choice, alone=True),
    "probes": Study(probes, None, None, given=annotated, ours=of_probes, alone=True),
    "parser": Study(of_trees.parser, None, 500, given=of_trees.with_untrained, ours=of_trees.of_parser, alone=True),
}
# What runs by default beside `attention`.
OTHERS = {"trees", "dependency", "words", "frequency", "explained-variance", "coreference", "choice"}
# What runs over a sample.
SAMPLED = {"effect", "gradient", "knockout", "pruning", "output-shift", "edges", "cluster-effect", "cluster-shift", "parser"}


def analyze(binary, model, sample, studies, without, limit=None):
    """The report of a run with `attention` and these studies, and its seconds, of the clock and of the processor."""
    without = OTHERS - set(studies) | set(without) | ({"repeats"} if model == "box:small" else set())
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        command = [binary, "analyze", model, "-c", CORPUS, "--words", "spaced", "--threads", "1", "-q", "-o", report]
        command += ["--without", ",".join(sorted(without))]
        command += ["--with", ",".join(studies)] if studies else []
        command += ["--sample", sample] if SAMPLED & set(studies) else []
        command += ["--limit", limit] if limit else []
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([str(part) for part in command], check=True)
        seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return json.loads(Path(report).read_text()), seconds, processor


def compare(name, binary, minilm, runs):
    """One study: both sides in turn, and whether their numbers are the same."""
    study = STUDIES[name]
    folder, kind = (SMALL, BertForMaskedLM) if study.model else (minilm, AutoModel)
    model = kind.from_pretrained(folder, attn_implementation="eager").float().eval()
    heads = Heads(model.requires_grad_(False))
    clock, processor = [], []
    for _ in range(runs):
        left_off, limit = (["attention"], 1) if study.alone else ([], None)
        report, *with_study = analyze(binary, study.model or minilm, study.sample, [*study.after, name], left_off)
        _, *without = analyze(binary, study.model or minilm, study.sample, study.after, [name], limit)
        given = study.given(folder, study, report)
        start = time.perf_counter(), time.process_time()
        theirs = study.peer(heads, *given)
        own = time.perf_counter() - start[0], time.process_time() - start[1]
        clock.append((own[0], with_study[0] - without[0]))
        processor.append((own[1], with_study[1] - without[1]))
    ours = study.ours(report) if study.ours else {m: [head["metrics"][m] for head in report["heads"]] for m in theirs}
    apart = max(furthest(ours[metric], values) for metric, values in theirs.items())
    assert apart < TOLERANCE, f"{name}: {', '.join(theirs)} differ by {apart:.1e} of the largest"
    shown = lambda values: f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    print(f"{name}: {study.sample or 'all'} sentences, {runs} runs in turn")
    for metric, values in theirs.items():
        print(f"  {metric}: {len(values)} numbers, within {furthest(ours[metric], values):.0e} of the largest")
    for what, pairs in (("seconds", clock), ("processor", processor)):
        peers, owns = zip(*pairs)
        print(f"  {what}: peer {shown(peers)}, headscope {shown(owns)}, ratio {shown([a / b for a, b in pairs])}", flush=True)


def furthest(ours, theirs):
    """How far two lists of numbers are apart, of the largest; where the report has none there is none."""
    pairs = list(zip(ours, theirs, strict=True))
    assert all((a is None) == (b != b) for a, b in pairs)
    return max(abs(a - b) for a, b in pairs if a is not None) / max(abs(a) for a in ours if a is not None)


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
