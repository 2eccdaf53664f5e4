"""What the networks of foreign_networks.py and its kin are made of, and how they are written.

A network is a function that returns a model and its inputs, by name. What is exported is run, and differentiated by all
Variables that train."""

import contextlib

import numpy as np
import tensorflow as tf

import foreign_flow
from foreign_models import points, weights

keras = tf.keras
layers, ops = keras.layers, keras.ops
Input, Model, Sequential = keras.Input, keras.Model, keras.Sequential
LINE = points(121, 2, 6, 4)


def of(inputs, outputs, *values):
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return Model(inputs, outputs), {each.name: value for each, value in zip(inputs, values)}


def line():
    return Input((6, 4), name="x")


def norm_relu(y, activation="relu"):
    return layers.Activation(activation)(layers.BatchNormalization()(y))


def set_weights(model):
    for i, each in enumerate(model.weights):
        if each.dtype.startswith("float") and each.path.rsplit("/", 1)[-1] not in ("mean", "variance", "seed_generator_state"):
            value = weights(i, *each.shape)
            each.assign(np.abs(value) + 0.1 if "variance" in each.path else value)


def steps_of(folder, calls, differentiate=()):
    """`calls`: names of signatures, and their feeds. By `differentiate` the squares of all that it gives, by all Variables."""
    steps, loaded = foreign_flow.Steps(), tf.saved_model.load(str(folder))
    for name, feeds in calls:
        signature, given = loaded.signatures[name], {key: tf.constant(value) for key, value in feeds.items()}
        steps.add("signature", name)
        for key, value in feeds.items():
            steps.add("feed", key, value)
        with tf.GradientTape() if name in differentiate else contextlib.nullcontext() as tape:
            results = signature(**given)
            floats = [each for each in results.values() if each.dtype.is_floating]
            total = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64) ** 2) for each in floats] or [0.0])
        for key, value in results.items():
            steps.add("fetch", key, value)
        if name in differentiate:
            variables = [each for each in signature.trainable_variables if each.dtype.is_floating]
            for each, gradient in zip(variables, tape.gradient(total, variables)):
                if gradient is not None:
                    steps.add("variable", each.name, each)
                    steps.add("gradient", each.name, tf.convert_to_tensor(gradient))
    return steps


def write(folder, networks, kinds):
    """`networks`: functions, which have the names of the SavedModels. `kinds`: others by name, which are not differentiated."""
    for name, network in (*((each.__name__, each) for each in networks), *kinds.items()):
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        model, feeds = network()
        if "quantized" not in name:
            set_weights(model)
        model.export(str(folder / name), verbose=False)
        calls = [("serving_default", feeds)] * (2 if name == "stateful" else 1)
        steps_of(folder / name, calls, ["serving_default"] if name not in kinds else []).save(folder / f"{name}.steps.pb")
