# Copyright (c) 2026, lockredis contributors

"""What lockredis has to reach, and whether it does."""

from .results import PLACES, median_ratio, name, number


def bar(work, must, found, reached):
    return {"work": work, "must": must, "found": found, "reached": reached}


SESSION_LOOPS = [
    ("one session in a DO loop", "session"),
    ("one session in one query", "query"),
]


def uncontended_bars(results):
    cell = results.find("uncontended", clients=1, contender="session")
    bare = results.find("uncontended", clients=1, contender="bare")
    if cell and "commands" in cell:
        commands = sum(cell["commands"].values())
        exact = abs(cell["script_calls"] - 2) < 0.01 and abs(commands - 2) < 0.05
        yield bar(
            "one session in a DO loop",
            "2 client commands",
            f"{commands:.2f}",
            exact,
        )
        if "system_calls" in cell:
            calls = sum(cell["system_calls"].values())
            must = "4 system calls"
            yield bar("one session in a DO loop", must, f"{calls:.2f}", round(calls) <= 4)
    places = [
        ("one session in a DO loop", cell, bare),
        *(
            (
                f"{what}, Redis and client {title}",
                results.find("pinned", where, 1, contender),
                results.find("pinned", where, 1, "bare"),
            )
            for where, title in PLACES.items()
            for what, contender in SESSION_LOOPS
        ),
    ]
    for work, cell, bare in places:
        if cell and bare:
            rate = median_ratio(cell, bare)
            cpu = median_ratio(cell, bare, "cpu_us")
            yield bar(work, "rate ≥ 0.9 × bare hiredis", f"{rate:.2f} ×", rate >= 0.9)
            yield bar(work, "CPU ≤ 1.25 × bare hiredis", f"{cpu:.2f} ×", cpu <= 1.25)
    for contender, how in (("session", "in DO loops"), ("query", "in one query each")):
        many = results.find("uncontended", clients=64, contender=contender)
        for peer in ("bare", "bare_processes"):
            other = results.find("uncontended", clients=64, contender=peer)
            if many and other:
                rate = median_ratio(many, other)
                work = f"64 sessions, each its own lock, {how}"
                must = f"rate ≥ 0.8 × {name(peer)}"
                yield bar(work, must, f"{rate:.2f} ×", rate >= 0.8)


def count_bars(results):
    wanted = {
        "again": ("take again in the transaction", 0),
        "is_held": ("redis_is_held", 0),
        "try_local": ("try on a key of another local session", 0),
        "commit": ("transaction with one lock", 2),
        "hand_over": ("hand-over to a local waiter", 0),
    }
    for what, (work, must) in wanted.items():
        found = results.raw.get("counts", {}).get(what)
        if found is not None:
            yield bar(work, f"{must} client commands", f"{found:g}", found == must)


def hot_bars(results):
    for part, title in ("hot", "in DO loops"), ("statements", "with pgbench"):
        cell = results.find(part, clients=16, contender="session")
        if not cell:
            continue
        work = f"one lock that 16 sessions want, {title}"
        redisson = results.find(part, clients=16, contender="redisson")
        if redisson:
            found = median_ratio(cell, redisson)
            yield bar(work, "rate ≥ 10 × Redisson", f"{number(found)} ×", found >= 10)
        advisory = results.find(part, clients=16, contender="advisory")
        if advisory:
            found = median_ratio(cell, advisory)
            must = "rate ≥ 0.7 × pg_advisory_lock"
            yield bar(work, must, f"{found:.2f} ×", found >= 0.7)
        calls = cell["script_calls"]
        yield bar(work, "≤ 0.2 client commands a pair", f"{calls:.3f}", calls <= 0.2)


def other_bars(results):
    for entry in results.raw.get("wakeup", []):
        if entry["contender"] == "session" and entry["link"] == "1 ms" and entry["wake_us"]:
            trips = entry["round_trips"]
            yield bar(
                "wake-up after a foreign release, 1 ms more a round trip",
                "median ≤ 3 round trips",
                f"{trips:.2f} (p99 {number(entry['wake_us']['p99'] / 1000)} ms)",
                trips <= 3,
            )
    for entry in results.raw.get("held", []):
        if entry["held"] == 100_000 and "renewal" in entry:
            r = entry["renewal"]
            work = "100,000 held locks"
            in_time = r["losses"] == 0 and r["max_lag_seconds"] < r["round_seconds"]
            found = f"{r['losses']} lost, late by {r['max_lag_seconds']:.2f} s at most"
            yield bar(work, "renewed in time", found, in_time)
            share = r["core_share"]
            yield bar(work, "≤ 10 % of a core", f"{share:.1%}", share <= 0.1)
            cpu = r["redis_cpu_seconds"]
            must = "≤ 1 s of Redis CPU a round"
            yield bar(work, must, f"{cpu:.2f} s", cpu <= 1)
    if "slot_bytes" in results.raw:
        size = results.raw["slot_bytes"]
        yield bar("memory", "≤ 1 KiB a slot", f"{size} bytes", size <= 1024)


def topology_bars(results):
    """As few commands as with one Redis, and faster than others with several masters."""
    where = {
        "sentinels": "Sentinels",
        "cluster3_1": "cluster of 3, keys of one node",
        "masters": "five masters",
    }
    for contender, work in where.items():
        cell = results.find("topologies", clients=1, contender=contender)
        if not cell:
            continue
        most = max(cell["calls_of_nodes"])
        must = "2 commands for each node that is asked"
        yield bar(work, must, f"{most:.2f}", most < 2.01)
        if contender != "masters" and "system_calls" in cell:
            calls = sum(cell["system_calls"].values())
            yield bar(work, "4 system calls", f"{calls:.2f}", round(calls) <= 4)
    far, one = (results.find("topologies", "1 ms", 1, c) for c in ("masters", "one"))
    if far and one:
        # One Redis takes two.
        trips = 2 * median_ratio(one, far)
        yield bar("five masters, 1 ms away", "2 round trips", f"{trips:.2f}", trips < 2.5)
    for clients in results.levels("topologies"):
        cell = results.find("topologies", clients=clients, contender="masters")
        for peer in "redsync_masters", "redisson_masters":
            other = results.find("topologies", clients=clients, contender=peer)
            if cell and other:
                rate = median_ratio(cell, other)
                work = f"five masters, {clients} session{'s, each its own lock' if clients > 1 else ''}"
                yield bar(work, f"rate > {name(peer)}", f"{number(rate)} ×", rate > 1)


def all_bars(results):
    bars = []
    for some in uncontended_bars, count_bars, hot_bars, other_bars, topology_bars:
        bars += some(results)
    return bars
