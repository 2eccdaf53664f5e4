#!/usr/bin/env python3
"""Calls of one client, bench_cluster, on Tapestry's servers and on TensorFlow's, in turn: a server alone, and a cluster
of a parameter server and a worker. Prints a table with the shortest times of three rounds. `list_devices` computes
nothing: it is what a call costs by itself.

usage: compare_cluster.py BUILD_FOLDER    with a Python that has TensorFlow"""

import pathlib
import socket
import subprocess
import sys

TENSORFLOW = """
import sys, tensorflow as tf
jobs = dict(each.split('=') for each in sys.argv[1].split(';'))
server = tf.distribute.Server(tf.train.ClusterSpec({job: [at] for job, at in jobs.items()}), job_name=sys.argv[2],
                              task_index=0)
print(server.target, flush=True)
server.join()
"""


def free_address():
    with socket.create_server(("localhost", 0)) as listener:
        return f"localhost:{listener.getsockname()[1]}"


def start(command, processes):
    """Starts a server, and returns its target."""
    processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    return processes[-1].stdout.readline().strip()


def main():
    build = pathlib.Path(sys.argv[1])
    makers = {"Tapestry": lambda cluster, job: [build / "src/tapestry-server", "--cluster", cluster, "--job", job,
                                                "--task", "0"],
              "TensorFlow": lambda cluster, job: [sys.executable, "-c", TENSORFLOW, cluster, job]}
    processes, targets, best = [], {}, {}
    try:
        for name, command in makers.items():
            alone = f"worker={free_address()}"
            cluster = f"ps={free_address()};worker={free_address()}"
            targets[name] = {"alone": [start(command(alone, "worker"), processes)]}
            start(command(cluster, "ps"), processes)
            targets[name]["two tasks"] = [start(command(cluster, "worker"), processes), "ps"]
        for _ in range(3):
            for name, places in targets.items():
                for place, arguments in places.items():
                    done = subprocess.run([build / "benchmarks/bench_cluster", *arguments], check=True, timeout=600,
                                          capture_output=True, text=True)
                    for line in done.stdout.splitlines():
                        what, shortest, median = line.split()
                        times = best.setdefault((place, what), {}).setdefault(name, [float("inf"), float("inf")])
                        times[:] = min(times[0], float(shortest)), min(times[1], float(median))
    finally:
        for each in processes:
            each.kill()
    print("| | Tapestry, us: shortest, median | TensorFlow | ratio of the shortest |\n|---|---|---|---|")
    for (place, what), times in best.items():
        ours, theirs = times["Tapestry"], times["TensorFlow"]
        print(f"| {place}: {what} | {ours[0]:.0f}, {ours[1]:.0f} | {theirs[0]:.0f}, {theirs[1]:.0f} | "
              f"{ours[0] / theirs[0]:.2f} |")


main()
