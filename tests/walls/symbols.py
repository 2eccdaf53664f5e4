#!/usr/bin/env python3
"""Checks what the built libraries define.

usage: symbols.py exports LIBRARY.so    the shared library exports nothing but Tapestry's own names
       symbols.py kernels LIBRARY.a...  the kernels of one level share no function with another level
"""

import re
import subprocess
import sys


def defined(library):
    """Yields (kind letter, demangled name) of each global symbol that `library` defines."""
    dynamic = ['--dynamic'] if library.endswith('.so') else []
    output = subprocess.run(['nm', '--defined-only', '--extern-only', '--demangle', '--format=posix', *dynamic, library],
                            check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        match = re.fullmatch(r'(.+) ([A-Za-z]) [0-9a-f]+(?: [0-9a-f]*)?', line)
        if match:
            yield match[2], match[1]


def foreign_exports(symbols):
    """Strong symbols outside our namespace. Weak ones are instances of the standard library's templates."""
    return [name for kind, name in symbols if kind not in 'WVuvw' and not re.search(r'\btapestry::', name)]


def shared_kernels(symbols, level):
    """What another level could define too: of two equal weak symbols the linker keeps one, whichever it meets first,
    and its code may use instructions that the processor at hand does not have."""
    return [name for _, name in symbols if not re.search(rf'\b{level}::', name)]


def self_test():
    """The check itself must see what it forbids."""
    assert foreign_exports([('T', 'cblas_sgemm')]) and foreign_exports([('B', 'state')])
    assert not foreign_exports([('T', 'tapestry::sin(tapestry::In)'), ('W', 'std::vector<int>::clear()')])
    assert shared_kernels([('W', 'std::max(int)')], 'v3') and shared_kernels([('T', 'tapestry::v2::add()')], 'v3')
    assert not shared_kernels([('T', 'tapestry::v3::add()')], 'v3')


def main():
    self_test()
    mode, libraries = sys.argv[1], sys.argv[2:]
    wrong = []
    for library in libraries:
        symbols = list(defined(library))
        if not symbols:
            wrong.append(f'{library}: defines nothing')
        elif mode == 'exports':
            wrong += [f'{library}: exports {name}' for name in foreign_exports(symbols)]
        else:
            level = re.search(r'_([a-z0-9]+)\.a$', library)[1]
            wrong += [f'{library}: {name} is not in namespace {level}' for name in shared_kernels(symbols, level)]
    print(*wrong, sep='\n')
    sys.exit(1 if wrong else 0)


if __name__ == '__main__':
    main()
