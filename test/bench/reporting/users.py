# Copyright (c) 2026, lockredis contributors

"""What script/bench users has measured: users.md, users.svg, and what README says of it."""

from statistics import median
from types import SimpleNamespace

from .documents import wrapped
from .markdown import table
from .picture import Bar, Panel, heading
from .results import CONTENDERS, number, ratio

LABELS = {
    "advisory": "`pg_advisory_lock`",
    "session": "`redis_lock`",
    "bare_backend": "a bare backend",
    "redisson": "Redisson",
    "redsync": "redsync",
    "redis_py": "redis-py",
    "fenced": "`redis_fenced_lock`",
    "fair": "`redis_fair_lock`",
    "read": "`redis_read_lock`",
    "advisory_xact": "`pg_advisory_xact_lock`",
    "xact": "`redis_xact_lock`",
    "xact_sent": "`redis_xact_lock`, `release_wait = sent`",
}
SHOWN = ["session", "redisson", "redsync", "redis_py", "advisory"]
LIBRARIES = ["redisson", "redsync", "redis_py"]
SHOWN_DISTANCE, PANEL_WIDTH = 1, 460


def sessions(count):
    return f"{count} session{'s' if count > 1 else ''}"


def places(raw):
    """Distance, whether each has its own key, sessions; and the cells there by contender."""
    found = {}
    for cell in raw["cells"]:
        at = found.setdefault((cell["distance"], -cell["own"], cell["clients"]), {})
        at[cell["contender"]] = cell
    return {(d, -own, n): found[d, own, n] for d, own, n in sorted(found)}


def work(distance, own, clients):
    keys = "its own key" if clients == 1 else "each its own key" if own else "one key"
    away = f"{distance} ms away" if distance else "here"
    return f"{sessions(clients)}, {keys if own else 'one key'}, Redis {away}"


def behind(raw, shown=None):
    """Where a library is faster, the furthest first: lockredis' rate / the library's."""
    found, count = [], 0
    for place, cells in places(raw).items():
        for peer in [p for p in LIBRARIES if p in cells]:
            r = ratio(cells["session"], cells[peer])
            count += 1
            if r and r["median"] < 1:
                found.append((r["median"], f"{LABELS[peer]} ({work(*place)})"))
    if not found:
        return f"In none of {count} comparisons with a library `redis_lock` is behind."
    some = [f"{number(r, 2)} × {what}" for r, what in sorted(found)][:shown]
    furthest = "the furthest " if len(some) < len(found) else ""
    return (
        f"In {len(found)} of {count} comparisons with a library `redis_lock` is behind, "
        f"{furthest}with {'; '.join(some)}."
    )


def beside(cell, other):
    """A cell of the table: the median ratio of two rates"""
    if other is None or other is cell:
        return ""
    return number(ratio(cell, other)["median"], 2)


def page(raw):
    versions = raw["versions"]
    out = [
        "# What users feel\n",
        wrapped(
            f"Written by `script/bench users`: PostgreSQL {versions['postgresql']}, Redis "
            f"{versions['redis']}, {raw['cpus']} processors ({raw['cpu_model']}); {raw['rounds']} "
            f"interleaved rounds, {raw['seconds']:.0f} s; before it others used {raw['busy']:.0%} "
            "of the processors."
        ),
        wrapped(
            "Pairs of lock and unlock a second, in statements that clients send (pgbench, simple "
            "protocol), beside advisory locks and libraries, which have no server in between. "
            "Medians over the rounds; ratios are taken within a round. CPU is that of a pair in µs: "
            "of the server with the watchdog, or of the library; and of Redis. What a session needs "
            "to start is measured apart and left out."
        ),
        wrapped(
            "A bare backend is the least that a statement can do for a lock in Redis "
            "(`test/bench/bare_backend.c`): one send and one blocking read, and a script as short as "
            "Redisson's semantics allow. It renews nothing, waits for nobody and cleans nothing up."
        ),
        "![Pairs a second with Redis 1 ms away](users.svg)\n",
        wrapped(behind(raw)),
    ]
    for place, cells in places(raw).items():
        rows = []
        for contender in [c for c in LABELS if c in cells]:
            cell = cells[contender]
            rows.append(
                [
                    LABELS[contender],
                    *(f"{f(cell['rate']):,.0f}" for f in (min, median, max)),
                    *(beside(cell, cells.get(peer)) for peer in ("advisory", "bare_backend")),
                    number(median(cell["cpu_us"])),
                    number(median(cell["redis_cpu_us"])),
                ]
            )
        heads = ["", "least", "pairs/s", "most", "/ advisory", "/ bare", "CPU", "of Redis"]
        out += [f"## {work(*place)}\n", table(heads, rows)]
    return "\n".join(out)


def users_picture(raw):
    panels = []
    for own, title in (1, "Each its own key"), (0, "One key that all want"):
        groups = []
        for (distance, with_own, clients), cells in places(raw).items():
            if distance == SHOWN_DISTANCE and with_own == own:
                bars = []
                for contender in [c for c in SHOWN if c in cells]:
                    rates, (label, colour) = cells[contender]["rate"], CONTENDERS[contender]
                    bars.append(Bar(label, median(rates), colour, min(rates), max(rates)))
                groups.append((sessions(clients), bars))
        if groups:
            note = "pairs a second: median, line from slowest to fastest round"
            panels.append(Panel(title, note, groups, log=True, width=PANEL_WIDTH))
    height = 56 + max((p.height() for p in panels), default=0)
    size = (2 * PANEL_WIDTH + 60, height)
    title = "What users feel with Redis 1 ms away: lock and unlock in statements of clients"

    out = heading(SimpleNamespace(raw=raw), size, title)
    out += [panel.draw(20 + i * (PANEL_WIDTH + 20), 56) for i, panel in enumerate(panels)]
    return "\n".join(out + ["</svg>", ""])


def block(raw):
    """For README"""
    return (
        "![Lock and unlock in statements of clients, Redis 1 ms away, beside libraries]"
        "(docs/bench/users.svg)\n\n"
        + wrapped(behind(raw, 1) + " [All figures](docs/bench/users.md).")
    )
