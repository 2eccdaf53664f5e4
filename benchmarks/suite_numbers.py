"""What the Python programs of the suite share: the numbers of harness.cpp, and the clock."""

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


def digest(values):
    """As in harness.cpp: every n-th number of a large result, and the sum of the absolute values of all numbers."""
    if len(values) <= 4096:
        return [values.tolist()]
    return [values[::len(values) // 4096 | 1].tolist(), [float(np.abs(values.astype(np.float64)).sum())]]
