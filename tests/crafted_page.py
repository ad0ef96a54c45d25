#!/usr/bin/env python3
"""Parses the page of a report whose texts are hostile: tests/crafted_page.py HEADSCOPE

Every text of the report that may be any is replaced, the page exported, and read by Python's own parser of HTML: it has the
tags and the attributes of the page of the report as it was, and no others.
"""

import json
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

EVIL = "x\n\x1b[31m \" onmouseover='a' ><script>evil</script>&lt;"


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[tuple[str, str]] = set()
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found |= {(tag, "")} | {(tag, name) for name, _ in attributes}


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True)


def texts(value, at=()):
    """The places of all texts, of lists in the first two items."""
    if isinstance(value, str):
        yield at
    elif isinstance(value, (list, dict)):
        items = list(enumerate(value))[:2] if isinstance(value, list) else value.items()
        for key, item in items:
            yield from texts(item, (*at, key))


def put(report, places):
    for *way, last in places:
        part = report
        for key in way:
            part = part[key]
        part[last] = EVIL
    return report


with tempfile.TemporaryDirectory() as scratch:
    saved, page = Path(scratch) / "report.json", Path(scratch) / "page.html"
    made = run("analyze", "--corpus", "box:gold", "--limit", "60", "--with", "coreference,similarity", "-q", "-o", saved)
    assert made.returncode == 0, made.stderr.decode()
    original = saved.read_text()

    def tags_of(places) -> set[tuple[str, str]] | None:
        """None where the report is refused."""
        saved.write_text(json.dumps(put(json.loads(original), places)))
        if run("export", saved, "-o", page).returncode != 0:
            return None
        return Tags(page.read_text()).found

    expected, free, places = tags_of([]), [], list(texts(json.loads(original)))
    # By halves: most places are free together.
    while places:
        count = len(places)
        while tags_of(free + places[:count]) is None and count > 0:
            count //= 2
        free += places[:count]
        places = places[max(count, 1) :]
    more = tags_of(free) - expected
    assert not more and len(free) > 30, (more, len(free))
    print(f"{len(free)} texts are hostile, and the page has its own {len(expected)} tags and attributes")
