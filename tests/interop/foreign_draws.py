"""Writes SavedModels that draw from generators which they have: tf.random.Generator, and the layers of Keras that drop
units and make noise while they are trained. Each call goes on where the last one has stopped; see foreign_programs.py."""

import tensorflow as tf

import foreign_keras
from foreign_models import points

keras, raw = tf.keras, tf.raw_ops
layers = keras.layers
X = points(130, 2, 4)
SIGNATURE = [tf.TensorSpec([None, 4], tf.float32, "x")]


class Draws(tf.Module):
    """By a generator's methods."""

    def __init__(self):
        super().__init__()
        self.generator = tf.random.Generator.from_seed(42, "philox")

    @tf.function(input_signature=SIGNATURE)
    def numbers(self, x):
        g = self.generator
        return {"uniform": x + g.uniform(tf.shape(x)), "whole": g.uniform([3], 0, 10, tf.int32), "bits": g.uniform_full_int([3], tf.int64),
                "normal": g.normal(tf.shape(x), 1.0, 2.0), "truncated": g.truncated_normal([7])}

    @tf.function(input_signature=SIGNATURE)
    def parts(self, x):
        seeds = self.generator.make_seeds(2)
        self.generator.skip(5)
        fraction = tf.random.stateless_gamma([2, 4], seeds[:, 0], tf.abs(x) + 0.1)
        picked = tf.random.stateless_categorical(tf.math.log(fraction), 5, seeds[:, 1])
        return {"fraction": fraction, "picked": picked, "count": tf.random.stateless_binomial([4], seeds[:, 0], 20.0, 0.4),
                "events": tf.random.stateless_poisson([2, 4], seeds[:, 1], tf.abs(x) * 8),
                "order": tf.random.experimental.stateless_shuffle(x, seeds[:, 0]), "state": self.generator.state[:2]}

    @tf.function(input_signature=SIGNATURE)
    def binomial(self, x):
        g = self.generator
        few, many = g.binomial([5, 2], [10.0, 20.0], 0.4), g.binomial([3], 300.0, [0.1, 0.5, 0.9])
        return {"few": few, "many": many, "grid": g.binomial([4, 2, 3], [[3.0], [30.0]], tf.constant([0.2, 0.5, 0.7])), "y": x + g.normal(tf.shape(x)),
                "state": g.state[:2]}

    @tf.function(input_signature=SIGNATURE)
    def again(self, x):
        self.generator.reset_from_key_counter(tf.constant(3, tf.int64), tf.constant([-1, -1], tf.int64))
        return {"first": self.generator.normal([3]), "second": x + self.generator.normal([4])}

    @tf.function(input_signature=SIGNATURE)
    def walk(self, x):
        for _ in tf.range(3):
            x += self.generator.normal(tf.shape(x))
        return {"y": tf.cond(tf.reduce_sum(x) > 0, lambda: x * self.generator.uniform([]), lambda: x)}


class OldDraws(tf.Module):
    """By the ops of TensorFlow 2.0 to 2.3."""

    def __init__(self):
        super().__init__()
        self.state = tf.Variable([5, 1 << 40, 77], dtype=tf.int64)

    def draw(self, op, shape, *bounds, **attrs):
        names = ("minval", "maxval")
        return op(resource=self.state.handle, algorithm=tf.constant(1, tf.int64), shape=shape, **dict(zip(names, bounds)), **attrs)

    @tf.function(input_signature=SIGNATURE)
    def numbers(self, x):
        size = tf.shape(x)
        made = {"uniform": self.draw(raw.StatefulUniform, size), "normal": self.draw(raw.StatefulStandardNormalV2, size, dtype=tf.float64),
                "truncated": self.draw(raw.StatefulTruncatedNormal, tf.constant([5], tf.int64)),
                "whole": self.draw(raw.StatefulUniformInt, size, tf.constant(-4, tf.int64), tf.constant(10, tf.int64)),
                "bits": self.draw(raw.StatefulUniformFullInt, size, dtype=tf.int32)}
        raw.RngSkip(resource=self.state.handle, algorithm=tf.constant(1, tf.int64), delta=tf.constant(17, tf.int64))
        return {**made, "state": self.state.read_value()}


def dropping():
    """A network that drops units in each way of Keras, for serving and for training."""
    x = keras.Input((6, 4), name="x")
    y = layers.SpatialDropout1D(0.3, seed=1)(layers.Dense(5, "relu")(x))
    y = layers.GaussianDropout(0.2, seed=2)(layers.GaussianNoise(0.1, seed=3)(y))
    y = layers.AlphaDropout(0.2, seed=4)(layers.LSTM(4, dropout=0.25, recurrent_dropout=0.25, seed=5, return_sequences=True)(y))
    y = layers.MultiHeadAttention(2, 3, dropout=0.4, seed=6)(y, y)
    return keras.Model(x, layers.Dense(2)(layers.Dropout(0.5, seed=7)(layers.Flatten()(y))))


def write(folder):
    names = ("numbers", "parts", "binomial", "again", "walk")
    for model, signatures in ((Draws(), names), (OldDraws(), ("numbers",))):
        name = type(model).__name__
        tf.saved_model.save(model, str(folder / name), signatures={each: getattr(model, each) for each in signatures})
        calls = [(each, {"x": X}) for each in signatures] * 2
        foreign_keras.steps_of(folder / name, calls).save(folder / f"{name}.steps.pb")
    keras.backend.clear_session()
    keras.utils.set_random_seed(1)
    model = dropping()
    foreign_keras.set_weights(model)
    archive = keras.export.ExportArchive()
    archive.track(model)
    spec = [tf.TensorSpec([None, 6, 4], tf.float32, name="x")]
    archive.add_endpoint("serve", lambda x: {"y": model(x)}, spec)
    archive.add_endpoint("train", lambda x: {"y": model(x, training=True)}, spec)
    archive.write_out(str(folder / "dropping"), verbose=False)
    calls = [("train", {"x": points(131, 3, 6, 4)}), ("serve", {"x": points(131, 3, 6, 4)})] * 2
    foreign_keras.steps_of(folder / "dropping", calls, ["serve", "train"]).save(folder / "dropping.steps.pb")
