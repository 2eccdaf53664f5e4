"""Reads TFRecord files of tf.Examples of ours in TensorFlow and compares, bit by bit.

usage: records_judge.py FOLDER

For each x.judge.pb in the folder (see judgement.hpp) there are the files x/examples-SSSSS-of-NNNNN. The targets of its
steps are the names of features, parsed by tf.io.parse_example, and of the lengths of those that vary."""

import sys

import numpy as np
import tensorflow as tf

from tensorflow_judge import judge_all, read_steps

COMPRESSIONS = {"gzip": "GZIP", "zlib": "ZLIB", "many": "GZIP"}


def parsed(records):
    features = tf.io.parse_example(records, {"x": tf.io.FixedLenFeature([2], tf.float32, [-1.5, -1.5]),
                                             "n": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64), "s": tf.io.FixedLenFeature([], tf.string),
                                             "words": tf.io.RaggedFeature(tf.string, row_splits_dtype=tf.int64)})
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["", "red"], tf.constant([0, 1], tf.int64)), 5)
    return {"x": features["x"], "n": features["n"].to_tensor(-7), "n lengths": features["n"].row_lengths(),
            "s": tf.strings.to_hash_bucket_fast(features["s"], 1000),
            "words": table.lookup(features["words"].to_tensor("")), "words lengths": features["words"].row_lengths()}


def problems(path):
    title, *steps = read_steps(path)
    files = sorted(str(each) for each in (path.parent / title.target).iterdir())
    records = list(tf.data.TFRecordDataset(files, COMPRESSIONS.get(title.target, "")).as_numpy_iterator())
    found = parsed(records)
    for step in steps:
        other = np.asarray(found.pop(step.target))
        if other.dtype != step.value.dtype or other.shape != step.value.shape or other.tobytes() != step.value.tobytes():
            yield f"{step.target}: {other} instead of {step.value}"
    if found:
        yield f"lacks {sorted(found)}"
    # Equal examples give equal bytes.
    for record in records[:50]:
        message = tf.train.Example.FromString(record)
        if message.SerializeToString(deterministic=True) != record:
            yield f"the bytes of {message}"


def main(folder):
    passed, failed = judge_all(folder, problems)
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) != 0)
