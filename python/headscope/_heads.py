"""The narrow table of heads: what each head is found to be, and the metrics that have one value for a head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._frames import Column, Columns, Kind

ROLE: dict[str, Kind] = {
    "layer": int,
    "head": int,
    "name": str,
    "primary": str,
    "score": float,
    "ci95_low": float,
    "ci95_high": float,
    "baseline": float,
    "q": float,
    "labels": str,
    "borderline": str,
    "chooses": str,
    "chooses_share": float,
    "loss_effect": float,
    "loss_effect_ci95_low": float,
    "loss_effect_ci95_high": float,
    "effect_verdict": str,
    "description": str,
}
"""The columns of any report, with the names that ``headscope export --table heads`` and ``--table effects`` give them."""

BESIDE = ("_expected", "_over_chance", "_over_position")
"""Ends of the names of metrics that are another one's chance level, or that one beyond it."""
BY_NORM = "norm_"
"""Beginning of the names of metrics that are another one with attention weighted by norms."""


def heads(report: Mapping[str, Any]) -> Columns:
    """A row for each head, with a missing value for what it does not have or what was not measured.

    ``score``, ``ci95_low``, ``ci95_high``, ``baseline`` and ``q`` are those of the label ``primary``; ``labels`` are all, and
    ``borderline`` those of them that are. After ``description`` stand the metrics, but for those by offset or by class and
    those that stand beside another one.
    """
    effects = {one["name"]: one["verdict"] for one in report.get("effect", {}).get("heads", [])}
    rows = [{**role(head), "effect_verdict": effects.get(head["name"]), **metrics(head)} for head in report["heads"]]
    names = [name for row in rows for name in row]
    kinds = {**ROLE, **{name: float for name in names if name not in ROLE}}
    return {name: Column(kind, [row.get(name) for row in rows]) for name, kind in kinds.items()}


def role(head: Mapping[str, Any]) -> dict[str, Any]:
    """What a head is found to be."""
    label = next((label for label in head["labels"] if label["label"] == head["primary"]), None) or {}
    chooses = head.get("chooses") or {}
    low, high = label.get("ci95") or (None, None)
    effect_low, effect_high = head["ci95"].get("loss_effect") or (None, None)
    return {
        **{name: head[name] for name in ("layer", "head", "name", "primary", "description")},
        **{name: label.get(name) for name in ("score", "baseline")},
        "ci95_low": low,
        "ci95_high": high,
        "q": (label.get("test") or {}).get("q"),
        "labels": " ".join(label["label"] for label in head["labels"]) or None,
        "borderline": " ".join(label["label"] for label in head["labels"] if label["borderline"]) or None,
        "chooses": chooses.get("label"),
        "chooses_share": chooses.get("score"),
        "loss_effect_ci95_low": effect_low,
        "loss_effect_ci95_high": effect_high,
    }


def metrics(head: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics that have one value for a head, and stand beside no other."""

    def is_shown(name: str, value: Any) -> bool:
        return not isinstance(value, Mapping) and not name.endswith(BESIDE) and not name.startswith(BY_NORM)

    return {name: value for name, value in head["metrics"].items() if is_shown(name, value)}
