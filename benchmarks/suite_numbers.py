"""What the Python programs of the suite share: the numbers of harness.cpp, the clock, and the options."""

import argparse
import json
import re
import statistics
import time

import numpy as np


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


def seconds(step, synchronize, clock=time.perf_counter, samples=9, least=0.1):
    """The median of several series of runs, each with the wait for the device at its end."""
    for _ in range(5):
        step()
    synchronize()
    runs, times = 1, []
    while len(times) < samples:
        start = clock()
        for _ in range(runs):
            step()
        synchronize()
        elapsed = clock() - start
        if elapsed < least and not times:
            runs *= 2
        else:
            times.append(elapsed / runs)
    return statistics.median(times)


def first_seconds(step, synchronize):
    """How long the first run takes, with the wait for the device and for compilers in other processes."""
    start = time.perf_counter()
    step()
    synchronize()
    return time.perf_counter() - start


def digest(values):
    """As in harness.cpp: every n-th number of a large result, and the sum of the absolute values of all numbers."""
    if len(values) <= 4096:
        return [values.tolist()]
    return [values[::len(values) // 4096 | 1].tolist(), [float(np.abs(values.astype(np.float64)).sum())]]


# The products of harness.cpp: (m, k, n), how many of them, and whether the second matrix is stored as [n, k].
PRODUCTS = {
    'm/product_1024': ((1024, 1024, 1024), 1, False),
    'm/product_2048': ((2048, 2048, 2048), 1, False),
    'm/product_4096': ((4096, 4096, 4096), 1, False),
    'm/product_64': ((64, 64, 64), 1, False),
    'm/product_64x784x512': ((64, 784, 512), 1, False),
    'm/product_32x256x1024': ((32, 256, 1024), 1, False),
    'm/product_row': ((1, 1024, 1024), 1, False),
    'm/product_row_transposed': ((1, 1024, 1024), 1, True),
    'm/product_column': ((1024, 1024, 1), 1, False),
    'm/product_10_columns': ((1024, 1024, 10), 1, False),
    'm/product_batch_scores': ((128, 64, 128), 32, True),
    'm/product_batch_values': ((128, 128, 64), 32, False),
}


def factors(sizes, batch, transposed):
    """The two arrays of a product."""
    m, k, n = sizes
    outer = (batch,) if batch > 1 else ()
    shapes = (*outer, m, k), (*outer, n, k) if transposed else (*outer, k, n)
    return [numbers(int(np.prod(shape)), seed).reshape(shape) for seed, shape in enumerate(shapes, 100)]


# The parameters of a transformer block with four heads, for features of size 256 and a hidden layer of size 1024.
BLOCK = [(768, 256), (768,), (256, 256), (256,), (1024, 256), (1024,), (256, 1024), (256,), (256,), (256,), (256,),
         (256,)]


class Options(argparse.ArgumentParser):
    """The options of a program of the suite."""

    def __init__(self, doc, modes):
        super().__init__(description=doc.splitlines()[0])
        self.add_argument('--threads', type=int)
        self.add_argument('--clock', choices=['cpu'])
        self.add_argument('--only', default='', metavar='REGEX')
        self.add_argument('--check', metavar='FILE')
        self.add_argument('--time', choices=modes)
        self.add_argument('--first', choices=modes)


def chosen(workloads, options):
    return {name: make for name, make in workloads.items() if re.search(options.only, name)}


def clock_of(options):
    return time.process_time if options.clock else time.perf_counter


def write_results(path, results):
    """Writes what workloads computed: flat arrays by their names."""
    shown = {name: [part for array in arrays for part in digest(array)] for name, arrays in results.items()}
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(shown, file)
