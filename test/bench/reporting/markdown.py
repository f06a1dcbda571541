# Copyright (c) 2026, lockredis contributors

"""results.md: all of it in words and tables."""

import textwrap
from statistics import median

from .results import PEERS, PLACES, beside_bare, name, number, ratio, spread


def paragraph(text):
    return "\n" + textwrap.fill(text, 100, break_on_hyphens=False) + "\n"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |"]
    lines.append("|" + "|".join(["---"] + ["---:"] * (len(head) - 1)) + "|")
    lines += ["| " + " | ".join(str(x) for x in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell_rows(cells):
    for c in cells:
        rate = spread(c["rate"])
        pair = c.get("pair_us") or {}
        lock = c.get("lock_us") or {}
        vs = [
            "" if c["contender"] == p else number((c["vs"].get(p) or {}).get("median"))
            for p in PEERS
        ]
        yield [
            name(c["contender"]),
            *(number(rate[x]) for x in ("min", "median", "max")),
            *vs,
            "–" if c["script_calls"] is None else number(c["script_calls"]),
            number(pair.get("p50")),
            number(pair.get("p99")),
            number(lock.get("p50")),
            number(lock.get("p99")),
            number(median(c["cpu_us"]) if c.get("cpu_us") else None),
            number(median(c["redis_cpu_us"]) if c.get("redis_cpu_us") else None),
        ]


CELL_HEAD = (
    ["", "min", "**pairs/s**", "max"]
    + ["/ bare", "/ advisory", "/ Redisson", "/ redsync", "/ redis-py"]
    + ["commands", "pair p50", "p99", "lock p50", "p99", "CPU", "Redis CPU"]
)

TITLES = {
    "pinned": "What the extension adds, Redis and client {place}",
    "uncontended": "Each client its own lock",
    "hot": "One lock that all clients want",
    "statements": "One lock that all want, in statements of pgbench",
    "skew": "1,000 locks, some wanted more than others",
}


def cell_section(results, part, link):
    text = ""
    for level in results.levels(part, link):
        cells = results.find(part, link, level)
        title = TITLES[part].format(place=PLACES.get(link))
        further = f", {link} more a round trip" if link == "1 ms" else ""
        plural = "clients" if level > 1 else "client"
        text += f"\n### {title}: {level} {plural}{further}\n\n"
        text += table(CELL_HEAD, cell_rows(cells))
    return text


def count_section(results):
    rows = []
    for cell in results.cells:
        if "commands" not in cell:
            continue
        calls = cell.get("system_calls") or {}
        many = sorted(calls.items(), key=lambda x: -x[1])
        rows.append(
            [
                f"{name(cell['contender'])}, {cell['part']}, {cell['clients']}",
                ", ".join(
                    f"{number(n)} {c}" for c, n in sorted(cell["commands"].items())
                )
                or "none",
                number(sum(calls.values())) if calls else "–",
                ", ".join(f"{number(n)} {c}" for c, n in many[:4]),
            ]
        )
    if not rows:
        return ""
    return "\n### What a pair sends, and asks of the system\n\n" + table(
        ["contender, work, clients", "client commands", "system calls", "most of them"],
        rows,
    )


def wakeup_section(results):
    rows = []
    for e in results.raw.get("wakeup", []):
        w = e["wake_us"] or {}
        rows.append(
            [
                f"{name(e['contender'])}, {e['link']}",
                *(number(w.get(x)) for x in ("n", "p50", "p99", "max")),
                number(e["round_trip_us"]),
                number(e["round_trips"]) if e["link"] != "direct" else "–",
            ]
        )
    if not rows:
        return ""
    return (
        "\n### From a release to when a waiter on another server has the lock\n\n"
        + table(
            ["", "times", "median µs", "p99", "max", "round trip µs", "**round trips**"],
            rows,
        )
    )


def fairness_section(results):
    rows = []
    for e in results.raw.get("fairness", []):
        w = e["wait_us"] or {}
        rows.append(
            [
                f"{e['max_handoffs']}, {e['waiter']}",
                number(median(e["local_rate"])),
                number(median(e["waiter_rate"])),
                *(number(w[x] / 1000 if w else None) for x in ("p50", "p99", "max")),
            ]
        )
    if not rows:
        return ""
    return (
        "\n### How long others wait for what 16 sessions of a server pass on\n\n"
        + table(
            ["max_handoffs, who waits", "pairs/s here", "pairs/s there"]
            + ["wait ms", "p99", "max"],
            rows,
        )
    )


def held_section(results):
    rows, renewals = [], []
    kinds = ["bare", "session", "session_here", "xact", "xact_here"]
    for e in results.raw.get("held", []):
        row = [f"{e['held']:,}", number(e.get("acquire_us"))]
        for kind in kinds:
            rate = e["rate"].get(kind)
            row.append(number(median(rate)) if rate else "–")
            if rate and kind != "bare":
                beside = beside_bare(e, kind)
                row.append(f"{beside['median']:.2f}" if beside else "–")
        rows.append(row)
        if "renewal" in e:
            r = e["renewal"]
            renewals.append(
                [
                    f"{e['held']:,}",
                    number(r["round_seconds"]),
                    number(r["commands"]),
                    number(r["cpu_seconds"]),
                    f"{r['core_share']:.2%}",
                    number(r["redis_cpu_seconds"]),
                    number(r["max_lag_seconds"]),
                    number(r.get("burst_seconds")),
                    r["losses"],
                ]
            )
    if not rows:
        return ""
    text = "\n### While a session holds many locks\n\nPairs a second of one client, on the processor that Redis has, too.\n\n"
    text += table(
        ["held", "µs to take one", "bare", "redis_lock elsewhere", "/ bare"]
        + ["in that session", "/ bare", "redis_xact_lock elsewhere", "/ bare"]
        + ["in that session", "/ bare"],
        rows,
    )
    text += "\n### Renewing them\n\n"
    text += table(
        ["held", "round s", "commands a round", "our CPU s", "of a core"]
        + ["Redis CPU s", "late by s", "all at once, s", "lost"],
        renewals,
    )
    return text


def waiters_section(results):
    w = results.raw.get("waiters")
    if not w:
        return ""
    return (
        f"\n### {w['sessions']:,} sessions wait for {w['channels']:,} locks\n"
        + paragraph(
            f"{w['subscription_connections']} subscription connection; the watchdog needs "
            f"{w['watchdog_share']:.1%} of a core meanwhile, a waiting backend "
            f"{w['waiter_share']:.1%} and {w['private_bytes'] / 1e6:.1f} MB. All released "
            f"at once: the last has its lock {w['woken_seconds']:.2f} s later."
        )
    )


def topology_section(results):
    text = ""
    for link, title in ("direct", ""), ("1 ms", ", each node 1 ms away"):
        for level in results.levels("topologies", link):
            cells = results.find("topologies", link, level)
            one = [c for c in cells if c["contender"] == "one"]
            rows = []
            for c in cells:
                rate = spread(c["rate"])
                beside = ratio(c, one[0]) if one and c is not one[0] else None
                pair = c["pair_us"] or {}
                calls = c.get("system_calls")
                rows.append(
                    [
                        name(c["contender"]),
                        *(number(rate[x]) for x in ("min", "median", "max")),
                        number(beside["median"]) if beside else "",
                        number(pair.get("p50")),
                        number(pair.get("p99")),
                        ", ".join(f"{n:.2f}" for n in c["calls_of_nodes"]),
                        number(sum(calls.values())) if calls else "",
                        c.get("connections", ""),
                        number(median(c["cpu_us"])),
                        number(median(c["redis_cpu_us"])),
                        number(median(c["busiest_cpu_us"])),
                    ]
                )
            clients = f"{level} client{'s' if level > 1 else ''}"
            text += f"\n### Where locks can be kept{title}: {clients}, each its own lock\n\n"
            text += table(
                ["", "min", "**pairs/s**", "max", "/ one", "pair p50", "p99"]
                + ["commands of each node", "system calls", "connections"]
                + ["CPU", "CPU of all nodes", "of the busiest"],
                rows,
            )
    return text


def markdown(results):
    raw = results.raw
    v = raw["versions"]
    text = "# Results\n"
    text += paragraph(
        f"PostgreSQL {v['postgresql']}, Redis {v['redis']}, {raw['cpus']} processors "
        f"({raw.get('cpu_model') or 'unknown'}); {raw['rounds']} rounds"
        f"{', quick mode' if raw['quick'] else ''}, {raw['seconds']:.0f} s; "
        f"before it others used {raw.get('busy', 0):.0%} of the processors. "
        "A round trip (PING over loopback) takes "
        f"{number(raw.get('round_trip_us'))} µs."
    )
    text += paragraph(
        "[How it is measured](README.md). Ratios are medians over the rounds; "
        "commands are script calls a pair; times are in microseconds: of a pair, of "
        "getting the lock, of the client's CPU and of Redis' CPU for a pair. "
        "[All of it as a picture](results.svg)."
    )
    if not v["hand_over"]:
        text += paragraph("This build has no hand-over.")
    for part, why in raw.get("failed", {}).items():
        text += paragraph(f"The part {part} failed: {why.strip()}")
    for peer, why in raw.get("missing", {}).items():
        text += paragraph(f"Without {name(peer)}: {why.strip()}")
    checked = results.cells + raw.get("wakeup", []) + raw.get("fairness", [])
    lost = sum(c["lost_updates"] for c in checked)
    steps = sum(c["steps"] for c in results.cells)
    text += paragraph(
        "Each pair added one to a counter that nothing but the lock protects: "
        f"{steps:,} pairs, {lost:,} lost updates."
    )
    bars = raw["bars"]
    if bars:
        text += "\n### The bars\n\n"
        rows = [
            [b["work"], b["must"], b["found"], "yes" if b["reached"] else "**no**"]
            for b in bars
        ]
        text += table(["work", "must", "is", "reached"], rows)
    for where in PLACES:
        text += cell_section(results, "pinned", where)
    for part in "uncontended", "hot", "statements", "skew":
        text += cell_section(results, part, "direct")
    for part in "uncontended", "hot":
        text += cell_section(results, part, "1 ms")
    text += count_section(results) + wakeup_section(results)
    text += fairness_section(results) + held_section(results)
    return text + waiters_section(results) + topology_section(results)
