"""Reads checkpoints of ours in TensorFlow and compares, bit by bit.

usage: tensor_bundle.py FOLDER

For each x.judge.pb in the folder (see judgement.hpp) there is the checkpoint x/model. The targets of its steps are the
names of the tensors. They are read by tf.train.load_checkpoint, by the op below all of TensorFlow's loaders, and into
Variables by tf.compat.v1.train.Saver and, where the names are names of Variables, by tf.train.Checkpoint."""

import re

import numpy as np
import tensorflow as tf

from tensorflow_judge import judge_folder, read_steps

v1 = tf.compat.v1
VARIABLE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def listed(prefix, expected):
    reader = tf.train.load_checkpoint(prefix)
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def restored(prefix, expected):
    if not expected:
        return {}
    values = tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=list(expected), shape_and_slices=[""] * len(expected),
                                  dtypes=[value.dtype for value in expected.values()])
    return dict(zip(expected, values))


def saver(prefix, expected):
    if not expected:
        return {}
    with tf.Graph().as_default(), v1.Session() as session:
        variables = {name: v1.Variable(tf.zeros(value.shape, value.dtype)) for name, value in expected.items()}
        v1.train.Saver(variables).restore(session, prefix)
        return session.run(variables)


def checkpoint(prefix, expected):
    if not all(VARIABLE_NAME.fullmatch(name) for name in expected):
        return expected
    variables = {name: tf.Variable(tf.zeros(value.shape, value.dtype), name=name) for name, value in expected.items()}
    tf.train.Checkpoint(variables=list(variables.values())).restore(prefix).assert_consumed()
    return variables


def problems(path):
    title, *steps = read_steps(path)
    expected = {step.target: step.value for step in steps}
    for read in (listed, restored, saver, checkpoint):
        found = read(str(path.parent / title.target / "model"), expected)
        if set(found) != set(expected):
            yield f"{read.__name__}: {sorted(found)} instead of {sorted(expected)}"
            continue
        for name, value in expected.items():
            other = np.asarray(found[name])
            if other.dtype != value.dtype or other.shape != value.shape or other.tobytes() != value.tobytes():
                yield f"{read.__name__}: {name}: {other} instead of {value}"


if __name__ == "__main__":
    judge_folder(problems)
