"""Runs the code of notebooks in the working directory, and shows what each cell ends with: python tests/notebooks.py NOTEBOOK..."""

import ast
import json
import os
import sys

os.environ["MPLBACKEND"] = "Agg"


def run(text, name, scope):
    """Runs a cell; whether it ends with a value that a notebook shows as HTML."""
    cell = ast.parse(text, name)
    last = cell.body.pop() if cell.body and isinstance(cell.body[-1], ast.Expr) else None
    exec(compile(cell, name, "exec"), scope)
    if last is None:
        return False
    value = eval(compile(ast.Expression(last.value), name, "eval"), scope)
    show = getattr(value, "_repr_html_", None)
    return show is not None and "<" in show()


for path in sys.argv[1:]:
    with open(path) as file:
        cells = json.load(file)["cells"]
    scope = {}
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    shown = sum(run(text, f"{path}, code cell {number}", scope) for number, text in enumerate(code, 1))
    assert shown > 0, f"{path}: no cell shows anything"
    print(f"{path}: {len(code)} cells, {sum(len(text.splitlines()) for text in code)} lines, {shown} values shown as HTML")
