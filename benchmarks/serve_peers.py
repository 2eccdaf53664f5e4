#!/usr/bin/env python3
"""Measures by wrk one model behind tapestry-serve, behind tf.function in a Python server, and behind onnxruntime in one.
docs/serving.md has the results.

usage: serve_peers.py TAPESTRY_SERVE [--seconds N] [--rounds N]

Needs tensorflow, onnx, onnxruntime and wrk. The model is a network of three layers, 64-256-128-10; a request is one
example, as JSON. The Python servers are the standard library's, with a thread for each connection. The rounds alternate
between the servers, and the medians count."""

import argparse
import contextlib
import http.server
import json
import os
import pathlib
import statistics
import sys
import tempfile

import numpy as np

from compare_serve import measure, running

SIZES = [64, 256, 128, 10]


def weights():
    random = np.random.default_rng(1)
    return [(random.normal(size=shape).astype(np.float32) / 10, random.normal(size=shape[1]).astype(np.float32))
            for shape in zip(SIZES, SIZES[1:])]


def write_models(folder):
    import tensorflow as tf
    from onnx import TensorProto, checker, helper, numpy_helper, save

    class Network(tf.Module):
        def __init__(self):
            super().__init__()
            self.layers = [(tf.Variable(w), tf.Variable(b)) for w, b in weights()]

        @tf.function(input_signature=[tf.TensorSpec([None, SIZES[0]], tf.float32, "x")])
        def predict(self, x):
            for i, (w, b) in enumerate(self.layers):
                x = x @ w + b
                x = tf.nn.relu(x) if i + 1 < len(self.layers) else tf.nn.softmax(x)
            return {"y": x}

    network = Network()
    tf.saved_model.save(network, str(folder / "m" / "1"), signatures={"serving_default": network.predict})
    nodes, constants, value = [], [], "x"
    for i, (w, b) in enumerate(weights()):
        constants += [numpy_helper.from_array(w, f"w{i}"), numpy_helper.from_array(b, f"b{i}")]
        last = i + 2 == len(SIZES)
        nodes += [helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"h{i}"]),
                  helper.make_node("Softmax" if last else "Relu", [f"h{i}"], ["y" if last else f"a{i}"])]
        value = f"a{i}"
    graph = helper.make_graph(nodes, "network", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, SIZES[0]])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, SIZES[-1]])], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    checker.check_model(model)
    save(model, str(folder / "m.onnx"))


def predictor(kind, folder):
    """A function from examples to predictions."""
    if kind == "tensorflow":
        import tensorflow as tf
        loaded = tf.saved_model.load(str(folder / "m" / "1"))
        function = loaded.signatures["serving_default"]
        return lambda x, _=loaded: function(tf.constant(x))["y"].numpy()
    import onnxruntime
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    return lambda x: session.run(["y"], {"x": x})[0]


def serve(kind, folder):
    predict = predictor(kind, pathlib.Path(folder))

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # one write for each answer

        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            predictions = predict(np.array(request["instances"], np.float32))
            body = json.dumps({"predictions": predictions.tolist()}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        request_queue_size = 1024

    server = Server(("127.0.0.1", 0), Handler)
    print(f"Listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = pathlib.Path(name)
        write_models(folder)
        python = (sys.executable, __file__, "--serve")
        batching = folder / "batching.config"
        batching.write_text("max_batch_size { value: 32 } batch_timeout_micros { value: 0 } num_batch_threads { value: 2 }\n")
        ours = (arguments.program, "--model_name=m", f"--model_base_path={folder / 'm'}", "--rest_api_port=0")
        servers = {"tapestry-serve": ours,
                   "tapestry-serve, batches": (*ours, "--enable_batching", f"--batching_parameters_file={batching}"),
                   "tf.function in Python": (*python, "tensorflow", name),
                   "onnxruntime in Python": (*python, "onnxruntime", name)}
        addresses = {each: stack.enter_context(running(*command)) for each, command in servers.items()}
        example = json.dumps({"instances": np.random.default_rng(2).normal(size=(1, SIZES[0])).round(3).tolist()})
        results = {each: [] for each in servers}
        for _ in range(arguments.rounds):
            for each in servers:
                results[each].append(measure(addresses[each], "m", example, arguments.seconds, folder))
    for each, measured in results.items():
        rate, middle, late = (statistics.median(column) for column in zip(*measured))
        print(f"| {each} | {rate:,.0f} | {middle:.2f} ms | {late:.2f} ms |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
