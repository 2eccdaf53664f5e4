"""Writes SavedModels with a signature that trains them; see foreign_programs.py.

They have Keras' layers, losses and optimizers, or none of Keras."""

import numpy as np
import tensorflow as tf

from foreign_keras import set_weights, steps_of
from foreign_models import points, weights

keras = tf.keras
layers, ops = keras.layers, keras.ops
Input, Model, Sequential = keras.Input, keras.Model, keras.Sequential


def mlp():
    return Sequential([Input((6,)), layers.Dense(8, "relu", kernel_regularizer="l2"), layers.Dense(3)])


def convolutional():
    return Sequential([Input((6,)), layers.Reshape((3, 2, 1)), layers.Conv2D(4, 2, padding="same", use_bias=False),
                       layers.BatchNormalization(), layers.ReLU(), layers.Flatten(), layers.Dense(3)])


def dropped():
    """With numbers that TensorFlow draws from the state of a seed."""
    return Sequential([Input((6,)), layers.Dense(8, "relu"), layers.Dropout(0.3, seed=1), layers.GaussianNoise(0.1, seed=2),
                       layers.AlphaDropout(0.2, seed=3), layers.Dense(3)])


def augmenting():
    return Sequential([Input((6,)), layers.Reshape((2, 3, 1)), layers.RandomFlip(seed=1), layers.RandomTranslation(0.2, 0.2, seed=2),
                       layers.RandomRotation(0.1, seed=2), layers.RandomContrast(0.2, seed=4), layers.Flatten(), layers.Dense(3)])


def recurrent():
    return Sequential([Input((6,)), layers.Reshape((3, 2)), layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
                       layers.GRU(3), layers.Dense(3)])


def attending():
    x = Input((6,))
    y = layers.Reshape((3, 2))(x)
    y = layers.LayerNormalization()(y + layers.MultiHeadAttention(2, 2)(y, y, use_causal_mask=True))
    return Model(x, layers.Dense(3)(layers.Flatten()(y)))


def embedded():
    x = Input((6,))
    ids = ops.cast(ops.floor(ops.abs(x) * 3), "int32") % 5
    y = layers.Concatenate()([layers.LSTM(3)(layers.Embedding(5, 4, mask_zero=True)(ids)), x])
    return Model(x, layers.Dense(3)(y))


def optimizer_cases():
    made, schedules = keras.optimizers, keras.optimizers.schedules
    yield "SGD", lambda: made.SGD(0.1)
    yield "SGD nesterov, global norm", lambda: made.SGD(0.1, 0.9, nesterov=True, global_clipnorm=0.3)
    yield "Adam amsgrad, clipnorm", lambda: made.Adam(0.1, amsgrad=True, clipnorm=0.1)
    yield "Adam by value, EMA", lambda: made.Adam(0.1, clipvalue=0.05, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=2)
    yield "Adam in turns", lambda: made.Adam(0.1, gradient_accumulation_steps=2)
    for name in ("AdamW", "Lion", "Nadam", "Adamax", "Ftrl", "RMSprop", "Adagrad", "Adadelta", "Adafactor", "Muon"):
        yield name, lambda name=name: getattr(made, name)(0.1, weight_decay=0.01)
    yield "Adafactor unscaled", lambda: made.Adafactor(schedules.InverseTimeDecay(0.1, 2, 0.5), relative_step=False)
    yield "RMSprop centered", lambda: made.RMSprop(schedules.ExponentialDecay(0.05, 2, 0.5, True), momentum=0.5, centered=True)
    yield "Ftrl regularized", lambda: made.Ftrl(0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.01)
    yield "LossScale", lambda: made.LossScaleOptimizer(made.Adam(0.1), dynamic_growth_steps=2)
    yield "CosineDecay", lambda: made.AdamW(schedules.CosineDecay(0.01, 4, warmup_target=0.1, warmup_steps=2))
    yield "PiecewiseConstantDecay", lambda: made.SGD(schedules.PiecewiseConstantDecay([1, 3], [0.2, 0.1, 0.05]), momentum=0.9)
    yield "PolynomialDecay", lambda: made.Adam(schedules.PolynomialDecay(0.1, 3, 0.01, 2.0, cycle=True))
    yield "CosineDecayRestarts", lambda: made.Adam(schedules.CosineDecayRestarts(0.1, 2))


class Trainer(tf.Module):
    def __init__(self, model, optimizer, loss=None, metrics=()):
        super().__init__()
        self.model, self.optimizer, self.metrics = model, optimizer, list(metrics)
        self.seeds = [each.value for each in model.non_trainable_variables if "seed" in each.path]
        self.counters = [value.value for each in metrics for value in each.variables]
        self.loss = loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer.build(model.trainable_variables)

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "labels")])
    def train(self, x, labels):
        with tf.GradientTape() as tape:
            scores = self.model(x, training=True)
            loss = self.loss(labels, scores) + sum(self.model.losses)
            scaled = self.optimizer.scale_loss(loss)
        self.optimizer.apply_gradients(zip(tape.gradient(scaled, self.model.trainable_variables), self.model.trainable_variables))
        for each in self.metrics:
            each.update_state(loss) if each.name == "mean" else each.update_state(labels, scores)
        return {"loss": loss, **{f"metric_{i}": each.result() for i, each in enumerate(self.metrics)}}

    @tf.function(input_signature=[tf.TensorSpec([None, 6], tf.float32, "x")])
    def predict(self, x):
        return {"scores": self.model(x, training=False)}


def trainers():
    adam = lambda: keras.optimizers.Adam(0.05)
    for name, optimizer in optimizer_cases():
        yield name, lambda optimizer=optimizer: Trainer(mlp(), optimizer())
    for network in (convolutional, dropped, augmenting, recurrent, attending, embedded):
        yield network.__name__, lambda network=network: Trainer(network(), adam())
    metrics = keras.metrics
    yield "metrics", lambda: Trainer(mlp(), adam(), None, [metrics.Mean(name="mean"), metrics.SparseCategoricalAccuracy(),
                                                           metrics.SparseTopKCategoricalAccuracy(2), metrics.SparseCategoricalCrossentropy(from_logits=True)])
    for name in ("CategoricalCrossentropy", "BinaryCrossentropy", "CategoricalFocalCrossentropy", "BinaryFocalCrossentropy", "KLDivergence", "Poisson", "Huber",
                 "LogCosh", "CosineSimilarity", "MeanSquaredLogarithmicError", "MeanAbsolutePercentageError", "CategoricalHinge",
                 "Hinge", "Dice", "Tversky"):
        yield f"loss {name}", lambda name=name: Trainer(mlp(), adam(), lambda labels, y: getattr(keras.losses, name)()(
            tf.one_hot(labels, 3), tf.nn.softmax(y)))


class Single(tf.Module):
    """Without Keras: an optimizer by hand, a step with a branch, several steps in a loop."""

    def __init__(self):
        super().__init__()
        self.w, self.b = tf.Variable(weights(1, 6, 3), name="w"), tf.Variable(weights(2, 3), name="b")
        self.slots = [tf.Variable(tf.zeros_like(each), trainable=False) for each in (self.w, self.b)]
        self.step = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.best = tf.Variable(np.inf, trainable=False)

    def one(self, x, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ self.w + self.b))
        for each, slot, gradient in zip((self.w, self.b), self.slots, tape.gradient(loss, (self.w, self.b))):
            slot.assign(0.9 * slot + gradient)
            each.assign_sub(0.1 * slot)
        self.step.assign_add(1)
        if loss < self.best:
            self.best.assign(loss)
        return loss

    specs = [tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "labels")]

    @tf.function(input_signature=specs)
    def train(self, x, labels):
        return {"loss": self.one(x, labels), "step": self.step.read_value(), "best": self.best.read_value()}

    @tf.function(input_signature=[*specs, tf.TensorSpec([], tf.int32, "times")])
    def repeat(self, x, labels, times):
        losses = tf.TensorArray(tf.float32, times)
        for i in tf.range(times):
            losses = losses.write(i, self.one(x, labels))
        return {"losses": losses.stack()}

    @tf.function(input_signature=[])
    def reset(self):
        for each in (*self.slots, self.w):
            each.assign(tf.zeros_like(each))
        self.step.assign(0)
        return {"step": self.step.read_value()}


def write(folder):
    feeds, labels = {"x": points(40, 5, 6)}, {"labels": np.array([0, 2, 1, 1, 0], np.int32)}
    for name, made in trainers():
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        trainer = made()
        set_weights(trainer.model)
        tf.saved_model.save(trainer, str(folder / name), signatures={"serving_default": trainer.predict, "train": trainer.train})
        steps_of(folder / name, [("train", feeds | labels)] * 4 + [("serving_default", feeds)]).save(folder / f"{name}.steps.pb")
    single = Single()
    signatures = {each: getattr(single, each) for each in ("train", "repeat", "reset")}
    tf.saved_model.save(single, str(folder / "by hand"), signatures=signatures)
    both = feeds | labels
    steps_of(folder / "by hand", [("train", both), ("train", both), ("repeat", both | {"times": np.int32(3)}), ("reset", {}),
                                  ("train", both)]).save(folder / "by hand.steps.pb")
