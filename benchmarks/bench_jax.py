#!/usr/bin/env python3
"""The suite on JAX: the workloads of bench_tapestry.cpp and tapestry_networks.cpp under the same names.

usage: bench_jax.py [--threads N] [--clock cpu] [--only REGEX] --check FILE | --time jit | --first jit

--check FILE  runs each workload three times and writes what it computed to FILE
--clock cpu   times the processor's work in all threads, for machines on which others work too
--time jit    prints the seconds of one run of each, as JSON
--first jit   prints the seconds of the first run of each, in which it is compiled
"""

import json
import os
import sys

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
if '--threads' in sys.argv:
    os.environ['XLA_FLAGS'] = '--xla_cpu_multi_thread_eigen=false ' + os.environ.get('XLA_FLAGS', '')

import jax
import jax.numpy as jnp
import numpy as np

from suite_numbers import (BLOCK, PRODUCTS, Options, chosen, clock_of, factors, first_seconds, labels, numbers, seconds,
                           write_results)

# --- Workloads: each gives (step, state, results). A step takes a state and returns the next one; `results` shows what
# is compared of a state. --------------------------------------------------------------------------------------------


def array(shape, seed, low=-1.0, high=1.0):
    return jnp.asarray(numbers(int(np.prod(shape)), seed, low, high).reshape(shape))


def classes(shape, seed, end):
    return jnp.asarray(labels(int(np.prod(shape)), seed, end).reshape(shape))


def parameters(shapes):
    """Arrays of the shapes, with the numbers of the seeds 10, 11, ... in their order."""
    return [array(shape, seed, -0.1, 0.1) for seed, shape in enumerate(shapes, 10)]


def layers(*widths):
    """(weights [inputs, outputs], bias [outputs]) of each layer."""
    result = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1):
        limit = float(np.float32(1) / np.sqrt(np.float32(inputs)))
        result += [array((inputs, outputs), 2 * i, -limit, limit), array((outputs,), 2 * i + 1, -limit, limit)]
    return result


def cross_entropy(logits, target):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], 1)
    return -jnp.mean(chosen)


def sgd(p, loss, rate):
    def step(state):
        value, gradients = jax.value_and_grad(loss)(state[1])
        return value, [x - rate * g for x, g in zip(state[1], gradients)]

    return step, (jnp.float32(0), p), lambda state: [state[0], *state[1]]


def adam(p, loss, epsilon=1e-4, most=None, key=None):
    """Steps of Adam; `loss` takes the parameters and, where a key is given, a new key."""
    def step(state):
        _, p, m, v, count, key = state
        more = ()
        if key is not None:
            key, drawn = jax.random.split(key)
            more = (drawn,)
        value, gradients = jax.value_and_grad(loss)(p, *more)
        if most:
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))
            gradients = [g * (most / jnp.maximum(norm, most)) for g in gradients]
        count += 1
        m = [0.9 * a + 0.1 * g for a, g in zip(m, gradients)]
        v = [0.999 * a + 0.001 * jnp.square(g) for a, g in zip(v, gradients)]
        mean, square = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)
        p = [x - 0.001 * a * mean / (jnp.sqrt(b * square) + epsilon) for x, a, b in zip(p, m, v)]
        return value, p, m, v, count, key

    zeros = [jnp.zeros_like(x) for x in p]
    return step, (jnp.float32(0), p, zeros, zeros, jnp.float32(0), key), lambda state: [state[0], *state[1]]


def mlp_step(_):
    x, target = array((200, 2), 100), jax.nn.one_hot(classes((200,), 101, 2), 2)

    def loss(p):
        h = x
        for i in range(0, 6, 2):
            h = jax.nn.sigmoid(h @ p[i] + p[i + 1])
        return -jnp.sum(target * jnp.log(jax.nn.softmax(h @ p[6] + p[7])))

    return sgd(layers(2, 4, 8, 2, 2), loss, 0.001)


def dense_relu(p, x):
    for i in range(0, len(p), 2):
        x = x @ p[i] + p[i + 1]
        if i + 2 < len(p):
            x = jax.nn.relu(x)
    return x


def adam_step(_):
    x, target = array((128, 784), 100, 0), classes((128,), 101, 10)
    return adam(layers(784, 512, 256, 10), lambda p: cross_entropy(dense_relu(p, x), target))


def sgd_step(_):
    x, target = array((256, 2048), 100), array((256, 2048), 101)
    return sgd(layers(2048, 2048, 2048, 2048), lambda p: jnp.mean(jnp.square(dense_relu(p, x) - target)), 0.01)


def function_of(f, inputs, seed=None):
    """f, or f and its gradients. The inputs are arguments, for what is constant would be computed beforehand."""
    def step(state):
        inputs = state[0]
        if seed is None:
            return inputs, [f(*inputs)]
        y, pull_back = jax.vjp(f, *inputs)
        return inputs, [y, *pull_back(seed)]

    return step, (inputs, []), lambda state: state[1]


def chain(x):
    return jnp.tanh(1.5 * x + 0.25) * jax.nn.sigmoid(x) + jnp.exp(-x * x)


def convolution(x, weight, bias):
    return jax.lax.conv_general_dilated(x, weight, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')) + bias


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), 'VALID')


def cnn_step(_):
    filters = [layers(9 * i, o) for i, o in ((1, 16), (16, 32))]
    p = [x for (w, b), (i, o) in zip(filters, ((1, 16), (16, 32))) for x in (w.reshape(3, 3, i, o), b)]
    p += layers(7 * 7 * 32, 128, 10)
    x, target = array((64, 28, 28, 1), 100, 0), classes((64,), 101, 10)

    def loss(p):
        h = x
        for i in (0, 2):
            h = max_pool(jax.nn.relu(convolution(h, p[i], p[i + 1])))
        return cross_entropy(dense_relu(p[4:], h.reshape(64, -1)), target)

    return adam(p, loss)


def affine(x, weight, bias):
    """Weights are [out, in], as PyTorch's and Tapestry's layers have them."""
    return x @ weight.T + bias


def digits_step(dropout_rate):
    shapes = [(16, 1, 3, 3), (16,), (16,), (16,), (32, 16, 3, 3), (32,), (32,), (32,), (128, 1568), (128,), (10, 128),
              (10,)]
    images, target = array((64, 28, 28, 1), 100, 0), classes((64,), 101, 10)

    def loss(p, key):
        x = images
        for i in (0, 4):
            x = convolution(x, jnp.transpose(p[i], (2, 3, 1, 0)), p[i + 1])
            mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
            x = (x - mean) * (jax.lax.rsqrt(variance + 1e-5) * p[i + 2]) + p[i + 3]
            x = max_pool(jax.nn.relu(x))
        x = x.reshape(64, -1)
        if dropout_rate:
            x = jnp.where(jax.random.bernoulli(key, 1 - dropout_rate, x.shape), x / (1 - dropout_rate), 0)
        return cross_entropy(affine(jax.nn.relu(affine(x, p[8], p[9])), p[10], p[11]), target)

    return adam(parameters(shapes), loss, epsilon=1e-3, key=jax.random.key(0))


def letters_step(gates, layer):
    """The network of examples/14; `layer` maps the vectors [time, batch, 64] to outputs, by its four parameters."""
    rows = gates * 256
    p = parameters([(65, 64), (rows, 64), (rows, 256), (rows,), (rows,), (65, 256), (65,)])
    letters, target = classes((32, 64), 100, 65), classes((32, 64), 101, 65)

    def loss(p):
        outputs = layer(jnp.swapaxes(p[0][letters], 0, 1), *p[1:5])
        return cross_entropy(affine(jnp.swapaxes(outputs, 0, 1).reshape(-1, 256), p[5], p[6]), target.reshape(-1))

    return adam(p, loss, most=1.0)


def lstm(x, weight_ih, weight_hh, bias_ih, bias_hh):
    def step(state, z):
        h, c = state
        i, f, g, o = jnp.split(z + h @ weight_hh.T, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((x.shape[1], 256))
    return jax.lax.scan(step, (start, start), affine(x, weight_ih, bias_ih + bias_hh))[1]


def gru(x, weight_ih, weight_hh, bias_ih, bias_hh):
    def step(h, z):
        z_r, z_z, z_n = jnp.split(z, 3, -1)
        h_r, h_z, h_n = jnp.split(affine(h, weight_hh, bias_hh), 3, -1)
        z = jax.nn.sigmoid(z_z + h_z)
        h = (1 - z) * jnp.tanh(z_n + jax.nn.sigmoid(z_r + h_r) * h_n) + z * h
        return h, h

    return jax.lax.scan(step, jnp.zeros((x.shape[1], 256)), affine(x, weight_ih, bias_ih))[1]


def embedding_step(_):
    p = parameters([(100_000, 32), (128, 256), (128,), (2, 128), (2,)])
    things, target = classes((512, 8), 100, 100_000), classes((512,), 101, 2)

    def loss(p):
        h = jax.nn.relu(affine(p[0][things].reshape(512, -1), p[1], p[2]))
        return cross_entropy(affine(h, p[3], p[4]), target)

    return sgd(p, loss, 0.1)


def layer_norm(x, scale, offset):
    mean = jnp.mean(x, -1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), -1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset


def attention(x, p, mask):
    """The attention of x [batch, time, 256] to itself with four heads."""
    q, k, v = jnp.transpose(affine(x, p[0], p[1]).reshape(*x.shape[:2], 3, 4, 64), (2, 0, 3, 1, 4))
    scores = q @ jnp.swapaxes(k, -1, -2) / 8.0
    if mask is not None:
        scores += mask
    return affine(jnp.swapaxes(jax.nn.softmax(scores) @ v, 1, 2).reshape(x.shape), p[2], p[3])


def feed_forward(x, p, activation):
    return affine(activation(affine(x, p[4], p[5])), p[6], p[7])


def block_gradient(_):
    x, seed = array((8, 128, 256), 100), array((8, 128, 256), 101)

    def block(p):
        h = layer_norm(x + attention(x, p, None), p[8], p[9])
        return layer_norm(h + feed_forward(h, p, jax.nn.relu), p[10], p[11])

    def step(state):
        y, pull_back = jax.vjp(block, state[0])
        return state[0], [y, *pull_back(seed)[0]]

    return step, (parameters(BLOCK), []), lambda state: state[1]


def gpt_step(_):
    p = parameters([(256, 256), (128, 256), *BLOCK, *BLOCK, (256,), (256,), (256, 256), (256,)])
    letters, target = classes((8, 128), 100, 256), classes((8, 128), 101, 256)
    mask = jnp.asarray(np.triu(np.full((128, 128), -np.inf, np.float32), 1))

    def loss(p):
        h = p[0][letters] + p[1]
        for b in (p[2:14], p[14:26]):
            h += attention(layer_norm(h, b[8], b[9]), b, mask)
            h += feed_forward(layer_norm(h, b[10], b[11]), b, lambda z: jax.nn.gelu(z, approximate=False))
        return cross_entropy(affine(layer_norm(h, p[26], p[27]).reshape(-1, 256), p[28], p[29]), target.reshape(-1))

    return adam(p, loss)


def matrix(seed=100):
    return array((4096, 1024), seed)


def layer_norm_inputs():
    return [matrix(), array((1024,), 102), array((1024,), 103)]


def product(sizes, batch, transposed):
    multiply = (lambda a, b: a @ jnp.swapaxes(b, -1, -2)) if transposed else jnp.matmul
    return function_of(multiply, [*map(jnp.asarray, factors(sizes, batch, transposed))])


def chain_gradient(_):
    return function_of(lambda x: jnp.sum(chain(x)), [array((1 << 24,), 100)], jnp.float32(1))


def scalar_loop(s):
    return jax.lax.while_loop(lambda state: state[0] < 100_000, lambda state: (state[0] + 1, 0.999 * state[1] + 0.5),
                              (0, s))[1]


def scan(x, weights):
    """The sum of the last state of an LSTM over x [time, batch, inputs]."""
    def cell(state, x):
        h, c = state
        i, f, g, o = jnp.split(jnp.concatenate([x, h], 1) @ weights, 4, 1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    start = jnp.zeros((16, 64))
    return jnp.sum(jax.lax.scan(cell, (start, start), x)[0][0])


def scan_gradient(_):
    return function_of(scan, [array((128, 16, 32), 100), array((96, 256), 101, -0.1, 0.1)], jnp.float32(1))


def rosenbrock(x):
    head, tail = x[:-1], x[1:]
    return jnp.sum(100.0 * jnp.square(tail - jnp.square(head)) + jnp.square(1.0 - head))


WORKLOADS = {
    'a/mlp_step': mlp_step,
    'b/adam_step': adam_step,
    'c/sgd_step': sgd_step,
    'e/chain_forward': lambda _: function_of(chain, [array((1 << 24,), 100)]),
    'e/chain_gradient': chain_gradient,
    'e/chain_mean': lambda _: function_of(lambda x: jnp.mean(chain(x)), [array((1 << 24,), 100)]),
    'e/mean_squared_error': lambda _: function_of(lambda x, y: jnp.mean(jnp.square(x - y), 1),
                                                  [array((4096, 4096), 100), array((4096, 4096), 101)]),
    'f/softmax_forward': lambda _: function_of(jax.nn.softmax, [matrix()]),
    'f/softmax_gradient': lambda _: function_of(jax.nn.softmax, [matrix()], matrix(101)),
    'f/layer_norm_forward': lambda _: function_of(layer_norm, layer_norm_inputs()),
    'f/layer_norm_gradient': lambda _: function_of(layer_norm, layer_norm_inputs(), matrix(101)),
    'g/cnn_step': cnn_step,
    'g/digits_step': digits_step,
    'k/lstm_step': lambda _: letters_step(4, lstm),
    'k/gru_step': lambda _: letters_step(3, gru),
    'l/block_gradient': block_gradient,
    'l/gpt_step': gpt_step,
    **{name: lambda _, kind=kind: product(*kind) for name, kind in PRODUCTS.items()},
    'n/scalar_loop': lambda _: function_of(scalar_loop, [jnp.float32(1)]),
    'n/scan_gradient': scan_gradient,
    'o/rosenbrock_gradient': lambda _: function_of(rosenbrock, [array((10,), 100)], jnp.float32(1)),
    'p/embedding_step': embedding_step,
}


def main():
    options = Options(__doc__, ['jit']).parse_args()
    workloads = chosen(WORKLOADS, options)

    if options.check:
        results = {}
        for name, make in workloads.items():
            step, state, show = make(0.0)
            step = jax.jit(step)
            for _ in range(3):
                state = step(state)
            results[name] = [np.asarray(x, np.float32).ravel() for x in show(state)]
        write_results(options.check, results)
    if options.time or options.first:
        times = {}
        for name, make in workloads.items():
            step, state, _ = make(0.25)
            step, last = jax.jit(step), [state]

            def run():
                last[0] = step(last[0])

            def synchronize():
                jax.block_until_ready(last[0])

            times[name] = (first_seconds(run, synchronize) if options.first else
                           seconds(run, synchronize, clock_of(options)))
        print(json.dumps({'jax': jax.__version__, 'seconds': times}))


if __name__ == '__main__':
    main()
