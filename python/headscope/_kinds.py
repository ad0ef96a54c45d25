"""The types of the columns of tables, as the program's JSON Schemas have them: they do not depend on what a report has."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ._frames import Kind, Kinds
from ._program import program, run


class Rows(NamedTuple):
    """The rows of a table: the place of their objects in the JSON, the elements of lists included, and their other columns."""

    place: str = ""
    others: Mapping[str, Kind] = {}


PLACE: Kinds = {"layer": int, "head": int, "name": str}
CI95: Kinds = {"ci95_low": float, "ci95_high": float}
RELATION: Kinds = {"relation": str, "side": str}

REPORT = {
    "labels": Rows("heads.labels", PLACE),
    "metrics": Rows("", {**PLACE, "metric": str, "value": float, **CI95, "standard_error": float, "chance": float}),
    "controls": Rows("", {"control": str, "seed": int, **PLACE, "label": str, "kept": bool}),
    "files": Rows("corpus.files"),
    "mixing": Rows("mixing"),
    "relations": Rows("relations"),
    "by_head": Rows("relations.by_head", RELATION),
    "by_distance": Rows("relations.by_distance", RELATION),
    "rules": Rows("", {"relation": str, "head_side": str, "dependent": str, "tag": str, "side": str}),
    "coreference": Rows("coreference.kinds"),
    "effects": Rows("effect.heads"),
    "effects_by_relation": Rows("", {"relation": str, "masked_tokens": int, **PLACE, "effect": float, **CI95}),
    "knockout": Rows("knockout"),
    "pruning": Rows("", {"by": str, "removed": int, **PLACE, "loss": float, "rise_ci95_low": float, "rise_ci95_high": float}),
    "edges": Rows(
        "",
        {
            **{f"{end}.{name}": kind for end in ("source", "target") for name, kind in PLACE.items()},
            **dict.fromkeys(("shift", "direct", "ratio", "excess", "q"), float),
        },
    ),
    "parsers": Rows("parser.accuracies"),
    "parser_relations": Rows("parser.relations"),
    "parser_layers": Rows("parser.layers"),
    "parser_links": Rows("parser.links.accuracies", {"type": str, "side": str, "count": int}),
}
NUMBERS = {name: Rows(name) for name in ("metrics", "labels", "relations", "heads", "left_aside")}
COMPARE = {
    "heads": Rows(
        "",
        {
            **PLACE,
            **dict.fromkeys(("outcome", "primary_a", "primary_b", "kept", "gained", "lost", "could_not_tell"), str),
            **dict.fromkeys(("choice_outcome", "choice_a", "choice_b"), str),
        },
    ),
    "labels": Rows("heads.labels", PLACE),
    "families": Rows("families"),
}
WIDE: Kinds = {**PLACE, "primary": str, "labels": str, "borderline": str}
"""The texts of the wide table of heads; all else are numbers, but for the labels that are kept in a control (``kept.``)."""
BATCH: Kinds = {
    **dict.fromkeys(("run", "status", "message", "reports", "model", "corpus"), str),
    **dict.fromkeys(("layers", "heads", "sentences", "words", "tokens", "skipped", "firm", "firm_before"), int),
}
"""The columns of a batch; all else are numbers of labels."""


def of_wide(columns: list[str]) -> Kinds:
    """The types of the columns of the wide table of heads."""
    return {name: str if name.startswith("kept.") else WIDE.get(name, float) for name in columns}


def of_batch(columns: list[str]) -> Kinds:
    """The types of the columns of the table of runs."""
    return {name: BATCH.get(name, int) for name in columns}


def of_table(rows: Rows, *document: str) -> Kinds:
    """The types of the columns of a table of a ``document``: none of a report, else the name of its schema."""
    return {**rows.others, **(fields(program(), rows.place, document) if rows.place else {})}


@functools.cache
def fields(path: Path, place: str, document: tuple[str, ...]) -> Kinds:
    """The types of the columns that objects at this place become; none if this program's JSON has no such place."""
    schema = json.loads(run(["explain", "--schema", *document]))
    nodes = [schema]
    for key in place.split("."):
        found = [one["properties"][key] for node in nodes for one in forms(schema, node) if key in one.get("properties", {})]
        nodes = [items for node in found for one in forms(schema, node) for items in [one.get("items", one)]]
    return {name: kind for node in nodes for name, kind in columns_of(schema, node, "")}


def forms(schema: Mapping[str, Any], node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a value may be, without references and alternatives."""
    if "$ref" in node:
        return forms(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    alternatives = [one for key in ("anyOf", "oneOf", "allOf") for one in node.get(key, [])]
    if alternatives and "type" not in node:
        return [form for one in alternatives for form in forms(schema, one)]
    return [node]


SCALARS: dict[str, Kind] = {"string": str, "boolean": bool, "integer": int, "number": float}


def columns_of(schema: Mapping[str, Any], node: Mapping[str, Any], name: str) -> Iterator[tuple[str, Kind]]:
    """The columns that a value becomes, by the rules of ``_frames.cells``."""
    kinds: set[Kind] = set()
    for form in forms(schema, node):
        types = [form["type"]] if isinstance(form.get("type"), str) else form.get("type", [])
        kinds |= {SCALARS[one] for one in types if one in SCALARS}
        for key, inner in form.get("properties", {}).items():
            yield from columns_of(schema, inner, f"{name}.{key}" if name else key)
        if "array" in types and form.get("maxItems") == 2:
            yield from ((f"{name}_low", float), (f"{name}_high", float))
        elif "array" in types and all(is_scalar(one) for one in forms(schema, form.get("items", {}))):
            kinds.add(str)
    if len(kinds) == 1:
        yield name, kinds.pop()
    elif kinds:
        yield name, float if kinds == {int, float} else str


def is_scalar(form: Mapping[str, Any]) -> bool:
    types = form.get("type", "string")
    return not {types} & {"object", "array"} if isinstance(types, str) else not set(types) & {"object", "array"}
