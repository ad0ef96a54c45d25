"""Reports that several tests read, each made once."""

import functools
import importlib.util

import headscope


@functools.cache
def planted() -> headscope.Report:
    """A model whose heads are known, over 200 sentences."""
    return headscope.analyze("box:planted", "box:gold", limit=200, no_run_info=True)


@functools.cache
def small(sentences: int = 60) -> headscope.Report:
    """A trained model, with the effect of each head."""
    studies = ["effect", "pruning"]
    return headscope.analyze("box:small", limit=sentences, with_=studies, no_run_info=True)


def has(*libraries: str) -> bool:
    """Whether these optional libraries are installed."""
    return all(importlib.util.find_spec(library) for library in libraries)
