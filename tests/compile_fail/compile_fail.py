#!/usr/bin/env python3
"""Checks what the compiler says of wrong programs: that it refuses each, that its first error is the sentence that the
library has for it, and that it says little else.

A case of the file is a line `//// SENTENCE` and the program below it; SENTENCE is a part of the first error.
Usage: compile_fail.py COMPILER INCLUDE_FOLDER FILE"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MOST_LINES = 24  # clang names each instantiation in several lines


def cases_of(text):
    """Yields (line, sentence, program) for each case."""
    marks = list(re.finditer(r"^//// (.*)$", text, re.MULTILINE))
    for mark, following in zip(marks, marks[1:] + [None]):
        program = text[mark.end():following.start() if following else len(text)]
        yield text.count("\n", 0, mark.start()) + 1, mark[1], program


def problem(compile_program, sentence, program):
    """What is wrong with a case; None if nothing is."""
    said = compile_program(program)
    if said.returncode == 0:
        return "it compiles"
    lines = said.stderr.splitlines()
    first = next((line for line in lines if "error:" in line), "")
    if sentence not in first:
        return f"the first error is\n{first}"
    if len(lines) > MOST_LINES:
        return f"{len(lines)} lines are more than {MOST_LINES}:\n{said.stderr}"
    return None


def main(compiler, includes, file):
    cases = list(cases_of(pathlib.Path(file).read_text()))
    with tempfile.TemporaryDirectory() as folder:
        # Compiled once for all cases. g++ looks for this file by itself; clang is told.
        header, compiled = f"{folder}/all.hpp", f"{folder}/all.hpp.gch"
        pathlib.Path(header).write_text("#include <tapestry/tapestry.hpp>\n")
        command = compiler.split() + ["-std=c++20", f"-I{includes}"]
        subprocess.run(command + ["-x", "c++-header", header, "-o", compiled], check=True)
        version = subprocess.run(command + ["--version"], capture_output=True, text=True).stdout
        include = ["-include-pch", compiled] if "clang" in version else ["-include", header]

        def compile_program(program):
            return subprocess.run(command + include + ["-fsyntax-only", "-x", "c++", "-"], input=program,
                                  capture_output=True, text=True)

        right = compile_program("int main() { tp::trace([](tp::Tensor x) { return x; }, {tp::spec(tp::float32, {})}); }")
        if right.returncode:
            print(f"a right program does not compile:\n{right.stderr}", file=sys.stderr)
            return 1
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            problems = list(pool.map(lambda case: problem(compile_program, *case[1:]), cases))
    for (line, sentence, _), text in zip(cases, problems):
        if text is not None:
            print(f"{file}:{line}: {sentence}\n{text}\n", file=sys.stderr)
    failed = sum(text is not None for text in problems)
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed > 0 or not cases


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
