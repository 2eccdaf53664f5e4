"""Compares how far Tapestry gets with what others write with the table of how far it got before, which only grows.

usage: read_foreign FOLDER | foreign_table.py TABLE NEW

Both have a line for each case: "equal" (to TensorFlow's numbers), "runs", "loads" or "refused", a space, and the name.
A case that gets less far, or is missing, fails. NEW is the table to check in when one gets further."""

import pathlib
import sys

LEVELS = ("refused", "loads", "runs", "equal")


def rows(lines):
    return {name: level for level, name in (line.split(" ", 1) for line in lines)}


def main(table, new):
    lines = [line.rstrip("\n").split("\t") for line in sys.stdin]
    before, now = rows(pathlib.Path(table).read_text().splitlines()), rows(line[0] for line in lines)
    reasons = {line[0].split(" ", 1)[1]: line[1] for line in lines if len(line) > 1}
    failed = 0
    for name, level in before.items():
        reached = now.get(name, "refused")
        if LEVELS.index(reached) < LEVELS.index(level):
            failed += 1
            print(f"{name}: {reached}, was {level}. {reasons.get(name, '')}")
    pathlib.Path(new).write_text("".join(f"{level} {name}\n" for name, level in sorted(now.items())))
    for name, level in sorted(now.items()):
        if LEVELS.index(level) > LEVELS.index(before.get(name, "refused")):
            print(f"New: {level} {name}. Check in {new} as {table}")
    for level in LEVELS:
        print(f"  {level:8} {sum(each == level for each in now.values())}")
    print(f"{len(now) - failed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) != 0)
