"""How often `headscope diff` says that something changed: where nothing did, and where the weights did.

    python3 benches/diff_error_rate.py HEADSCOPE MODEL_DIR CORPUS.conllu [--case NAME] [--work DIR] [--threads 2]

Cases (all of them unless one is named):
    halves      random halves of the corpus' sentences, one against the other, by their reports; no change is true
    documents   the same of its documents
    noise-0.1   the model against itself with noise, over the first 500 sentences, by partials (paired) and by reports:
                each tensor plus 0.1 of its own standard deviation times standard normal numbers
    noise-0.01  the same with a hundredth
    rounding    the same with 1e-7 of each weight itself: one unit in the last place of a float32
                (for --tolerance: what is as small as this is no change of a model)

It needs nothing but Python. Weights are read and written as safetensors in float32.
What --work has from an earlier run is used again. Each case prints the exit status of each comparison, and how many of
them were 1.
"""

import argparse
import array
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

SPLITS = 40
NOISY_MODELS = 20
# Fewer sentences make a change harder to see.
NOISY_SENTENCES = 500


def sentences(path):
    """The sentences of a CoNLL-U file as text, each with the number of its document."""
    found, document = [], 0
    for block in pathlib.Path(path).read_text(encoding="utf-8").split("\n\n"):
        if block.strip():
            document += any(line.startswith("# newdoc") for line in block.split("\n"))
            found.append((document, block.strip("\n") + "\n\n"))
    return found


def halves(path, seed, by_document):
    """Two random halves of the sentences, or of the documents, each in the order of the corpus."""
    all_of_it = sentences(path)
    groups = [document if by_document else place for place, (document, _) in enumerate(all_of_it)]
    names = sorted(set(groups))
    first = set(random.Random(seed).sample(names, len(names) // 2))
    texts = [text for _, text in all_of_it]
    return ["".join(text for text, group in zip(texts, groups) if (group in first) == side) for side in (True, False)]


def noisy(source, target, seed, of_deviation, of_weight):
    """Copies a model's folder with noise in its weights."""
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    weights = pathlib.Path(source, "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", weights[:8])
    start, draw = 8 + size, random.Random(seed)
    changed = bytearray(weights)
    for name, tensor in sorted(json.loads(weights[8:start]).items()):
        if name == "__metadata__" or tensor["dtype"] != "F32":
            continue
        begin, end = (start + offset for offset in tensor["data_offsets"])
        values = array.array("f", weights[begin:end])
        mean = math.fsum(values) / len(values)
        scale = of_deviation * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        gauss = draw.gauss
        noise = array.array("f", [value + (scale + of_weight * value) * gauss(0.0, 1.0) for value in values])
        changed[begin:end] = noise.tobytes()
    pathlib.Path(target, "model.safetensors").write_bytes(changed)


class Bench:
    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, pathlib.Path(work)

    def analyze(self, model, corpus, output):
        """The report or the partial of a model over a corpus."""
        path = self.work / output
        if not path.exists():
            shard = ["--shard", "1/1"] if path.suffix == ".headscope" else []
            command = [self.arguments.headscope, "analyze", model, "-c", corpus, "-q", "--no-run-info"]
            command += ["--threads", str(self.arguments.threads), "-o", path, *shard]
            subprocess.run([str(part) for part in command], check=True)
        return path

    def diff(self, a, b):
        """The exit status of a comparison, and how many things it finds changed, out of how many."""
        command = [self.arguments.headscope, "diff", str(a), str(b), "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout)
        changed = {kind: len(found[kind]) for kind in ("labels", "relations", "metrics")}
        return done.returncode, changed, found["compared"]["numbers"]

    def of_halves(self, by_document):
        """Every split: both halves, compared."""
        name = "documents" if by_document else "halves"
        corpus = pathlib.Path(self.arguments.corpus)
        for seed in range(SPLITS):
            reports = []
            for side, text in zip("ab", halves(corpus, seed, by_document)):
                half = self.work / f"{corpus.stem}-{name}-{seed}{side}.conllu"
                half.write_text(text, encoding="utf-8")
                reports.append(self.analyze(self.arguments.model, half, half.with_suffix(".json").name))
                half.unlink()
            yield "", self.diff(*reports)

    def of_noise(self, case, of_deviation, of_weight):
        """Every noisy model: paired, and by its report."""
        model, whole = self.arguments.model, pathlib.Path(self.arguments.corpus)
        corpus = self.work / f"{whole.stem}-{NOISY_SENTENCES}.conllu"
        corpus.write_text("".join(text for _, text in sentences(whole)[:NOISY_SENTENCES]), encoding="utf-8")
        for seed in range(NOISY_MODELS):
            stem = f"{corpus.stem}-{case}-{seed}"
            if not (self.work / f"{stem}.headscope").exists():
                changed = self.work / stem
                noisy(model, changed, seed, of_deviation, of_weight)
                self.analyze(changed, corpus, f"{stem}.headscope")
                shutil.rmtree(changed)
            pair = [self.analyze(model, corpus, f"{corpus.stem}.headscope"), self.work / f"{stem}.headscope"]
            yield "paired", self.diff(*pair)
            yield "by intervals", self.diff(*map(self.merged, pair))

    def merged(self, partial):
        """The report of a partial."""
        path = partial.with_suffix(".json")
        if not path.exists():
            command = [self.arguments.headscope, "merge", str(partial), "-q", "--no-run-info", "-o", str(path)]
            subprocess.run(command, check=True)
        return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = {
        "halves": lambda bench: bench.of_halves(by_document=False),
        "documents": lambda bench: bench.of_halves(by_document=True),
        "noise-0.1": lambda bench: bench.of_noise("noise-0.1", 0.1, 0.0),
        "noise-0.01": lambda bench: bench.of_noise("noise-0.01", 0.01, 0.0),
        "rounding": lambda bench: bench.of_noise("rounding", 0.0, 1e-7),
    }
    parser.add_argument("headscope")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--case", choices=cases)
    parser.add_argument("--work")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    for case in [arguments.case] if arguments.case else cases:
        with tempfile.TemporaryDirectory() as temporary:
            work = pathlib.Path(arguments.work or temporary)
            work.mkdir(exist_ok=True)
            statuses = {}
            for how, (status, changed, numbers) in cases[case](Bench(arguments, work)):
                statuses.setdefault(how, []).append(status)
                counts = ", ".join(f"{count} {kind}" for kind, count in changed.items())
                print(f"{case} {how} {len(statuses[how])}: exit {status}: {counts} changed of {numbers} numbers", flush=True)
            for how, all_of_them in statuses.items():
                print(f"{case} {how}: exit 1 in {sum(all_of_them)} of {len(all_of_them)}", flush=True)


if __name__ == "__main__":
    main()
