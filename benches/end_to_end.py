"""headscope against what a user would write instead: transformers with attentions, statistics in torch.

    python -m venv venv && venv/bin/pip install torch transformers numpy
    cargo build --release
    venv/bin/python benches/end_to_end.py HEADSCOPE MODEL_DIR CORPUS [--limit N] [--runs 5] [--threads 2]

Both sides read the same sentences, in turn, and their time begins when the model is loaded.
The peer: attn_implementation="eager", float32, all cores, batches of sentences of like length at the best of a few
batch sizes, and only the token-level statistics (offset masses and argmaxes, special, punctuation and window masses,
entropy, distance, confidence), summed over batches in float32 with float64 totals.
headscope computes everything in docs/METHODOLOGY.md.
"""

import argparse
import json
import statistics
import subprocess
import time
import unicodedata

import torch
from transformers import AutoModel, AutoTokenizer

REACH = 8


def sentences(path, limit):
    """Pre-split words of a CoNLL-U file, or the lines of a text."""
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    if not path.endswith(".conllu"):
        return [line for line in lines if line.strip()][:limit]
    found, words = [], []
    for line in lines + [""]:
        if line and line[0] != "#":
            columns = line.split("\t")
            if columns[0].isdigit():
                words.append(columns[1])
        elif not line and words:
            found.append(words)
            words = []
    return found[:limit]


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("headscope")
    parser.add_argument("model")
    parser.add_argument("corpus")
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)

    texts = sentences(options.corpus, options.limit)
    peer = Peer(options.model)

    def theirs(batch_size):
        start = time.perf_counter()
        peer.run(texts, batch_size)
        return time.perf_counter() - start

    def ours():
        command = [options.headscope, "analyze", options.model, "--corpus", options.corpus, "-o", "-"]
        command += ["--threads", str(options.threads), "--limit", str(len(texts))]
        report = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return report["run"]["analysis_seconds"], report["corpus"]["tokens"]

    sizes = {size: theirs(size) for size in (4, 8, 16, 32, 64)}
    batch_size = min(sizes, key=sizes.get)
    pairs = [(theirs(batch_size), *ours()) for _ in range(options.runs)]
    tokens = pairs[0][2]
    shown = lambda values: f"median {statistics.median(values):.2f}, {min(values):.2f} to {max(values):.2f}"
    print(f"{len(texts)} sentences, {tokens} tokens, {options.threads} threads, {options.runs} runs in turn")
    print(f"peer, batches of {batch_size}: seconds {shown([peer for peer, _, _ in pairs])}")
    print(f"headscope:            seconds {shown([own for _, own, _ in pairs])}")
    print(f"ratio peer/headscope: {shown([peer / own for peer, own, _ in pairs])}")
    print(f"headscope tokens/s:   {tokens / statistics.median([own for _, own, _ in pairs]):.0f}")


if __name__ == "__main__":
    main()
