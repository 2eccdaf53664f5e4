"""Writes the files that TensorFlow contributes to tests/golden, and lets it accept ours that lie there.

usage: write_golden.py FOLDER

TensorFlow's own: training steps of two layers with control dependencies, by Momentum with Variables as TensorFlow 1 has
them (tensorflow1.pb) and by Adam with resource Variables (tensorflow2.pb), a graph with unknown sizes in the text form,
the frozen networks of foreign_models.py, an event file, and checkpoints. The numbers that TensorFlow computes are
constants in x.expected.pb."""

import pathlib
import sys

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.util import event_pb2
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

sys.dont_write_bytecode = True  # beside the sources

import foreign_models

v1 = tf.compat.v1
X = np.array([[1, 2, 3], [-1, 0, 2]], np.float32)
LABELS = np.array([[1, 0], [0, 1]], np.float32)


def network(use_resource, optimizer):
    """Two layers, the loss and its step, in a fresh graph."""
    graph = tf.Graph()
    with graph.as_default(), v1.variable_scope("", use_resource=use_resource):
        x = v1.placeholder(tf.float32, X.shape, "x")
        labels = v1.placeholder(tf.float32, LABELS.shape, "labels")
        signal = x
        for name, sizes in (("hidden", (3, 4)), ("logits", (4, 2))):
            with v1.variable_scope(name):
                numbers = np.linspace(-1, 1, sizes[0] * sizes[1]).reshape(sizes)
                w = v1.get_variable("w", sizes, initializer=v1.constant_initializer(numbers))
                b = v1.get_variable("b", sizes[1:], initializer=v1.zeros_initializer())
                signal = tf.nn.bias_add(tf.matmul(signal, w), b)
                if name == "hidden":
                    signal = tf.sigmoid(signal)
        losses = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=signal, labels=labels).loss
        loss = tf.reduce_mean(losses, name="loss")
        count = v1.get_variable("count", [], tf.int64, initializer=v1.zeros_initializer(), trainable=False)
        with tf.control_dependencies([optimizer().minimize(loss)]):
            counted = v1.assign_add(count, 1)
        tf.group(counted, name="train")
        v1.global_variables_initializer()
    return graph


def bytes_of(graph_def):
    """Without the lines of Python that made the nodes."""
    graph_def.ClearField("debug_info")
    for node in graph_def.node:
        node.ClearField("experimental_debug_info")
    return graph_def.SerializeToString(deterministic=True)


def expected(path, values):
    """Constants in a GraphDef, which our own reader reads."""
    with tf.Graph().as_default() as graph:
        for name, value in values.items():
            tf.constant(value, name=name)
    path.write_bytes(bytes_of(graph.as_graph_def()))


def train(session, steps=3):
    feeds = {"x:0": X, "labels:0": LABELS}
    session.run("init")
    values = {"x": X, "labels": LABELS}
    for i in range(steps):
        values[f"loss_{i}"] = session.run("loss:0", feeds)
        session.run("train", feeds)
    values["loss_end"] = session.run("loss:0", feeds)
    return values


def write_graphs(folder):
    for name, resource, optimizer in (("tensorflow1", False, lambda: v1.train.MomentumOptimizer(0.5, 0.9)),
                                      ("tensorflow2", True, lambda: v1.train.AdamOptimizer(0.1))):
        graph = network(resource, optimizer)
        (folder / f"{name}.pb").write_bytes(bytes_of(graph.as_graph_def()))
        with v1.Session(graph=graph) as session:
            expected(folder / f"{name}.expected.pb", train(session))


def write_text(folder):
    """A few operations that others write otherwise than we do, in the text form."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float64, name="x")
        with tf.name_scope("scope"):
            total = tf.add_n([x, 2 * x, tf.square(x)], name="total")
            padded = tf.pad(total, [[1, 0], [0, 2]])
            with tf.control_dependencies([tf.no_op("nothing")]):
                shape = tf.shape(padded)
        tf.concat([padded[:, ::-1], tf.cast(tf.ones([2, 1]), tf.float64)], 1, name="y")
        tf.identity(shape, name="shape")
        value = np.array([[1, -2]], np.float64)
        with v1.Session() as session:
            y, shape = session.run(["y:0", "shape:0"], {"x:0": value})
    expected(folder / "tensorflow_text.expected.pb", {"x": value, "y": y, "shape": shape})
    graph_def = v1.GraphDef.FromString(bytes_of(graph.as_graph_def()))
    (folder / "tensorflow_text.pbtxt").write_text(text_format.MessageToString(graph_def))


def write_foreign(folder):
    """Results, and the gradients of the sum of the first one's squares by the inputs."""
    for make in foreign_models.MODELS:
        tf.keras.backend.clear_session()
        call, specs, runs = make()
        function = convert_variables_to_constants_v2(tf.function(call).get_concrete_function(*specs))
        values = {}
        for i, inputs in enumerate(runs):
            inputs = [tf.constant(each) for each in inputs]
            with tf.GradientTape() as tape:
                tape.watch(inputs)
                results = function(*inputs)
                results = results if isinstance(results, (list, tuple)) else [results]
                target = tf.reduce_sum(tf.square(results[0]))
            for spec, value, gradient in zip(specs, inputs, tape.gradient(target, inputs)):
                values[f"run{i}/{spec.name}"] = value
                if gradient is not None:
                    values[f"run{i}/gradient/{spec.name}"] = gradient
            for tensor, value in zip(function.outputs, results):
                values[f"run{i}/{tensor.op.name}"] = value
        name = f"foreign_{make.__name__}"
        (folder / f"{name}.pb").write_bytes(bytes_of(function.graph.as_graph_def()))
        expected(folder / f"{name}.expected.pb", {key: np.asarray(value) for key, value in values.items()})


def write_events(folder):
    event = event_pb2.Event(wall_time=1.5, file_version="brain.Event:2")
    scalar = event_pb2.Event(wall_time=2.5, step=7)
    scalar.summary.value.add(tag="loss", simple_value=0.25)
    path = folder / "tensorflow.tfevents"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in (event, scalar):
            writer.write(each.SerializeToString(deterministic=True))


def save_tensors(prefix, tensors, slices=None):
    """A checkpoint of tensors, in the given order, by the op below all of TensorFlow's savers."""
    names = [name for name, _ in tensors]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=slices or [""] * len(names),
                      tensors=[tensor for _, tensor in tensors])


def write_checkpoints(folder):
    # What both have: ours must be the same bytes, so the names ascend as bytes.
    numbers = tf.constant([[0, 1, 2], [3, 0, 255]])
    types = (tf.bool, tf.uint8, tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64)
    tensors = [(dtype.name, tf.cast(numbers, dtype)) for dtype in types]
    tensors += [("scalar", tf.constant(1.5)), ("empty", tf.zeros([3, 0, 2])), ("axes", tf.ones([1, 2] * 4)),
                ('a "name"\nin many languages \u00e4\u20ac', tf.constant([1, 2]))]
    save_tensors(folder / "checkpoint_types", sorted(tensors, key=lambda each: each[0].encode()))

    types = (tf.int8, tf.int16, tf.uint16, tf.uint32)
    save_tensors(folder / "checkpoint_wider", [(dtype.name, tf.constant([1, 2, dtype.max], dtype)) for dtype in types])
    save_tensors(folder / "checkpoint_lacking",
                 [("complex", tf.constant([1j], tf.complex64)), ("rank 9", tf.ones([1] * 9)),
                  ("text", tf.constant(["a", "bc"])), ("uint64", tf.constant([1], tf.uint64)), ("w", tf.ones([2]))])

    # Slices, in two directions in one file, and along the first axis in three.
    whole = tf.reshape(tf.range(24, dtype=tf.float32), [4, 6])
    save_tensors(folder / "checkpoint_slices",
                 [("tiles", whole[:2, :3]), ("tiles", whole[:2, 3:]), ("tiles", whole[2:]), ("whole", whole)],
                 ["4 6 0,2:0,3", "4 6 0,2:3,3", "4 6 2,2:-", ""])
    parts = [str(folder / f"part{i}") for i in range(3)]
    for i, part in enumerate(parts):
        save_tensors(part, [("rows", whole[i:i + 1 + i // 2]), (f"own{i}", tf.constant(i))],
                     [f"4 6 {i},{1 + i // 2}:-", ""])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=str(folder / "checkpoint_shards"),
                                  delete_old_dirs=False)

    with network(False, lambda: v1.train.AdamOptimizer(0.5)).as_default(), v1.Session() as session:
        session.run("init")
        v1.train.Saver().save(session, str(folder / "checkpoint_saver"), write_meta_graph=False, write_state=False)

    model = tf.Module()
    model.w = tf.Variable([[1.0, 2.0]])
    model.layers = [tf.Variable(3.0)]
    tf.train.Checkpoint(model=model, step=tf.Variable(5, dtype=tf.int64)).write(str(folder / "checkpoint_objects"))


def accept_ours(folder):
    for path in sorted(folder.glob("tapestry*.pb")):
        graph_def = v1.GraphDef()
        graph_def.ParseFromString(path.read_bytes())
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
        print(f"TensorFlow {tf.__version__} accepts {path.name}: {len(graph_def.node)} nodes")


def main(folder):
    write_graphs(folder)
    write_text(folder)
    write_foreign(folder)
    write_events(folder)
    write_checkpoints(folder)
    accept_ours(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
