"""Reads a report, its CSV and a maps file as a notebook would: python tests/notebook.py REPORT CSV MAPS"""

import json
import sys

import numpy as np
import pandas as pd
from safetensors import safe_open

report_path, csv_path, maps_path = sys.argv[1:]
with open(report_path) as file:
    report = json.load(file)

heads = pd.json_normalize(report["heads"])
assert len(heads) == report["model"]["layers"] * report["model"]["heads"], len(heads)
nested = [name for name in heads if heads[name].map(lambda cell: isinstance(cell, (list, dict))).any()]
assert {name for name in nested if not name.startswith("ci95.")} <= {"labels", "nearest"}, nested
low, high = (heads["ci95.entropy"].str[end] for end in (0, 1))
assert (low <= heads["metrics.entropy"]).all() and (heads["metrics.entropy"] <= high).all()
assert heads["metrics.offset_mass.-1"].between(0, 1).all()

labels = pd.json_normalize(report["heads"], "labels", ["name"])
firm = labels[~labels["borderline"].astype(bool)]
assert firm["test.q"].dropna().le(report["settings"]["policy"]["label_q"]).all()
assert set(labels["label"]) >= {"previous-token"}, set(labels["label"])

files = pd.json_normalize(report["corpus"], "files")
assert files["sentences"].sum() == report["corpus"]["sentences"]

relations = pd.json_normalize(report["relations"], "by_head", ["relation", "count"])
assert len(relations) == len(heads) * len(report["relations"])

table = pd.read_csv(csv_path)
assert len(table) == len(heads)
np.testing.assert_array_equal(table["entropy"], heads["metrics.entropy"])
np.testing.assert_array_equal(table["entropy_ci95_low"], low)

maps = safe_open(maps_path, "np")
tokens = json.loads(maps.metadata()["tokens.0"])
attention = maps.get_tensor("attentions.0")
assert attention.dtype == np.float32
assert attention.shape == (report["model"]["layers"], report["model"]["heads"], len(tokens), len(tokens))
np.testing.assert_allclose(attention.sum(-1), 1, atol=1e-5)
assert len(json.loads(maps.metadata()["word_ids.0"])) == len(tokens)
assert json.loads(maps.metadata()["model"])["weights_sha256"] == report["model"]["weights_sha256"]

print(f"{len(heads)} heads, {len(labels)} labels, {len(relations)} relation rows, {len(maps.keys())} maps")
