"""How often a firm label of one corpus is found again, firmly, on another: a table in Markdown.

    headscope analyze MODEL -c one.conllu --no-run-info -o one.json
    headscope analyze MODEL -c other.conllu --no-run-info -o other.json
    python3 benches/replication.py ONE=one.json OTHER=other.json [MORE=...]

Every report is held against every other, both ways. A label counts as found again if the same head has the same label
there and it is not borderline. A label that rests on too little there (`min_queries`, `min_sentences`,
`syntactic_min_count` of the policy) could not be tested and is counted apart. The yield is labels per head: a policy that
labels little is easily found again. The interval is the 95 % percentile interval of 2,000 resamples of the heads; where
all labels or none are found again it has no width, and says nothing.
"""

import json
import random
import re
import sys

RESAMPLES, SEED = 2000, 1979
FAMILIES = {
    "positional": {"previous-token", "next-token", "offset", "self", "local"},
    "special and punctuation": {"first-special", "separator", "punctuation"},
    "broad": {"broad"},
    "syntactic": {"syntactic"},
    "content": {"tag", "same-tag", "similar-words", "same-token", "rare-words"},
    "sinks": {"sink"},
}


def family_of(label):
    name = label["label"].split(":")[0]
    return next((family for family, names in FAMILIES.items() if name in names), name)


def enough(report, label):
    """Whether there is enough in a report to have the label there."""
    policy = report["settings"]["policy"]
    if label["label"].startswith("syntactic:"):
        relation = label["label"].split(":", 1)[1]
        known = next((entry for entry in report["relations"] if entry["relation"] == relation), None)
        return bool(known) and (known["count"] >= policy["syntactic_min_count"]
                                and known["sentences"] >= policy["min_sentences"])
    named = (match.groups() for match in re.finditer(r"(\w+)(?:\[([^\]]+)\]|\.(\w+))?", label["rule"]))
    metric, *keys = next(groups for groups in named if groups[0] in report["denominators"])
    rests, key = report["denominators"][metric], keys[0] or keys[1]
    rests = rests[key] if key else rests
    return rests["count"] >= policy["min_queries"] and rests["sentences"] >= policy["min_sentences"]


# They are labels of sequences that no corpus is in, and so found again in every report.
OF_NO_CORPUS = {"duplicate-token", "induction", "induction-mirror", "masked-copy"}


def firm(head, wanted):
    labels = (label for label in head["labels"] if label["label"] not in OF_NO_CORPUS)
    return [label for label in labels if not label["borderline"] and wanted(label)]


def interval(of_heads):
    """Of the share found again, `[(found, tested)]` by head."""
    chance = random.Random(SEED)
    shares = []
    for _ in range(RESAMPLES):
        drawn = chance.choices(of_heads, k=len(of_heads))
        found, tested = (sum(numbers) for numbers in zip(*drawn))
        if tested:
            shares.append(found / tested)
    if not shares:
        return None
    shares.sort()

    def quantile(share):
        place = share * (len(shares) - 1)
        below = int(place)
        above = min(below + 1, len(shares) - 1)
        return shares[below] + (place - below) * (shares[above] - shares[below])

    return quantile(0.025), quantile(0.975)


def row(here, there, wanted):
    of_heads, labels, untested, weaker = [], 0, 0, 0
    for head, again in zip(here["heads"], there["heads"]):
        assert head["name"] == again["name"], "reports of one model have the same heads"
        mine = firm(head, wanted)
        tested = [label for label in mine if enough(there, label)]
        kept = {label["label"] for label in firm(again, wanted)}
        any_kind = {label["label"] for label in again["labels"]}
        found = sum(label["label"] in kept for label in tested)
        weaker += sum(label["label"] in any_kind - kept for label in tested)
        labels, untested = labels + len(mine), untested + len(mine) - len(tested)
        of_heads.append((found, len(tested)))
    found, tested = (sum(numbers) for numbers in zip(*of_heads))
    return labels, labels / len(of_heads), untested, found, tested, weaker, interval(of_heads)


def main():
    if len(sys.argv) < 3 or not all("=" in argument for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    reports = {}
    for argument in sys.argv[1:]:
        name, path = argument.split("=", 1)
        with open(path, encoding="utf-8") as file:
            reports[name] = json.load(file)
    kinds = {name: lambda label, name=name: family_of(label) == name for name in FAMILIES}
    others = {family_of(label) for report in reports.values() for head in report["heads"] for label in head["labels"]}
    kinds |= {name: lambda label, name=name: family_of(label) == name for name in sorted(others - set(FAMILIES))}
    kinds["syntactic, beyond tags"] = lambda label: label["beyond"] == "tags"
    kinds["all"] = lambda label: True
    print("| labels | from | to | firm labels | per head | not tested there | found again | 95 % interval | other than firm there |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind, wanted in kinds.items():
        for here in reports:
            for there in reports:
                if here == there:
                    continue
                labels, rate, untested, found, tested, weaker, ends = row(reports[here], reports[there], wanted)
                if not labels:
                    continue
                share = f"{found} of {tested}, {100 * found / tested:.0f} %" if tested else "-"
                ends = f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %" if ends and ends[0] < ends[1] else "-"
                print(f"| {kind} | {here} | {there} | {labels} | {rate:.2f} | {untested} | {share} | {ends} | {weaker} |")


if __name__ == "__main__":
    main()
