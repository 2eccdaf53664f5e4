#!/usr/bin/env python3
"""Checks what ptxas told about the kernels when they were compiled: nothing of weight may be spilled from registers to
memory, and no kernel may use so many registers that a block of 256 threads does not run twice on a multiprocessor.

usage: registers.py LOG...
"""

import pathlib
import re
import sys

# Bytes: the mathematics of double, whose constants fill registers, spills some.
SPILL_LIMIT = 128
REGISTER_LIMIT = 128


def kernels(text):
    """Yields (name, architecture, registers, spilled bytes) of each kernel in ptxas' report."""
    name = arch = None
    spilled = 0
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\S+)' for '(\S+)'", line):
            name, arch = match.groups()
        elif match := re.search(r'(\d+) bytes spill stores', line):
            spilled = int(match[1])
        elif (match := re.search(r'Used (\d+) registers', line)) and name:
            yield name, arch, int(match[1]), spilled
            name = None


def wrong(found):
    return [f'{arch} {name}: {registers} registers, {spilled} bytes spilled' for name, arch, registers, spilled in found
            if spilled > SPILL_LIMIT or registers > REGISTER_LIMIT]


def self_test():
    """The check itself must see what it forbids."""
    report = ("ptxas info    : Compiling entry function 'f' for 'sm_90'\n"
              'ptxas info    : Function properties for f\n'
              '    {0} bytes stack frame, {0} bytes spill stores, {0} bytes spill loads\n'
              'ptxas info    : Used {1} registers, used 0 barriers\n')
    assert list(kernels(report.format(8, 40))) == [('f', 'sm_90', 40, 8)]
    assert not wrong(kernels(report.format(128, 128)))
    assert wrong(kernels(report.format(129, 40))) and wrong(kernels(report.format(0, 129)))


def main():
    self_test()
    found = [kernel for log in sys.argv[1:] for kernel in kernels(pathlib.Path(log).read_text())]
    if not found:
        sys.exit('no kernel in the reports')
    failures = wrong(found)
    print(*failures, sep='\n')
    spills = sum(spilled > 0 for *_, spilled in found)
    print(f'{len(found)} kernels, at most {max(registers for _, _, registers, _ in found)} registers, {spills} with '
          f'spills of up to {SPILL_LIMIT} bytes, {len(failures)} beyond the limits')
    sys.exit(1 if failures else 0)


if __name__ == '__main__':
    main()
