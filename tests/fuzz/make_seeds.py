#!/usr/bin/env python3
"""Makes model/ and the first inputs of corpus/{config,weights,index,pickle}/: a BERT of one layer and two dimensions.

Run it in this folder with torch, transformers and safetensors installed.
"""

import json
import shutil
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

HERE = Path(__file__).parent
SIZES = dict(
    vocab_size=6,
    hidden_size=2,
    num_hidden_layers=1,
    num_attention_heads=1,
    intermediate_size=2,
    max_position_embeddings=4,
    type_vocab_size=1,
)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b"]


def tokenizer() -> dict:
    """A tokenizer.json of whole words."""
    special = [
        dict(id=i, content=w, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, w in enumerate(WORDS[:4])
    ]
    around = [dict(SpecialToken=dict(id="[CLS]", type_id=0)), dict(Sequence=dict(id="A", type_id=0))]
    around.append(dict(SpecialToken=dict(id="[SEP]", type_id=0)))
    template = dict(
        type="TemplateProcessing",
        single=around,
        pair=around + [dict(Sequence=dict(id="B", type_id=0))],
        special_tokens={w: dict(id=w, ids=[WORDS.index(w)], tokens=[w]) for w in ["[CLS]", "[SEP]"]},
    )
    return dict(
        version="1.0",
        truncation=None,
        padding=None,
        added_tokens=special,
        normalizer=None,
        pre_tokenizer=dict(type="Whitespace"),
        post_processor=template,
        decoder=None,
        model=dict(type="WordLevel", vocab={w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"),
    )


def corpus(target: str) -> Path:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    return folder


torch.manual_seed(1)
model = BertModel(BertConfig(**SIZES), add_pooling_layer=False)
folder = HERE / "model"
shutil.rmtree(folder, ignore_errors=True)
model.save_pretrained(folder)
model.save_pretrained(HERE / "sharded", max_shard_size=250)

config = {k: v for k, v in json.loads((folder / "config.json").read_text()).items() if k in SIZES}
config = dict(model_type="bert", hidden_act="gelu", layer_norm_eps=1e-12) | config
(folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
(folder / "tokenizer.json").write_text(json.dumps(tokenizer(), indent=1) + "\n")

shutil.copy(folder / "config.json", corpus("config") / "bert")
shutil.copy(folder / "model.safetensors", corpus("weights") / "float32")
model.half().save_pretrained(HERE / "half")
shutil.copy(HERE / "half/model.safetensors", corpus("weights") / "float16")
for shard in (HERE / "sharded").glob("model-*.safetensors"):
    shutil.copy(shard, folder)
index = (HERE / "sharded/model.safetensors.index.json").read_text()
(corpus("index") / "shards").write_text(index)
(corpus("index") / "outside").write_text(index.replace("model-00001-of-00002", "../outside"))
torch.save(model.float().state_dict(), corpus("pickle") / "zip")
torch.save(model.half().state_dict(), corpus("pickle") / "zip-float16")
torch.save(model.float().state_dict(), corpus("pickle") / "legacy", _use_new_zipfile_serialization=False)
legacy = (corpus("pickle") / "legacy").read_bytes()
(corpus("pickle") / "bad-legacy-cut").write_bytes(legacy[:-1])
(corpus("pickle") / "bad-legacy-longer").write_bytes(legacy + b"\0")
for scratch in ["half", "sharded"]:
    shutil.rmtree(HERE / scratch)
