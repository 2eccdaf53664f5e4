#!/usr/bin/env python3
"""Asks tapestry-serve for very many predictions, while a new version of the model comes each second and clients are
killed. Every answer is checked, and every request must have one; the server's memory is watched.

usage: serve_stress.py TAPESTRY_SERVE [--requests N] [--seconds-per-version N]

Half of the clients speak HTTP, the others gRPC where grpcio is installed. Version v of the model adds v to its inputs."""

import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

try:
    import grpc
except ImportError:
    grpc = None

CLIENTS = 4
ROUND = 20  # requests that a client has sent before it reads the answers: by HTTP, one on each connection
ROUNDS = 200  # in the life of a client


# ---- The model, in protobuf's wire format

def varint(number):
    head, rest = number & 127, number >> 7
    return bytes([head | 128]) + varint(rest) if rest else bytes([head])


def field(number, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def number_field(number, value):
    return varint(number << 3) + varint(value)


def node(name, op, inputs, **attributes):
    return field(1, field(1, name) + field(2, op) + b"".join(field(3, each) for each in inputs)
                 + b"".join(field(5, field(1, key) + field(2, value)) for key, value in attributes.items()))


def saved_model(version):
    """y = x + version, for a list of floats."""
    unknown = field(2, number_field(1, (1 << 64) - 1))
    float_type = number_field(6, 1)
    value = field(8, number_field(1, 1) + field(2, b"") + field(5, struct.pack("<f", version)))
    graph = (node("x", "Placeholder", [], dtype=float_type, shape=field(7, unknown))
             + node("summand", "Const", [], dtype=float_type, value=value) + node("y", "AddV2", ["x", "summand"], T=float_type))
    tensors = [field(1, name + ":0") + number_field(2, 1) + field(3, unknown) for name in ("x", "y")]
    signature = (field(1, field(1, "x") + field(2, tensors[0])) + field(2, field(1, "y") + field(2, tensors[1]))
                 + field(3, "tensorflow/serving/predict"))
    meta = field(1, field(4, "serve")) + field(2, graph) + field(5, field(1, "serving_default") + field(2, signature))
    return number_field(1, 1) + field(2, meta)


def write_version(folder, version):
    hidden = folder / f"writing-{version}"
    hidden.mkdir(parents=True)
    (hidden / "saved_model.pb").write_bytes(saved_model(version))
    hidden.rename(folder / str(version))


# ---- Clients

def versions_between(folder):
    """The newest versions in the folder now: those that may answer."""
    found = [int(each.name) for each in folder.iterdir() if each.name.isdigit()]
    return min(found), max(found)


def ask_http(port, choose):
    """Yields the inputs and the outputs of answered requests."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(ROUND)]
        readers = [stack.enter_context(each.makefile("rb")) for each in connections]
        for _ in range(ROUNDS):
            inputs = [choose.randrange(1 << 20) for _ in range(ROUND)]
            for each, connection in zip(inputs, connections):
                body = b'{"instances": [%d]}' % each
                connection.sendall(b"POST /v1/models/m:predict HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s"
                                   % (len(body), body))
            for each, answers in zip(inputs, readers):
                status, length = answers.readline(), 0
                while (line := answers.readline()) != b"\r\n":
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = answers.read(length)
                assert status.startswith(b"HTTP/1.1 200"), (status, body)
                yield each, json.loads(body)["predictions"][0]


def ask_grpc(port, choose):
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        predict = channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
        for _ in range(ROUNDS):
            inputs = [choose.randrange(1 << 20) for _ in range(ROUND)]
            calls = []
            for each in inputs:
                tensor = number_field(1, 1) + field(2, field(2, number_field(1, 1))) + field(5, struct.pack("<f", each))
                calls.append(predict.future(field(1, field(1, "m")) + field(2, field(1, "x") + field(2, tensor)), timeout=60))
            for each, call in zip(inputs, calls):
                reply = call.result()
                where = reply.index(b"\x2a\x04")  # float_val of four bytes
                yield each, struct.unpack("<f", reply[where + 2:where + 6])[0]


def client(kind, port, folder, seed):
    """Prints how many requests were answered rightly; any other end is an error."""
    folder, choose, count = pathlib.Path(folder), random.Random(int(seed)), 0
    oldest, _ = versions_between(folder)
    for given, answer in (ask_grpc if kind == "grpc" else ask_http)(int(port), choose):
        version = answer - given
        if not oldest <= version or version != int(version):
            raise SystemExit(f"wrong: {given} gave {answer}")
        count += 1
    if version > versions_between(folder)[1]:
        raise SystemExit(f"wrong: {given} gave {answer}")
    print(count)


# ---- The course

def memory(process):
    """The resident memory in MB."""
    pages = int(pathlib.Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Clients:
    """Keeps a number of clients busy until enough requests are answered, and kills some."""

    def __init__(self, ports, folder, requests):
        self.ports, self.folder, self.requests = ports, folder, requests
        self.answered, self.killed, self.wrong = {kind: 0 for kind in ports}, 0, []
        self.lock, self.running, self.started = threading.Lock(), set(), 0

    def keep(self, kind):
        while sum(self.answered.values()) < self.requests and not self.wrong:
            with self.lock:
                self.started += 1
                process = subprocess.Popen(
                    [sys.executable, __file__, "--client", kind, str(self.ports[kind]), str(self.folder), str(self.started)],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.running.add(process)
            printed, errors = process.communicate()
            with self.lock:
                self.running.discard(process)
                if process.returncode == -signal.SIGKILL:
                    self.killed += 1
                elif process.returncode == 0 and int(printed) == ROUND * ROUNDS:
                    self.answered[kind] += int(printed)
                else:
                    self.wrong.append(errors)

    def kill_one(self):
        with self.lock:
            if self.running:
                random.choice(list(self.running)).kill()


def run(program, requests, interval):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        version = 1
        write_version(folder, version)
        server = subprocess.Popen([program, "--model_name=m", f"--model_base_path={folder}", "--rest_api_port=0"]
                                  + ["--port=0"] * bool(grpc), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        ports = {"http": int(server.stdout.readline().rsplit(":", 1)[1])}
        if grpc:
            ports["grpc"] = int(server.stdout.readline().split()[2].rsplit(":", 1)[1])
        clients = Clients(ports, folder, requests)
        kinds = sorted(ports)
        threads = [threading.Thread(target=clients.keep, args=(kinds[i % len(kinds)],)) for i in range(CLIENTS)]
        start, samples = time.monotonic(), []
        for each in threads:
            each.start()
        while any(each.is_alive() for each in threads):
            time.sleep(interval)
            version += 1
            write_version(folder, version)
            if version > 10:  # the server is done with it
                shutil.rmtree(folder / str(version - 10))
            clients.kill_one()
            samples.append(memory(server))
        seconds = time.monotonic() - start
        server.terminate()
        assert server.wait(60) == 0
    count = len(samples) // 4 or 1
    early, late = statistics.median(samples[count:2 * count] or samples), statistics.median(samples[-count:])
    print(f"{sum(clients.answered.values())} requests ({', '.join(f'{n} by {kind}' for kind, n in clients.answered.items())}) "
          f"in {seconds:.0f} s, {version - 1} new versions, {clients.killed} clients killed, "
          f"{len(clients.wrong)} wrong or lost; memory {early:.0f} MB in the second quarter, {late:.0f} MB in the last")
    for each in clients.wrong[:3]:
        print(each)
    return bool(clients.wrong)


def main():
    if sys.argv[1:2] == ["--client"]:
        return client(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seconds-per-version", type=float, default=1)
    arguments = parser.parse_args()
    return run(arguments.program, arguments.requests, arguments.seconds_per_version)


if __name__ == "__main__":
    sys.exit(main())
