#!/usr/bin/env python3
"""The suite on PyTorch, on a GPU: the workloads of bench_tapestry.cpp under the same names.

usage: bench_torch.py [--device cuda] [--only REGEX] --check FILE | --time MODE

--check FILE  runs each workload three times and writes what it computed to FILE
--time MODE   prints the seconds of one run of each, as JSON; MODE is eager, compile (torch.compile) or graphs (the eager
              run captured as a CUDA graph)
"""

import argparse
import json
import re
import statistics
import time

import numpy as np
import torch
from torch.nn import functional as F


def numbers(count, seed, low=-1.0, high=1.0):
    """The numbers of harness.cpp: Knuth's MMIX generator, after n steps multipliers[n] * seed + increments[n]."""
    with np.errstate(over='ignore'):
        multipliers = np.array([6364136223846793005], np.uint64)
        increments = np.array([1442695040888963407], np.uint64)
        while len(multipliers) < count + 1:
            last_multiplier, last_increment = multipliers[-1], increments[-1]
            increments = np.concatenate([increments, multipliers * last_increment + increments])
            multipliers = np.concatenate([multipliers, multipliers * last_multiplier])
        states = multipliers[1:count + 1] * np.uint64(seed) + increments[1:count + 1]
    fractions = (states >> np.uint64(40)).astype(np.float32)
    return np.float32(low) + np.float32(high - low) * fractions * np.float32(2.0**-24)


def labels(count, seed, end):
    return (numbers(count, seed, 0, 1).astype(np.float64) * 2**24).round().astype(np.int64) % end


def layers(*widths):
    """(weights [inputs, outputs], bias [outputs]) of each layer."""
    result = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1):
        limit = float(np.float32(1) / np.sqrt(np.float32(inputs)))
        result.append((numbers(inputs * outputs, 2 * i, -limit, limit).reshape(inputs, outputs),
                       numbers(outputs, 2 * i + 1, -limit, limit)))
    return result


# --- Workloads: each gives (step, results), a function to time and one that shows what it computed last ----------------


class Suite:
    def __init__(self, device):
        self.device = torch.device(device)

    def tensor(self, values, *shape):
        values = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        return values.reshape(shape) if shape else values

    def parameters(self, weights_and_biases):
        return [self.tensor(x).requires_grad_() for pair in weights_and_biases for x in pair]

    def training(self, parameters, optimizer, loss, shown=None):
        last = {}

        def step():
            optimizer.zero_grad(set_to_none=True)
            value = loss()
            value.backward()
            optimizer.step()
            last['loss'] = value
            return value

        return step, lambda: [last['loss'], *(shown() if shown else parameters)]

    def adam(self, parameters):
        # Its state is on the device, so that a CUDA graph can contain the step.
        on_gpu = self.device.type == 'cuda'
        return torch.optim.Adam(parameters, 0.001, eps=1e-4, fused=on_gpu, capturable=on_gpu)

    def mlp_step(self):
        x = self.tensor(numbers(400, 100), 200, 2)
        target = F.one_hot(self.tensor(labels(200, 101, 2)), 2).float()
        p = self.parameters(layers(2, 4, 8, 2, 2))

        def loss():
            h = x
            for i in range(0, 6, 2):
                h = torch.sigmoid(torch.addmm(p[i + 1], h, p[i]))
            return -(target * torch.log(torch.softmax(torch.addmm(p[7], h, p[6]), 1))).sum(1).sum()

        return self.training(p, torch.optim.SGD(p, 0.001), loss)

    @staticmethod
    def dense_relu(p, x):
        for i in range(0, len(p), 2):
            x = torch.addmm(p[i + 1], x, p[i])
            if i + 2 < len(p):
                x = torch.relu(x)
        return x

    def adam_step(self):
        x = self.tensor(numbers(784 * 128, 100, 0, 1), 128, 784)
        target = self.tensor(labels(128, 101, 10))
        p = self.parameters(layers(784, 512, 256, 10))
        return self.training(p, self.adam(p), lambda: F.cross_entropy(self.dense_relu(p, x), target))

    def sgd_step(self):
        x = self.tensor(numbers(256 * 2048, 100), 256, 2048)
        target = self.tensor(numbers(256 * 2048, 101), 256, 2048)
        p = self.parameters(layers(2048, 2048, 2048, 2048))
        return self.training(p, torch.optim.SGD(p, 0.01), lambda: F.mse_loss(self.dense_relu(p, x), target))

    def cnn_step(self):
        x = self.tensor(numbers(28 * 28 * 64, 100, 0, 1), 64, 1, 28, 28)
        target = self.tensor(labels(64, 101, 10))
        pairs = [(w.reshape(3, 3, i, o).transpose(3, 2, 0, 1), b)
                 for i, o in ((1, 16), (16, 32)) for w, b in layers(9 * i, o)]
        (w, b), last = layers(7 * 7 * 32, 128, 10)
        pairs += [(w.reshape(7, 7, 32, 128).transpose(2, 0, 1, 3).reshape(-1, 128), b), last]
        p = self.parameters(pairs)

        def loss():
            h = x
            for i in (0, 2):
                h = F.max_pool2d(torch.relu(F.conv2d(h, p[i], p[i + 1], padding=1)), 2)
            h = torch.relu(torch.addmm(p[5], h.reshape(64, -1), p[4]))
            return F.cross_entropy(torch.addmm(p[7], h, p[6]), target)

        def shown():
            return [p[0].permute(2, 3, 1, 0), p[1], p[2].permute(2, 3, 1, 0), p[3],
                    p[4].reshape(32, 7, 7, 128).permute(1, 2, 0, 3), *p[5:]]

        return self.training(p, self.adam(p), loss, shown)

    def function(self, f):
        last = {}

        def step():
            last['results'] = f()
            return last['results']

        return step, lambda: last['results']

    @staticmethod
    def chain(x):
        return torch.tanh(1.5 * x + 0.25) * torch.sigmoid(x) + torch.exp(-x * x)

    def chain_forward(self):
        x = self.tensor(numbers(1 << 24, 100))
        return self.function(lambda: [self.chain(x)])

    def chain_gradient(self):
        x = self.tensor(numbers(1 << 24, 100)).requires_grad_()

        def f():
            y = self.chain(x).sum()
            return [y, *torch.autograd.grad(y, [x])]

        return self.function(f)

    def product(self, n):
        a, b = (self.tensor(numbers(n * n, seed), n, n) for seed in (100, 101))
        return self.function(lambda: [a @ b])

    def workloads(self):
        return {
            'a/mlp_step': self.mlp_step,
            'b/adam_step': self.adam_step,
            'c/sgd_step': self.sgd_step,
            'e/chain_forward': self.chain_forward,
            'e/chain_gradient': self.chain_gradient,
            'g/cnn_step': self.cnn_step,
            'm/product_1024': lambda: self.product(1024),
            'm/product_4096': lambda: self.product(4096),
        }


# --- Time -------------------------------------------------------------------------------------------------------------


def captured(step):
    """The step as a CUDA graph, warmed up on a stream of its own as PyTorch asks for."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def seconds(step, synchronize, samples=9, least=0.1):
    """The median of several series of runs, each with the wait for the device at its end."""
    for _ in range(5):
        step()
    synchronize()
    runs, times = 1, []
    while len(times) < samples:
        start = time.perf_counter()
        for _ in range(runs):
            step()
        synchronize()
        elapsed = time.perf_counter() - start
        if elapsed < least and not times:
            runs *= 2
        else:
            times.append(elapsed / runs)
    return statistics.median(times)


def digest(values):
    """As in harness.cpp: every n-th number of a large result, and the sum of the absolute values of all numbers."""
    if len(values) <= 4096:
        return [values.tolist()]
    return [values[::len(values) // 4096 | 1].tolist(), [float(np.abs(values.astype(np.float64)).sum())]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--only', default='', metavar='REGEX')
    parser.add_argument('--check', metavar='FILE')
    parser.add_argument('--time', choices=['eager', 'compile', 'graphs'])
    options = parser.parse_args()
    suite = Suite(options.device)
    synchronize = torch.cuda.synchronize if suite.device.type == 'cuda' else lambda: None
    chosen = {name: make for name, make in suite.workloads().items() if re.search(options.only, name)}

    if options.check:
        shown = {}
        for name, make in chosen.items():
            step, results = make()
            for _ in range(3):
                step()
            arrays = [x.detach().cpu().float().numpy().ravel() for x in results()]
            shown[name] = [part for array in arrays for part in digest(array)]
        with open(options.check, 'w', encoding='utf-8') as file:
            json.dump(shown, file)
    if options.time:
        times = {}
        for name, make in chosen.items():
            step, _ = make()
            how = {'eager': lambda f: f, 'compile': lambda f: torch.compile(f), 'graphs': captured}[options.time]
            times[name] = seconds(how(step), synchronize)
        print(json.dumps({'torch': torch.__version__, 'seconds': times}))


if __name__ == '__main__':
    main()
