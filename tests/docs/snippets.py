#!/usr/bin/env python3
"""Compiles and runs every C++ snippet of the given Markdown pages, or of all pages in a given folder.

A ```cpp block is a program; one without `main` is taken as the body of it, and one marked ```cpp fragment is none. One
marked ```cpp server needs the plugin for servers, which some builds lack. Where the next block is ```text, the program
must print exactly that. The bodies of a page are compiled as functions of one program, which runs the one that its
argument numbers.
Usage: snippets.py COMPILER LIBRARY_FOLDER INCLUDE_FOLDER PAGE_OR_FOLDER..."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile


def pages_of(path):
    return sorted(path.glob("*.md")) if path.is_dir() else [path]


def snippets(page, has_servers):
    """Yields (line, code, expected output or None) for each C++ block of a page."""
    text = page.read_text()
    if has_servers:
        text = text.replace("```cpp server\n", "```cpp\n")
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


def numbered(page, line, code):
    """The code, for which the compiler names the page's lines."""
    return f'#line {line + 1} "{page}"\n{code}'


def program_of(page, bodies):
    """One program of several bodies. First the library: a precompiled header serves only as the first include."""
    functions = [f"void snippet_{i}() {{\n{numbered(page, line, code)}}}\n" for i, (line, code, _) in enumerate(bodies)]
    calls = [f"    case {i}: snippet_{i}(); break;\n" for i in range(len(bodies))]
    return ("#include <tapestry/tapestry.hpp>\n#include <cstdlib>\n#include <iostream>\nnamespace {\n" + "".join(functions) +
            "}\nint main(int, char** arguments) {\n  switch (std::atoi(arguments[1])) {\n" + "".join(calls) + "  }\n}\n")


def problem_of_run(program, number, expected):
    """What is wrong with what a program does; None if nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([str(program), str(number)], capture_output=True, text=True, cwd=folder, timeout=120)
    if ran.returncode:
        return ran.stdout + ran.stderr
    if expected is not None and ran.stdout.rstrip() != expected.rstrip():
        return f"printed\n{ran.stdout}\ninstead of\n{expected}"
    return None


def problems_of(compile_command, libraries, page, found):
    """Builds one program of snippets of a page and runs it for each of them: yields what is wrong with each, or None."""
    is_program = re.search(r"\bmain\(", found[0][1])
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "snippets.cpp"), pathlib.Path(folder, "snippets")
        source.write_text(numbered(page, *found[0][:2]) if is_program else program_of(page, found))
        built = subprocess.run(
            compile_command + [str(source), "-o", str(program), f"-L{libraries}", "-ltapestry", f"-Wl,-rpath,{libraries}"],
            capture_output=True, text=True)
        if built.returncode:
            return [built.stderr] * len(found)
        return [problem_of_run(program, number, expected) for number, (_, _, expected) in enumerate(found)]


def programs(page, has_servers):
    """The snippets of a page in groups, of each of which one program is made."""
    found = list(snippets(page, has_servers))
    bodies = [each for each in found if not re.search(r"\bmain\(", each[1])]
    return ([bodies] if bodies else []) + [[each] for each in found if each not in bodies]


def main(compiler, libraries, includes, *pages):
    pages = [page for given in pages for page in pages_of(pathlib.Path(given))]
    has_servers = (pathlib.Path(libraries) / "libtapestry_distributed.so").exists()
    groups = [(page, group) for page in pages for group in programs(page, has_servers)]
    with tempfile.TemporaryDirectory() as folder:
        compile_command = compiler.split() + ["-std=c++20", f"-I{folder}", f"-I{includes}"]
        precompile(compile_command, pathlib.Path(folder))
        # The compiler takes the time, in processes of its own.
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            found = list(pool.map(lambda each: problems_of(compile_command, libraries, *each), groups))
    problems = []
    for (page, group), texts in zip(groups, found):
        for (line, *_), text in zip(group, texts):
            problems.append(text)
            if text is not None:
                print(f"{page}:{line}: {text}", file=sys.stderr)
    failed = sum(text is not None for text in problems)
    passed = len(problems) - failed
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
