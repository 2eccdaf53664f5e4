#!/usr/bin/env python3
"""Runs an example and compares what it prints with the `// Output:` comment at the end of its source.

usage: check_output.py SOURCE COMMAND [ARGUMENT ...]

`...` in the comment stands for any text, also over several lines: the last digits of a number, a line number.
"""
import re
import subprocess
import sys


def expected_output(source):
    lines = open(source, encoding="utf-8").read().splitlines()
    if "// Output:" not in lines:
        sys.exit(f"{source} has no `// Output:` comment")
    block = lines[lines.index("// Output:") + 1:]
    return "\n".join(line.removeprefix("//").removeprefix(" ") for line in block)


def main():
    source, *command = sys.argv[1:]
    expected = expected_output(source)
    run = subprocess.run(command, stdout=subprocess.PIPE, check=False, encoding="utf-8")
    if run.returncode != 0:
        sys.exit(f"exit status {run.returncode}, after this output:\n{run.stdout}")
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    if not re.fullmatch(pattern, run.stdout.rstrip("\n"), re.DOTALL):
        sys.exit(f"--- {source} promises\n{expected}\n--- the program prints\n{run.stdout}")


main()
