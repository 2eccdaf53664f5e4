#!/usr/bin/env python3
"""Checks that no part of the library knows an op by its name: an op is named in quotes in the file that defines it.

Others compare with a handle (src/ops/handles.hpp), or ask a property of the op's entry. Only the tables of src/io hold
names, which are those of the formats; there, too, a node's op is never compared with a name.

usage: op_names.py SOURCE_ROOT
"""

import pathlib
import re
import sys

PARTS = ['core', 'backend', 'dispatch', 'ops', 'autodiff', 'graph', 'train', 'data', 'distributed']

DEFINITIONS = [
    re.compile(r'\.name = "(\w+)"'),
    re.compile(r'TAPESTRY_OP\(\w+\)\s*\((?:[^"{;]|\n)*"(\w+)"'),
    re.compile(r'TAPESTRY_\w*(?:UNARY|BINARY)\([^"\n]*"(\w+)"'),
]
COMPARED = re.compile(r'(?:type\(\)|\bop\(\)\.name|\bop\.name|rule(?:\.|->)op)\s*[!=]=\s*"\w+"|find_op\("\w+"\)|apply_op\("\w+"')


def without_comments(text):
    return re.sub(r'//[^\n]*', '', text)


def problems_of(texts):
    """`texts`: the sources without comments, by their paths."""
    definers = {}
    for name, text in texts.items():
        for op in () if name.startswith('src/io/') else (op for each in DEFINITIONS for op in each.findall(text)):
            definers.setdefault(op, set()).add(name)
    for name, text in texts.items():
        for found in COMPARED.findall(text):
            yield f'{name}: {found}'
        if name.split('/')[1] not in PARTS:
            continue
        for literal in re.findall(r'"(\w+)"', text):
            if literal in definers and name not in definers[literal]:
                yield f'{name}: "{literal}", an op of {", ".join(sorted(definers[literal]))}'
    if len(definers) < 100 and len(texts) > 100:
        yield f'only {len(definers)} ops were found: the patterns of this script are out of date'


def self_test():
    """The check itself must see what it forbids."""
    ops = {'src/ops/math.cpp': 'TAPESTRY_FLOAT_UNARY(sin, "Sin", needs_inputs, g)\nTAPESTRY_OP(cos_op){{.name = "Cos"}};',
           'src/ops/random.cpp': 'TAPESTRY_OP(normal_op)\n(random_op<f>("Normal", float_types));'}
    assert not list(problems_of(ops))
    assert not list(problems_of({**ops, 'src/io/rules.cpp': 'add(plain("Sin", 1));'}))
    for name, text in {'src/graph/a.cpp': 'is_any(node, {"Sin"})', 'src/graph/b.cpp': '"Normal"', 'src/train/c.cpp': '"Cos"',
                       'src/io/d.cpp': 'node.type() == "Sin"', 'src/io/e.cpp': 'find_op("Sin")'}.items():
        assert list(problems_of({**ops, name: text})), f'not seen: {text}'


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    texts = {path.relative_to(root).as_posix(): without_comments(path.read_text())
             for path in sorted((root / 'src').rglob('*.?pp'))}
    problems = list(problems_of(texts))
    print(*problems, sep='\n')
    sys.exit(1 if problems or not texts else 0)


if __name__ == '__main__':
    main()
