#!/usr/bin/env python3
"""Compares Tapestry on the processor with today's PyTorch, TensorFlow and JAX, and prints the table of ratios.

usage: compare_peers.py BUILD_DIR [--torch PYTHON] [--tensorflow PYTHON] [--jax PYTHON] [--rounds N] [--only REGEX]
                        [--clock wall] [--core N] [--json FILE]

BUILD_DIR holds benchmarks/bench_tapestry; PYTHON is an interpreter with that library. All compute the same, which is
checked first. Each round starts each program once, on one thread that is bound to one core; the table shows medians,
how far the slowest run is from the fastest, and the time of the fastest peer divided by Tapestry's. The clock is that
of the processor's work, so that other programs of a loaded machine do not count. Two tables follow: first runs, each in
a process of its own and by the wall clock, since some peers compile in other processes; and the peak memory beside
PyTorch's.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

from compare import check, machine, plain_environment, say, show

FOLDER = pathlib.Path(__file__).parent
GOALS = {'b/': 1.1, 'c/': 1.0, 'e/chain_forward': 1.5, 'e/chain_gradient': 4.0, 'f/': 1.2, 'g/': 1.2, 'h/': 1.67,
         'k/': 1.2, 'l/block': 1.2, 'l/gpt': 1.1, 'm/': 1.0, 'n/': 1.0, 'o/': 1.0}
FIRST = ['b/adam_step', 'g/digits_step', 'l/gpt_step']
MEMORY = {'h/chain_gradient': 'e/chain_gradient', 'h/gpt_step': 'l/gpt_step'}  # our name: PyTorch's
MODES = {'torch': ('eager', 'compile'), 'tensorflow': ('function', 'xla'), 'jax': ('jit',)}


def run(command, core, environment=None):
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    if done.returncode:
        raise SystemExit(f'{" ".join(map(str, command))} failed:\n{done.stderr}')
    return done.stdout


class Fixed:
    """Given results, for `check`."""

    def __init__(self, results):
        self.results = lambda: results


class Tapestry:
    def __init__(self, build, options):
        self.command = [build / 'benchmarks/bench_tapestry', '--threads=1']
        self.options = options

    def results(self, path):
        run([*self.command, f'--check={path}', f'--only={self.options.only}'], self.options.core, plain_environment())

    def seconds(self, name):
        clock = ['--clock=cpu'] if self.options.clock == 'cpu' else []
        report = json.loads(run([*self.command, *clock, f'--benchmark_filter=^{name}/', '--benchmark_format=json',
                                 '--benchmark_min_time=0.3', '--benchmark_min_warmup_time=0.3'], self.options.core,
                                plain_environment()))
        return report['benchmarks'][0]['real_time'] * 1e-6 / report['benchmarks'][0]['operations']

    def figure(self, option, name):
        """What the option prints of a workload: its first run in seconds, or its peak memory in bytes."""
        report = json.loads(run([*self.command, f'--{option}={name}'], self.options.core, plain_environment()))
        return report['seconds' if option == 'first' else 'bytes']


class Peer:
    def __init__(self, library, python, options):
        self.library, self.options = library, options
        self.command = [python, FOLDER / f'bench_{library}.py', '--threads', '1', '--only', options.only]
        if library == 'torch':
            self.command += ['--device', 'cpu']

    def results(self, path):
        run([*self.command, '--check', path], self.options.core)

    def seconds(self, mode):
        clock = ['--clock', 'cpu'] if self.options.clock == 'cpu' else []
        return json.loads(run([*self.command, *clock, '--time', mode], self.options.core).splitlines()[-1])['seconds']

    def first(self, mode, name):
        """The seconds of a first run, by workload."""
        command = [*self.command, '--only', f'^{name}$', '--first', mode]
        return json.loads(run(command, self.options.core).splitlines()[-1])['seconds']

    def memory(self, name):
        return json.loads(run([*self.command, '--memory', name], self.options.core).splitlines()[-1])['bytes']


def computed(program):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'results.json'
        program.results(path)
        return json.loads(path.read_text())


def cell(samples, unit):
    return f'{show(statistics.median(samples), unit)} ± {(max(samples) / min(samples) - 1) / 2:.0%}' if samples else ''


def table(names, ours, theirs, what='workload', unit='s', goals=None):
    goals = GOALS if goals is None else goals
    lines = [[what, 'Tapestry', 'Session', *theirs, 'ratio', 'Session', 'goal']]
    for name in names:
        eager, session = ours[name], ours[name + '_session']
        fastest = min(statistics.median(times[name]) for times in theirs.values() if times.get(name))
        ratios = [f'{fastest / statistics.median(samples):.2f}' for samples in (eager, session)]
        goal = next((goal for start, goal in goals.items() if name.startswith(start)), '')
        lines.append([name, cell(eager, unit), cell(session, unit),
                      *(cell(times.get(name), unit) for times in theirs.values()), *ratios, str(goal)])
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ['-' * width for width in widths])
    return '\n'.join('| ' + ' | '.join(text.ljust(width) for text, width in zip(line, widths)) + ' |' for line in lines)


def first_runs(tapestry, peers, options):
    names = [name for name in FIRST if re.search(options.only, name)]
    ours, theirs = {}, {}
    for _ in range(options.rounds):
        for name in names:
            for each in (name, name + '_session'):
                ours.setdefault(each, []).append(tapestry.figure('first', each))
            for peer in peers:
                for mode in MODES[peer.library]:
                    seconds = peer.first(mode, name) if mode in options.modes else {}
                    if name in seconds:
                        theirs.setdefault(f'{peer.library} {mode}', {}).setdefault(name, []).append(seconds[name])
    return table([name for name in names if any(name in times for times in theirs.values())], ours, theirs, 'first run',
                 goals={})


def peak_memory(tapestry, torch, options):
    names = [name for name, other in MEMORY.items() if re.search(options.only, name) or re.search(options.only, other)]
    ours = {each: [tapestry.figure('memory', each) for _ in range(options.rounds)]
            for name in names for each in (name, name + '_session')}
    theirs = {name: [torch.memory(MEMORY[name]) for _ in range(options.rounds)] for name in names}
    return table(names, ours, {'torch eager': theirs}, 'peak memory', 'B')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=pathlib.Path)
    parser.add_argument('--torch', metavar='PYTHON')
    parser.add_argument('--tensorflow', metavar='PYTHON')
    parser.add_argument('--jax', metavar='PYTHON')
    parser.add_argument('--modes', default='eager,compile,function,xla,jit', help='of the peers, separated by commas')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--only', default='', metavar='REGEX')
    parser.add_argument('--clock', choices=['cpu', 'wall'], default='cpu')
    parser.add_argument('--core', type=int, default=min(os.sched_getaffinity(0)))
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE')
    options = parser.parse_args()

    tapestry = Tapestry(options.build.resolve(), options)
    peers = [Peer(library, python, options) for library in MODES if (python := getattr(options, library))]
    if not peers:
        parser.error('give --torch, --tensorflow or --jax')
    mine, names = computed(tapestry), set()
    for peer in peers:
        expected = computed(peer)
        names |= expected.keys()
        check(Fixed({name: mine[name] for name in mine if name.removesuffix('_session') in expected}), Fixed(expected))

    names = sorted(names)
    ours = {name + suffix: [] for name in names for suffix in ('', '_session')}
    theirs = {f'{peer.library} {mode}': {} for peer in peers for mode in MODES[peer.library] if mode in options.modes}
    for number in range(1, options.rounds + 1):
        say(f'round {number} of {options.rounds}')
        for name, samples in ours.items():
            samples.append(tapestry.seconds(name))
        for peer in peers:
            for mode in MODES[peer.library]:
                times = theirs.get(f'{peer.library} {mode}')
                for name, seconds in peer.seconds(mode).items() if times is not None else ():
                    times.setdefault(name, []).append(seconds)
    print(f'* {machine()}; one thread, {options.clock} clock\n\n{table(names, ours, theirs)}')
    print(f'\n{first_runs(tapestry, peers, options)}')
    for peer in peers:
        if peer.library == 'torch':
            print(f'\n{peak_memory(tapestry, peer, options)}')
    if options.json:
        options.json.write_text(json.dumps({'machine': machine(), 'tapestry': ours, 'peers': theirs}, indent=1) + '\n')


if __name__ == '__main__':
    main()
