"""Loads SavedModels of ours in TensorFlow and Keras, compares, and goes on training them.

usage: saved_model_judge.py FOLDER

For each x.judge.pb in the folder (see judgement.hpp) there is x/1/saved_model.pb. The targets of its steps are the names
of the signature, and of the Variables."""

import numpy as np
import tensorflow as tf

from tensorflow_judge import TOLERANCE, difference, judge_folder, read_steps

v1 = tf.compat.v1
RATE = 0.25


def named(steps, kind):
    return {step.target: step.value for step in steps if step.kind == kind}


def compare(what, found, expected):
    if set(found) != set(expected):
        yield f"{what}: {sorted(found)} instead of {sorted(expected)}"
        return
    for name, value in expected.items():
        if problem := difference(found[name], value, TOLERANCE.get(value.dtype, 0)):
            yield f"{what}: {name}: {problem}"


def squares(results):
    return tf.add_n([tf.reduce_sum(tf.square(each)) for each in results.values() if each.dtype.is_floating])


def train(call, variables, feeds):
    """The gradients of the sum of all squares, by which one step descends."""
    with tf.GradientTape() as tape:
        loss = squares(call(**feeds))
    gradients = tape.gradient(loss, variables)
    for variable, gradient in zip(variables, gradients):
        variable.assign_sub(RATE * gradient)
    return gradients


def by_name(variables):
    return {each.name.removesuffix(":0"): each for each in variables}


def keras_problems(path, slopes, feeds):
    layer = tf.keras.layers.TFSMLayer(path, call_endpoint="serving_default")
    if {each.shape for each in layer.trainable_weights} != {tf.TensorShape(each.shape) for each in slopes.values()}:
        yield f"Keras has the weights {layer.trainable_weights}"
    found = train(lambda **inputs: layer(*inputs.values()),
                  [each.value for each in layer.trainable_weights], feeds)
    left = [np.asarray(each) for each in found]
    for name, slope in slopes.items():
        if not any(each.shape == slope.shape and difference(each, slope, TOLERANCE[slope.dtype]) is None for each in left):
            yield f"Keras finds no gradient of {name}"


def variables_problems(path, steps, feeds):
    """As tf.saved_model.load and as Keras' layer have them."""
    expected = named(steps, "variable")
    slopes = {step.by: step.value for step in steps if step.kind == "gradient"}
    if not expected:
        return
    model = tf.saved_model.load(path)
    yield from compare("variables", by_name(model.variables), expected)
    trainable = by_name(model.trainable_variables)
    found = train(model.signatures["serving_default"], list(trainable.values()), feeds)
    yield from compare("gradients", dict(zip(trainable, found)), slopes)
    after = expected | {name: expected[name] - RATE * slope for name, slope in slopes.items()}
    yield from compare("trained variables", by_name(model.variables), after)

    if len(feeds) == 1:  # Keras calls a signature with one tensor
        yield from keras_problems(path, slopes, feeds)

    reader = tf.train.load_checkpoint(path + "/variables/variables")
    key = "{}/.ATTRIBUTES/VARIABLE_VALUE".format
    yield from compare("checkpoint", {name: reader.get_tensor(key(name)) for name in expected}, expected)
    # A program of TensorFlow 2's own reads it by the names of the attributes.
    copies = {name: tf.Variable(tf.zeros(value.shape, value.dtype), name=name) for name, value in expected.items()}
    order = [copies[name] for name in by_name(tf.saved_model.load(path).variables)]
    tf.train.Checkpoint(variables=order).read(path + "/variables/variables").assert_existing_objects_matched()
    yield from compare("restored", copies, expected)


def old_loader(path, feeds, names):
    """TensorFlow 1's, which Serving has as well."""
    with tf.Graph().as_default(), v1.Session() as session:
        signature = v1.saved_model.load(session, ["serve"], path).signature_def["serving_default"]
        return session.run({name: signature.outputs[name].name for name in names},
                           {signature.inputs[name].name: value for name, value in feeds.items()})


def problems(path):
    title, *steps = read_steps(path)
    folder = str(path.parent / title.target / "1")
    feeds, expected = named(steps, "feed"), named(steps, "fetch")
    model = tf.saved_model.load(folder)
    tensors = {name: tf.constant(value) for name, value in feeds.items()}
    yield from compare("signature", model.signatures["serving_default"](**tensors), expected)
    yield from compare("session", old_loader(folder, feeds, expected), expected)
    yield from variables_problems(folder, steps, tensors)


if __name__ == "__main__":
    judge_folder(problems)
