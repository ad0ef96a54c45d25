#!/usr/bin/env python3
"""What each study costs: the processor time of a run with it, and the most memory that the run takes.

    python benches/studies.py HEADSCOPE MINILM_DIR [--limit 300] [--sample 40] [--check docs/PERFORMANCE.md]

Each study runs over the first sentences of the box's corpus, or a sample of them where heads are removed, with two threads, beside
`attention` and the studies that it builds on alone: with all-MiniLM-L6-v2, or, where it needs a head that predicts words, with a model
of the box. --keep 1GB is more than any of them keeps of its first pass here, and in its memory. The rows are from the table of
docs/PERFORMANCE.md. With --check the run fails where a study takes more than 1.5 times the memory that the table says, or less than
that divided by 1.5; times are printed only.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORPUS = ROOT / "fixtures/corpus/gold.conllu"
TASKS = {"task": ROOT / "fixtures/tasks/pairs.jsonl", "interchange": ROOT / "fixtures/tasks/copies-corrupted.jsonl",
         "direct": ROOT / "fixtures/tasks/copies.jsonl"}
# Allocators and versions of libraries differ by less; a leak, or sums that are kept twice, are more.
FACTOR = 1.5
MIB = 1024.0
MINILM = "all-MiniLM-L6-v2"
# Studies that ask for a prediction of words, which all-MiniLM-L6-v2 does not make.
OF_BOX = {"effect": "box:small", "gradient": "box:small", "knockout": "box:small", "pruning": "box:small", "gates": "box:small",
          "cluster-effect": "box:small", "in-context": "box:causal", "in-context-effect": "box:causal", "task": "box:small", "interchange": "box:causal", "direct": "box:causal"}
# Those that run over a sample of the sentences.
SAMPLED = ["effect", "gradient", "knockout", "pruning", "gates", "output-shift", "edges", "parser", "cluster-effect", "cluster-shift"]
# Those that run by default, or over the corpus of the box.
BY_DEFAULT = ["trees", "dependency", "links", "words", "classes", "frequency", "explained-variance", "coreference", "repeats", "in-context"]
# Those that build on one of these.
BUILDS_ON = {"knockout": "dependency", "examples": "dependency", "in-context-effect": "in-context"}
DEFAULT = "all by default"


def run(command):
    """The processor time of a command, in seconds, and the largest resident set, in MiB, both by the kernel's count."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / MIB


def arguments(study):
    """What `analyze` is asked for so that a study runs beside `attention` and those that it builds on alone."""
    if study == DEFAULT:
        return []
    wanted = {"cluster-effect": "similarity,effect", "cluster-shift": "similarity,output-shift"}.get(study, study)
    others = [name for name in BY_DEFAULT if name not in (study, BUILDS_ON.get(study))]
    others += ["task"] if study in TASKS and study != "task" else []
    items = ["--task", str(TASKS[study])] if study in TASKS else []
    return ["--with", wanted, *items, "--without", ",".join(others)]


def listed():
    """The names of all studies."""
    return re.findall(r"^\| `([a-z0-9-]+)` \| [A-Z]", (ROOT / "docs/STUDIES.md").read_text(), re.M)


def written(page):
    """The memory that the table of the page says, by study."""
    rows = re.findall(r"^\| `?([a-z0-9 -]+?)`? \| (?:all-MiniLM-L6-v2|box:\w+) \| [0-9.]+ \| (\d+) \|$", page.read_text(), re.M)
    return {study: float(most) for study, most in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headscope")
    parser.add_argument("model", help="the folder of all-MiniLM-L6-v2")
    parser.add_argument("--limit", default="300")
    parser.add_argument("--sample", default="40")
    parser.add_argument("--check", type=Path)
    given = parser.parse_args()
    said = written(given.check) if given.check else {}
    studies = [DEFAULT, *listed()]
    wrong = [f"{given.check} does not say what {study} takes" for study in studies if given.check and study not in said]
    alone = {}
    for study in studies:
        model = OF_BOX.get(study, MINILM)

        def of(study):
            with tempfile.TemporaryDirectory() as folder:
                common = [given.headscope, "analyze", given.model if model == MINILM else model, "-c", str(CORPUS), "--limit", given.limit]
                sample = ["--sample", given.sample] if study in SAMPLED else []
                return run([*common, "--threads", "2", "-q", "--keep", "1GB", *arguments(study), *sample, "-o", f"{folder}/report.json"])

        if model not in alone:
            alone[model], _ = of("attention")
        seconds, most = of(study)
        name = study if study == DEFAULT else f"`{study}`"
        print(f"| {name} | {model} | {seconds / alone[model]:.2f} | {most:.0f} |", flush=True)
        if study in said and not said[study] / FACTOR <= most <= said[study] * FACTOR:
            wrong.append(f"{study} takes {most:.0f} MB, and {given.check} says {said[study]:.0f}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
