#!/usr/bin/env python3
"""Counts the results of a test run: each doctest case, and each test that is no doctest program, is one.

usage: summary.py MESON_TESTLOG.json [NAME=passed|failed]...
Prints each NAME that failed and 'N passed, N failed[, N skipped]'; exits 1 if anything failed or nothing passed.
"""

import json
import pathlib
import re
import sys

DOCTEST = re.compile(r'\[doctest\] test cases: *(\d+) *\| *(\d+) passed *\| *(\d+) failed *\|(?: *(\d+) skipped)?')


def count(result):
    """Returns (passed, failed, skipped) of one entry of meson's log."""
    cases = DOCTEST.search(re.sub(r'\x1b\[[0-9;]*m', '', result.get('stdout', '')))
    good = result['result'] == 'OK'
    if cases:
        passed, failed, skipped = int(cases[2]), int(cases[3]), int(cases[4] or 0)
        # A program that fails after its last case, or that ran none, is a failure of its own.
        return passed, failed + (failed == 0 and (not good or passed == 0)), skipped
    if result['result'] == 'SKIP':
        return 0, 0, 1
    return (1, 0, 0) if good else (0, 1, 0)


def main():
    log, extra = pathlib.Path(sys.argv[1]), sys.argv[2:]
    counts = [count(json.loads(line)) for line in log.read_text().splitlines()]
    counts += [(1, 0, 0) if item.endswith('=passed') else (0, 1, 0) for item in extra]
    passed, failed, skipped = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    for item in extra:
        if not item.endswith('=passed'):
            print('failed: ' + item.removesuffix('=failed'))
    print(f'{passed} passed, {failed} failed' + (f', {skipped} skipped' if skipped else ''))
    sys.exit(1 if failed or not passed else 0)


if __name__ == '__main__':
    main()
