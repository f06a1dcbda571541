# Copyright (c) 2026, lockredis contributors

"""What the documentation says of the results: blocks in its pages, each between
"<!-- bench: NAME -->" and "<!-- end -->"."""

import re
import textwrap
from statistics import median

from .markdown import table
from .results import name, number, ratio

# Relative to the top of the tree
PAGES = ["docs/bench/README.md", "docs/topologies.md"]
BLOCK = re.compile(r"(<!-- bench: ([a-z ]+) -->\n)(.*?)(<!-- end -->)", re.S)


def wrapped(text):
    return textwrap.fill(text, 100, break_on_hyphens=False, break_long_words=False) + "\n"


def circumstances(results):
    raw = results.raw
    busy = raw.get("busy", 0)
    others = f", while others used {busy:.0%} of them" if busy >= 0.05 else ""
    rounds = f"{raw['rounds']} round{'s' if raw['rounds'] > 1 else ''}"
    return f"{rounds} on {raw['cpus']} processors{others}"


def missed(results):
    bars = results.raw["bars"]
    found = [b for b in bars if not b["reached"]]
    of_work = {}
    for b in found:
        of_work.setdefault(b["work"], []).append(b)
    shown = [
        f"{work} (wanted: {', '.join(b['must'] for b in some)}; "
        f"measured: {', '.join(b['found'].removesuffix(' ×') for b in some)})"
        for work, some in of_work.items()
    ]
    count = f"{len(found)} {'is' if len(found) == 1 else 'are'} missed"
    verdict = f"{count}: {'; '.join(shown)}" if found else "none is missed"
    return wrapped(f"Of {len(bars)} bars, with {circumstances(results)}, {verdict}.")


def topologies(results):
    heads = {("direct", 1): "1 session", ("direct", 16): "16 sessions", ("1 ms", 1): "1 ms away"}
    one = {where: results.find("topologies", *where, "one") for where in heads}
    heads = {where: head for where, head in heads.items() if one[where]}

    def beside(contender, link, level):
        cell = results.find("topologies", link, level, contender)
        if not cell:
            return ""
        found = ratio(cell, one[link, level])
        return number(found["median"]) if found else ""

    rows = []
    for cell in results.find("topologies", clients=1):
        contender = cell["contender"]
        calls = cell.get("system_calls")
        rows.append(
            [
                name(contender),
                *(beside(contender, *where) for where in heads),
                ", ".join(f"{n:.1f}" for n in cell["calls_of_nodes"]),
                number(sum(calls.values())) if calls else "",
                cell.get("connections", ""),
                number(median(cell["redis_cpu_us"])),
                number(median(cell["busiest_cpu_us"])),
            ]
        )
    return (
        table(
            ["", *heads.values(), "commands of each node", "system calls", "connections"]
            + ["CPU of Redis, µs", "of the busiest"],
            rows,
        )
        + "\n"
        + wrapped(
            "Rates are ratios to one Redis in the same round; the rest is of a pair of one "
            f"session, or of the session. {circumstances(results)}."
        )
        if rows
        else None
    )


BLOCKS = {"missed": missed, "topologies": topologies}


def fill(results, text):
    """A page with its blocks as the results have it; what they do not have stays."""

    def filled(match):
        begin, what, old, end = match.groups()
        new = BLOCKS[what](results)
        return begin + (old if new is None else new) + end

    return BLOCK.sub(filled, text)
