"""Loads SavedModels of ours in TensorFlow and compares.

usage: saved_model_judge.py FOLDER

For each x.judge.pb in the folder (see judgement.hpp) there is x/1/saved_model.pb. The targets of its steps are the names
of the signature."""

import tensorflow as tf

from tensorflow_judge import TOLERANCE, difference, judge_folder, read_steps


def problems(path):
    title, *steps = read_steps(path)
    model = tf.saved_model.load(str(path.parent / title.target / "1"))
    signature = model.signatures["serving_default"]
    found = signature(**{step.target: tf.constant(step.value) for step in steps if step.kind == "feed"})
    expected = {step.target: step.value for step in steps if step.kind == "fetch"}
    if set(found) != set(expected):
        yield f"gives {sorted(found)} instead of {sorted(expected)}"
        return
    for name, value in expected.items():
        if problem := difference(found[name], value, TOLERANCE.get(value.dtype, 0)):
            yield f"{name}: {problem}"


if __name__ == "__main__":
    judge_folder(problems)
