#!/usr/bin/env python3
# Copyright (c) 2026, lockredis contributors

"""redis-py's Lock as services would use it, behind the protocol of client.h.

Each client is a process, as with the usual servers of Python applications.
"""

import mmap
import multiprocessing
import sys
import time
from collections import Counter

import redis

BOARD_KEYS = 1024
SEQUENCE_SIZE = 65536
SEQUENCE_START = 16384
RELEASED_AT = BOARD_KEYS
RELEASER = BOARD_KEYS + 1

now = time.monotonic_ns


def step(ns):
    """The step of a histogram: 16 for each power of two."""
    ns = max(ns, 16)
    e = ns.bit_length() - 1
    return e * 16 + (ns >> (e - 4) & 15)


def sleep_until(at):
    time.sleep(max(0, at - now()) / 1e9)


class Client:
    """Lives in a process of its own."""

    def __init__(self, path):
        with open(path, "r+b") as file:
            memory = mmap.mmap(file.fileno(), 0)
        view = memoryview(memory)
        self.words = view[:SEQUENCE_START].cast("q")
        self.sequence = view[SEQUENCE_START:].cast("i")
        self.servers = {}

    def server(self, port):
        if port not in self.servers:
            self.servers[port] = redis.Redis(host="127.0.0.1", port=port)
        return self.servers[port]

    def run(self, port, number, start, until, prefix, mode, hold, pause):
        server = self.server(port)
        words = self.words
        pairs = steps = errors = 0
        lock_times, pair_times, wake_times = Counter(), Counter(), Counter()
        key = number if mode == "own" else 0
        name = prefix if mode == "hot" else f"{prefix}:{key}"
        place = number * 4001

        sleep_until(start)
        begin = now()
        while not steps or begin < until:
            if mode == "zipf":
                key = self.sequence[place % SEQUENCE_SIZE]
                place += 1
                name = f"{prefix}:{key}"

            lock = server.lock(name, timeout=30)
            lock.acquire()
            got = now()
            if (
                mode == "hot"
                and words[RELEASER] != number + 1
                and begin < words[RELEASED_AT]
            ):
                wake_times[step(got - words[RELEASED_AT])] += 1
            lock_times[step(got - begin)] += 1
            value = words[key]
            if hold:
                time.sleep(hold / 1e6)
                words[RELEASER] = number + 1
                words[RELEASED_AT] = now()
            words[key] = value + 1
            try:
                lock.release()
            except redis.exceptions.LockError:
                errors += 1

            done = now()
            steps += 1
            if done <= until:
                pairs += 1
                pair_times[step(done - begin)] += 1
            if pause:
                time.sleep(pause / 1e6)
                done = now()
            begin = done
        return pairs, steps, errors, lock_times, pair_times, wake_times


def serve(path, pipe):
    client = Client(path)
    while True:
        pipe.send(client.run(*pipe.recv()))


class Clients:
    def __init__(self, path):
        self.path = path
        self.pipes = []

    def pipe(self, n):
        while len(self.pipes) <= n:
            ours, theirs = multiprocessing.Pipe()
            multiprocessing.Process(
                target=serve, args=(self.path, theirs), daemon=True
            ).start()
            self.pipes.append(ours)
        return self.pipes[n]

    def run(self, line):
        word, port, clients, _, base, start, until, prefix, mode, hold, pause = line.split()
        if word != "run":
            raise ValueError(f"unknown request: {line}")
        pipes = [self.pipe(n) for n in range(int(clients))]
        for n, pipe in enumerate(pipes):
            pipe.send(
                (int(port), int(base) + n, int(start), int(until), prefix, mode)
                + (int(hold), int(pause))
            )
        answers = [pipe.recv() for pipe in pipes]
        return [sum(column[1:], column[0]) for column in zip(*answers)]


def text(value):
    if not isinstance(value, Counter):
        return str(value)
    return ",".join(f"{i}:{n}" for i, n in sorted(value.items())) or "-"


def main():
    clients = Clients(sys.argv[1])
    for line in sys.stdin:
        print("ok", *map(text, clients.run(line)), flush=True)


if __name__ == "__main__":
    main()
