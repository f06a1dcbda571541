# Copyright (c) 2026, lockredis contributors

"""summary.svg: four small panels, for README."""

from statistics import median

from .picture import SUMMARY_CLIENTS, Bar, Panel, heading, headline, pick, rate_bars
from .results import PEERS

SUMMARY_WIDTH = 420


def beside_others(found):
    """Of those cells one of each library, the fastest first."""
    cells = [c for c in found if c["contender"] in ["session", *PEERS]]
    return sorted(cells, key=lambda c: -median(c["rate"]))


def summary_panels(results):
    """Titles, notes and bars."""
    hot = beside_others(results.find("hot", clients=SUMMARY_CLIENTS))
    own = beside_others(results.find("uncontended", "1 ms", SUMMARY_CLIENTS))
    commands = [c for c in hot if "commands" in c]
    wakeups = [
        Bar(*pick(e["contender"], e["wake_us"]["p50"] / 1000))
        for e in results.raw.get("wakeup", [])
        if e["link"] == "1 ms" and e["wake_us"] and "+" not in e["contender"]
    ]
    return [
        (f"{SUMMARY_CLIENTS} clients want one lock", "pairs a second", list(rate_bars(hot))),
        (
            "What Redis has to do for it",
            "commands a pair",
            [Bar(*pick(c["contender"], sum(c["commands"].values()))) for c in commands],
        ),
        (
            f"{SUMMARY_CLIENTS} clients, a lock each",
            "pairs a second, 1 ms more a round trip",
            list(rate_bars(own)),
        ),
        (
            "A waiter on another server is woken",
            "milliseconds, median, 1 ms more a round trip",
            sorted(wakeups, key=lambda b: b.value),
        ),
    ]


def summary(results):
    panels = [
        Panel(title, note, [("", bars)], width=SUMMARY_WIDTH)
        for title, note, bars in summary_panels(results)
        if bars
    ]
    rows = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    y = 56
    drawn = []
    for row in rows:
        for i, panel in enumerate(row):
            drawn.append(panel.draw(20 + i * (SUMMARY_WIDTH + 20), y))
        y += max(panel.height() for panel in row)
    return "\n".join(heading(results, (2 * SUMMARY_WIDTH + 60, y), headline(results)) + drawn + ["</svg>", ""])
