"""The options of each command, with their types: what a type checker knows of them. The names are those of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from ._options import Paths
from ._program import PathLike

Texts = str | Iterable[str]


class Machine(TypedDict, total=False):
    """What of the machine may be used."""

    memory: str | int | None


class Sentences(Machine, total=False):
    """Which model reads sentences, and how."""

    adapter: PathLike | None
    tokens_as_words: bool | None
    residues: str | None
    words: str | None
    format: str | None
    limit: int | None
    max_tokens: int | None
    offline: bool | None


class Labelling(Machine, total=False):
    """By which thresholds heads are labelled."""

    policy: PathLike | None
    preset: Texts | None
    min_count: int | None
    threads: int | None


class Merge(Labelling, total=False):
    """Options of ``merge``."""

    compact: bool | None
    digits: int | None
    no_run_info: bool | None
    summary: str | None


class AnalyzeShard(Sentences, total=False):
    """Options of ``analyze_shard``; ``policy`` and ``min_count`` are for a second stage, which may depend on labels."""

    preset: Texts | None
    threads: int | None
    no_run_info: bool | None
    unit: str | None
    truncate: bool | None
    strict: bool | None
    from_token: str | None
    context: str | None
    bos: str | None
    counts: PathLike | None
    remove: Texts | None
    with_: Texts | None
    without: Texts | None
    task: PathLike | None
    sample: int | None
    removal: str | None
    phases: int | None
    effect_of: Texts | None
    gradient_steps: int | None
    probe: Texts | None
    control: Texts | None
    control_seeds: int | None
    index: PathLike | None
    policy: PathLike | None
    min_count: int | None
    links: PathLike | None
    links_from: str | None
    link_rules: PathLike | None
    undirected: Texts | None
    min_distance: Texts | None
    classes: str | None
    positions: str | None


class Analyze(AnalyzeShard, total=False):
    """Options of ``analyze``."""

    compact: bool | None
    digits: int | None
    summary: str | None
    keep: str | int | None
    resume: PathLike | None
    partial: PathLike | None
    show: str | None
    show_example: bool | None


class Maps(Sentences, total=False):
    """Options of ``maps``."""

    corpus: Paths | None
    sentence: int | Iterable[int] | None
    layer: int | Iterable[int] | None
    head: Texts | None
    rollout: bool | None
    truncate: bool | None
    remove: Texts | None
    strict: bool | None


class View(Sentences, total=False):
    """Options of ``view``."""

    corpus: Paths | None
    sentence: int | Iterable[int] | None
    find: str | None
    relation: str | None
    link: str | None
    hide_special: bool | None
    truncate: bool | None
    from_token: str | None


class Compare(Labelling, total=False):
    """Options of ``compare`` on labels."""

    matched: bool | None
    match: PathLike | None


class CompareNumbers(Labelling, total=False):
    """Options of ``compare`` on numbers."""

    rate: float | None
    tolerance: str | float | Iterable[str] | None
    only: Texts | None


class Export(Machine, total=False):
    """Options of ``export``."""

    policy: PathLike | None
    preset: Texts | None
    columns: Texts | None
    rows: Texts | None
    compact: bool | None


class Batch(Machine, total=False):
    """Options of ``batch``."""

    only: Texts | None
    keep_going: bool | str | None
    as_: Texts | None
    offline: bool | None
