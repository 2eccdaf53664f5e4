#!/usr/bin/env python3
"""Writes the headers that a text for NVRTC includes, and those that they include, into a C++ source: see headers.hpp.

usage: embed.py OUTPUT DEPFILE SOURCE_ROOT HEADER...
"""

import pathlib
import re
import sys

# NVRTC has no standard library. These are the types of 64-bit Linux.
STANDARD = {
    'cstddef': 'namespace std { using size_t = decltype(sizeof(0)); }\n',
    'cstdint': 'namespace std {\n' + ''.join(
        f'using int{bits}_t = {name}; using uint{bits}_t = unsigned {name.removeprefix("signed ")};\n'
        for bits, name in ((8, 'signed char'), (16, 'short'), (32, 'int'), (64, 'long'))) + '}\n',
}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r'/\*.*?\*/|[ \t]*//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)


def without_comments(text):
    text = COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else '', text)
    return re.sub(r'[ \t]{2,}', ' ', re.sub(r'\n\s*\n+', '\n', text).lstrip())


def collect(root, names):
    found, pending = {}, list(names)
    while pending:
        name = pending.pop(0)
        if name not in found:
            found[name] = without_comments((root / name).read_text())
            pending += INCLUDE.findall(found[name])
    return found


def main():
    output, depfile, root, names = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4:]
    headers = collect(root, names)
    pathlib.Path(depfile).write_text(f'{output}: ' + ' '.join(str(root / name) for name in headers) + '\n')
    entries = ''.join(f'    {{"{name}", R"embedded({text})embedded"}},\n' for name, text in (headers | STANDARD).items())
    pathlib.Path(output).write_text(
        '#include "backend/cuda/headers.hpp"\n\nnamespace tapestry::gpu {\n\n'
        'std::span<const EmbeddedHeader> embedded_headers() {\n  static constexpr EmbeddedHeader headers[] = {\n'
        f'{entries}  }};\n  return headers;\n}}\n\n}}  // namespace tapestry::gpu\n')


if __name__ == '__main__':
    main()
