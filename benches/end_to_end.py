"""headscope against what a user would write instead: transformers with attentions, statistics in torch.

    python -m venv venv && venv/bin/pip install torch transformers numpy
    cargo build --release
    venv/bin/python benches/end_to_end.py HEADSCOPE MODEL_DIR CORPUS.conllu [--case NAME] [--runs 5] [--threads 2]

Cases (all of them unless one is named):
    sentences   the model over the corpus, sentence by sentence
    base        a model of BERT-base's size with random weights and the same tokenizer, over 300 of its sentences
    modernbert  the same of ModernBERT-base's size, with its windows of 128 tokens in two of three layers
    deberta     the same of DeBERTa-v3-base's size
    gpt2        the same of GPT-2's size, a decoder, over whose random tokens two studies run as well; with
                --options '--context sentence --without repeats,in-context' both sides read the same input
    paragraphs  the model over 60 documents of 128 tokens, made of the corpus' words
    long        the model over 14 documents of 512 tokens; modernbert-long, deberta-long and gpt2-long: those models

Both sides read the same input, in turn, and their time begins when the model is loaded.
The peer: attn_implementation="eager", float32, all cores, batches of inputs of like length at the best of a few
batch sizes, and only the token-level statistics (offset masses and argmaxes, special, punctuation and window masses,
entropy, distance, confidence), summed over batches in float32 with float64 totals.
headscope computes everything in docs/methodology/.
Then headscope alone: one thread against all, and the peak of its memory, over a corpus ten times as long too.
"""

import argparse
import json
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
import unicodedata

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

REACH = 8


def sentences(path):
    """Pre-split words of a CoNLL-U file, or the lines of a text."""
    lines = pathlib.Path(path).read_text(encoding="utf-8").split("\n")
    if not str(path).endswith(".conllu"):
        return [line for line in lines if line.strip()]
    found, words = [], []
    for line in lines + [""]:
        if line and line[0] != "#":
            columns = line.split("\t")
            if columns[0].isdigit():
                words.append(columns[1])
        elif not line and words:
            found.append(words)
            words = []
    return found


def documents(model, corpus, count, tokens, path):
    """Writes `count` lines of the corpus' words, each of exactly `tokens` tokens with the special ones."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    words = iter([word for sentence in sentences(corpus) for word in sentence])
    lines = []
    for _ in range(count):
        line, length = [], 2
        while length < tokens:
            word = next(words)
            size = len(tokenizer(word, add_special_tokens=False)["input_ids"])
            # A word that tokenises otherwise beside its neighbours would make the line too long.
            if word.isalpha() and length + size <= tokens:
                line.append(word)
                length += size
        lines.append(" ".join(line))
        assert len(tokenizer(lines[-1])["input_ids"]) == tokens
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


# model_type and what differs from the defaults of its configuration, which has the size.
SHAPES = {
    "base": ("bert", {}),
    "modernbert": ("modernbert", dict(
        pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
    )),
    "deberta": (
        "deberta-v2",
        dict(
            hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, relative_attention=True,
            position_buckets=256, pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm",
            position_biased_input=False, type_vocab_size=0,
        ),
    ),
    "gpt2": ("gpt2", {}),
}


def random_model(shape, model, folder):
    """A model of such a shape with random weights and the tokenizer of `model`."""
    torch.manual_seed(0)
    model_type, options = SHAPES[shape]
    vocabulary = len(AutoTokenizer.from_pretrained(model))
    AutoModel.from_config(AutoConfig.for_model(model_type, vocab_size=vocabulary, **options)).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(pathlib.Path(model, name), folder)
    return folder


class Peer:
    def __init__(self, folder):
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        tokens = self.tokenizer.convert_ids_to_tokens(range(len(self.tokenizer)))
        mark = [all(unicodedata.category(c)[0] == "P" for c in token.removeprefix("##") or "x") for token in tokens]
        self.punctuation = torch.tensor(mark)

    @torch.inference_mode()
    def run(self, texts, batch_size):
        """Sums of every statistic over all heads; the clock of the caller runs."""
        split = isinstance(texts[0], list)
        encoded = [self.tokenizer(text, is_split_into_words=split)["input_ids"] for text in texts]
        encoded.sort(key=len)
        totals = None
        for start in range(0, len(encoded), batch_size):
            batch = encoded[start : start + batch_size]
            ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in batch], batch_first=True)
            lengths = torch.tensor([len(row) for row in batch])
            mask = torch.arange(ids.shape[1]) < lengths[:, None]
            attentions = self.model(input_ids=ids, attention_mask=mask.long(), output_attentions=True).attentions
            sums = self.statistics(attentions, ids, lengths)
            totals = sums if totals is None else totals + sums
        return totals

    def statistics(self, attentions, ids, lengths):
        n = ids.shape[1]
        place = torch.arange(n)
        text = ((place > 0) & (place < lengths[:, None] - 1)).float()
        separator = (place == lengths[:, None] - 1).float()
        marks = self.punctuation[ids].float() * text
        distance = (place[:, None] - place).abs().float()
        window = ((distance > 0) & (distance <= 2)).float()
        keys = torch.stack([text, separator, marks], dim=2)[:, None]
        out = []
        for attention in attentions:
            query = text[:, None]
            masses = torch.matmul(attention, keys)
            on_text = attention * text[:, None, None]
            favourite = attention.argmax(-1)
            rows = [
                masses[..., 1], masses[..., 2], attention[..., 0],
                torch.special.entr(attention).sum(-1),
                (attention * (1 - separator)[:, None, None]).amax(-1),
                (on_text * window).sum(-1),
                (on_text * distance).sum(-1) / masses[..., 0].clamp_min(1e-30),
            ]
            sums = [(row * query).double().sum((0, 2)) for row in rows]
            for offset in range(-REACH, REACH + 1):
                if abs(offset) >= n:
                    continue
                diagonal = on_text.diagonal(offset, -2, -1)
                asked = text[:, max(0, -offset) : n - max(0, offset)]
                there = text[:, max(0, offset) : n - max(0, -offset)]
                best = favourite[..., max(0, -offset) : n - max(0, offset)] == place[max(0, offset) : n - max(0, -offset)]
                sums.append((diagonal * asked[:, None]).double().sum((0, 2)))
                sums.append((best * (asked * there)[:, None]).double().sum((0, 2)))
            sums += [torch.zeros_like(sums[0])] * (7 + 2 * (2 * REACH + 1) - len(sums))
            out.append(torch.stack(sums))
        return torch.stack(out)


# More options of headscope, as they are asked for.
OPTIONS = []


def analyze(binary, model, corpus, limit, threads):
    """Runs headscope; gives its report and the peak of its memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder, "report.json")
        command = [binary, "analyze", model, "--corpus", corpus, "--quiet", "-o", report, "--threads", threads]
        command += ["--limit", limit] if limit else []
        command += OPTIONS
        process = subprocess.Popen([str(part) for part in command])
        # ru_maxrss would not do: it begins with the memory of the process that forked.
        peak = 0
        while process.poll() is None:
            lines = pathlib.Path("/proc", str(process.pid), "status").read_text().splitlines()
            peak = max([peak] + [int(line.split()[1]) for line in lines if line.startswith("VmHWM")])
            time.sleep(0.02)
        assert process.returncode == 0
        return json.loads(report.read_text()), peak / 1024


def compare(name, binary, model, corpus, limit, threads, runs):
    """One case: both sides in turn."""
    texts = sentences(corpus)[:limit]
    peer = Peer(model)

    def theirs(batch_size):
        """Seconds by the clock, and of the processor."""
        start = time.perf_counter(), time.process_time()
        peer.run(texts, batch_size)
        return time.perf_counter() - start[0], time.process_time() - start[1]

    def ours():
        """The report, the peak of memory and the seconds of the processor, loading included."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        report, peak = analyze(binary, model, corpus, limit, threads)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return report, peak, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    sizes = {size: theirs(size)[0] for size in (1, 4, 8, 16, 32, 64) if size <= len(texts)}
    batch_size = min(sizes, key=sizes.get)
    pairs, processor = [], []
    for _ in range(runs):
        peer_seconds, peer_processor = theirs(batch_size)
        report, peak, own_processor = ours()
        pairs.append((peer_seconds, report["run"]["analysis_seconds"]))
        processor.append(peer_processor / own_processor)
    tokens = report["corpus"]["tokens"]
    assert report["corpus"]["sentences"] == len(texts)
    shown = lambda values: f"median {statistics.median(values):.2f}, {min(values):.2f} to {max(values):.2f}"
    print(f"{name}: {len(texts)} inputs, {tokens} tokens, {threads} threads, {runs} runs in turn")
    print(f"  peer, batches of {batch_size}: seconds {shown([peer for peer, _ in pairs])}")
    print(f"  headscope:            seconds {shown([own for _, own in pairs])}, peak {peak:.0f} MB")
    print(f"  ratio peer/headscope: {shown([peer / own for peer, own in pairs])}")
    print(f"  the same of processor time, our loading in it: {shown(processor)}")
    print(f"  headscope tokens/s:   {tokens / statistics.median([own for _, own in pairs]):.0f}", flush=True)


def scaling(binary, model, corpus, threads, runs, folder):
    """Threads and memory of headscope alone."""
    times = {count: [] for count in (1, threads)}
    for _ in range(runs):
        for count, seconds in times.items():
            report, peak = analyze(binary, model, corpus, None, count)
            seconds.append(report["run"]["analysis_seconds"])
    ratio = statistics.median(times[1]) / statistics.median(times[threads])
    print(f"threads: 1: {statistics.median(times[1]):.2f} s, {threads}: {statistics.median(times[threads]):.2f} s, ratio {ratio:.2f}")
    ten = folder / "ten.conllu"
    ten.write_text(pathlib.Path(corpus).read_text(encoding="utf-8") * 10, encoding="utf-8")
    _, peak_of_ten = analyze(binary, model, ten, None, threads)
    weights = pathlib.Path(model, "model.safetensors").stat().st_size / 2**20
    print(f"memory: peak {peak:.0f} MB, ten times the corpus {peak_of_ten:.0f} MB, weights {weights:.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("headscope")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--case", choices=["sentences", *SHAPES, "paragraphs", "long", "modernbert-long", "deberta-long", "gpt2-long", "scaling"])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--options", default="", help="more options of headscope, such as '--without repeats'")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    OPTIONS.extend(options.options.split())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        binary, model, corpus = options.headscope, options.model, options.corpus
        wanted = lambda name: options.case in (None, name)
        rest = (options.threads, options.runs)
        if wanted("sentences"):
            compare("sentences", binary, model, corpus, None, *rest)
        for shape in SHAPES:
            if wanted(shape):
                compare(shape, binary, random_model(shape, model, folder / shape), corpus, 300, *rest)
        for name, shape, count, tokens in (
            ("paragraphs", None, 60, 128), ("long", None, 14, 512), ("modernbert-long", "modernbert", 14, 512),
            ("deberta-long", "deberta", 14, 512), ("gpt2-long", "gpt2", 14, 512),
        ):
            if wanted(name):
                documents(model, corpus, count, tokens, folder / f"{name}.txt")
                of_shape = random_model(shape, model, folder / name) if shape else model
                compare(name, binary, of_shape, folder / f"{name}.txt", None, *rest)
        if wanted("scaling"):
            scaling(binary, model, corpus, *rest, folder)


if __name__ == "__main__":
    main()
