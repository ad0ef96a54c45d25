"""Runs the code of notebooks, one after the other, in the working directory: python tests/notebooks.py NOTEBOOK..."""

import json
import os
import sys

os.environ["MPLBACKEND"] = "Agg"

for path in sys.argv[1:]:
    with open(path) as file:
        cells = json.load(file)["cells"]
    scope = {}
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for number, text in enumerate(code):
        exec(compile(text, f"{path}, code cell {number + 1}", "exec"), scope)
    print(f"{path}: {len(code)} cells, {sum(len(text.splitlines()) for text in code)} lines")
