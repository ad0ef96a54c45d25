#!/usr/bin/env python3
"""Makes the first inputs of corpus/{report,crafted-report,partial,corpus-index,ledger}/: what headscope writes of model/ over two sentences, and of indexed/.

Run it with zstandard installed: tests/fuzz/make_saved.py HEADSCOPE. Needed again when the format of partials or of indexes changes, or the version.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import zstandard

HERE = Path(__file__).parent
CHECKSUM = 32
TWO = """\
1	a	a	DET	_	_	2	det	_	_
2	b	b	NOUN	_	_	0	root	_	_

1	b	b	NOUN	_	_	0	root	_	_
2	a	a	DET	_	_	1	det	_	_

"""
def without(*studies):
    return [argument for study in studies for argument in ("--without", study)]


# Each below the 16 KiB that an input may have; the sums of `words` and `explained-variance` are never so small.
OPTIONS = dict(
    two=without("words", "frequency", "explained-variance", "trees"),
    clark2019=without("words", "frequency", "explained-variance", "trees", "attention") + ["--preset", "clark2019"],
    control=without("words", "frequency", "explained-variance", "attention", "dependency") + ["--control", "shuffled-words"],
    frequency=without("words", "explained-variance", "attention", "trees", "dependency"),
)
# Of reports that are drawn: each a study with figures.
DRAWN = ["similarity", "examples", "edges", "probes"]


def run(*arguments: object) -> None:
    subprocess.run([sys.argv[1], *map(str, arguments)], check=True, capture_output=True)


def save(target: str, name: str, content: bytes) -> None:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def unpacked(partial: bytes) -> bytes:
    """Header and sums: what the target packs again, whatever has become of them."""
    _, header, sums = partial[:-CHECKSUM].split(b"\n", 2)
    return header + b"\n" + zstandard.ZstdDecompressor().decompressobj().decompress(sums)


with tempfile.TemporaryDirectory() as scratch:
    corpus, report, partial = (Path(scratch) / name for name in ["two.conllu", "report.json", "part.headscope"])
    corpus.write_text(TWO)
    for name, options in OPTIONS.items():
        analyze = ["analyze", HERE / "model", "-c", corpus, "--no-run-info", "--quiet", *options]
        run(*analyze, "-o", report)
        run(*analyze, "--shard", "1/1", "-o", partial)
        whole = json.loads(report.read_text())
        save("report", name, json.dumps(whole, separators=(",", ":")).encode())
        if name == "two":
            whole["heads"][0]["ci95"]["separator_mass"] = [1.25, 0.25]
            save("report", "bad-interval", json.dumps(whole, separators=(",", ":")).encode())
        save("partial", name, unpacked(partial.read_bytes()))
    save("report", "bad-no-heads", json.dumps(whole | dict(heads=[]), separators=(",", ":")).encode())
    save("partial", "bad-cut", partial.read_bytes()[:-1])
    for study in DRAWN:
        others = without("words", "frequency", "explained-variance", "attention", "dependency", "trees")
        run("analyze", HERE / "model", "-c", corpus, "--no-run-info", "--quiet", *others, "--with", study, "-o", report)
        whole = json.loads(report.read_text())
        save("crafted-report", study, json.dumps(whole, separators=(",", ":")).encode())
    # A table of one run, that of the ledger.
    table, folder = Path(scratch) / "runs.toml", Path(scratch) / "reports"
    table.write_text(
        f'[models]\na = {{ model = "{HERE / "model"}" }}\n'
        f'[corpora]\nc = {{ corpus = "{corpus}", without = ["words", "frequency", "explained-variance"] }}\n'
    )
    run("batch", table, "-o", folder, "--quiet")
    known = (folder / "batch.json").read_text()
    save("ledger", "one", known.encode())
    save("ledger", "bad-cut", known.encode()[:-10])
    many = known.replace('"layers": 1,', '"layers": 4294967296,').replace('"heads": 1,', '"heads": 4294967296,')
    save("ledger", "bad-heads", many.encode())
    index = Path(scratch) / "corpus.index"
    run("index", *sorted((HERE / "indexed").iterdir()), "-o", index)
    whole = index.read_bytes()
    length = int.from_bytes(whole[-8:], "little")
    contents = whole[-8 - CHECKSUM - length : -8 - CHECKSUM]
    record = whole[whole.index(b"\n") + 1 : -8 - 2 * CHECKSUM - length]
    save("corpus-index", "three-files", length.to_bytes(2, "little") + contents + record)
    save("corpus-index", "bad-cut", whole[:-1])
