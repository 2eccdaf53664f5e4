#!/usr/bin/env python3
"""Writes the header that texts for NVRTC include, and the headers that it includes, into a C++ source: see headers.hpp.

usage: embed.py OUTPUT DEPFILE HEADER ROOT...      a header and those that it includes are below one of the roots
"""

import pathlib
import re
import sys

# NVRTC has no standard library. These are the pieces of it that the headers use, with the types of 64-bit Linux.
STANDARD = {
    'cstddef': 'namespace std { using size_t = decltype(sizeof(0)); }\n',
    'cstdint': 'namespace std {\n' + ''.join(
        f'using int{bits}_t = {name}; using uint{bits}_t = unsigned {name.removeprefix("signed ")};\n'
        for bits, name in ((8, 'signed char'), (16, 'short'), (32, 'int'), (64, 'long'))) + '}\n',
    'type_traits': """namespace std {
template <class A, class B> inline constexpr bool is_same_v = false;
template <class A> inline constexpr bool is_same_v<A, A> = true;
template <class T, class... Types> inline constexpr bool is_one_of = (is_same_v<T, Types> || ...);
template <class T> inline constexpr bool is_floating_point_v = is_one_of<T, float, double>;
template <class T> inline constexpr bool is_arithmetic_v = is_floating_point_v<T> || is_one_of<T, bool, char,
    signed char, unsigned char, short, unsigned short, int, unsigned, long, unsigned long, long long, unsigned long long>;
template <class T> inline constexpr bool is_signed_v = T(-1) < T(0);
template <class T> inline constexpr bool is_trivially_copyable_v = __is_trivially_copyable(T);
}
""",
}
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r'/\*.*?\*/|[ \t]*//[^\n]*|"(?:\\.|[^"\\])*"', re.DOTALL)


def without_comments(text):
    text = COMMENT.sub(lambda match: match[0] if match[0].startswith('"') else '', text)
    return re.sub(r'[ \t]{2,}', ' ', re.sub(r'\n\s*\n+', '\n', text).lstrip())


def collect(header, roots):
    """The text of the header and of each header that it includes, by name; and their files."""
    found, files, pending = {}, [], [header]
    while pending:
        name = pending.pop(0)
        if name not in found:
            files.append(next(root / name for root in roots if (root / name).exists()))
            found[name] = without_comments(files[-1].read_text())
            pending += INCLUDE.findall(found[name])
    return found, files


def main():
    output, depfile, header, roots = sys.argv[1], sys.argv[2], sys.argv[3], map(pathlib.Path, sys.argv[4:])
    headers, files = collect(header, list(roots))
    pathlib.Path(depfile).write_text(f'{output}: ' + ' '.join(map(str, files)) + '\n')
    entries = ''.join(f'    {{"{name}", R"embedded({text})embedded"}},\n' for name, text in (headers | STANDARD).items())
    pathlib.Path(output).write_text(
        '#include "backend/cuda/headers.hpp"\n\nnamespace tapestry::gpu {\n\n'
        'std::span<const EmbeddedHeader> embedded_headers() {\n  static constexpr EmbeddedHeader headers[] = {\n'
        f'{entries}  }};\n  return headers;\n}}\n\n}}  // namespace tapestry::gpu\n')


if __name__ == '__main__':
    main()
