"""Writes the files that TensorFlow contributes to tests/golden, and lets it accept ours that lie there.

usage: write_golden.py FOLDER

TensorFlow's own: training steps of two layers with control dependencies, by Momentum with Variables as TensorFlow 1 has
them (tensorflow1.pb) and by Adam with resource Variables (tensorflow2.pb), a graph with unknown sizes in the text form,
the frozen networks of foreign_models.py, the nodes of foreign_ops.py, checkpoints, records of tf.Examples, metrics of
Keras, the SavedModels of golden_saved_models.py and the event files of golden_events.py. The numbers that TensorFlow computes are constants in x.expected.pb."""

import pathlib
import sys

import numpy as np
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

sys.dont_write_bytecode = True  # beside the sources

import foreign_flow
import foreign_models
import foreign_ops
import golden_events
import golden_saved_models

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


def optimizers(step):
    """By name; those of TensorFlow 1 that have rates computed from the step among them."""
    train = v1.train
    return {
        "adadelta": lambda: train.AdadeltaOptimizer(1.0), "adagrad": lambda: train.AdagradOptimizer(0.1),
        "adam": lambda: train.AdamOptimizer(train.exponential_decay(0.1, step, 2, 0.5)),
        "descent": lambda: train.GradientDescentOptimizer(train.exponential_decay(0.5, step, 2, 0.5, staircase=True)),
        "ftrl": lambda: train.FtrlOptimizer(0.5, l1_regularization_strength=0.01, l2_regularization_strength=0.02),
        "ftrl_v2": lambda: train.FtrlOptimizer(0.5, -0.4, l2_shrinkage_regularization_strength=0.1),
        "momentum": lambda: train.MomentumOptimizer(train.polynomial_decay(0.1, step, 4, 0.01), 0.9),
        "proximal": lambda: train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.02),
        "proximal_adagrad": lambda: train.ProximalAdagradOptimizer(0.1, 0.1, 0.01, 0.02),
        "rmsprop": lambda: train.RMSPropOptimizer(train.cosine_decay(0.1, step, 10)),
        "rmsprop_centered": lambda: train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    }


def raw_updates(w, gradient):
    """Updates for which TensorFlow 1 has no optimizer, by name: they are for resource Variables."""
    slot = v1.get_variable("slot", initializer=tf.zeros_like(w.initial_value))
    other = v1.get_variable("other", initializer=tf.zeros_like(w.initial_value))
    third = v1.get_variable("third", initializer=tf.zeros_like(w.initial_value))
    number = tf.constant
    both = {"var": w.handle, "m": slot.handle, "lr": number(0.1), "beta": number(0.9), "grad": gradient}
    return {
        "adamax": lambda: tf.raw_ops.ResourceApplyAdaMax(
            var=w.handle, m=slot.handle, v=other.handle, beta1_power=number(0.9), lr=number(0.1), beta1=number(0.9),
            beta2=number(0.99), epsilon=number(1e-7), grad=gradient),
        "amsgrad": lambda: tf.raw_ops.ResourceApplyAdamWithAmsgrad(
            var=w.handle, m=slot.handle, v=other.handle, vhat=third.handle, beta1_power=number(0.9),
            beta2_power=number(0.99), lr=number(0.1), beta1=number(0.9), beta2=number(0.99), epsilon=number(1e-7),
            grad=gradient),
        "add_sign": lambda: tf.raw_ops.ResourceApplyAddSign(**both, alpha=number(1.0), sign_decay=number(0.9)),
        "power_sign": lambda: tf.raw_ops.ResourceApplyPowerSign(**both, logbase=number(1.0), sign_decay=number(0.9)),
        "scatter": lambda: tf.raw_ops.ResourceScatterAdd(resource=w.handle, indices=[2, 0], updates=-gradient[:2]),
    }


def write_training(folder):
    """Each optimizer with a Variable of its own, in which a lookup of embeddings may read."""
    raw = ("adamax", "amsgrad", "add_sign", "power_sign", "scatter")
    for name, keys in (("training1", ("adadelta", "adam", "ftrl", "momentum", "proximal_adagrad")),
                       ("training2", ("adagrad", "descent", "ftrl_v2", "proximal", "rmsprop", "rmsprop_centered", *raw))):
        resource = name == "training2"
        with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=resource):
            step = v1.train.get_or_create_global_step()
            x, ids = v1.placeholder(tf.float32, [None, 3], "x"), v1.placeholder(tf.int32, [None], "ids")
            trains = []

            for key in keys:
                with v1.variable_scope(key):
                    w = v1.get_variable("w", initializer=np.linspace(-1, 1, 6).reshape(3, 2).astype(np.float32))
                    rows = tf.nn.embedding_lookup(w, ids) if key in ("momentum", "scatter") else tf.matmul(x, w)
                    loss = tf.nn.l2_loss(rows - 1, "loss")
                    gradient = tf.convert_to_tensor(tf.gradients(loss, [w])[0])
                    trains.append(raw_updates(w, gradient)[key]() if key in raw
                                  else optimizers(step)[key]().apply_gradients([(gradient, w)]))
            with tf.control_dependencies(trains):
                tf.group(v1.assign_add(step, 1), name="train")
            tf.group(v1.global_variables_initializer(), name="init")
            v1.summary.scalar("step", step)
            v1.train.Saver()
        values = {"x": X, "ids": np.array([0, 2, 2], np.int32)}
        feeds = {"x:0": values["x"], "ids:0": values["ids"]}
        losses = [each.name[:-len("/loss")] for each in graph.get_operations() if each.name.endswith("/loss")]
        with v1.Session(graph=graph) as session:
            session.run("init")
            for i in range(5):
                for key in losses:
                    values[f"{key}/{i}"] = session.run(f"{key}/loss:0", feeds)
                session.run("train", feeds)
        (folder / f"{name}.pb").write_bytes(bytes_of(graph.as_graph_def()))
        expected(folder / f"{name}.expected.pb", values)


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

    write_old_checkpoint(folder)

    with network(False, lambda: v1.train.AdamOptimizer(0.5)).as_default(), v1.Session() as session:
        session.run("init")
        v1.train.Saver().save(session, str(folder / "checkpoint_saver"), write_meta_graph=False, write_state=False)

    model = tf.Module()
    model.w = tf.Variable([[1.0, 2.0]])
    model.layers = [tf.Variable(3.0)]
    tf.train.Checkpoint(model=model, step=tf.Variable(5, dtype=tf.int64)).write(str(folder / "checkpoint_objects"))


def write_old_checkpoint(folder):
    """A checkpoint V1, and the same tensors as V2."""
    numbers = tf.constant([[0, 1, 2], [3, 0, 127]])
    types = (tf.bool, tf.uint8, tf.int8, tf.int16, tf.int32, tf.int64, tf.float16, tf.float32, tf.float64)
    tensors = [(dtype.name, tf.cast(numbers, dtype), "") for dtype in types]
    whole = tf.reshape(tf.range(24, dtype=tf.float32), [4, 6])
    tensors += [("scalar", tf.constant(1.5), ""), ("empty", tf.zeros([3, 0, 2]), ""), ("tiles", whole[:2, :3], "4 6 0,2:0,3"),
                ("tiles", whole[:2, 3:], "4 6 0,2:3,3"), ("tiles", whole[2:], "4 6 2,2:-"), ("text", tf.constant(["a", "bc"]), "")]
    names, values, slices = (list(each) for each in zip(*tensors))
    tf.raw_ops.SaveSlices(filename=str(folder / "checkpoint_old"), tensor_names=names, shapes_and_slices=slices, data=values)
    save_tensors(folder / "checkpoint_old_as_new", list(zip(names, values)), slices)


def some_examples():
    """Messages of tf.Example: usual ones, and ones that no writer of today makes but every reader must take."""
    def feature(**lists):
        return tf.train.Feature(**lists)

    examples = []
    for i in range(12):
        features = {"x": feature(float_list=tf.train.FloatList(value=[i / 4, -i])),
                    "n": feature(int64_list=tf.train.Int64List(value=[3**(j + i) * (-1)**i for j in range(i % 4)])),
                    "s": feature(bytes_list=tf.train.BytesList(value=[b"\x00text\xff" * i])),
                    "tags": feature(bytes_list=tf.train.BytesList(value=[b"red", b"blue", b"?"][:i % 4])),
                    "unused": feature(float_list=tf.train.FloatList(value=[1]))}
        if i % 5 == 3:
            del features["x"]
        if i % 5 == 4:
            features["x"].Clear()
        if i % 6 == 5:
            del features["n"], features["tags"]
        example = tf.train.Example(features=tf.train.Features(feature=features))
        examples.append(example.SerializeToString(deterministic=True))

    def message(field, data):
        assert len(data) < 128
        return bytes([field << 3 | 2, len(data)]) + data

    def entry(key, value):
        return message(1, message(1, key) + message(2, value))

    half, text = np.float32(0.5).tobytes(), entry(b"s", message(1, message(1, b"text")))
    unpacked_floats = entry(b"x", message(2, b"\x0d" + half + b"\x0d" + half))
    unpacked_integers = entry(b"n", message(3, b"\x08\x05\x08" + b"\xff" * 9 + b"\x01"))
    other_x = entry(b"x", message(2, message(1, half + np.float32(7).tobytes())))
    examples.append(message(1, unpacked_floats + unpacked_integers + text))
    examples.append(message(1, unpacked_floats + text + other_x))  # the last value counts
    examples.append(message(1, entry(b"n", b"") + text))
    return examples


def write_records(folder):
    examples = some_examples()
    for ending, compression in (("", ""), (".gz", "GZIP"), (".zlib", "ZLIB")):
        with tf.io.TFRecordWriter(str(folder / f"examples.tfrecord{ending}"), compression) as writer:
            for each in examples:
                writer.write(each)
    parsed = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([2], tf.float32, [-1.5, -1.5]),
                                            "n": tf.io.VarLenFeature(tf.int64), "s": tf.io.FixedLenFeature([], tf.string),
                                            "tags": tf.io.VarLenFeature(tf.string)})
    values = {"x": parsed["x"], "n": tf.sparse.to_dense(parsed["n"], -7),
              "s": tf.strings.to_hash_bucket_fast(parsed["s"], 1000)}
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(["blue", "red"], tf.constant([0, 1], tf.int64)), 5)
    tags = tf.sparse.to_dense(parsed["tags"], "blue")
    values["tags"] = table.lookup(tags)
    # Every length that the hash treats in a way of its own, and more.
    texts = [bytes(j * 7 % 256 for j in range(length)) for length in range(200)]
    values["hashes"] = tf.strings.to_hash_bucket_fast(texts, 2**63 - 1)
    for cycle, block in ((1, 1), (2, 2), (3, 1), (3, 4), (9, 2)):
        stream = tf.data.Dataset.range(8).interleave(
            lambda x: tf.data.Dataset.range(10 * x, 10 * x + x * 5 % 7), cycle_length=cycle, block_length=block)
        values[f"interleave_{cycle}_{block}"] = list(stream.as_numpy_iterator())
    expected(folder / "examples.expected.pb", {name: np.asarray(value) for name, value in values.items()})


def write_metrics(folder):
    numbers = np.random.default_rng(1)
    count = 300
    labels = numbers.integers(0, 2, count)
    probabilities = np.clip(np.round(numbers.uniform(-0.3, 1.3, count) * 0.6 + labels * 0.4, 2), 0, 1).astype(np.float32)
    classes, scores = numbers.integers(0, 5, count), numbers.normal(size=(count, 5)).astype(np.float32)
    weights = numbers.uniform(size=count).astype(np.float32)
    values = {"labels": labels, "probabilities": probabilities, "classes": classes, "scores": scores, "weights": weights}
    metrics = tf.keras.metrics
    for name, metric, truth, predictions in (
            ("binary_accuracy", metrics.BinaryAccuracy(), labels, probabilities),
            ("accuracy", metrics.SparseCategoricalAccuracy(), classes, scores),
            ("top_k", metrics.SparseTopKCategoricalAccuracy(k=2), classes, scores),
            ("precision", metrics.Precision(thresholds=0.3), labels, probabilities),
            ("recall", metrics.Recall(thresholds=0.3), labels, probabilities),
            ("auc", metrics.AUC(), labels, probabilities),
            ("auc_20", metrics.AUC(num_thresholds=20), labels, probabilities)):
        for weight in (None, weights):
            metric.reset_state()
            metric.update_state(truth, predictions, sample_weight=weight)
            values[name + ("" if weight is None else "_weighted")] = np.float32(metric.result())
    values["confusion"] = tf.math.confusion_matrix(classes, scores.argmax(-1), 5)
    expected(folder / "metrics.expected.pb", values)


def accept_ours(folder):
    for path in sorted(folder.glob("tapestry*.pb")):
        graph_def = v1.GraphDef()
        graph_def.ParseFromString(path.read_bytes())
        with tf.Graph().as_default():
            tf.import_graph_def(graph_def, name="")
        print(f"TensorFlow {tf.__version__} accepts {path.name}: {len(graph_def.node)} nodes")


def main(folder):
    write_graphs(folder)
    write_training(folder)
    write_text(folder)
    write_foreign(folder)
    foreign_ops.write(folder / "foreign_ops.pb", bytes_of, expected)
    foreign_flow.write_golden_cases(folder / "flow")
    write_checkpoints(folder)
    write_records(folder)
    write_metrics(folder)
    golden_saved_models.write(folder, expected)
    golden_events.write(folder)
    accept_ours(folder)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
