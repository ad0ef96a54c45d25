"""The narrow table of heads: what each head is found to be, and the metrics that have one value for a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._frames import Column, Columns, Kind

BESIDE = ("_expected", "_over_chance", "_over_position")
"""Ends of the names of metrics that are another one's chance level, or that one beyond it."""
BY_NORM = "norm_"
"""Beginning of the names of metrics that are another one with attention weighted by norms."""


def heads(report: Mapping[str, Any]) -> Columns:
    """A row for each head.

    ``score``, ``ci95_low``, ``ci95_high``, ``baseline``, ``q`` and ``borderline`` are those of the label ``primary``, and
    missing where a head has none. After ``description`` stand the metrics, but for those by offset or by class and those that
    stand beside another one.
    """
    effects = {(one["layer"], one["head"]): one["verdict"] for one in report.get("effect", {}).get("heads", [])}
    rows = [row(head, effects.get((head["layer"], head["head"]))) for head in report["heads"]]
    return {name: Column(kind, [row[name] for row in rows]) for name, kind in kinds(report["heads"]).items()}


def kinds(heads: list[Mapping[str, Any]]) -> dict[str, Kind]:
    """The names and types of the columns, which are those of any report with the same studies."""
    return {**ROLE, **{name: float for head in heads for name, value in head["metrics"].items() if is_shown(name, value)}}


ROLE: dict[str, Kind] = {
    "layer": int,
    "head": int,
    "name": str,
    "primary": str,
    "labels": str,
    "score": float,
    "ci95_low": float,
    "ci95_high": float,
    "baseline": float,
    "q": float,
    "borderline": bool,
    "chooses": str,
    "effect_verdict": str,
    "description": str,
}


def is_shown(name: str, value: Any) -> bool:
    return not isinstance(value, Mapping) and not name.endswith(BESIDE) and not name.startswith(BY_NORM)


def row(head: Mapping[str, Any], effect_verdict: str | None) -> dict[str, Any]:
    label = next((label for label in head["labels"] if label["label"] == head["primary"]), None) or {}
    low, high = label.get("ci95") or (None, None)
    return {
        **{name: head[name] for name in ("layer", "head", "name", "primary", "description")},
        "labels": " ".join(label["label"] for label in head["labels"]),
        **{name: label.get(name) for name in ("score", "baseline", "borderline")},
        "ci95_low": low,
        "ci95_high": high,
        "q": (label.get("test") or {}).get("q"),
        "chooses": (head.get("chooses") or {}).get("label"),
        "effect_verdict": effect_verdict,
        **head["metrics"],
    }
