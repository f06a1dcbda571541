# Copyright (c) 2026, lockredis contributors

"""What was measured, and how it is told: names, numbers, ratios."""

from statistics import median

# In the order of tables and bars: how it is called, and its colour.
CONTENDERS = {
    "bare": ("bare hiredis", "#8c8c8c"),
    "bare_processes": ("bare hiredis, processes", "#b4b4b4"),
    "session": ("redis_lock", "#c6302b"),
    "query": ("redis_lock in one query", "#a82621"),
    "xact": ("redis_xact_lock", "#e2726e"),
    "fenced": ("redis_fenced_lock", "#f0aaa7"),
    "advisory": ("pg_advisory_lock", "#336791"),
    "advisory_xact": ("pg_advisory_xact_lock", "#7ba3c4"),
    "redisson": ("Redisson", "#d98e04"),
    "redsync": ("redsync (Go)", "#00a3b4"),
    "redis_py": ("redis-py", "#4f9a52"),
    "none": ("no lock", "#dddddd"),
    "session+redisson": ("redis_lock and Redisson", "#a0522d"),
    # The part "topologies"
    "one": ("one Redis", "#c6302b"),
    "sentinels": ("Sentinels", "#c6302b"),
    "cluster3_1": ("cluster of 3, keys of 1", "#e2726e"),
    "cluster3_3": ("cluster of 3, keys of 3", "#e2726e"),
    "cluster5_1": ("cluster of 5, keys of 1", "#e2726e"),
    "cluster5_3": ("cluster of 5, keys of 3", "#e2726e"),
    "cluster5_5": ("cluster of 5, keys of 5", "#e2726e"),
    "masters": ("five masters", "#a82621"),
    "redisson_masters": ("RedissonRedLock of five", "#d98e04"),
    "redsync_masters": ("redsync, five pools", "#00a3b4"),
}
PEERS = ["bare", "advisory", "redisson", "redsync", "redis_py"]
PLACES = {
    "apart": "each on a processor of its own",
    "together": "on one processor",
}


def name(contender):
    return CONTENDERS[contender][0]


def spread(values):
    return {"min": min(values), "median": median(values), "max": max(values)}


def ratio(cell, other, field="rate"):
    """Spread of the ratios of two cells, round by round."""
    pairs = [(a, b) for a, b in zip(cell[field], other[field]) if b]
    return spread([a / b for a, b in pairs]) if pairs else None


def median_ratio(cell, other, field="rate"):
    """0 if the other did nothing in any round."""
    found = ratio(cell, other, field)
    return found["median"] if found else 0


def number(value, digits=3):
    """With that many digits that say something."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def rate_of(values):
    return {"rate": values}


def beside_bare(entry, kind):
    """Spread of the ratios to bare hiredis, round by round."""
    rate = entry["rate"]
    return ratio(rate_of(rate[kind]), rate_of(rate["bare"])) if "bare" in rate else None


class Results:
    def __init__(self, raw):
        self.raw = raw
        self.cells = raw["cells"]

    def find(self, part, link="direct", clients=None, contender=None):
        """The cells that are so; of one contender the cell or None."""
        found = [
            c
            for c in self.cells
            if c["part"] == part
            and c["link"] == link
            and clients in (None, c["clients"])
            and contender in (None, c["contender"])
        ]
        if contender is not None:
            return found[0] if found else None
        order = list(CONTENDERS)
        return sorted(found, key=lambda c: order.index(c["contender"]))

    def levels(self, part, link="direct"):
        return sorted({c["clients"] for c in self.find(part, link)})

    def derive(self):
        """Ratios to those whom it is compared with, into each cell."""
        order = list(CONTENDERS)
        self.raw.get("wakeup", []).sort(
            key=lambda e: (e["link"] != "direct", order.index(e["contender"]))
        )
        for cell in self.cells:
            cell["vs"] = {}
            for peer in PEERS:
                other = self.find(cell["part"], cell["link"], cell["clients"], peer)
                if other and other is not cell:
                    cell["vs"][peer] = ratio(cell, other)
