#!/usr/bin/env python3
"""Makes C++ of a kernel file, for the host: f<<<grid, threads, 0, stream>>>(...) becomes a call of emulation::launch.

Included files of kernels (.cuh) are put in their places.

usage: translate.py SOURCE_ROOT INPUT OUTPUT
"""

import pathlib
import re
import sys


def closing(text, start):
    """The place behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in '([{') - (text[i] in ')]}')
        if depth == 0:
            return i + 1
    raise ValueError('unbalanced brackets')


def kernel_begin(text, end):
    """Where the name of the kernel that ends at `end`, with its template arguments, begins."""
    i = end
    if text[i - 1] == '>':
        depth = 0
        while True:
            i -= 1
            depth += (text[i] == '>') - (text[i] == '<')
            if depth == 0:
                break
    return re.search(r'\w+$', text[:i]).start()


def split(text):
    """The arguments of a list, at its commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in '([{') - (c in ')]}')
        if c == ',' and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]


def translate(text):
    while (launch := text.find('<<<')) >= 0:
        end = text.index('>>>', launch)
        grid, threads = split(text[launch + 3:end])[:2]
        begin, behind = kernel_begin(text, launch), closing(text, end + 3)
        call = text[begin:launch] + text[end + 3:behind]
        text = f'{text[:begin]}emulation::launch({grid.strip()}, {threads.strip()}, [&] {{ {call}; }}){text[behind:]}'
    return text


def main():
    root, source, target = map(pathlib.Path, sys.argv[1:4])
    whole = re.sub(r'#include "(\S+\.cuh)"\n', lambda match: (root / 'src' / match[1]).read_text(), source.read_text())
    target.write_text('#include "device.hpp"\n' + translate(whole).replace('#pragma once\n', ''))


if __name__ == '__main__':
    main()
