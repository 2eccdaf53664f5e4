#!/usr/bin/env python3
"""Measures tapestry-serve by wrk: the census model beside an empty echo of the same HTTP library, and batches of MNIST's
images. docs/pipeline.md has the results.

usage: compare_serve.py BUILD_FOLDER MODELS REQUEST [--seconds N] [--rounds N]

MODELS has the folders census and mnist, as the examples 25_wide_and_deep and 13_mnist_cnn write them by --model; REQUEST
is the request that the first one writes. wrk must be installed. The rounds alternate between the servers, and the
medians count, for other programs may take turns of the processors."""

import argparse
import contextlib
import json
import pathlib
import re
import statistics
import subprocess
import tempfile

CONNECTIONS = 64


@contextlib.contextmanager
def running(*command):
    """A server; its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            yield "http://" + server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def measure(address, model, body, seconds, folder):
    """Requests per second, and the median and the 99th percentile of the latency in ms."""
    script = folder / "request.lua"
    script.write_text(f"wrk.method = 'POST'\nwrk.body = '{body}'\nwrk.headers['Content-Type'] = 'application/json'\n")
    text = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(script), f"{address}/v1/models/{model}:predict"],
        check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in text, text
    in_ms = {"us": 0.001, "ms": 1, "s": 1000}
    latencies = [float(number) * in_ms[unit] for number, unit in re.findall(r"(?:50|99)%\s+([\d.]+)(us|ms|s)", text)]
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1]), *latencies


def compare(servers, rounds, seconds, folder):
    """Prints the medians of the servers, and the first as a part of the second."""
    results = {name: [] for name in servers}
    with contextlib.ExitStack() as stack:
        addresses = {name: stack.enter_context(running(*command)) for name, (command, _, _) in servers.items()}
        for _ in range(rounds):
            for name, (_, model, body) in servers.items():
                results[name].append(measure(addresses[name], model, body, seconds, folder))
    for name, measured in results.items():
        rate, middle, late = (statistics.median(column) for column in zip(*measured))
        print(f"{name:24} {rate:8.0f} requests/s   p50 {middle:6.2f} ms   p99 {late:6.2f} ms")
    first, second = results.values()
    ratios = [a[0] / b[0] for a, b in zip(first, second)]
    print(f"{'':24} {statistics.median(ratios):8.2f} times the second, from {min(ratios):.2f} to {max(ratios):.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("request", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    models = arguments.models.resolve()
    program = str(arguments.build / "src/tapestry-serve")

    def serve(model, *flags):
        return program, f"--model_name={model}", f"--model_base_path={models / model}", "--rest_api_port=0", *flags

    person = json.dumps({"instances": json.loads(arguments.request.read_text())["instances"][:1]})
    image = json.dumps({"instances": [[[[row * column % 5 / 4] for column in range(28)] for row in range(28)]]})
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        batching = folder / "batching.config"
        batching.write_text("max_batch_size { value: 32 } batch_timeout_micros { value: 0 } num_batch_threads { value: 2 }\n")
        compare({"census": (serve("census"), "census", person),
                 "echo": ((str(arguments.build / "benchmarks/serve_echo"),), "census", person)},
                arguments.rounds, arguments.seconds, folder)
        compare({"mnist, batches": (serve("mnist", "--enable_batching", f"--batching_parameters_file={batching}"), "mnist", image),
                 "mnist, one by one": (serve("mnist"), "mnist", image)},
                arguments.rounds, arguments.seconds, folder)


if __name__ == "__main__":
    main()
