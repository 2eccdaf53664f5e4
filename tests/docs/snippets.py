#!/usr/bin/env python3
"""Compiles and runs every C++ snippet of the given Markdown pages, or of all pages in a given folder.

A ```cpp block is a program; one without `main` is taken as the body of it, and one marked ```cpp fragment is none. Where
the next block is ```text, the program must print exactly that.
Usage: snippets.py COMPILER LIBRARY_FOLDER INCLUDE_FOLDER PAGE_OR_FOLDER..."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# First the library: a precompiled header serves only as the first include.
WRAPPED = """#include <tapestry/tapestry.hpp>
#include <iostream>
int main() {{
{body}
}}
"""


def pages_of(path):
    return sorted(path.glob("*.md")) if path.is_dir() else [path]


def snippets(page):
    """Yields (line, code, expected output or None) for each C++ block of a page."""
    text = page.read_text()
    blocks = list(re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    for block, following in zip(blocks, blocks[1:] + [None]):
        if block[1] != "cpp":
            continue
        between = text[block.end():following.start()] if following else ""
        expected = following[2] if following and following[1] == "text" and "#" not in between else None
        yield text.count("\n", 0, block.start()) + 1, block[2], expected


def precompile(compile_command, folder):
    """Compiles the library's header into a folder; g++ finds it there before the header itself, clang looks past it."""
    header = folder / "header.hpp"
    header.write_text("#include <tapestry/tapestry.hpp>\n")
    compiled = folder / "tapestry/tapestry.hpp.gch"
    compiled.parent.mkdir()
    subprocess.run(compile_command + ["-x", "c++-header", str(header), "-o", str(compiled)], check=True)


def run(compile_command, libraries, code, folder):
    source, program = folder / "snippet.cpp", folder / "snippet"
    source.write_text(code if re.search(r"\bmain\(", code) else WRAPPED.format(body=code))
    command = compile_command + [str(source), "-o", str(program), f"-L{libraries}", "-ltapestry", f"-Wl,-rpath,{libraries}"]
    built = subprocess.run(command, capture_output=True, text=True)
    if built.returncode:
        return False, built.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, cwd=folder, timeout=120)
    return ran.returncode == 0, ran.stdout if ran.returncode == 0 else ran.stdout + ran.stderr


def problem(compile_command, libraries, code, expected):
    """What is wrong with a snippet; None if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        good, output = run(compile_command, libraries, code, pathlib.Path(folder))
    if not good:
        return output
    if expected is not None and output.rstrip() != expected.rstrip():
        return f"printed\n{output}\ninstead of\n{expected}"
    return None


def main(compiler, libraries, includes, *pages):
    pages = [page for given in pages for page in pages_of(pathlib.Path(given))]
    found = [(page, *snippet) for page in pages for snippet in snippets(page)]
    with tempfile.TemporaryDirectory() as folder:
        compile_command = compiler.split() + ["-std=c++20", f"-I{folder}", f"-I{includes}"]
        precompile(compile_command, pathlib.Path(folder))
        # The compiler takes the time, in processes of its own.
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = list(pool.map(lambda each: problem(compile_command, libraries, *each[2:]), found))
    for (page, line, *_), text in zip(found, problems):
        if text is not None:
            print(f"{page}:{line}: {text}", file=sys.stderr)
    failed = sum(text is not None for text in problems)
    passed = len(found) - failed
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
