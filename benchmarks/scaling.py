#!/usr/bin/env python3
"""Measures how time and memory grow with the size of what is computed, and draws both.

usage: scaling.py BUILD_FOLDER [PICTURE.svg] [--rounds N]

Each size runs in a process of its own, on one thread but where threads are counted; the rounds alternate between the
sizes, and the least time and memory count. The memory is the peak of the process, less that of the smallest size.
matplotlib draws the picture (Debian's python3-matplotlib)."""

import argparse
import json
import os
import pathlib
import subprocess

WORKLOADS = {
    "operations": ("recorded additions, and back", [10**i for i in range(3, 7)]),
    "elements": ("chain and gradient: elements", [4**i for i in range(5, 13)]),
    "parameters": ("Adam step: parameters", [3 * 4**i for i in range(5, 12)]),
    "nodes": ("first run of a graph: nodes", [10**i // 7 * 7 for i in range(2, 6)]),
    "threads": ("chain and product: threads", None),
}


def measure(program, workload, size):
    text = subprocess.run([program, workload, str(size)], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def table(program, rounds):
    """{workload: [(size, seconds, bytes above the smallest)]}"""
    threads = [1 << i for i in range(len(os.sched_getaffinity(0)).bit_length())]
    results = {}
    for workload, (_, sizes) in WORKLOADS.items():
        sizes = sizes or threads
        measured = {size: [] for size in sizes}
        for _ in range(rounds):
            for size in sizes:
                measured[size].append(measure(program, workload, size))
        least = {size: (min(each["seconds"] for each in runs), min(each["bytes"] for each in runs))
                 for size, runs in measured.items()}
        base = min(memory for _, memory in least.values())
        results[workload] = [(size, time, memory - base) for size, (time, memory) in least.items()]
    return results


def draw(results, path):
    import matplotlib
    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "scaling",  # the same picture for the same numbers
                                "svg.fonttype": "none"})
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(2, len(results), figsize=(15, 5.5), squeeze=False)
    for column, (workload, rows) in enumerate(results.items()):
        sizes = [size for size, _, _ in rows]
        times, memory = axes[0][column], axes[1][column]
        times.plot(sizes, [time * 1e3 for _, time, _ in rows], marker="o", color="tab:blue")
        memory.plot(sizes, [max(used, 0) / 2**20 for _, _, used in rows], marker="o", color="tab:orange")
        times.set_title(WORKLOADS[workload][0], fontsize=10)
        if workload == "threads":
            for axis in (times, memory):
                axis.set_xticks(sizes)
            times.set_ylim(bottom=0)
            memory.set_ylim(0, 10)
        else:
            for axis in (times, memory):
                axis.set_xscale("log")
            times.set_yscale("log")
            memory.set_yscale("symlog", linthresh=1)
            memory.set_ylim(bottom=0)
        for axis in (times, memory):
            axis.minorticks_off()
            axis.grid(True, alpha=0.3)
    axes[0][0].set_ylabel("time [ms]")
    axes[1][0].set_ylabel("memory [MiB]")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results = table(arguments.build / "benchmarks/scaling", arguments.rounds)
    for workload, rows in results.items():
        print(WORKLOADS[workload][0])
        for size, time, memory in rows:
            print(f"{size:12} {time * 1e3:12.3f} ms {memory / 2**20:10.1f} MiB   {time / size * 1e9:10.2f} ns each")
    if arguments.picture:
        draw(results, arguments.picture)


if __name__ == "__main__":
    main()
