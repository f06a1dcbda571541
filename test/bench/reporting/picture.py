# Copyright (c) 2026, lockredis contributors

"""results.svg: horizontal bars in panels."""

import math
from xml.sax.saxutils import escape

from .results import CONTENDERS, PLACES, beside_bare, median_ratio, name, number, spread

WIDTH, LABEL, BAR, GAP = 580, 168, 13, 3
SUMMARY_CLIENTS = 16


class Bar:
    def __init__(self, label, value, colour, low=None, high=None, text=None):
        self.label, self.value, self.colour = label, value, colour
        self.low, self.high = low, high
        self.text = number(value) if text is None else text


class Panel:
    """Horizontal bars in groups, on a linear or a logarithmic scale."""

    def __init__(self, title, note, groups, log=False, width=WIDTH):
        self.title, self.note, self.log, self.width = title, note, log, width
        self.groups = [(g, [b for b in bars if b.value is not None]) for g, bars in groups]
        self.groups = [(g, bars) for g, bars in self.groups if bars]

    def height(self):
        bars = sum(len(bars) for _, bars in self.groups)
        return 46 + bars * (BAR + GAP) + len(self.groups) * 22

    def scale(self):
        values = [b.value for _, bars in self.groups for b in bars]
        most = max(max(values), *(b.high or 0 for _, bars in self.groups for b in bars))
        room = self.width - LABEL - 70
        if not most:
            return lambda v: 0
        if not self.log:
            return lambda v: room * v / most
        least = min((v for v in values if v > 0), default=1) / 2
        span = math.log(most / least) or 1
        return lambda v: room * max(0, math.log(max(v, least) / least)) / span

    def draw(self, x, y):
        out = [
            f'<text x="{x}" y="{y + 16}" class="title">{escape(self.title)}</text>',
            f'<text x="{x}" y="{y + 32}" class="note">{escape(self.note)}'
            f'{" (logarithmic scale)" if self.log else ""}</text>',
        ]
        length = self.scale()
        y += 40
        for group, bars in self.groups:
            y += 18
            out.append(f'<text x="{x}" y="{y - 5}" class="group">{escape(group)}</text>')
            for b in bars:
                w = max(1, length(b.value))
                left = x + LABEL
                middle = y + BAR / 2
                end = w
                out.append(
                    f'<text x="{left - 6}" y="{y + BAR - 2.5}" class="label">'
                    f"{escape(b.label)}</text>"
                    f'<rect x="{left}" y="{y}" width="{w:.1f}" height="{BAR}" '
                    f'fill="{b.colour}"/>'
                )
                if b.high is not None and b.high > b.low:
                    low, end = length(b.low), max(w, length(b.high))
                    out.append(
                        f'<path d="M{left + low:.1f} {middle}H{left + length(b.high):.1f}" '
                        'class="whisker"/>'
                    )
                out.append(
                    f'<text x="{left + end + 5:.1f}" y="{y + BAR - 2.5}" class="value">'
                    f"{escape(b.text)}</text>"
                )
                y += BAR + GAP
            y += 4
        return "\n".join(out)


def rate_bars(cells):
    for c in cells:
        s = spread(c["rate"])
        label, colour = CONTENDERS[c["contender"]]
        yield Bar(label, s["median"], colour, s["min"], s["max"])


def rate_panel(results, title, note, part, links=("direct",), log=False, least=1):
    groups = []
    for link in links:
        for level in results.levels(part, link):
            if level < least:
                continue
            group = f"{level} client{'s' if level > 1 else ''}"
            groups.append((group, list(rate_bars(results.find(part, link, level)))))
    return Panel(title, note, groups, log)


def pinned_panel(results, note):
    groups = [
        (f"Redis and client {title}", list(rate_bars(results.find("pinned", where))))
        for where, title in PLACES.items()
    ]
    return Panel("What does the extension add to bare hiredis?", note, groups)


def command_panel(results):
    groups = []
    for part, level, title in (
        ("uncontended", 1, "1 client, its own lock"),
        ("hot", 16, "16 clients, one lock"),
    ):
        cells = [
            c
            for c in results.find(part, clients=level)
            if "commands" in c and "advisory" not in c["contender"]
        ]
        groups.append(
            (
                title,
                [
                    Bar(*pick(c["contender"], sum(c["commands"].values())))
                    for c in cells
                ],
            )
        )
    return Panel(
        "What does Redis have to do?", "client commands a pair, as MONITOR shows", groups
    )


def pick(contender, value):
    label, colour = CONTENDERS[contender]
    return label, value, colour


def cost_panel(results):
    # One client alone needs as much as the scheduler happens to let it: see pinned_panel.
    bars = []
    for c in results.find("uncontended", clients=SUMMARY_CLIENTS):
        s = spread(c["cpu_us"])
        bars.append(Bar(*pick(c["contender"], s["median"]), s["min"], s["max"]))
    calls = [
        Bar(*pick(c["contender"], round(sum(c["system_calls"].values()), 2)))
        for c in results.find("uncontended", clients=1)
        if c.get("system_calls")
    ]
    return Panel(
        "What does a pair cost the client?",
        "each its own lock; with all threads of its process",
        [
            (f"CPU microseconds, {SUMMARY_CLIENTS} clients", bars),
            ("system calls, 1 client", [b for b in calls if b.value > 0]),
        ],
        log=True,
    )


def wakeup_panel(results):
    groups = []
    for link in "direct", "1 ms":
        bars = []
        for e in results.raw.get("wakeup", []):
            if e["link"] == link and e["wake_us"]:
                w = e["wake_us"]
                label, value, colour = pick(e["contender"], w["p50"] / 1000)
                p99 = w["p99"] / 1000
                bars.append(Bar(label, value, colour, value, p99))
        title = "loopback" if link == "direct" else f"{link} more a round trip"
        groups.append((title, bars))
    return Panel(
        "How soon does a waiter elsewhere have the lock?",
        "milliseconds from the release, median, line to p99",
        groups,
        log=True,
    )


def topology_panel(results):
    groups = []
    for link, further in ("direct", ""), ("1 ms", ", each node 1 ms away"):
        for level in results.levels("topologies", link):
            group = f"{level} client{'s' if level > 1 else ''}{further}"
            groups.append((group, list(rate_bars(results.find("topologies", link, level)))))
    return Panel(
        "Where can the locks be kept?",
        "redis_lock unless it is said, each its own lock; pairs a second",
        groups,
        log=True,
    )


def fairness_panel(results):
    groups = {}
    for e in results.raw.get("fairness", []):
        w = e["wait_us"]
        if not w:
            continue
        bars = groups.setdefault(f"max_handoffs = {e['max_handoffs']}", [])
        colour = CONTENDERS["redisson" if e["waiter"] == "Redisson" else "session"][1]
        bars.append(
            Bar(e["waiter"], w["p50"] / 1000, colour, w["p50"] / 1000, w["max"] / 1000)
        )
    return Panel(
        "Does a busy server starve others?",
        "ms that somebody elsewhere waits behind 16 sessions: median, line to the longest",
        list(groups.items()),
        log=True,
    )


def held_panel(results):
    groups = {}
    for e in results.raw.get("held", []):
        for kind, label in (
            ("session_here", "redis_lock"),
            ("xact_here", "redis_xact_lock"),
        ):
            s = beside_bare(e, kind)
            if s is None:
                continue
            colour = CONTENDERS[kind.split("_")[0]][1]
            bars = groups.setdefault(label, [])
            bars.append(Bar(f"{e['held']:,} held", s["median"], colour, s["min"], s["max"]))
    return Panel(
        "Does a session slow down with what it holds?",
        "its pairs a second / those of bare hiredis, while it holds so many others",
        list(groups.items()),
    )


def renewal_panel(results):
    groups = {"lockredis' watchdog": [], "Redis": []}
    for e in results.raw.get("held", []):
        if "renewal" in e:
            r = e["renewal"]
            label = f"{e['held']:,} held"
            groups["lockredis' watchdog"].append(
                Bar(label, r["cpu_seconds"], CONTENDERS["session"][1])
            )
            groups["Redis"].append(
                Bar(label, r["redis_cpu_seconds"], CONTENDERS["bare"][1])
            )
    return Panel(
        "What does it cost to keep locks?",
        "CPU seconds to renew all once, every third of the lease",
        list(groups.items()),
    )


# The ground is that of the page, light or dark.
STYLE = """
text { font-family: "DejaVu Sans", Verdana, sans-serif; font-size: 11px; fill: #222 }
.title { font-size: 15px; font-weight: bold }
.note { fill: #666 }
.group { font-weight: bold; fill: #444 }
.label { text-anchor: end }
.whisker { stroke: #222; stroke-width: 1; fill: none }
@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.note { fill: #999 }
.group { fill: #bbb }
.whisker { stroke: #ddd }
}
"""


def picture(results):
    rate = "pairs a second: median, line from slowest to fastest round"
    panels = [
        rate_panel(
            # One client alone is as fast as the scheduler happens to let it: see pinned_panel.
            results, "How fast, each client with its own lock?", rate, "uncontended", log=True,
            least=2,
        ),
        rate_panel(
            results, "How fast, when all want one lock?", rate, "hot", log=True
        ),
        pinned_panel(results, "pairs a second; with two processors most of the time goes into waking them"),
        rate_panel(
            results, "And in statements of pgbench?", rate, "statements"
        ),
        rate_panel(
            results, "1,000 locks, some wanted more than others?", rate, "skew", log=True
        ),
        rate_panel(
            results, "Redis 1 ms away, each its own lock?", rate, "uncontended", ["1 ms"]
        ),
        rate_panel(
            results, "Redis 1 ms away, all want one lock?", rate, "hot", ["1 ms"], log=True
        ),
        command_panel(results),
        cost_panel(results),
        wakeup_panel(results),
        fairness_panel(results),
        held_panel(results),
        renewal_panel(results),
        topology_panel(results),
    ]
    columns = [[], []]
    heights = [56, 56]
    for panel in panels:
        if panel.groups:
            shortest = heights.index(min(heights))
            columns[shortest].append((heights[shortest], panel))
            heights[shortest] += panel.height() + 16
    size = 2 * WIDTH + 60, max(heights) + 10
    out = heading(results, size, headline(results))
    for i, column in enumerate(columns):
        for y, panel in column:
            out.append(panel.draw(20 + i * (WIDTH + 20), y))
    return "\n".join(out + ["</svg>", ""])


def headline(results):
    """What matters most of it, in words."""
    ours, other = (
        results.find("hot", clients=SUMMARY_CLIENTS, contender=c) for c in ("session", "redisson")
    )
    if not (ours and other):
        return "lockredis beside others"
    found = number(median_ratio(ours, other))
    return f"One lock that {SUMMARY_CLIENTS} want: {found} times as many pairs as {name('redisson')}"


def heading(results, size, title):
    raw = results.raw
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}">',
        f"<style>{STYLE}</style>",
        f'<text x="20" y="30" class="title">{escape(title)}</text>',
        f'<text x="20" y="46" class="note">PostgreSQL {raw["versions"]["postgresql"]}, '
        f'Redis {raw["versions"]["redis"]}, {raw["cpus"]} processors; '
        f'{raw["rounds"]} interleaved rounds</text>',
    ]
