#!/usr/bin/env python3
"""What script/coverage prints: figures by folder and by file, and the lines of
each function that no test has reached, from the two files that gcovr wrote."""

import json
import os
import sys


def ratio(covered, total):
    return f"{covered}/{total} {100 * covered / total:5.1f} %" if total else "-"


def row(name, files):
    sums = [sum(f[key] for f in files) for key in
            ("line_covered", "line_total", "branch_covered", "branch_total")]
    print(f"{name:<34} {ratio(*sums[:2]):>18} {ratio(*sums[2:]):>18}")


def ranges(numbers):
    """1, 2, 3, 7 as "1-3, 7"."""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        files = json.load(f)["files"]
    with open(sys.argv[2], encoding="utf-8") as f:
        lines = json.load(f)["files"]

    print(f"{'':<34} {'lines':>18} {'branches':>18}")
    row("all", files)
    folders = {}
    for file in files:
        folders.setdefault(os.path.dirname(file["filename"]), []).append(file)
    for folder in sorted(folders):
        row(folder + "/", folders[folder])
        for file in sorted(folders[folder], key=lambda f: f["filename"]):
            row("  " + os.path.basename(file["filename"]), [file])

    print("\nlines that nothing has reached")
    for file in sorted(lines, key=lambda f: f["file"]):
        missed = [line["line_number"] for line in file["lines"]
                  if line["count"] == 0 and not line.get("gcovr/noncode")]
        if missed:
            print(f"{file['file']}: {ranges(missed)}")


main()
