#!/usr/bin/env python3
"""Runs the benchmarks on a GPU and prints a table: Tapestry, PyTorch in three ways, cuBLAS and the memory's bandwidth.

usage: compare_gpu.py BUILD_DIR [--device NAME] [--rounds N] [--only REGEX] [--json FILE] [--markdown FILE]

BUILD_DIR holds benchmarks/bench_tapestry and benchmarks/cuda_limits. The script uses the PyTorch of the python3 that
runs it; without it Tapestry's figures stand alone. Both compute the same, which is checked first. Each round starts
each program once; the table shows medians.
"""

import argparse
import importlib.util
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass

from compare import check, plain_environment, say, show, write_markdown


@dataclass(frozen=True)
class Row:
    name: str
    text: str
    ratio: float = 0  # the goal against `peers`
    peers: tuple = ()
    bytes: float = 0  # which one run has to read and write; the goal is 85 % of the copy's bandwidth
    product: bool = False  # the goal is 95 % of cuBLAS


best = ('eager', 'compile', 'graphs')
ROWS = [
    Row('a/mlp_step', "the documents' MLP, SGD step", 3, ('eager',)),
    Row('b/adam_step', 'MLP 784-512-256-10, batch 128, Adam step', 3, ('eager',)),
    Row('c/sgd_step', 'MLP 2048-2048-2048-2048, batch 256, SGD step', 1, best),
    Row('g/cnn_step', 'two convolutions, batch 64, Adam step', 1, ('eager',)),
    Row('g/digits_step', "the digits' network of examples/13, batch 64, Adam step", 1, best),
    Row('k/lstm_step', "the letters' LSTM of examples/14, Adam step", 1, best),
    Row('l/block_gradient', 'a transformer block, forward and backward', 1, best),
    Row('l/gpt_step', 'a small GPT, Adam step', 1, best),
    Row('e/chain_forward', 'tanh(ax+b) * sigmoid(x) + exp(-x*x), 16M', bytes=2 * 4 * 2**24),
    Row('e/chain_gradient', 'the same, forward and backward', 1, best),
    Row('m/product_1024', 'product 1024 x 1024', product=True),
    Row('m/product_4096', 'product 4096 x 4096', product=True),
]
MODES = ('eager', 'compile', 'graphs')


class Tapestry:
    def __init__(self, build, device):
        self.command = [build / 'benchmarks/bench_tapestry', f'--device={device}']

    def run(self, *arguments):
        done = subprocess.run([*self.command, *arguments], env=plain_environment(), stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f'bench_tapestry failed: {arguments}')
        return done.stdout

    def seconds(self, name):
        report = json.loads(self.run(f'--benchmark_filter=^{name}/', '--benchmark_format=json',
                                     '--benchmark_min_time=0.1', '--benchmark_repetitions=3'))
        return [run['real_time'] * 1e-6 / run['operations'] for run in report['benchmarks']
                if run['run_type'] == 'iteration']

    def results(self, names):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'results.json'
            self.run(f'--check={path}')
            found = json.loads(path.read_text())
        return {name: found[name] for name in found if name.removesuffix('_session') in names}


class Torch:
    def __init__(self, device, only):
        self.command = [sys.executable, pathlib.Path(__file__).parent / 'bench_torch.py', '--device', device, '--only', only]

    def seconds(self, mode):
        done = subprocess.run([*self.command, '--time', mode], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f'bench_torch.py failed: {mode}')
        return json.loads(done.stdout.splitlines()[-1])

    def results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'results.json'
            subprocess.run([*self.command, '--check', path], check=True)
            return json.loads(path.read_text())


class Fixed:
    """Given results, for `check`."""

    def __init__(self, results):
        self.results = lambda: results


def reached(row, ours, theirs, limits):
    """(the figure as text, whether it reaches the goal); ('', None) when there is nothing to compare with."""
    if row.product and row.name in limits:
        part = limits[row.name] / ours
        return f'{part:.0%} of cuBLAS', part >= 0.95
    if row.bytes and limits:
        part = row.bytes / ours / limits['copy_bytes_per_second']
        return f'{part:.0%} of the bandwidth', part >= 0.85
    peers = [theirs[mode] for mode in row.peers if mode in theirs]
    if row.ratio and peers:
        return f'{min(peers) / ours:.2f}x of {row.ratio:g}x', min(peers) / ours >= row.ratio
    return '', None


def table(rows, ours, theirs, limits):
    lines = [['workload', 'Tapestry', 'in a Session', *(f'PyTorch {mode}' for mode in MODES), 'goal', 'reached']]
    for row in rows:
        eager, session = (statistics.median(ours[name]) for name in (row.name, row.name + '_session'))
        peers = {mode: statistics.median(theirs[mode][row.name]) for mode in theirs}
        stand, good = reached(row, min(eager, session), peers, limits)
        lines.append([f'{row.name[0]}. {row.text}', show(eager, 's'), show(session, 's'),
                      *(show(peers[mode], 's') if mode in peers else '' for mode in MODES), stand,
                      {None: '', True: 'yes', False: 'no'}[good]])
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ['-' * width for width in widths])
    return '\n'.join('| ' + ' | '.join(cell.ljust(width) for cell, width in zip(line, widths)) + ' |' for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--device', default='GPU:0', help='Tapestry\'s name of the device (default: GPU:0)')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--only', default='', metavar='REGEX')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    parser.add_argument('--markdown', type=pathlib.Path, metavar='FILE')
    options = parser.parse_args()

    build = options.build.resolve()
    rows = [row for row in ROWS if re.search(options.only, row.name)]
    if not rows:
        raise SystemExit(f'no workload matches {options.only}')
    on_gpu = 'GPU' in options.device
    tapestry = Tapestry(build, options.device)
    torch = Torch('cuda' if on_gpu else 'cpu', options.only) if importlib.util.find_spec('torch') else None
    modes = [mode for mode in MODES if torch and (on_gpu or mode != 'graphs')]
    if torch:
        expected = torch.results()
        check(Fixed(tapestry.results(expected.keys())), Fixed(expected))
    else:
        say('this python3 has no PyTorch: there is no peer to compare with')

    facts, limits = [], {}
    program = build / 'benchmarks/cuda_limits'
    if on_gpu and program.exists():
        limits = json.loads(subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout)
        facts.append(f'{limits["device"]}: copies {limits["copy_bytes_per_second"] / 1e12:.2f} TB/s')
    ours = {row.name + suffix: [] for row in rows for suffix in ('', '_session')}
    theirs = {mode: {row.name: [] for row in rows} for mode in modes}
    for number in range(1, options.rounds + 1):
        say(f'round {number} of {options.rounds}')
        for name, samples in ours.items():
            samples += tapestry.seconds(name)
        for mode in modes:
            report = torch.seconds(mode)
            for row in rows:
                theirs[mode][row.name].append(report['seconds'][row.name])
    if torch:
        facts.append(f'PyTorch {report["torch"]}')
    text = '\n'.join(f'* {fact}' for fact in facts) + '\n\n' + table(rows, ours, theirs, limits)
    print(text)
    if options.markdown:
        write_markdown(options.markdown, text)
    if options.json:
        options.json.write_text(json.dumps({'limits': limits, 'tapestry': ours, 'torch': theirs}, indent=1) + '\n')


if __name__ == '__main__':
    main()
