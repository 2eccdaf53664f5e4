#!/usr/bin/env python3
"""Gives examples flags, and the library a variable of the environment, that they do not take: each must say so, with the
flag's name, before it does anything else.

usage: flags.py FOLDER [no-servers]       the folder has the built examples
"""
import os
import subprocess
import sys
import tempfile

CASES = [
    # example, arguments, status, what stderr says
    ("05_mlp", ["--out", "/proc/none"], 1, '--out: no files can be made in the folder "/proc/none"'),
    ("05_mlp", ["--out", ""], 1, '--out: no files can be made in the folder ""'),
    ("05_mlp", ["--steps", "0"], 2, '--steps takes a number from 1 on, not "0"'),
    ("05_mlp", ["--steps=-1"], 2, '--steps takes a number from 1 on, not "-1"'),
    ("05_mlp", ["--seed", "one"], 2, '--seed takes a number from 0 on, not "one"'),
    ("05_mlp", ["--seed"], 2, "--seed needs a value"),
    ("05_mlp", ["--sed=1"], 2, "unknown argument --sed=1"),
    ("13_mnist_cnn", ["--model", "/proc/none"], 1, '--model: no files can be made in the folder "/proc/none"'),
    ("14_shakespeare", ["--data", "TEXT", "--start", "\u00dc"], 1, "The text to learn from has no '\u00dc'"),
    ("14_shakespeare", ["--data", "TEXT", "--start", ""], 1, "--start needs a character"),
    ("14_shakespeare", ["--units", "0"], 2, '--units takes a number from 1 on, not "0"'),
    ("24_data_parallel", ["--ranks", "0"], 2, '--ranks takes a number from 1 on, not "0"'),
    ("24_data_parallel", ["--batch", "0"], 2, '--batch takes a number from 1 on, not "0"'),
    ("24_data_parallel", ["--batch=129", "--ranks=2"], 1, "--batch 129 is not a multiple of the 2 ranks"),
    ("25_wide_and_deep", ["--workers", "65"], 2, '--workers takes a number from 0 to 64, not "65"'),
    ("25_wide_and_deep", ["--only", "train", "--model", "/proc/none"], 1, "--model: no files can be made"),
    ("15_attention", ["--steps", "5"], 2, "unknown argument --steps"),
    ("23_beam_search", ["beam"], 2, "unknown argument beam"),
    ("26_parameter_servers", ["--job", "ps"], 1, "--job and --task need --cluster"),
    ("26_parameter_servers", ["--task", "1"], 1, "--job and --task need --cluster"),
] + [(name, ["--epochs", "0"], 2, '--epochs takes a number from 1 on, not "0"')
     for name in ("11_wine", "12_mnist_mlp", "13_mnist_cnn", "14_shakespeare", "21_mixed_precision", "24_data_parallel",
                  "25_wide_and_deep")]

WITH_FLAGS = sorted({name for name, *_ in CASES} | {"16_resume", "17_export"})


def run(folder, name, arguments, cwd, **environment):
    return subprocess.run([os.path.join(folder, name), *arguments], cwd=cwd, env=os.environ | environment,
                          capture_output=True, encoding="utf-8", check=False, timeout=60)


def main():
    folder = os.path.abspath(sys.argv[1])
    no_servers = "no-servers" in sys.argv
    with tempfile.TemporaryDirectory() as work:
        with open(os.path.join(work, "tinyshakespeare.txt"), "w", encoding="utf-8") as text:
            text.write("the text to learn from\n" * 100)
        for name, arguments, status, message in CASES:
            if no_servers and name == "26_parameter_servers":
                continue
            given = [work if each == "TEXT" else each for each in arguments]
            done = run(folder, name, given, work)
            assert done.returncode == status and message in done.stderr and not done.stdout, (name, arguments, done)
        for level in ("V3", "v5", "best"):
            done = run(folder, "17_export", [], work, TAPESTRY_CPU_LEVEL=level)
            assert done.returncode == 1 and f'TAPESTRY_CPU_LEVEL must be v2, v3 or v4, but is "{level}"' in done.stderr, done
        for name in WITH_FLAGS:
            for flag in ("--help", "-h"):
                done = run(folder, name, [flag], work)
                assert done.returncode == 0 and not done.stderr, (name, flag, done)
                for line in done.stdout.splitlines()[2:]:
                    assert line.startswith("  --") and line.endswith(")"), (name, line)
    print(len(CASES), "wrong uses are refused")


main()
