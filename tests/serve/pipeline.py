#!/usr/bin/env python3
"""Runs the commands of docs/pipeline.md as a user would, in small: on a table that is made up, on a port that is free,
for one epoch.

usage: pipeline.py PAGE EXAMPLE PROGRAM"""

import json
import pathlib
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from with_data import people  # noqa: E402


def commands(page):
    return "".join(re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def make_up(folder):
    choose = random.Random(1)
    folder.mkdir(parents=True)
    (folder / "adult-train.csv").write_text("\n".join(people(600, choose)))
    (folder / "adult-test.csv").write_text("\n".join(people(200, choose)))


def main(page, example, program, *without):
    if not shutil.which("curl"):
        print("skipped: curl is not installed")
        sys.exit(77)
    text = commands(pathlib.Path(page))
    assert text.count("25_wide_and_deep") == 5 and text.count("curl") == 4, text
    if "no-servers" in without:
        text = "\n".join(line for line in text.splitlines() if "--workers" not in line) + "\n"
    text = text.replace("8501", str(free_port())).replace("--epochs 8", "--epochs 1")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_up(folder / "data/tabular")
        for path, target in (("build/gcc/examples/25_wide_and_deep", example), ("build/gcc/src/tapestry-serve", program)):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).symlink_to(pathlib.Path(target).resolve())
        done = subprocess.run(["bash", "-e", "-c", "set -m\n" + text + "wait"], cwd=folder, timeout=120,
                              capture_output=True, text=True)
        assert done.returncode in (0, 143), done
        # The predictions of the program that trained are those of the server.
        printed = [[float(number) for number in each.split()]
                   for each in re.findall(r"predicts \[(.*?)\]", done.stdout)]
        served = [json.loads(each)["predictions"] for each in re.findall(r'\{\s+"predictions".*?\}', done.stdout, re.DOTALL)]
        assert len(printed) == len(served) == 2 and printed[0] != printed[1], done
        for ours, theirs in zip(printed, served):
            assert all(abs(a - b) < 1e-6 for a, b in zip(ours, theirs, strict=True)), done
        print(done.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
