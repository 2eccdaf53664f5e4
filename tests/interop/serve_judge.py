"""Lets TensorFlow write models, has tapestry-serve serve them, and compares its answers with TensorFlow's own.

usage: serve_judge.py TAPESTRY_SERVE FOLDER"""

import json
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import tensorflow as tf

NEAR = 1e-5
random = np.random.default_rng(1)


def spec(dtype, *shape, name):
    return tf.TensorSpec(shape, dtype, name=name)


class Module(tf.Module):
    """A model of functions that are made of it."""

    def __init__(self, signature, function, **others):
        super().__init__()
        self.variable = tf.Variable(random.normal(size=(5, 3)).astype(np.float32))
        self.functions = {name: tf.function(f(self), input_signature=signature)
                          for name, f in {"serving_default": function, **others}.items()}

    def save(self, folder):
        tf.saved_model.save(self, folder, signatures=dict(self.functions))


class Keras:
    def save(self, folder):
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Input((8, 8, 2)), layers.Conv2D(4, 3, padding="same", activation="relu"),
                                     layers.BatchNormalization(), layers.MaxPooling2D(), layers.Flatten(),
                                     layers.Dense(6, activation="gelu"), layers.Dense(3, activation="softmax")])
        model.export(folder, verbose=False)


class Recurrent:
    def save(self, folder):
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Input((6,), dtype="int32"), layers.Embedding(20, 5), layers.LSTM(4), layers.Dense(2)])
        model.export(folder, verbose=False)


MODELS = {
    "affine": Module([spec(tf.float32, None, 5, name="x")], lambda m: lambda x: {"y": x @ m.variable},
                     squared=lambda m: lambda x: {"y": (x @ m.variable) ** 2}),
    "named": Module([spec(tf.float32, None, name="a"), spec(tf.int64, None, 2, name="b"), spec(tf.bool, None, name="c")],
                    lambda m: lambda a, b, c: {"p": tf.where(c, a, -a), "q": b * 2, "r": tf.cast(b, tf.float64)[:, 0] / 3, "s": ~c}),
    "uint8": Module([spec(tf.uint8, None, 3, name="x")], lambda m: lambda x: {"y": x // 2, "sum": tf.reduce_sum(tf.cast(x, tf.int32), 1)}),
    "scalar": Module([spec(tf.float32, name="x")], lambda m: lambda x: {"y": x * m.variable}),
    "any_shape": Module([tf.TensorSpec(None, tf.float32, name="x")], lambda m: lambda x: {"y": tf.tanh(x)}),
    "extremes": Module([spec(tf.float32, None, name="x")], lambda m: lambda x: {"y": x * np.float32(1e38), "z": tf.math.log(x)}),
    "keras": Keras(),
    "recurrent": Recurrent(),
}
ANY_SHAPE = [3, 2, 2]


def values_for(info, rows):
    shape = ANY_SHAPE if info.shape.rank is None else [rows if size is None else size for size in info.shape]
    if info.dtype == tf.bool:
        return random.integers(0, 2, shape).astype(bool)
    if info.dtype.is_integer:
        return random.integers(0, 20, shape).astype(info.dtype.as_numpy_dtype)
    return random.normal(size=shape).astype(info.dtype.as_numpy_dtype)


def ask(address, path, body):
    try:
        with urllib.request.urlopen(address + path, json.dumps(body).encode(), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def near(ours, theirs):
    ours = np.array(ours, dtype=theirs.dtype)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=NEAR, atol=NEAR, equal_nan=True)


def differences(address, name, signature, function):
    """Compares both forms of requests; yields what is different."""
    infos = function.structured_input_signature[1]
    inputs = {key: values_for(info, 3) for key, info in infos.items()}
    outputs = {key: value.numpy() for key, value in function(**{key: tf.constant(value) for key, value in inputs.items()}).items()}
    path = f"v1/models/{name}:predict"
    columns = {key: value.tolist() for key, value in inputs.items()}
    status, answer = ask(address, path, {"signature_name": signature, "inputs": columns})
    if status != 200:
        yield f"columnar: {status} {answer}"
        return
    given = answer["outputs"] if len(outputs) > 1 else {next(iter(outputs)): answer["outputs"]}
    for key, value in outputs.items():
        if not near(given[key], value):
            yield f"columnar: {key} is {given[key]} instead of {value}"
    if not all(info.shape.rank and info.shape[0] is None for info in infos.values()):
        return
    rows = [{key: value[i].tolist() for key, value in inputs.items()} for i in range(3)]
    forms = [rows] if len(inputs) > 1 else [rows, [each[next(iter(inputs))] for each in rows]]
    for form in forms:
        status, answer = ask(address, path, {"signature_name": signature, "instances": form})
        if status != 200:
            yield f"rows: {status} {answer}"
            continue
        for key, value in outputs.items():
            column = [each[key] for each in answer["predictions"]] if len(outputs) > 1 else answer["predictions"]
            if not near(column, value):
                yield f"rows: {key} is {column} instead of {value}"


def metadata_differences(address, name, model):
    """The dtypes and shapes of the metadata are TensorFlow's."""
    with urllib.request.urlopen(f"{address}v1/models/{name}/metadata", timeout=60) as answer:
        given = json.loads(answer.read())["metadata"]["signature_def"]["signature_def"]
    for signature, function in model.signatures.items():
        tensors = {"inputs": function.structured_input_signature[1], "outputs": function.structured_outputs}
        for kind, infos in tensors.items():
            if set(given[signature][kind]) != set(infos):
                yield f"metadata: {kind} {set(given[signature][kind])} instead of {set(infos)}"
                continue
            for key, info in infos.items():
                shape = given[signature][kind][key]["tensor_shape"]
                sizes = None if shape["unknown_rank"] else [int(each["size"]) for each in shape["dim"]]
                theirs = None if info.shape.rank is None else [-1 if size is None else size for size in info.shape]
                dtype = given[signature][kind][key]["dtype"]
                if sizes != theirs:
                    yield f"metadata: {key} has the shape {sizes} instead of {theirs}"
                if dtype != f"DT_{info.dtype.name.upper()}".replace("FLOAT32", "FLOAT").replace("FLOAT64", "DOUBLE"):
                    yield f"metadata: {key} is {dtype} instead of {info.dtype}"


def main(program, folder):
    folder = pathlib.Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for name, model in MODELS.items():
        model.save(str(folder / name / "1"))
    config = folder / "models.config"
    config.write_text("model_config_list {" + "".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" }}\n' for name in MODELS) + "}")
    server = subprocess.Popen([program, f"--model_config_file={config}", "--rest_api_port=0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    address = "http://" + server.stdout.readline().split()[-1] + "/"
    passed = failed = 0
    try:
        for name in MODELS:
            model = tf.saved_model.load(str(folder / name / "1"))
            found = list(metadata_differences(address, name, model))
            for signature, function in model.signatures.items():
                found += differences(address, name, signature, function)
            passed, failed = passed + (not found), failed + bool(found)
            print(f"  {name:10} {'failed: ' + '; '.join(found)[:500] if found else 'passed'}")
    finally:
        server.terminate()
        server.wait()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
