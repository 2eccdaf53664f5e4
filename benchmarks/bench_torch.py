#!/usr/bin/env python3
"""The suite on PyTorch: the workloads of bench_tapestry.cpp under the same names.

usage: bench_torch.py [--device cuda] [--threads N] [--clock cpu] [--only REGEX]
                      --check FILE | --time MODE | --first MODE | --memory NAME

--check FILE  runs each workload three times and writes what it computed to FILE
--clock cpu   times the processor's work in all threads, for machines on which others work too
--time MODE   prints the seconds of one run of each, as JSON; MODE is eager, compile (torch.compile) or graphs (the eager
              run captured as a CUDA graph)
--first MODE  prints the seconds of the first run of each
--memory NAME prints the peak memory of three eager runs of that workload above what there is before them, in bytes
"""

import ctypes
import json
import pathlib
import re

import numpy as np
import torch
from torch.nn import functional as F

from suite_numbers import (PRODUCTS, Options, chosen, clock_of, factors, first_seconds, labels, numbers, seconds,
                           write_results)


def layers(*widths):
    """(weights [inputs, outputs], bias [outputs]) of each layer."""
    result = []
    for i, (inputs, outputs) in enumerate(zip(widths, widths[1:]), 1):
        limit = float(np.float32(1) / np.sqrt(np.float32(inputs)))
        result.append((numbers(inputs * outputs, 2 * i, -limit, limit).reshape(inputs, outputs),
                       numbers(outputs, 2 * i + 1, -limit, limit)))
    return result


# --- Workloads: each gives (step, results), a function to time and one that shows what it computed last ----------------


class Digits(torch.nn.Module):
    """The network of examples/13, for images with their channels last in memory, as Tapestry has them."""

    def __init__(self, rate):
        super().__init__()
        self.first, self.first_norm = torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.BatchNorm2d(16)
        self.second, self.second_norm = torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32)
        self.drop = torch.nn.Dropout(rate)
        self.dense, self.logits = torch.nn.Linear(32 * 7 * 7, 128), torch.nn.Linear(128, 10)

    def forward(self, x):
        for convolution, norm in ((self.first, self.first_norm), (self.second, self.second_norm)):
            x = F.max_pool2d(torch.relu(norm(convolution(x))), 2)
        x = self.drop(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1))
        return self.logits(torch.relu(self.dense(x)))


class Letters(torch.nn.Module):
    """The network of examples/14, with an LSTM or another layer over the letters."""

    def __init__(self, layer):
        super().__init__()
        self.embedding = torch.nn.Embedding(65, 64)
        self.layer = layer(64, 256, batch_first=True)
        self.logits = torch.nn.Linear(256, 65)

    def forward(self, x):
        return self.logits(self.layer(self.embedding(x))[0])


class Recommender(torch.nn.Module):
    """The vectors of eight of a hundred thousand things, side by side, and two dense layers."""

    def __init__(self):
        super().__init__()
        self.things = torch.nn.Embedding(100_000, 32, sparse=True)
        self.dense, self.logits = torch.nn.Linear(256, 128), torch.nn.Linear(128, 2)

    def forward(self, x):
        return self.logits(torch.relu(self.dense(self.things(x).flatten(1))))


def transformer_block(**options):
    return torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, **options)


class Writer(torch.nn.Module):
    """A small GPT."""

    def __init__(self):
        super().__init__()
        self.letter = torch.nn.Embedding(256, 256)
        self.position = torch.nn.Parameter(torch.empty(128, 256))
        self.blocks = torch.nn.ModuleList(transformer_block(norm_first=True, activation='gelu') for _ in range(2))
        self.norm, self.logits = torch.nn.LayerNorm(256), torch.nn.Linear(256, 256)

    def parameters_in_order(self):
        return [self.letter.weight, self.position, *self.blocks.parameters(), *self.norm.parameters(),
                *self.logits.parameters()]

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        h = self.letter(x) + self.position
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.logits(self.norm(h))


class Suite:
    def __init__(self, device, dropout_rate, small=False):
        self.device = torch.device(device)
        self.dropout_rate = dropout_rate
        self.chain_size, self.gpt_batch = (64, 1) if small else (1 << 24, 8)

    def set_parameters(self, net):
        """Gives the parameters the numbers of the seeds 10, 11, ... in their order, and returns them."""
        net.to(self.device)
        parameters = net.parameters_in_order() if hasattr(net, 'parameters_in_order') else list(net.parameters())
        with torch.no_grad():
            for seed, p in enumerate(parameters, 10):
                p.copy_(self.tensor(numbers(p.numel(), seed, -0.1, 0.1), *p.shape))
        return parameters

    def learning(self, net, x, target, most=None, epsilon=1e-4, sgd=None):
        p = self.set_parameters(net)
        optimizer = torch.optim.SGD(p, sgd) if sgd else self.adam(p, epsilon)

        def limit():
            if most:
                torch.nn.utils.clip_grad_norm_(p, most)

        def loss():
            logits = net(x)
            return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))

        return self.training(p, optimizer, loss, before_update=limit)

    def digits_step(self):
        x = self.tensor(numbers(28 * 28 * 64, 100, 0, 1), 64, 1, 28, 28)
        net = Digits(self.dropout_rate).to(memory_format=torch.channels_last)
        return self.learning(net, x, self.tensor(labels(64, 101, 10)), epsilon=1e-3)

    def letters_step(self, layer):
        x, target = (self.tensor(labels(32 * 64, seed, 65), 32, 64) for seed in (100, 101))
        return self.learning(Letters(layer), x, target, 1.0)

    def embedding_step(self):
        x = self.tensor(labels(512 * 8, 100, 100_000), 512, 8)
        return self.learning(Recommender(), x, self.tensor(labels(512, 101, 2)), sgd=0.1)

    def block_gradient(self):
        net = transformer_block()
        p = self.set_parameters(net)
        x, seed = (self.tensor(numbers(8 * 128 * 256, s), 8, 128, 256) for s in (100, 101))

        def f():
            y = net(x.detach().requires_grad_())
            return [y, *torch.autograd.grad(y, p, seed)]

        return self.function(f)

    def gpt_step(self):
        batch = self.gpt_batch
        x, target = (self.tensor(labels(batch * 128, seed, 256), batch, 128) for seed in (100, 101))
        return self.learning(Writer(), x, target)

    def tensor(self, values, *shape):
        values = torch.from_numpy(np.ascontiguousarray(values)).to(self.device)
        return values.reshape(shape) if shape else values

    def parameters(self, weights_and_biases):
        return [self.tensor(x).requires_grad_() for pair in weights_and_biases for x in pair]

    def training(self, parameters, optimizer, loss, shown=None, before_update=lambda: None):
        last = {}

        def step():
            optimizer.zero_grad(set_to_none=True)
            value = loss()
            value.backward()
            before_update()
            optimizer.step()
            last['loss'] = value
            return value

        return step, lambda: [last['loss'], *(shown() if shown else parameters)]

    def adam(self, parameters, epsilon=1e-4):
        # Its state is on the device, so that a CUDA graph can contain the step.
        on_gpu = self.device.type == 'cuda'
        return torch.optim.Adam(parameters, 0.001, eps=epsilon, fused=on_gpu, capturable=on_gpu)

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
        x = self.tensor(numbers(self.chain_size, 100))
        return self.function(lambda: [self.chain(x)])

    def chain_gradient(self):
        x = self.tensor(numbers(self.chain_size, 100)).requires_grad_()

        def f():
            y = self.chain(x).sum()
            return [y, *torch.autograd.grad(y, [x])]

        return self.function(f)

    def chain_mean(self):
        x = self.tensor(numbers(self.chain_size, 100))
        return self.function(lambda: [self.chain(x).mean()])

    def mean_squared_error(self):
        x, y = (self.tensor(numbers(4096 * 4096, seed).reshape(4096, 4096)) for seed in (100, 101))
        return self.function(lambda: [torch.square(x - y).mean(1)])

    def with_gradients(self, f, inputs, seed=None):
        """f without a tape, or f and its gradients."""
        if seed is None:
            return self.function(lambda: [f(*inputs)])
        inputs = [x.requires_grad_() for x in inputs]

        def both():
            y = f(*inputs)
            return [y, *torch.autograd.grad(y, inputs, seed)]

        return self.function(both)

    def matrix(self, seed=100):
        return self.tensor(numbers(4096 * 1024, seed), 4096, 1024)

    def layer_norm_inputs(self):
        return [self.matrix(), *(self.tensor(numbers(1024, seed)) for seed in (102, 103))]

    @staticmethod
    def layer_norm(x, scale, offset):
        return F.layer_norm(x, (1024,), scale, offset)

    @staticmethod
    def softmax(x):
        return torch.softmax(x, 1)

    def softmax_forward(self):
        return self.with_gradients(self.softmax, [self.matrix()])

    def softmax_gradient(self):
        return self.with_gradients(self.softmax, [self.matrix()], self.matrix(101))

    def layer_norm_forward(self):
        return self.with_gradients(self.layer_norm, self.layer_norm_inputs())

    def layer_norm_gradient(self):
        return self.with_gradients(self.layer_norm, self.layer_norm_inputs(), self.matrix(101))

    def product(self, sizes, batch, transposed):
        a, b = map(self.tensor, factors(sizes, batch, transposed))
        if transposed:
            b = b.transpose(-1, -2)
        return self.function(lambda: [a @ b])

    @staticmethod
    def scalar_loop(s):
        for _ in range(100_000):
            s = 0.999 * s + 0.5
        return s

    @staticmethod
    def scan(x, weights):
        """The sum of the last state of an LSTM over x [time, batch, inputs]."""
        h = c = torch.zeros(16, 64, device=x.device)
        for element in x:
            i, f, g, o = (torch.cat([element, h], 1) @ weights).split(64, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return h.sum()

    @staticmethod
    def rosenbrock(x):
        head, tail = x[:-1], x[1:]
        return (100.0 * (tail - head.square()).square() + (1.0 - head).square()).sum()

    def scan_gradient(self):
        x = self.tensor(numbers(128 * 16 * 32, 100), 128, 16, 32)
        return self.with_gradients(self.scan, [x, self.tensor(numbers(96 * 256, 101, -0.1, 0.1), 96, 256)],
                                   torch.ones((), device=self.device))

    def rosenbrock_gradient(self):
        return self.with_gradients(self.rosenbrock, [self.tensor(numbers(10, 100), 10)],
                                   torch.ones((), device=self.device))

    def workloads(self):
        return {
            'a/mlp_step': self.mlp_step,
            'b/adam_step': self.adam_step,
            'c/sgd_step': self.sgd_step,
            'e/chain_forward': self.chain_forward,
            'e/chain_gradient': self.chain_gradient,
            'e/chain_mean': self.chain_mean,
            'e/mean_squared_error': self.mean_squared_error,
            'g/cnn_step': self.cnn_step,
            **{name: lambda kind=kind: self.product(*kind) for name, kind in PRODUCTS.items()},
            'f/softmax_forward': self.softmax_forward,
            'f/softmax_gradient': self.softmax_gradient,
            'f/layer_norm_forward': self.layer_norm_forward,
            'f/layer_norm_gradient': self.layer_norm_gradient,
            'g/digits_step': self.digits_step,
            'k/lstm_step': lambda: self.letters_step(torch.nn.LSTM),
            'k/gru_step': lambda: self.letters_step(torch.nn.GRU),
            'l/block_gradient': self.block_gradient,
            'l/gpt_step': self.gpt_step,
            'n/scalar_loop': lambda: self.with_gradients(self.scalar_loop, [torch.ones((), device=self.device)]),
            'n/scan_gradient': self.scan_gradient,
            'o/rosenbrock_gradient': self.rosenbrock_gradient,
            'p/embedding_step': self.embedding_step,
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


# --- Memory -----------------------------------------------------------------------------------------------------------


def memory(field):
    """A line of /proc/self/status, in bytes: VmRSS is the memory of the process now, VmHWM its peak."""
    return int(re.search(rf'{field}:\s*(\d+)', pathlib.Path('/proc/self/status').read_text())[1]) * 1024


def peak_memory(name):
    """As in harness.cpp: a small run comes first, so that the memory of the code itself is not counted."""
    for step, _ in (Suite('cpu', 0.25, small=True).workloads()[name](),):
        for _ in range(3):
            step()
    step, _ = Suite('cpu', 0.25).workloads()[name]()
    ctypes.CDLL('libc.so.6').malloc_trim(0)
    before = memory('VmRSS')
    pathlib.Path('/proc/self/clear_refs').write_text('5')  # sets VmHWM to VmRSS
    for _ in range(3):
        step()
    return memory('VmHWM') - before


def main():
    parser = Options(__doc__, ['eager', 'compile', 'graphs'])
    parser.add_argument('--device', default='cuda')
    parser.add_argument('--memory', metavar='NAME')
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.backends.cudnn.allow_tf32 = False  # convolutions of float32 are as exact as the others'
    if options.memory:
        return print(json.dumps({'torch': torch.__version__, 'bytes': peak_memory(options.memory)}))
    suite = Suite(options.device, 0.0 if options.check else 0.25)
    synchronize = torch.cuda.synchronize if suite.device.type == 'cuda' else lambda: None
    workloads = chosen(suite.workloads(), options)

    if options.check:
        results = {}
        for name, make in workloads.items():
            step, show = make()
            for _ in range(3):
                step()
            results[name] = [x.detach().cpu().float().numpy().ravel() for x in show()]
        write_results(options.check, results)
    if mode := options.time or options.first:
        times = {}
        for name, make in workloads.items():
            if mode == 'compile' and name.startswith('n/'):
                continue  # torch.compile unrolls loops
            step, _ = make()
            how = {'eager': lambda f: f, 'compile': lambda f: torch.compile(f), 'graphs': captured}[mode]
            times[name] = (first_seconds(how(step), synchronize) if options.first else
                           seconds(how(step), synchronize, clock_of(options)))
        print(json.dumps({'torch': torch.__version__, 'seconds': times}))


if __name__ == '__main__':
    main()
