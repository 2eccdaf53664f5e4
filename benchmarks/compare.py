#!/usr/bin/env python3
"""Runs the benchmark programs of Tapestry and of its peer in turns and prints the table of ratios.

usage: compare.py BUILD_DIR [--rounds N] [--only REGEX] [--json FILE] [--markdown FILE] [--no-check]

BUILD_DIR holds benchmarks/bench_tapestry and, where libtorch was found, benchmarks/bench_libtorch. Both compute the
same, which is checked first. Every round starts each program once per workload and number of threads, one right after
the other; the table shows medians over the rounds. Ratios are the peer's figure divided by Tapestry's, so that 2x is
twice as fast, or half the memory.
"""

import argparse
import datetime
import glob
import json
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field

# --- What is measured, and what it should reach -------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One line of the table. The goal is a ratio (peer / Tapestry), or a limit on Tapestry's own figure."""
    name: str
    text: str
    ratio: float = 0
    limit: float = 0
    unit: str = 's'
    parallel: bool = True  # whether the number of threads matters
    session: bool = False  # Tapestry runs the workload in a Session, which must not be slower than eager

    def name_in(self, program):
        return self.name + '_session' if self.session and program.has_sessions else self.name


TIMED = [
    Row('a/mlp_step', "the documents' MLP (2-4-8-2-2, 200 points), SGD step", 8),
    Row('a/mlp_step', 'the same in a Session', 15, session=True),
    Row('b/adam_step', 'MLP 784-512-256-10, batch 128, Adam step', 1.3),
    Row('b/adam_step', 'the same in a Session', 1.3, session=True),
    Row('c/sgd_step', 'MLP 2048-2048-2048-2048, batch 256, SGD step', 1.1),
    Row('c/sgd_step', 'the same in a Session', 1.1, session=True),
    Row('d/add_forward', 'chain of scalar additions, per addition: forward', 12, parallel=False),
    Row('d/add_backward', 'the same: backward', 15, parallel=False),
    Row('e/chain_forward', 'tanh(ax+b) * sigmoid(x) + exp(-x*x), 16M: forward', 1.2),
    Row('e/chain_forward', 'the same in a Session', 6, session=True),
    Row('e/chain_gradient', 'the same: forward and backward', 1.2),
    Row('e/chain_gradient', 'the same in a Session', 6, session=True),
    Row('f/outer_add', '[4096,1] + [1,4096]', 1),
    Row('f/sum_rows', '[4096,4096]: sum along axis 1', 1),
    Row('f/sum_columns', '[4096,4096]: sum along axis 0', 1),
    Row('f/transpose', '[4096,4096]: transposed copy', 1),
    Row('f/add_transposed', '[4096,4096]: X + transpose(X)', 1),
    Row('f/softmax_forward', '[4096,1024]: softmax forward', 1),
    Row('f/softmax_gradient', '[4096,1024]: softmax forward and backward', 1),
    Row('f/layer_norm_forward', '[4096,1024]: layer norm forward', 1),
    Row('f/layer_norm_gradient', '[4096,1024]: layer norm forward and backward', 1),
    Row('g/conv_forward', 'convolution 3x3, 64 to 64 channels, 32x32 pixels, batch 32: forward', 2),
    Row('g/conv_gradient', 'the same: forward and backward', 1.6),
    Row('g/cnn_step', 'two convolutions and two dense layers, 28x28 pixels, batch 64, Adam step', 1.1),
    Row('g/cnn_step', 'the same in a Session', 1.1, session=True),
    Row('m/product_1024', 'product of two matrices [1024,1024]', 1),
    Row('m/product_2048', 'product of two matrices [2048,2048]', 1),
    Row('m/product_4096', 'product of two matrices [4096,4096]', 1),
    Row('m/product_64', 'product of two matrices [64,64]', 1.2, parallel=False),
    Row('m/product_64x784x512', 'product of [64,784] and [784,512]', 1.2),
    Row('m/product_32x256x1024', 'product of [32,256] and [256,1024]', 1.2),
    Row('m/product_row', 'product of [1,1024] and [1024,1024]', 1.2),
    Row('m/product_row_transposed', 'the same, the second matrix transposed', 1.2),
    Row('m/product_column', 'product of [1024,1024] and [1024,1]', 1.2),
    Row('m/product_10_columns', 'product of [1024,1024] and [1024,10]', 1.2),
    Row('m/product_batch_scores', '32 products of [128,64] and [64,128], the latter transposed', 1.2),
    Row('m/product_batch_values', '32 products of [128,128] and [128,64]', 1.2),
]
TIMED += [Row(row.name, row.text + ', in a Session', 1, session=True) for row in TIMED if row.name.startswith('f/')]
MEMORY = [
    Row('h/sgd_step', 'peak memory above the parameters: c', 1 / 0.75, unit='B', parallel=False),
    Row('h/sgd_step', 'the same in a Session', 1 / 0.75, unit='B', parallel=False, session=True),
    Row('h/chain_gradient', 'peak memory above x: e, forward and backward', 1 / 0.35, unit='B', parallel=False),
    Row('h/chain_gradient', 'the same in a Session', 1 / 0.35, unit='B', parallel=False, session=True),
]
HELLO = [
    Row('i/compile_time', 'hello program: compile time', limit=3, parallel=False),
    Row('i/compile_memory', 'hello program: memory of the compiler', limit=350e6, unit='B', parallel=False),
    Row('i/start_time', 'hello program: run time', limit=0.030, parallel=False),
    Row('i/start_memory', 'hello program: memory', limit=15e6, unit='B', parallel=False),
    Row('i/library_size', 'library, stripped', limit=8e6, unit='B', parallel=False),
]


noise = 0.05  # by which two runs of the same workload differ


@dataclass
class Result:
    row: Row
    threads: int
    ours: list = field(default_factory=list)
    peer: list = field(default_factory=list)
    eager: list = field(default_factory=list)  # for a Session: the eager workload, measured in turns with ours

    def against_eager(self):
        return statistics.median(self.eager) / statistics.median(self.ours) if self.eager else None

    def ratio(self):
        return statistics.median(self.peer) / statistics.median(self.ours) if self.peer else None

    def reached(self):
        """None when there is nothing to compare with."""
        if self.row.limit:
            return statistics.median(self.ours) <= self.row.limit
        if self.eager and self.against_eager() < 1 - noise:
            return False
        return self.ratio() >= self.row.ratio if self.peer else None


# --- The programs -------------------------------------------------------------------------------------------------


def say(text):
    print(f'==> {text}', file=sys.stderr, flush=True)


class Program:
    def __init__(self, path, hello, environment, has_sessions):
        self.path, self.hello, self.environment, self.has_sessions = path, hello, environment, has_sessions
        self.facts = {}  # number of threads -> what the program says about itself

    def run(self, threads, *arguments, keep_memory=True):
        """Returns what the program writes to its standard output."""
        command = [self.path, f'--threads={threads}', *arguments]
        done = subprocess.run(command, env=self.environment(threads, keep_memory), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f'{shlex.join(map(str, command))} failed:\n{done.stderr}')
        return done.stdout

    def time(self, names, threads):
        """Seconds of one operation, for each name: several samples, of all names in turns. Each workload first runs for
        half a second: while a process gets its memory from the system, large workloads take up to ten times as long."""
        report = json.loads(self.run(threads, f'--benchmark_filter=^({"|".join(names)})/', '--benchmark_format=json',
                                     '--benchmark_min_time=0.1', '--benchmark_min_warmup_time=0.5',
                                     '--benchmark_repetitions=3', '--benchmark_enable_random_interleaving=true'))
        self.facts.setdefault(threads, report['context'])
        runs = [run for run in report['benchmarks'] if run['run_type'] == 'iteration']
        return [[run['real_time'] * 1e-6 / run['operations'] for run in runs if run['name'].startswith(f'{name}/')]
                for name in names]

    def memory(self, name):
        """Peak memory in bytes, in a separate process; memory that malloc keeps would count against the peer."""
        return json.loads(self.run(1, f'--memory={name}', keep_memory=False))['bytes']

    def results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'results.json'
            self.run(1, f'--check={path}')
            return json.loads(path.read_text())


def plain_environment(_threads=1, _keep_memory=True):
    """The environment without the peer's settings: Tapestry has to configure itself."""
    tuned = ('OMP_', 'OPENBLAS_', 'MKL_', 'ATEN_', 'GLIBC_TUNABLES', 'MALLOC_')
    return {key: value for key, value in os.environ.items() if not key.startswith(tuned)}


def tuned_environment(threads, keep_memory):
    """The environment in which libtorch is fastest: OpenBLAS's and its own kernels for this processor, even where they
    do not recognise it; memory that is kept instead of released after every large tensor; and, with several threads,
    OpenBLAS on the OpenMP threads that libtorch uses anyway, each bound to a core. Two pools of threads would disturb
    each other."""
    environment = plain_environment()
    flags = cpu_flags()
    if 'avx512f' in flags:
        environment.update(OPENBLAS_CORETYPE='SKYLAKEX', ATEN_CPU_CAPABILITY='avx512')
    elif 'avx2' in flags:
        environment.update(OPENBLAS_CORETYPE='HASWELL', ATEN_CPU_CAPABILITY='avx2')
    if keep_memory:
        environment['GLIBC_TUNABLES'] = ':'.join(
            f'glibc.malloc.{item}' for item in ('mmap_max=0', 'trim_threshold=68719476736', 'hugetlb=1'))
    environment['OMP_NUM_THREADS'] = environment['OPENBLAS_NUM_THREADS'] = str(threads)
    if threads > 1:
        on_openmp = glob.glob('/usr/lib/*/openblas-openmp/libblas.so.3')
        if on_openmp:
            path = [str(pathlib.Path(on_openmp[0]).parent), environment.get('LD_LIBRARY_PATH', '')]
            environment.update(LD_LIBRARY_PATH=':'.join(filter(None, path)), OMP_PROC_BIND='true')
        else:
            environment['OMP_WAIT_POLICY'] = 'passive'
    return environment


def cpu_flags():
    return set(re.search(r'^flags\s*:(.*)$', pathlib.Path('/proc/cpuinfo').read_text(), re.MULTILINE)[1].split())


# --- The same results? --------------------------------------------------------------------------------------------


# Where rounding decides which element of a pooling window is the largest, a small gradient goes elsewhere.
tolerances = {'g/digits_step': 5e-3}


def check(ours, peer):
    """Exits unless both programs compute the same, up to rounding relative to the largest number of each array."""
    mine, theirs = ours.results(), peer.results()
    if not theirs.keys() <= mine.keys():
        raise SystemExit(f'Tapestry lacks workloads: {theirs.keys() - mine.keys()}')
    bad = []
    for name in mine:
        expected = theirs.get(name.removesuffix('_session'))
        if expected is None:  # the networks are for PyTorch and TensorFlow: see compare_peers.py
            continue
        if [len(array) for array in mine[name]] != [len(array) for array in expected]:
            bad.append(f'{name}: results of other shapes')
            continue
        for i, (a, b) in enumerate(zip(mine[name], expected)):
            scale = max(map(abs, b))
            error = max(abs(x - y) for x, y in zip(a, b)) / scale if scale else max(map(abs, a))
            if not error <= tolerances.get(name.removesuffix('_session'), 1e-4):
                bad.append(f'{name}: result {i} differs by {error:.1e}')
    if bad:
        raise SystemExit('the programs do not compute the same:\n  ' + '\n  '.join(bad))
    say(f'both programs compute the same in {len(theirs)} workloads')


# --- The hello programs -------------------------------------------------------------------------------------------


def measure(build, command, environment=None, folder=None):
    out = subprocess.run([build / 'benchmarks/measure', *command], env=environment, cwd=folder, check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    return json.loads(out)


def library_size(program):
    """Bytes of the project's libraries that the program loads, stripped."""
    loaded = subprocess.run(['ldd', program.hello], check=True, stdout=subprocess.PIPE, text=True).stdout
    paths = re.findall(r'lib(?:tapestry|torch\w*|c10)\S* => (\S+)', loaded)
    with tempfile.NamedTemporaryFile() as stripped:
        sizes = []
        for path in paths:
            subprocess.run(['strip', '-o', stripped.name, path], check=True)
            sizes.append(os.path.getsize(stripped.name))
    return sum(sizes)


def hello_figures(build, program, rounds):
    """{row name: samples}"""
    source = f'{program.hello.name}.cpp'
    entry = next(e for e in json.loads((build / 'compile_commands.json').read_text()) if e['file'].endswith(source))
    environment = {**plain_environment(), 'CCACHE_DISABLE': '1'}
    with tempfile.NamedTemporaryFile(suffix='.o') as output:
        command = shlex.split(entry['command'])
        command[command.index('-o') + 1] = output.name
        compiled = [measure(build, command, environment, entry['directory']) for _ in range(min(rounds, 3))]
    started = [measure(build, [program.hello], plain_environment()) for _ in range(4 * rounds)]
    return {
        'i/compile_time': [m['seconds'] for m in compiled],
        'i/compile_memory': [m['bytes'] for m in compiled],
        'i/start_time': [m['seconds'] for m in started],
        'i/start_memory': [m['bytes'] for m in started],
        'i/library_size': [library_size(program)],
    }


# --- The report ---------------------------------------------------------------------------------------------------


def show(value, unit):
    if unit == 'B':
        return f'{value / 1e6:.3g} MB' if value < 1e9 else f'{value / 1e9:.3g} GB'
    for factor, name in ((1, 's'), (1e3, 'ms'), (1e6, 'µs'), (1e9, 'ns')):
        if value * factor >= 1 or name == 'ns':
            return f'{value * factor:.3g} {name}'


def table(results):
    """A Markdown table."""
    lines = [['workload', 'threads', 'Tapestry', 'libtorch', 'ratio', 'goal', 'reached', 'against eager']]
    for result in results:
        row, ratio = result.row, result.ratio()
        lines.append([
            f'{row.name[0]}. {row.text}',
            str(result.threads) if row.parallel else '',
            show(statistics.median(result.ours), row.unit),
            show(statistics.median(result.peer), row.unit) if result.peer else '',
            f'{ratio:.2f}x' if ratio else '',
            f'{row.ratio:.2f}x' if row.ratio else f'<= {show(row.limit, row.unit)}',
            {None: '', True: 'yes', False: 'no'}[result.reached()],
            f'{result.against_eager():.2f}x' if result.eager else '',
        ])
    widths = [max(map(len, column)) for column in zip(*lines)]
    lines.insert(1, ['-' * width for width in widths])
    return '\n'.join('| ' + ' | '.join(cell.ljust(width) for cell, width in zip(line, widths)) + ' |' for line in lines)


def machine():
    model = re.search(r'^model name\s*:\s*(.*)$', pathlib.Path('/proc/cpuinfo').read_text(), re.MULTILINE)
    level = next((f for f in ('avx512f', 'avx2') if f in cpu_flags()), 'neither AVX2 nor AVX-512')
    return f'{model[1] if model else "unknown processor"}, {os.cpu_count()} cores, {level}'


def configuration(program):
    """One line per number of threads."""
    shown = ('cpu_capability', 'malloc', 'omp_proc_bind', 'omp_wait_policy', 'openblas_kernels')
    return [f'{facts["library"]}, {facts["threads"]} threads: ' +
            ', '.join(f'{key} {facts[key]}' for key in shown if key in facts)
            for _, facts in sorted(program.facts.items())]


def write_markdown(path, text):
    """Replaces the text between the marks in the file."""
    begin, end = '<!-- figures -->', '<!-- end of figures -->'
    page = path.read_text()
    if begin not in page or end not in page:
        raise SystemExit(f'{path} has no marks {begin} and {end}')
    path.write_text(f'{page[:page.index(begin)]}{begin}\n\n{text}\n\n{page[page.index(end):]}')


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument('build', type=pathlib.Path, help='the build folder')
    arguments.add_argument('--rounds', type=int, default=5, help='times that each program is started (default: 5)')
    arguments.add_argument('--only', default='', metavar='REGEX', help='only workloads whose name it finds, such as ^f/')
    arguments.add_argument('--json', type=pathlib.Path, metavar='FILE', help='write all samples and facts there')
    arguments.add_argument('--markdown', type=pathlib.Path, metavar='FILE', help='write the table into that page, too')
    arguments.add_argument('--no-check', action='store_true', help='do not compare the results of the programs first')
    options = arguments.parse_args()

    build = options.build.resolve()
    folder = build / 'benchmarks'
    ours = Program(folder / 'bench_tapestry', folder / 'hello_tapestry', plain_environment, True)
    peer = Program(folder / 'bench_libtorch', folder / 'hello_libtorch', tuned_environment, False)
    programs = [ours, peer] if peer.path.exists() else [ours]
    if len(programs) == 1:
        say('libtorch was not found when the programs were built: there is no peer to compare with')
    elif not options.no_check:
        check(ours, peer)

    wanted = re.compile(options.only)
    thread_counts = [1, 2] if len(os.sched_getaffinity(0)) > 1 else [1]
    timed = [Result(row, threads) for row in TIMED if wanted.search(row.name)
             for threads in (thread_counts if row.parallel else [1])]
    memory = [Result(row, 1) for row in MEMORY if wanted.search(row.name)]
    hello = [Result(row, 1) for row in HELLO if wanted.search(row.name)]

    for number in range(1, options.rounds + 1):
        for result in timed:
            row, threads = result.row, result.threads
            say(f'round {number} of {options.rounds}: {row.name_in(ours)}, {threads} threads')
            for program, samples in zip(programs, (result.ours, result.peer)):
                if program is ours and row.session:
                    session, eager = ours.time([row.name_in(ours), row.name], threads)
                    samples += session
                    result.eager += eager
                else:
                    samples += program.time([row.name_in(program)], threads)[0]
    for result in memory:
        say(result.row.name)
        if result.row.session:
            result.eager = next(r.ours for r in memory if not r.row.session and r.row.name == result.row.name)
        for program, samples in zip(programs, (result.ours, result.peer)):
            samples += [program.memory(result.row.name_in(program)) for _ in range(3)]
    if hello:
        say('hello programs')
        for program, side in zip(programs, ('ours', 'peer')):
            figures = hello_figures(build, program, options.rounds)
            for result in hello:
                getattr(result, side).extend(figures[result.row.name])

    results = timed + memory + hello
    if not results:
        raise SystemExit(f'no workload matches {options.only}')
    facts = [machine(), *(line for program in programs for line in configuration(program))]
    text = '\n'.join(f'* {line}' for line in facts) + '\n\n' + table(results)
    print(text)
    if options.markdown:
        write_markdown(options.markdown, text)
    if options.json:
        options.json.write_text(json.dumps({
            'date': datetime.datetime.now(datetime.timezone.utc).isoformat(timespec='seconds'),
            'machine': machine(),
            'programs': [program.facts for program in programs],
            'results': [{
                'name': r.row.name_in(ours), 'threads': r.threads, 'unit': r.row.unit, 'tapestry': r.ours, 'libtorch': r.peer,
                'ratio': r.ratio(), 'goal_ratio': r.row.ratio or None, 'goal_limit': r.row.limit or None,
                'eager': r.eager, 'against_eager': r.against_eager(), 'reached': r.reached(),
            } for r in results],
        }, indent=1) + '\n')


if __name__ == '__main__':
    main()
