"""How often `headscope compare --numbers` says that something changed: where nothing did, and where the weights did.

    python3 benches/numbers_error_rate.py [MODEL_DIR] [CORPUS.conllu] [--headscope target/release/headscope]
        [--case halves|documents|noise|rounding ...] [--times N] [--work DIR] [--threads 2] [--offset 0]

By default the model and the corpus are those in the box. Cases, all of them unless some are named:

    halves      N random halves of the corpus' sentences, one against the other, by their reports; no change is true
    documents   the same of its documents; not of a corpus that marks fewer than 20
    noise       N models against the one without noise: each tensor plus a tenth of its own standard deviation times
                standard normal numbers, over the first 500 sentences, by partials (paired) and by reports
    rounding    the same with the weights rounded to bfloat16, which is no change of a model

Each case prints what each comparison finds, and how many find something; the exit status is 1 if a case misses what it
is to show: no change in at least 38 of 40 halves and in 37 of 40 halves by document, one in each of the noisy models, and
none in a rounded one. Of fewer it is the same share, rounded to the nearest.

It needs nothing but Python. Weights are read as safetensors in float32 or float16, and written in float32.
What --work has from an earlier run is used again. --offset numbers the first split or model, to go on where a run ended.
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
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Fewer sentences make a change harder to see.
NOISY_SENTENCES = 500
# Halves of fewer documents have fewer than twice the 10 blocks that a test asks for.
FEWEST_DOCUMENTS = 20
# The share of the comparisons of a case in which something is to be found: at least, at most.
TARGETS = {"halves": (0, 2 / 40), "documents": (0, 3 / 40), "noise": (1, 1), "rounding": (0, 0)}
TIMES = {"halves": 40, "documents": 40, "noise": 20, "rounding": 1}
NEW_DOCUMENT = "# newdoc"


def sentences(path):
    """The sentences of a CoNLL-U file as text without marks of documents, each with the number of its document."""
    found, document = [], 0
    for block in pathlib.Path(path).read_text(encoding="utf-8").split("\n\n"):
        if block.strip():
            lines = block.strip("\n").split("\n")
            document += any(line.startswith(NEW_DOCUMENT) for line in lines)
            found.append((document, "\n".join(line for line in lines if not line.startswith(NEW_DOCUMENT)) + "\n\n"))
    return found


def marked(some):
    """Sentences as CoNLL-U, the first of each document with its mark: also where the first of all is not there."""
    text, last = [], None
    for document, sentence in some:
        text.append(sentence if document == last else f"{NEW_DOCUMENT} id = {document}\n{sentence}")
        last = document
    return "".join(text)


def halves(all_of_it, seed, by_document):
    """Two random halves of the sentences, or of the documents, each in the order of the corpus."""
    groups = [document if by_document else place for place, (document, _) in enumerate(all_of_it)]
    names = sorted(set(groups))
    first = set(random.Random(seed).sample(names, len(names) // 2))
    sides = ([], [])
    for sentence, group in zip(all_of_it, groups):
        sides[group not in first].append(sentence)
    return map(marked, sides)


def as_float32(data, dtype):
    """The values of a tensor."""
    if dtype == "F32":
        return array.array("f", data)
    return array.array("f", struct.unpack(f"<{len(data) // 2}e", data))


def with_noise(values, draw):
    """A tensor plus a tenth of its standard deviation times standard normal numbers."""
    mean = math.fsum(values) / len(values)
    scale = 0.1 * math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    gauss = draw.gauss
    return array.array("f", [value + scale * gauss(0.0, 1.0) for value in values])


def rounded(values, _):
    """A tensor rounded to bfloat16: to 8 bits, of two equally near to the even one."""
    bits = array.array("I", values.tobytes())
    return array.array("f", array.array("I", [(b + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000 for b in bits]).tobytes())


def changed(source, target, change):
    """Copies a model's folder with changed weights."""
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    weights = pathlib.Path(source, "model.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", weights[:8])
    header, body = {}, bytearray()
    for name, tensor in sorted(json.loads(weights[8 : 8 + size]).items()):
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        data, dtype = weights[begin:end], tensor["dtype"]
        if dtype in ("F32", "F16"):
            data, dtype = change(as_float32(data, dtype)).tobytes(), "F32"
        header[name] = {"dtype": dtype, "shape": tensor["shape"], "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    written = json.dumps(header).encode()
    written += b" " * (-len(written) % 8)
    pathlib.Path(target, "model.safetensors").write_bytes(struct.pack("<Q", len(written)) + written + body)


class Bench:
    def __init__(self, arguments, work):
        self.arguments, self.work = arguments, pathlib.Path(work)
        self.stem = f"{pathlib.Path(arguments.model).name}-{pathlib.Path(arguments.corpus).stem}"

    def numbers(self, case):
        offset = self.arguments.offset
        return range(offset, offset + (self.arguments.times or TIMES[case]))

    def analyze(self, model, corpus, name, kinds=("json", "headscope")):
        """The report and the partial of a model over a corpus, or one of them."""
        paths = [self.work / f"{name}.{kind}" for kind in kinds]
        if not all(path.exists() for path in paths):
            command = [self.arguments.headscope, "analyze", model, "-c", corpus, "--format", "conllu", "-q", "--no-run-info"]
            outputs = [("-o", "--partial")[kind == "headscope"] for kind in kinds]
            command += ["--threads", self.arguments.threads, *(word for pair in zip(outputs, paths) for word in pair)]
            subprocess.run([str(part) for part in command], check=True)
        return paths

    def diff(self, a, b):
        """The exit status of a comparison, and what it finds changed, out of how many numbers."""
        command = [self.arguments.headscope, "compare", "--numbers", a, b, "--json"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr)
        found = json.loads(done.stdout)
        counts = {kind: len(found[kind]) for kind in ("labels", "relations", "metrics")}
        return done.returncode, counts, found["compared"]["numbers"]

    def of_halves(self, case):
        """Every split: both halves, compared."""
        all_of_it = sentences(self.arguments.corpus)
        by_document = case == "documents"
        documents = len({document for document, _ in all_of_it})
        if by_document and documents < FEWEST_DOCUMENTS:
            print(f"{case}: the corpus marks {documents} documents: left out")
            return
        for number in self.numbers(case):
            reports = []
            for side, text in zip("ab", halves(all_of_it, number, by_document)):
                half = self.work / f"{self.stem}-{case}-{number}{side}.conllu"
                half.write_text(text, encoding="utf-8")
                # Halves have no sentences in common to be paired.
                reports += self.analyze(self.arguments.model, half, half.stem, kinds=["json"])
                half.unlink()
            yield "by intervals", self.diff(*reports)

    def of_weights(self, case):
        """Every changed model: paired, and by its report."""
        model, corpus = self.arguments.model, self.work / f"{self.stem}-{NOISY_SENTENCES}.conllu"
        corpus.write_text(marked(sentences(self.arguments.corpus)[:NOISY_SENTENCES]), encoding="utf-8")
        reports = self.analyze(model, corpus, corpus.stem)
        for number in self.numbers(case):
            name = f"{corpus.stem}-{case}-{number}"
            if not (self.work / f"{name}.headscope").exists():
                draw = random.Random(number)
                change = with_noise if case == "noise" else rounded
                changed(model, self.work / name, lambda values: change(values, draw))
            others = self.analyze(self.work / name, corpus, name)
            shutil.rmtree(self.work / name, ignore_errors=True)
            for how, a, b in zip(("by intervals", "paired"), reports, others):
                yield how, self.diff(a, b)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default=ROOT / "fixtures/models/small")
    parser.add_argument("corpus", nargs="?", default=ROOT / "fixtures/corpus/gold.conllu")
    parser.add_argument("--headscope", default=ROOT / "target/release/headscope")
    parser.add_argument("--case", choices=TARGETS, action="append")
    parser.add_argument("--times", type=int)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--work")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    missed = False
    for case in arguments.case or TARGETS:
        with tempfile.TemporaryDirectory() as temporary:
            bench = Bench(arguments, arguments.work or temporary)
            bench.work.mkdir(exist_ok=True)
            statuses = {}
            compared = bench.of_halves(case) if case in ("halves", "documents") else bench.of_weights(case)
            for how, (status, counts, numbers) in compared:
                statuses.setdefault(how, []).append(status)
                found = ", ".join(f"{count} {kind}" for kind, count in counts.items())
                print(f"{case} {how} {len(statuses[how])}: exit {status}: {found} changed of {numbers} numbers", flush=True)
            for how, all_of_them in statuses.items():
                least, most = (round(share * len(all_of_them)) for share in TARGETS[case])
                count = sum(all_of_them)
                verdict = "as it should" if least <= count <= most else f"MISSED: {least} to {most} are wanted"
                missed |= not least <= count <= most
                print(f"{case} {how}: something changed in {count} of {len(all_of_them)}: {verdict}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
