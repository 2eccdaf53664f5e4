#!/usr/bin/env python3
"""Compares how fast Tapestry and tf.data read tf.Examples from one file into the same batches.

usage: bench_records.py BENCH_RECORDS [RECORDS] [REPETITIONS]

Runs in an environment with TensorFlow. The passes of both alternate, and the fastest of each counts, so that other
work on the machine disturbs little. tf.data gets its fastest form: records are batched before they are parsed, parsed
in parallel, and prefetched."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
import tensorflow as tf

BATCH = 256
FEATURES = {"age": tf.io.FixedLenFeature([], tf.float32), "clicks": tf.io.RaggedFeature(tf.int64),
            "country": tf.io.FixedLenFeature([], tf.string), "job": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64), "numbers": tf.io.FixedLenFeature([16], tf.float32),
            "user": tf.io.FixedLenFeature([], tf.int64)}


def parse(records):
    features = tf.io.parse_example(records, FEATURES)
    for name in ("country", "job"):
        features[name] = tf.strings.to_hash_bucket_fast(features[name], 1000)
    features["lengths"] = features["clicks"].row_lengths()
    features["clicks"] = features["clicks"].to_tensor()
    return features


def tensorflow_pass(path):
    stream = tf.data.TFRecordDataset(path).batch(BATCH).map(parse, num_parallel_calls=tf.data.AUTOTUNE).prefetch(4)
    records = total = 0
    start = time.perf_counter()
    for batch in stream:
        records += len(batch["label"])
        total += int(batch["country"][0]) + int(batch["user"][0]) + int(batch["lengths"][0])
    return records / (time.perf_counter() - start), total


def tapestry_pass(program, path):
    rate, total = subprocess.run([program, "read", path, "2", "1"], capture_output=True, check=True, text=True).stdout.split()
    return float(rate), int(total)


def main(program, records=200_000, repetitions=10):
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "records")
        subprocess.run([program, "write", path, str(records)], check=True)
        theirs, ours = [], []
        for _ in range(int(repetitions)):
            theirs.append(tensorflow_pass(path))
            ours.append(tapestry_pass(program, path))
        sums = {total for _, total in theirs + ours}
        assert len(sums) == 1, f"other batches: {sums}"
        their_rate, our_rate = max(theirs)[0], max(ours)[0]
        megabytes = os.path.getsize(path) / int(records) / 1e6
        for name, rate in (("tf.data", their_rate), ("Tapestry", our_rate)):
            print(f"{name:9} {rate:12,.0f} records/s {rate * megabytes:8.1f} MB/s")
        print(f"ratio     {our_rate / their_rate:12.2f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
