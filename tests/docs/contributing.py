#!/usr/bin/env python3
"""Checks the commit that CONTRIBUTING.md walks through: its lines stand in the files that it names, and no other file
of the library or its tests names the op.

usage: contributing.py PAGE SOURCE_ROOT
"""

import pathlib
import re
import sys


def normal(line):
    """A line without the spaces, and the backslash of a macro, that lay it out."""
    return ' '.join(line.rstrip().removesuffix('\\').split())


def diff_of(page):
    """The lines of the page's diff, by file: those that stay or come, and those that go."""
    files = {}
    for block in re.findall(r'^```diff\n(.*?)^```$', page, re.MULTILINE | re.DOTALL):
        lines = None
        for line in block.splitlines():
            if line.startswith('+++ b/'):
                lines = files.setdefault(line.removeprefix('+++ b/'), [])
            elif not line.startswith('---'):
                lines.append(line)
    return files


def names_of(files):
    """What the added lines call the op: the function that a header declares, and its name in quotes."""
    added = '\n'.join(line[1:] for lines in files.values() for line in lines if line.startswith('+'))
    functions = re.findall(r'TAPESTRY_API Tensor (\w+)\(', added)
    return {name for function in functions for name in (function, function.capitalize())
            if re.search(rf'\b{name}\b', added)}


def problems_of(files, texts):
    """`texts`: all files, by their paths."""
    if not files:
        yield 'the page has no diff'
        return
    for path, lines in files.items():
        if path not in texts:
            yield f'{path} is no file'
            continue
        present = {normal(line) for line in texts[path].splitlines()}
        for line in lines:
            if normal(line[1:]) and (normal(line[1:]) in present) == line.startswith('-'):
                yield f'{path}: the page has "{line.strip()}"'
    names = names_of(files)
    if not names:
        yield 'the diff adds no op'
    for path, text in texts.items():
        for name in names:
            if path not in files and re.search(rf'\b{name}\b', text):
                yield f'{path} names {name}, and is not in the page\'s diff'


def self_test():
    """The check itself must see what it is for."""
    page = ('```diff\n--- a/x.hpp\n+++ b/x.hpp\n TAPESTRY_API Tensor cos(In x);\n+TAPESTRY_API Tensor sin(In x);\n'
            '--- a/x.cpp\n+++ b/x.cpp\n+UNARY(sin,  "Sin")\n```\n')
    texts = {'x.hpp': 'TAPESTRY_API Tensor cos(In x);\nTAPESTRY_API Tensor sin(In x);\n', 'x.cpp': '  UNARY(sin, "Sin") \\\n'}
    assert not list(problems_of(diff_of(page), texts))
    assert list(problems_of(diff_of(page), {**texts, 'x.cpp': ''}))
    assert list(problems_of(diff_of(page), {**texts, 'y.cpp': 'is(node, "Sin")'}))
    assert list(problems_of(diff_of(page), {'x.cpp': texts['x.cpp']}))
    assert list(problems_of(diff_of(page.replace('Tensor cos', 'Tensor tan')), texts))
    assert list(problems_of(diff_of('no diff'), texts))


def main():
    self_test()
    page, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    texts = {path.relative_to(root).as_posix(): path.read_text()
             for folder in ('include', 'src', 'tests') for path in sorted((root / folder).rglob('*'))
             if path.suffix in ('.hpp', '.cpp', '.h', '.cu', '.cuh', '.py', '.build')}
    problems = list(problems_of(diff_of(page.read_text()), texts))
    print(*problems, sep='\n')
    sys.exit(1 if problems else 0)


if __name__ == '__main__':
    main()
