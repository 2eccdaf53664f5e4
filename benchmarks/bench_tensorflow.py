#!/usr/bin/env python3
"""The suite's networks on TensorFlow: the workloads of tapestry_networks.cpp, and others, under the same names.

usage: bench_tensorflow.py [--threads N] [--clock cpu] [--only REGEX] --check FILE | --time MODE | --first MODE

--check FILE  runs each workload three times and writes what it computed to FILE
--clock cpu   times the processor's work in all threads, for machines on which others work too
--time MODE   prints the seconds of one run of each, as JSON; MODE is eager, function (tf.function) or xla (the same with
              jit_compile)
--first MODE  prints the seconds of the first run of each, in which it is traced and compiled
"""

import json
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
os.environ.setdefault('CUDA_VISIBLE_DEVICES', '')

import numpy as np
import tensorflow as tf

from suite_numbers import (BLOCK, PRODUCTS, Options, chosen, clock_of, factors, first_seconds, labels, numbers, seconds,
                           write_results)


def variables(shapes):
    """Variables of the shapes, with the numbers of the seeds 10, 11, ... in their order."""
    return [tf.Variable(numbers(int(np.prod(shape)), seed, -0.1, 0.1).reshape(shape))
            for seed, shape in enumerate(shapes, 10)]


def constant(shape, seed, low=-1.0, high=1.0):
    return tf.constant(numbers(int(np.prod(shape)), seed, low, high).reshape(shape))


def classes(shape, seed, end):
    return tf.constant(labels(int(np.prod(shape)), seed, end).reshape(shape))


def dense(x, weight, bias):
    """Weights are [out, in], as PyTorch's and Tapestry's layers have them."""
    return tf.matmul(x, weight, transpose_b=True) + bias


def layer_norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)


class Adam:
    """One fused update for each variable, as tf.raw_ops has it."""

    def __init__(self, parameters, epsilon):
        self.parameters, self.epsilon = parameters, epsilon
        self.m, self.v = ([tf.Variable(tf.zeros_like(p)) for p in parameters] for _ in range(2))
        self.power1, self.power2 = tf.Variable(1.0), tf.Variable(1.0)

    def apply(self, gradients):
        self.power1.assign(self.power1 * 0.9)
        self.power2.assign(self.power2 * 0.999)
        # TensorFlow's op adds epsilon before it corrects the bias; PyTorch and Tapestry do afterwards.
        epsilon = self.epsilon * tf.sqrt(1 - self.power2)
        for p, m, v, g in zip(self.parameters, self.m, self.v, gradients):
            tf.raw_ops.ResourceApplyAdam(var=p.handle, m=m.handle, v=v.handle, beta1_power=self.power1,
                                         beta2_power=self.power2, lr=0.001, beta1=0.9, beta2=0.999, epsilon=epsilon,
                                         grad=tf.convert_to_tensor(g))


class GradientDescent:
    def __init__(self, parameters, rate):
        self.parameters, self.rate = parameters, rate

    def apply(self, gradients):
        for p, g in zip(self.parameters, gradients):
            if isinstance(g, tf.IndexedSlices):
                tf.raw_ops.ResourceScatterSub(resource=p.handle, indices=g.indices, updates=self.rate * g.values)
            else:
                p.assign_sub(self.rate * g)


def learning(parameters, logits, x, target, epsilon=1e-4, most=None, sgd=None):
    """(step, results): a step of Adam, or of gradient descent, on the cross-entropy of the logits."""
    optimizer = GradientDescent(parameters, sgd) if sgd else Adam(parameters, epsilon)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(target, logits(x)))
        gradients = tape.gradient(loss, parameters)
        if most:
            gradients, _ = tf.clip_by_global_norm(gradients, most)
        optimizer.apply(gradients)
        return [loss]

    return step, lambda computed: [*computed, *parameters]


def plain(step):
    return step, lambda computed: computed


def digits_step(dropout_rate):
    shapes = [(16, 1, 3, 3), (16,), (16,), (16,), (32, 16, 3, 3), (32,), (32,), (32,), (128, 1568), (128,), (10, 128),
              (10,)]
    p = variables(shapes)
    moving = [(tf.Variable(tf.zeros(c)), tf.Variable(tf.ones(c))) for c in (16, 32)]

    def logits(x):
        for i, (mean, variance) in zip((0, 4), moving):
            x = tf.nn.conv2d(x, tf.transpose(p[i], (2, 3, 1, 0)), 1, 'SAME') + p[i + 1]
            x, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
                x=x, scale=p[i + 2], offset=p[i + 3], mean=[], variance=[], epsilon=1e-5, is_training=True)
            mean.assign(0.9 * mean + 0.1 * new_mean)
            variance.assign(0.9 * variance + 0.1 * new_variance)
            x = tf.nn.max_pool2d(tf.nn.relu(x), 2, 2, 'VALID')
        x = tf.reshape(x, (x.shape[0], -1))
        if dropout_rate:
            x = tf.nn.dropout(x, dropout_rate)
        return dense(tf.nn.relu(dense(x, p[8], p[9])), p[10], p[11])

    return learning(p, logits, constant((64, 28, 28, 1), 100, 0.0), classes((64,), 101, 10), epsilon=1e-3)


def cnn_step(_):
    filters = [variables_of_layer(9 * i, o, (3, 3, i, o), 2) for i, o in ((1, 16), (16, 32))]
    denses = [variables_of_layer(1568, 128, (1568, 128), 2), variables_of_layer(128, 10, (128, 10), 4)]
    p = [v for pair in filters + denses for v in pair]

    def logits(x):
        for i in (0, 2):
            x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, p[i], 1, 'SAME') + p[i + 1]), 2, 2, 'VALID')
        x = tf.reshape(x, (x.shape[0], -1))
        return tf.matmul(tf.nn.relu(tf.matmul(x, p[4]) + p[5]), p[6]) + p[7]

    return learning(p, logits, constant((64, 28, 28, 1), 100, 0.0), classes((64,), 101, 10))


def variables_of_layer(inputs, outputs, shape, seed):
    """The layer of harness.cpp with these seeds."""
    limit = float(np.float32(1) / np.sqrt(np.float32(inputs)))
    return (tf.Variable(numbers(inputs * outputs, seed, -limit, limit).reshape(shape)),
            tf.Variable(numbers(outputs, seed + 1, -limit, limit)))


def letters_step(gates, layer):
    """The network of examples/14; `layer` maps the vectors [time, batch, 64] to a list of outputs, by four parameters."""
    rows = gates * 256
    p = variables([(65, 64), (rows, 64), (rows, 256), (rows,), (rows,), (65, 256), (65,)])

    def logits(x):
        outputs = layer(tf.transpose(tf.gather(p[0], x), (1, 0, 2)), *p[1:5])
        return dense(tf.reshape(tf.stack(outputs, 1), (-1, 256)), p[5], p[6])

    return learning(p, logits, classes((32, 64), 100, 65), tf.reshape(classes((32, 64), 101, 65), (-1,)), most=1.0)


def lstm(x, weight_ih, weight_hh, bias_ih, bias_hh):
    h = c = tf.zeros((x.shape[1], 256))
    outputs = []
    for z in tf.unstack(dense(x, weight_ih, bias_ih + bias_hh)):
        i, f, g, o = tf.split(z + tf.matmul(h, weight_hh, transpose_b=True), 4, -1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return outputs


def gru(x, weight_ih, weight_hh, bias_ih, bias_hh):
    h = tf.zeros((x.shape[1], 256))
    outputs = []
    for z in tf.unstack(dense(x, weight_ih, bias_ih)):
        z_r, z_z, z_n = tf.split(z, 3, -1)
        h_r, h_z, h_n = tf.split(dense(h, weight_hh, bias_hh), 3, -1)
        z = tf.sigmoid(z_z + h_z)
        h = (1 - z) * tf.tanh(z_n + tf.sigmoid(z_r + h_r) * h_n) + z * h
        outputs.append(h)
    return outputs


def embedding_step(_):
    p = variables([(100_000, 32), (128, 256), (128,), (2, 128), (2,)])

    def logits(x):
        return dense(tf.nn.relu(dense(tf.reshape(tf.gather(p[0], x), (-1, 256)), p[1], p[2])), p[3], p[4])

    return learning(p, logits, classes((512, 8), 100, 100_000), classes((512,), 101, 2), sgd=0.1)


def attention(x, p, mask):
    """The attention of x [batch, time, 256] to itself with four heads."""
    batch, time_steps = x.shape[0], x.shape[1]
    parts = tf.reshape(dense(tf.reshape(x, (-1, 256)), p[0], p[1]), (batch, time_steps, 3, 4, 64))
    q, k, v = tf.unstack(tf.transpose(parts, (2, 0, 3, 1, 4)))
    scores = tf.matmul(q, k, transpose_b=True) / 8.0
    if mask is not None:
        scores += mask
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), (0, 2, 1, 3))
    return tf.reshape(dense(tf.reshape(mixed, (-1, 256)), p[2], p[3]), x.shape)


def feed_forward(x, p, activation):
    hidden = activation(dense(tf.reshape(x, (-1, 256)), p[4], p[5]))
    return tf.reshape(dense(hidden, p[6], p[7]), x.shape)


def block_gradient(_):
    p = variables(BLOCK)
    x, seed = constant((8, 128, 256), 100), constant((8, 128, 256), 101)

    def step():
        with tf.GradientTape() as tape:
            h = layer_norm(x + attention(x, p, None), p[8], p[9])
            y = layer_norm(h + feed_forward(h, p, tf.nn.relu), p[10], p[11])
        return [y, *tape.gradient(y, p, seed)]

    return plain(step)


def gpt_step(_):
    p = variables([(256, 256), (128, 256), *BLOCK, *BLOCK, (256,), (256,), (256, 256), (256,)])
    mask = tf.constant(np.triu(np.full((128, 128), -np.inf, np.float32), 1))

    def logits(x):
        h = tf.gather(p[0], x) + p[1]
        for b in (p[2:14], p[14:26]):
            h += attention(layer_norm(h, b[8], b[9]), b, mask)
            h += feed_forward(layer_norm(h, b[10], b[11]), b, lambda z: tf.nn.gelu(z, approximate=False))
        return dense(tf.reshape(layer_norm(h, p[26], p[27]), (-1, 256)), p[28], p[29])

    return learning(p, logits, classes((8, 128), 100, 256), tf.reshape(classes((8, 128), 101, 256), (-1,)))


def function_of(f, inputs, seed=None):
    """f without a tape, or f and its gradients."""
    def step():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = f(*inputs)
        return [y, *(tape.gradient(y, inputs, seed) if seed is not None else [])]

    return plain(step)


def matrix(seed=100):
    return constant((4096, 1024), seed)


def layer_norm_inputs():
    return [matrix(), constant((1024,), 102), constant((1024,), 103)]


def scalar_loop(s):
    return tf.while_loop(lambda i, s: i < 100_000, lambda i, s: (i + 1, 0.999 * s + 0.5), (0, s))[1]


def scan(x, weights):
    """The sum of the last state of an LSTM over x [time, batch, inputs]."""
    def cell(state, x):
        h, c = state
        i, f, g, o = tf.split(tf.matmul(tf.concat([x, h], 1), weights), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    start = tf.zeros((16, 64))
    return tf.reduce_sum(tf.scan(cell, x, (start, start))[0][-1])


def rosenbrock(x):
    head, tail = x[:-1], x[1:]
    return tf.reduce_sum(100.0 * tf.square(tail - tf.square(head)) + tf.square(1.0 - head))


def product(sizes, batch, transposed):
    a, b = map(tf.constant, factors(sizes, batch, transposed))
    return function_of(lambda a, b: tf.matmul(a, b, transpose_b=transposed), [a, b])


WORKLOADS = {
    'f/softmax_forward': lambda _: function_of(tf.nn.softmax, [matrix()]),
    'f/softmax_gradient': lambda _: function_of(tf.nn.softmax, [matrix()], matrix(101)),
    'f/layer_norm_forward': lambda _: function_of(layer_norm, layer_norm_inputs()),
    'f/layer_norm_gradient': lambda _: function_of(layer_norm, layer_norm_inputs(), matrix(101)),
    'g/cnn_step': cnn_step,
    'g/digits_step': digits_step,
    'k/lstm_step': lambda _: letters_step(4, lstm),
    'k/gru_step': lambda _: letters_step(3, gru),
    'l/block_gradient': block_gradient,
    'l/gpt_step': gpt_step,
    **{name: lambda _, kind=kind: product(*kind) for name, kind in PRODUCTS.items()},
    'n/scalar_loop': lambda _: function_of(scalar_loop, [tf.constant(1.0)]),
    'n/scan_gradient': lambda _: function_of(
        scan, [constant((128, 16, 32), 100), constant((96, 256), 101, -0.1, 0.1)], tf.constant(1.0)),
    'o/rosenbrock_gradient': lambda _: function_of(rosenbrock, [constant((10,), 100)], tf.constant(1.0)),
    'p/embedding_step': embedding_step,
}


def main():
    options = Options(__doc__, ['eager', 'function', 'xla']).parse_args()
    if options.threads:
        tf.config.threading.set_intra_op_parallelism_threads(options.threads)
        tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    workloads = chosen(WORKLOADS, options)

    if options.check:
        results = {}
        for name, make in workloads.items():
            step, show = make(0.0)
            step = tf.function(step)
            for _ in range(3):
                computed = step()
            results[name] = [np.asarray(x, np.float32).ravel() for x in show(computed)]
        write_results(options.check, results)
    if mode := options.time or options.first:
        times = {}
        for name, make in workloads.items():
            step, _ = make(0.25)
            if mode != 'eager':
                step = tf.function(step, jit_compile=mode == 'xla')
            try:
                times[name] = (first_seconds(step, lambda: None) if options.first else
                               seconds(step, lambda: None, clock_of(options)))
            except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError) as error:
                print(f'{name}: {str(error).splitlines()[0]}')
        print(json.dumps({'tensorflow': tf.__version__, 'seconds': times}))


if __name__ == '__main__':
    main()
