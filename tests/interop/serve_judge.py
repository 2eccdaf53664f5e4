"""Lets TensorFlow write models, has tapestry-serve serve them, and compares its answers with TensorFlow's own: by REST,
and by gRPC with TensorFlow Serving's own client (tensorflow-serving-api).

usage: serve_judge.py TAPESTRY_SERVE FOLDER"""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

import grpc
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import (classification_pb2, get_model_metadata_pb2, get_model_status_pb2, inference_pb2,
                                     model_management_pb2, model_service_pb2_grpc, predict_pb2,
                                     prediction_log_pb2, prediction_service_pb2_grpc, regression_pb2)

sys.dont_write_bytecode = True  # beside the sources

from golden_saved_models import Texts

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


class WithTexts:
    """Signatures of tf.Examples and of texts."""

    def save(self, folder):
        model = Texts()
        tf.saved_model.save(model, folder, signatures={"serving_default": model.classify, "regress": model.regress,
                                                       "label": model.label, "look_up": model.look_up})


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


class Counter(tf.Module):
    """A model that tells how often it has run."""

    def __init__(self):
        super().__init__()
        self.runs = tf.Variable(0.0)

    @tf.function(input_signature=[spec(tf.float32, None, name="x")])
    def count(self, x):
        return {"y": 0 * x + self.runs.assign_add(1)}

    def save(self, folder, requests):
        """With a file of requests that TensorFlow Serving runs before it serves the model."""
        tf.saved_model.save(self, folder, signatures=self.count)
        request = predict_pb2.PredictRequest()
        request.model_spec.name = "counter"
        request.inputs["x"].CopyFrom(tf.make_tensor_proto(np.float32([1, 2])))
        log = prediction_log_pb2.PredictionLog(predict_log=prediction_log_pb2.PredictLog(request=request))
        extra = pathlib.Path(folder) / "assets.extra"
        extra.mkdir()
        with tf.io.TFRecordWriter(str(extra / "tf_serving_warmup_requests")) as file:
            for _ in range(requests):
                file.write(log.SerializeToString())


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
    "texts": WithTexts(),
}
ANY_SHAPE = [3, 2, 2]


def example(x, **others):
    features = {"x": tf.train.Feature(float_list=tf.train.FloatList(value=x))}
    for key, value in others.items():
        features[key] = (tf.train.Feature(int64_list=tf.train.Int64List(value=[value])) if isinstance(value, int)
                         else tf.train.Feature(bytes_list=tf.train.BytesList(value=[value.encode()])))
    return tf.train.Example(features=tf.train.Features(feature=features))


def values_for(info, rows):
    shape = ANY_SHAPE if info.shape.rank is None else [rows if size is None else size for size in info.shape]
    if info.dtype == tf.string:
        if len(shape) > 1:
            return np.array([["cat", "dog", f"text {i}"][i % 3] for i in range(int(np.prod(shape)))], object).reshape(shape)
        return np.array([example(random.normal(size=3), n=i, **({"name": f"nr {i}"} if i else {})).SerializeToString()
                         for i in range(rows)], object)
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
    if theirs.dtype == object:
        decoded = [each if isinstance(each, bytes) else base64.b64decode(each["b64"]) if isinstance(each, dict) else each.encode()
                   for each in np.array(ours, object).reshape(-1)]
        return decoded == list(theirs.reshape(-1))
    ours = np.array(ours, dtype=theirs.dtype)
    return ours.shape == theirs.shape and np.allclose(ours, theirs, rtol=NEAR, atol=NEAR, equal_nan=True)


def listed(value):
    """As JSON has it: bytes in base64."""
    if isinstance(value, bytes):
        return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, str):
        return value
    return [listed(each) for each in value] if value.dtype == object else value.tolist()


def grpc_differences(channel, name, signature, function):
    """The same over gRPC, with both forms of tensors."""
    predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
    infos = function.structured_input_signature[1]
    inputs = {key: values_for(info, 3) for key, info in infos.items()}
    outputs = {key: value.numpy() for key, value in function(**{key: tf.constant(value) for key, value in inputs.items()}).items()}
    for form, wanted in (("content", []), ("values", []), ("values", sorted(outputs)[-1:])):
        request = predict_pb2.PredictRequest(output_filter=wanted)
        request.model_spec.name, request.model_spec.signature_name = name, signature
        for key, value in inputs.items():
            proto = tf.make_tensor_proto(value, dtype=infos[key].dtype)
            if form == "values" and proto.tensor_content:  # numbers one by one
                lists = {tf.float32: proto.float_val, tf.float64: proto.double_val, tf.int64: proto.int64_val, tf.bool: proto.bool_val}
                lists.get(infos[key].dtype, proto.int_val).extend(value.reshape(-1).tolist())
                proto.ClearField("tensor_content")
            request.inputs[key].CopyFrom(proto)
        reply = predict(request, timeout=60)
        if set(reply.outputs) != set(wanted or outputs):
            yield f"gRPC: the outputs {set(reply.outputs)}"
        if (reply.model_spec.name, reply.model_spec.version.value, reply.model_spec.signature_name) != (name, 1, signature):
            yield f"gRPC: {reply.model_spec}"
        for key, proto in reply.outputs.items():
            value = tf.make_ndarray(proto)
            if value.dtype != outputs[key].dtype or value.shape != outputs[key].shape or not near(value.tolist() if value.dtype == object else value, outputs[key]):
                yield f"gRPC: {key} is {value} instead of {outputs[key]}"


def grpc_metadata_differences(channel, name, folder):
    """The signatures are those of the file."""
    request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
    request.model_spec.name = name
    reply = prediction_service_pb2_grpc.PredictionServiceStub(channel).GetModelMetadata(request)
    signatures = get_model_metadata_pb2.SignatureDefMap()
    reply.metadata["signature_def"].Unpack(signatures)
    saved = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    if dict(signatures.signature_def) != dict(saved.meta_graphs[0].signature_def):
        yield "gRPC: the metadata are not the file's"
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = name
    versions = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status).model_version_status
    if [(each.version, each.state, each.status.error_code) for each in versions] != [(1, 30, 0)]:
        yield f"gRPC: the status {versions}"


def example_differences(channel, folder):
    """Classify, Regress and MultiInference, with and without a context."""
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    signatures = tf.saved_model.load(str(folder)).signatures
    context, alone = example([1, 2, 3], n=5), [example([4, 5, 6]), example([-1, 0, 1], n=2)]
    merged = [tf.train.Example.FromString(context.SerializeToString() + each.SerializeToString()) for each in alone]
    for examples, given in ((alone, {"examples": alone}), (merged, {"examples": alone, "context": context})):
        encoded = tf.constant([each.SerializeToString() for each in examples])
        classes = {key: value.numpy() for key, value in signatures["serving_default"](encoded).items()}
        values = signatures["regress"](encoded)["outputs"].numpy()
        kind = "example_list_with_context" if "context" in given else "example_list"

        def check(classified, regressed):
            labels = [[each.label.encode() for each in row.classes] for row in classified.classifications]
            scores = [[each.score for each in row.classes] for row in classified.classifications]
            if labels != classes["classes"].tolist() or not near(scores, classes["scores"]):
                yield f"gRPC: classes {labels} {scores} instead of {classes}"
            if not near([each.value for each in regressed.regressions], values):
                yield f"gRPC: regressions {regressed} instead of {values}"

        requests = [kind_of() for kind_of in (classification_pb2.ClassificationRequest, regression_pb2.RegressionRequest,
                                              inference_pb2.MultiInferenceRequest)]
        for each in requests:
            list_of = getattr(each.input, kind)
            list_of.examples.extend(given["examples"])
            if "context" in given:
                list_of.context.CopyFrom(context)
        requests[0].model_spec.name = requests[1].model_spec.name = "texts"
        requests[1].model_spec.signature_name = "regress"
        for method, signature in (("classify", "serving_default"), ("regress", "regress")):
            task = requests[2].tasks.add(method_name="tensorflow/serving/" + method)
            task.model_spec.name, task.model_spec.signature_name = "texts", signature
        yield from check(service.Classify(requests[0]).result, service.Regress(requests[1]).result)
        both = service.MultiInference(requests[2]).results
        yield from check(both[0].classification_result, both[1].regression_result)


def reload_differences(channel, folder):
    """Another configuration, by TensorFlow Serving's own client."""
    request = model_management_pb2.ReloadConfigRequest()
    config = request.config.model_config_list.config.add(name="renamed", base_path=str(folder), model_platform="tensorflow")
    config.model_version_policy.specific.versions.append(1)
    config.version_labels["stable"] = 1
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    if models.HandleReloadConfigRequest(request, timeout=60).status.error_code != 0:
        yield "gRPC: no other configuration"
    predict = predict_pb2.PredictRequest()
    predict.model_spec.name, predict.model_spec.version_label = "renamed", "stable"
    predict.inputs["x"].CopyFrom(tf.make_tensor_proto(np.ones((1, 5), np.float32)))
    service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    if service.Predict(predict).model_spec.version.value != 1:
        yield "gRPC: another version"
    predict.model_spec.name = "affine"
    try:
        service.Predict(predict)
        yield "gRPC: a model that was taken away"
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.INVALID_ARGUMENT:
            yield f"gRPC: {error}"


def differences(address, name, signature, function):
    """Compares both forms of requests; yields what is different."""
    infos = function.structured_input_signature[1]
    inputs = {key: values_for(info, 3) for key, info in infos.items()}
    outputs = {key: value.numpy() for key, value in function(**{key: tf.constant(value) for key, value in inputs.items()}).items()}
    path = f"v1/models/{name}:predict"
    columns = {key: listed(value) for key, value in inputs.items()}
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
    rows = [{key: listed(value[i]) for key, value in inputs.items()} for i in range(3)]
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


def warm_up_differences(address, requests):
    """The model has answered the requests that it brought along before the first one of a client."""
    status, answer = ask(address, "v1/models/counter:predict", {"instances": [1, 2]})
    if (status, answer) != (200, {"predictions": [requests + 1.0] * 2}):
        yield f"after {requests} requests of the file: {status} {answer}"


def log_differences(folder, models):
    """What TensorFlow reads in the logs of the requests: their answers are those of its own models."""
    kinds = set()
    for path in sorted((folder / "logs").iterdir()):
        count = 0
        for record in tf.data.TFRecordDataset(str(path)):
            count += 1
            log = prediction_log_pb2.PredictionLog.FromString(record.numpy())
            metadata, kind = log.log_metadata, log.WhichOneof("log_type")
            kinds.add(kind)
            if metadata.sampling_config.sampling_rate != 1 or metadata.model_spec.name not in models:
                yield f"{path.name}: {metadata}"
            if kind != "predict_log":
                if not getattr(log, kind).response.ByteSize() or not getattr(log, kind).request.ByteSize():
                    yield f"{path.name}: an empty {kind}"
                continue
            request, response = log.predict_log.request, log.predict_log.response
            function = models[metadata.model_spec.name].signatures[metadata.model_spec.signature_name]
            expected = function(**{name: tf.constant(tf.make_ndarray(value)) for name, value in request.inputs.items()})
            for name, value in response.outputs.items():
                ours, theirs = tf.make_ndarray(value), expected[name].numpy()
                same = ours.tolist() == theirs.tolist() if theirs.dtype == object else near(ours, theirs)
                if not same:
                    yield f"{path.name}: {metadata.model_spec} {name}"
        if not 0 < count <= 1000:
            yield f"{path.name} has {count} records"
    if not kinds >= {"predict_log", "classify_log", "regress_log", "multi_inference_log"}:
        yield f"only {kinds} were logged"


def main(program, folder):
    folder = pathlib.Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for name, model in MODELS.items():
        model.save(str(folder / name / "1"))
    requests = 3
    Counter().save(str(folder / "counter" / "1"), requests)
    (folder / "logs").mkdir()
    logging = f'''logging_config {{ log_collector_config {{ filename_prefix: "{folder / 'logs' / 'all'}" }}
                                   sampling_config {{ sampling_rate: 1 }} }}'''
    config = folder / "models.config"
    config.write_text("model_config_list {" + "".join(
        f'config {{ name: "{name}" base_path: "{folder / name}" {logging if name in MODELS else ""} }}\n'
        for name in [*MODELS, "counter"]) + "}")
    server = subprocess.Popen([program, f"--model_config_file={config}", "--rest_api_port=0", "--port=0"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    address = "http://" + server.stdout.readline().split()[-1] + "/"
    channel = grpc.insecure_channel(server.stdout.readline().split()[2])
    passed = failed = 0
    models = {}
    try:
        for name in MODELS:
            model = models[name] = tf.saved_model.load(str(folder / name / "1"))
            found = list(metadata_differences(address, name, model))
            found += grpc_metadata_differences(channel, name, folder / name / "1")
            for signature, function in model.signatures.items():
                found += differences(address, name, signature, function)
                found += grpc_differences(channel, name, signature, function)
            if name == "texts":
                found += example_differences(channel, folder / name / "1")
            passed, failed = passed + (not found), failed + bool(found)
            print(f"  {name:10} {'failed: ' + '; '.join(found)[:500] if found else 'passed'}")
        for name, found in {"warm-up": list(warm_up_differences(address, requests)),
                            "reload": list(reload_differences(channel, folder / "affine"))}.items():
            passed, failed = passed + (not found), failed + bool(found)
            print(f"  {name:10} {'failed: ' + '; '.join(found)[:500] if found else 'passed'}")
    finally:
        server.terminate()
        server.wait()
    found = list(log_differences(folder, models))
    passed, failed = passed + (not found), failed + bool(found)
    print(f"  {'logs':10} {'failed: ' + '; '.join(found)[:500] if found else 'passed'}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
