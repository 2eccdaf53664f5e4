#!/usr/bin/env python3
"""Runs ninja and shows how far it is: on a terminal a bar with the time that is left, elsewhere a line every half minute.

usage: progress.py NINJA_ARGUMENT...
What the compiler says is passed on; the exit status is ninja's.
"""

import os
import re
import subprocess
import sys
import time

WIDTH = 40
SECONDS_BETWEEN_LINES = 30


def text(done, total, seconds):
    """The bar; what is left is taken to go as fast as what is done."""
    left = seconds * (total - done) / max(done, 1)  # none is done while ninja lets meson configure again
    bar = ('#' * (WIDTH * done // total)).ljust(WIDTH, '.')
    return f'[{bar}] {done}/{total}, {left // 60:.0f} min {left % 60:02.0f} s left'


def main(arguments):
    on_terminal = sys.stdout.isatty()
    start = last_line = time.monotonic()
    # Without a terminal ninja prints a line for each step.
    with subprocess.Popen(['ninja', *arguments], stdout=subprocess.PIPE, text=True, errors='replace',
                          env={**os.environ, 'NINJA_STATUS': '[%f/%t] '}) as ninja:
        for line in ninja.stdout:
            step = re.match(r'\[(\d+)/(\d+)\] ', line)
            if not step:
                print(('\r\033[K' if on_terminal else '') + line, end='', flush=True)
                continue
            now = time.monotonic()
            bar = text(int(step[1]), int(step[2]), now - start)
            if on_terminal:
                print(f'\r\033[K{bar}', end='', flush=True)
            elif now - last_line >= SECONDS_BETWEEN_LINES:
                print(bar, flush=True)
                last_line = now
    if on_terminal:
        print()
    return ninja.returncode


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
