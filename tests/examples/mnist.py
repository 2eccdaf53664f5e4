#!/usr/bin/env python3
"""Runs the MNIST example and checks what it has learnt.

usage: mnist.py PROGRAM made-up       on 10 made-up digits with noise: it must learn them all
       mnist.py PROGRAM original      on the files in the folder $TAPESTRY_MNIST: at least 97.5 % in 5 epochs;
                                      exit status 77, "skipped", without that variable
       mnist.py PROGRAM missing       without files: it must name them and fail
"""
import gzip
import os
import random
import struct
import subprocess
import sys
import tempfile


def write_digits(folder, prefix, count, shapes, noise):
    labels = [noise.randrange(10) for _ in range(count)]
    pixels = b"".join(bytes(min(255, ink + noise.randrange(60)) for ink in shapes[label]) for label in labels)
    with gzip.open(f"{folder}/{prefix}-images-idx3-ubyte.gz", "wb", 1) as file:
        file.write(struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + pixels)
    with open(f"{folder}/{prefix}-labels-idx1-ubyte", "wb") as file:
        file.write(struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(labels))


def accuracies(program, folder, epochs):
    run = subprocess.run([program, "--data", folder, "--epochs", str(epochs)], stdout=subprocess.PIPE, check=True,
                         encoding="utf-8")
    print(run.stdout)
    return [float(line.split()[-1]) for line in run.stdout.splitlines()]


def made_up(program):
    noise = random.Random(1)
    shapes = [[noise.choice([0, 0, 200]) for _ in range(784)] for _ in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        write_digits(folder, "train", 1000, shapes, noise)
        write_digits(folder, "t10k", 100, shapes, noise)
        reached = accuracies(program, folder, 2)
    assert len(reached) == 2 and reached[-1] == 1, reached


def original(program):
    folder = os.environ.get("TAPESTRY_MNIST")
    if not folder:
        sys.exit(77)
    assert max(accuracies(program, folder, 5)) >= 0.975


def missing(program):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([program, "--data", folder], capture_output=True, check=False, encoding="utf-8")
    assert run.returncode == 1 and run.stdout == "", run
    assert "train-images-idx3-ubyte.gz  9912422 bytes" in run.stderr, run.stderr


{"made-up": made_up, "original": original, "missing": missing}[sys.argv[2]](sys.argv[1])
