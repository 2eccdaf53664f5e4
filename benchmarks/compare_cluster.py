#!/usr/bin/env python3
"""Calls of one client, bench_cluster, on Tapestry's servers and on TensorFlow's, in turn: a server alone, and a cluster
of a parameter server and a worker. Prints a table with the shortest times of three rounds. `list_devices` computes
nothing: it is what a call costs by itself. The last line is what gRPC takes to send some bytes and get them back.

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


def free_addresses(count):
    listeners = [socket.create_server(("localhost", 0)) for _ in range(count)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in listeners]
    for each in listeners:
        each.close()
    return addresses


def start(command, processes):
    """Starts a server, and returns its target."""
    processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    target = processes[-1].stdout.readline().strip()
    if not target:
        sys.exit(f"{' '.join(map(str, command))} has ended")
    return target


def rounds_of(program, arguments):
    done = subprocess.run([program, *arguments], check=True, timeout=600, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        what, shortest, median = line.split()
        yield what, float(shortest), float(median)


def main():
    build = pathlib.Path(sys.argv[1])
    makers = {"Tapestry": lambda cluster, job: [build / "src/tapestry-server", "--cluster", cluster, "--job", job,
                                                "--task", "0"],
              "TensorFlow": lambda cluster, job: [sys.executable, "-c", TENSORFLOW, cluster, job]}
    processes, targets, best, echo = [], {}, {}, [float("inf"), float("inf")]

    def keep(times, shortest, median):
        times[:] = min(times[0], shortest), min(times[1], median)

    try:
        echo_address = start([build / "benchmarks/grpc_echo"], processes)
        for name, command in makers.items():
            one, ps, worker = free_addresses(3)
            alone, cluster = f"worker={one}", f"ps={ps};worker={worker}"
            targets[name] = {"alone": [start(command(alone, "worker"), processes)]}
            start(command(cluster, "ps"), processes)
            targets[name]["two tasks"] = [start(command(cluster, "worker"), processes), "ps"]
        for _ in range(3):
            for name, places in targets.items():
                for place, arguments in places.items():
                    for what, *times in rounds_of(build / "benchmarks/bench_cluster", arguments):
                        keep(best.setdefault((place, what), {}).setdefault(name, [float("inf")] * 2), *times)
            for _, *times in rounds_of(build / "benchmarks/grpc_echo", [echo_address]):
                keep(echo, *times)
    finally:
        for each in processes:
            each.kill()
    print("| | Tapestry, us: shortest, median | TensorFlow | ratio of the shortest |\n|---|---|---|---|")
    for (place, what), times in best.items():
        ours, theirs = times["Tapestry"], times["TensorFlow"]
        print(f"| {place}: {what} | {ours[0]:.0f}, {ours[1]:.0f} | {theirs[0]:.0f}, {theirs[1]:.0f} | "
              f"{ours[0] / theirs[0]:.2f} |")
    print(f"| bare echo | {echo[0]:.0f}, {echo[1]:.0f} | | |")


main()
