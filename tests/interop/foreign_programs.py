"""Writes what others write with TensorFlow: frozen Keras layers, training programs, SavedModels, branches and loops.

usage: foreign_programs.py FOLDER

Each case is FOLDER/KIND/NAME.pb, or a SavedModel FOLDER/KIND/NAME, with FOLDER/KIND/NAME.steps.pb beside it: a GraphDef
whose nodes are what is to be done, and what TensorFlow finds (see judgement.hpp): signature, feed, unfeed, run,
fetch; and once, after which the steps are not done with the file that Tapestry writes again."""

import pathlib
import sys

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

sys.dont_write_bytecode = True  # beside the sources

import foreign_compat
import foreign_draws
import foreign_flow
import foreign_functions
import foreign_graphs
import foreign_habits
import foreign_idioms
import foreign_networks
import foreign_papers
import foreign_quantized
import foreign_sequences
import foreign_served
import foreign_sound
import foreign_states
import foreign_studies
import foreign_tensors
import foreign_trainers
import foreign_wild
import golden_saved_models
import write_golden
from foreign_flow import Steps
from foreign_models import points, weights

v1 = tf.compat.v1
keras = tf.keras
layers = keras.layers


def set_weights(model):
    for i, each in enumerate(model.weights):
        if not each.dtype.startswith("float"):
            continue
        value = weights(i, *each.shape)
        each.assign(np.abs(value) + 0.1 if "variance" in each.path else value)


# ---- Keras' layers ----------------------------------------------------------------------------------------------------

LINE, PICTURE, VOLUME, WORDS = (6, 4), (8, 8, 3), (4, 4, 4, 2), (5,)


def single_layers():
    """By name: a layer, and the shapes of its inputs."""
    yield "Dense", layers.Dense(3, "gelu"), [LINE]
    yield "EinsumDense", layers.EinsumDense("abc,cd->abd", (None, 3), bias_axes="d"), [LINE]
    for i, shape in ((1, LINE), (2, PICTURE), (3, VOLUME)):
        for name, options in (("Conv", dict(filters=3, kernel_size=2)), ("MaxPooling", {}), ("AveragePooling", {"pool_size": 2}),
                              ("GlobalMaxPooling", {}), ("GlobalAveragePooling", {}), ("ZeroPadding", {}),
                              ("Cropping", {}), ("UpSampling", {})):
            yield f"{name}{i}D", getattr(layers, f"{name}{i}D")(**options), [shape]
    yield "Conv1D causal", layers.Conv1D(3, 2, padding="causal", dilation_rate=2), [LINE]
    yield "Conv2D in groups", layers.Conv2D(6, 3, padding="same", groups=3, strides=2), [PICTURE]
    yield "Conv3D in groups", layers.Conv3D(4, 2, groups=2), [VOLUME]
    yield "Conv2D dilated", layers.Conv2D(4, 3, padding="same", dilation_rate=2), [PICTURE]
    for i, shape in ((1, LINE), (2, PICTURE)):
        yield f"SeparableConv{i}D", getattr(layers, f"SeparableConv{i}D")(3, 2), [shape]
        yield f"DepthwiseConv{i}D", getattr(layers, f"DepthwiseConv{i}D")(2, depth_multiplier=2), [shape]
    for i, shape in ((1, LINE), (2, PICTURE), (3, VOLUME)):
        yield f"Conv{i}DTranspose", getattr(layers, f"Conv{i}DTranspose")(3, 3, strides=2, padding="same"), [shape]
    yield "UpSampling2D bilinear", layers.UpSampling2D(3, interpolation="bilinear"), [PICTURE]
    for name, options in (("BatchNormalization", {}), ("LayerNormalization", {}), ("UnitNormalization", {}),
                          ("GroupNormalization", {"groups": 3}), ("RMSNormalization", {})):
        yield name, getattr(layers, name)(**options), [PICTURE]
    yield "SpectralNormalization", layers.SpectralNormalization(layers.Dense(3)), [LINE]
    for name in ("ReLU", "LeakyReLU", "PReLU", "ELU", "Softmax"):
        yield name, getattr(layers, name)(), [LINE]
    for name in ("selu", "softplus", "softsign", "swish", "mish", "hard_sigmoid", "hard_silu", "log_softmax", "exponential",
                 "celu", "relu6", "tanh_shrink", "sparse_plus", "squareplus", "log_sigmoid"):
        yield f"Activation {name}", layers.Activation(name), [LINE]
    for name in ("Dropout", "SpatialDropout1D", "GaussianNoise", "GaussianDropout", "AlphaDropout"):
        yield name, getattr(layers, name)(0.3), [LINE]
    for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate"):
        yield name, getattr(layers, name)(), [LINE, LINE]
    yield "Dot", layers.Dot(2, normalize=True), [LINE, LINE]
    yield "Flatten", layers.Flatten(), [PICTURE]
    yield "Reshape", layers.Reshape((2, -1)), [LINE]
    yield "Permute", layers.Permute((2, 1)), [LINE]
    yield "RepeatVector", layers.RepeatVector(3), [(4,)]
    yield "TimeDistributed", layers.TimeDistributed(layers.Dense(2)), [LINE]
    yield "MultiHeadAttention", layers.MultiHeadAttention(2, 3), [LINE, LINE]
    yield "GroupedQueryAttention", layers.GroupQueryAttention(3, 4, 2), [LINE, LINE]
    yield "Attention", layers.Attention(use_scale=True), [[LINE, LINE]]
    yield "AdditiveAttention", layers.AdditiveAttention(), [[LINE, LINE]]
    for name in ("SimpleRNN", "LSTM", "GRU"):
        yield f"{name} unrolled", getattr(layers, name)(3, unroll=True), [LINE]
        yield f"{name} sequences", getattr(layers, name)(3, unroll=True, return_sequences=True, go_backwards=True), [LINE]
        yield name, getattr(layers, name)(3), [LINE]
    yield "Bidirectional", layers.Bidirectional(layers.LSTM(3, unroll=True)), [LINE]
    yield "Embedding", layers.Embedding(9, 4), [WORDS]
    yield "Embedding with a mask", keras.Sequential([layers.Embedding(9, 4, mask_zero=True), layers.GlobalAveragePooling1D()]), [WORDS]
    yield "CategoryEncoding", layers.CategoryEncoding(9, "multi_hot"), [WORDS]
    yield "Discretization", layers.Discretization([-1.0, 0.0, 0.5]), [LINE]
    yield "Normalization", layers.Normalization(mean=0.3, variance=2.0), [LINE]
    yield "Rescaling", layers.Rescaling(0.5, -1), [PICTURE]
    yield "CenterCrop", layers.CenterCrop(4, 6), [PICTURE]
    for method in ("bilinear", "nearest", "bicubic", "area", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"):
        if method != "area" and method != "gaussian" and method != "mitchellcubic":
            yield f"Resizing {method}", layers.Resizing(5, 11, method), [PICTURE]


def write_layers(folder):
    for name, layer, shapes in single_layers():
        nested = isinstance(shapes[0], list)
        flat = shapes[0] if nested else shapes
        dtype = tf.int32 if flat == [WORDS] else tf.float32
        inputs = [keras.Input(shape, dtype=dtype.name, name=f"x{i}") for i, shape in enumerate(flat)]
        merges = nested or type(layer).__name__ in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum",
                                                    "Concatenate", "Dot")
        model = keras.Model(inputs, layer(inputs) if merges else layer(*inputs))
        set_weights(model)
        values = [np.random.RandomState(i).randint(0, 9, (2, *shape)).astype(np.int32) if dtype == tf.int32
                  else points(30 + i, 2, *shape) for i, shape in enumerate(flat)]
        specs = [tf.TensorSpec([None, *shape], dtype, f"x{i}") for i, shape in enumerate(flat)]
        call = tf.function(lambda *x, model=model: model(list(x) if len(x) > 1 else x[0], training=False))
        frozen = convert_variables_to_constants_v2(call.get_concrete_function(*specs))
        steps = Steps()
        for spec, value in zip(specs, values):
            steps.add("feed", spec.name + ":0", value)
        results = frozen(*[tf.constant(value) for value in values])
        for tensor, value in zip(frozen.outputs, results if isinstance(results, (list, tuple)) else [results]):
            steps.add("fetch", tensor.name, value)
        (folder / f"{name}.pb").write_bytes(write_golden.bytes_of(frozen.graph.as_graph_def()))
        steps.save(folder / f"{name}.steps.pb")


# ---- Training programs of TensorFlow 1 --------------------------------------------------------------------------------


def losses():
    """By name: the loss of a model of x [n, 6] and labels [n]."""
    def variable(name, *shape):
        return v1.get_variable(name, initializer=weights(len(name), *shape))

    def classes(logits, labels):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    def dense(x, labels):
        hidden = tf.nn.relu(v1.nn.xw_plus_b(x, variable("w", 6, 8), variable("b", 8)))
        return classes(tf.matmul(hidden, variable("out", 8, 3)), labels)

    def picture(x, labels):
        image = tf.reshape(x, [-1, 3, 2, 1])
        hidden = tf.nn.conv2d(image, variable("filters", 2, 2, 1, 4), 1, "SAME")
        mean, variance = tf.nn.moments(hidden, [0, 1, 2])
        hidden = tf.nn.batch_normalization(hidden, mean, variance, variable("beta", 4), variable("gamma", 4), 1e-3)
        hidden = tf.nn.max_pool2d(tf.nn.elu(hidden), 2, 1, "VALID")
        return classes(tf.matmul(tf.reshape(hidden, [tf.shape(x)[0], -1]), variable("out", 8, 3)), labels)

    def embedding(x, labels):
        rows = tf.gather(variable("table", 3, 4), labels)
        return tf.reduce_mean(tf.square(tf.matmul(rows, variable("w", 4, 6)) - x)) + 0.01 * tf.nn.l2_loss(rows)

    def rows(x, labels):
        """Gradients of some rows of the table."""
        return embedding(x, labels) + tf.reduce_sum(tf.gather(variable("other", 5, 2), labels * 2))

    def cell(x, labels):
        kernel, bias, state = variable("kernel", 4, 8), variable("bias", 8), tf.zeros([tf.shape(x)[0], 2])
        memory = state
        for part in tf.split(x, 3, 1):
            i, j, f, o = tf.split(tf.nn.bias_add(tf.matmul(tf.concat([part, state], 1), kernel), bias), 4, 1)
            memory = memory * tf.sigmoid(f + 1) + tf.sigmoid(i) * tf.tanh(j)
            state = tf.tanh(memory) * tf.sigmoid(o)
        return classes(tf.matmul(state, variable("out", 2, 3)), labels)

    def gaussian(x, labels):
        mean, scale = variable("mean", 6), tf.nn.softplus(variable("scale", 6))
        density = tf.square((x - mean) / scale) / 2 + tf.math.log(scale)
        return tf.reduce_mean(tf.reduce_logsumexp(density, 1)) + tf.reduce_sum(tf.math.lgamma(scale + 1))

    return {each.__name__: each for each in (dense, picture, embedding, rows, cell, gaussian)}


def optimizers(step):
    """More than the golden ones have."""
    train = v1.train
    made = write_golden.optimizers(step)
    made["clipped"] = lambda: train.GradientDescentOptimizer(0.3)
    made["nesterov"] = lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True)
    made["inverse_time"] = lambda: train.AdamOptimizer(train.inverse_time_decay(0.1, step, 2, 0.5))
    made["natural_exp"] = lambda: train.GradientDescentOptimizer(train.natural_exp_decay(0.3, step, 2, 0.5))
    return made


def write_training(folder):
    x, labels = points(40, 5, 6), np.array([0, 2, 1, 1, 0], np.int32)
    cases = [("dense", key) for key in optimizers(None or tf.constant(0))]
    cases += [(loss, key) for loss in ("picture", "embedding", "cell", "gaussian") for key in ("adam", "momentum", "clipped")]
    cases += [("rows", key) for key in ("adagrad", "clipped", "descent", "momentum", "nesterov", "rmsprop")]
    for loss_name, key in cases:
        for style in ("reference", "resource"):
            with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=style == "resource"):
                step = v1.train.get_or_create_global_step()
                x_, labels_ = v1.placeholder(tf.float32, [None, 6], "x"), v1.placeholder(tf.int32, [None], "labels")
                loss = tf.identity(losses()[loss_name](x_, labels_), "loss")
                optimizer = optimizers(step)[key]()
                gradients = [(g if loss_name == "rows" else tf.convert_to_tensor(g), v)
                             for g, v in optimizer.compute_gradients(loss)]
                if key == "clipped":
                    clipped, _ = tf.clip_by_global_norm([g for g, _ in gradients], 0.2)
                    gradients = list(zip(clipped, [v for _, v in gradients]))
                tf.group(optimizer.apply_gradients(gradients, step), name="train")
                v1.summary.scalar("loss_curve", loss)
                v1.train.Saver()
                tf.group(v1.global_variables_initializer(), name="init")
            steps = Steps()
            steps.add("feed", "x:0", x)
            steps.add("feed", "labels:0", labels)
            with v1.Session(graph=graph) as session:
                session.run("init")
                steps.add("run", "init")
                for _ in range(4):
                    feeds = {"x:0": x, "labels:0": labels}
                    steps.add("fetch", "loss:0", session.run("loss:0", feeds))
                    session.run("train", feeds)
                    steps.add("run", "train")
            name = f"{loss_name} by {key}, {style}"
            (folder / f"{name}.pb").write_bytes(write_golden.bytes_of(graph.as_graph_def()))
            steps.save(folder / f"{name}.steps.pb")


# ---- SavedModels ------------------------------------------------------------------------------------------------------


def keras_models():
    text = keras.Sequential([keras.Input((5,), dtype="int32"), layers.Embedding(9, 4),
                             layers.Bidirectional(layers.GRU(3, unroll=True)), layers.Dense(2)])
    picture = keras.Sequential([keras.Input(PICTURE), layers.Conv2D(4, 3, use_bias=False), layers.BatchNormalization(),
                                layers.ReLU(6), layers.DepthwiseConv2D(3), layers.GlobalAveragePooling2D(),
                                layers.Dense(3, "softmax")])
    a, b = keras.Input(LINE, name="a"), keras.Input((4,), name="b")
    mixed = layers.Add()([layers.LayerNormalization()(layers.MultiHeadAttention(2, 2)(a, a)), layers.RepeatVector(6)(b)])
    several = keras.Model({"a": a, "b": b}, {"y": mixed, "total": layers.GlobalMaxPooling1D()(mixed)})
    return {"text": (text, [np.array([[1, 2, 3, 0, 8]], np.int32)]), "picture": (picture, [points(50, 2, *PICTURE)]),
            "several": (several, {"a": points(51, 2, *LINE), "b": points(52, 2, 4)})}


def steps_of(folder, feeds):
    """For each signature that takes these inputs; by position if they are a list."""
    steps, loaded = Steps(), tf.saved_model.load(str(folder))
    for name, signature in loaded.signatures.items():
        names = sorted(signature.structured_input_signature[1])
        given = dict(zip(names, feeds)) if isinstance(feeds, list) else feeds
        if sorted(given) != names:
            continue
        steps.add("signature", name)
        for key, value in given.items():
            steps.add("feed", key, value)
        for key, value in signature(**{key: tf.constant(value) for key, value in given.items()}).items():
            steps.add("fetch", key, value)
    return steps


def write_saved_models(folder):
    for name, (model, feeds) in keras_models().items():
        set_weights(model)
        model.export(str(folder / f"keras {name}"), verbose=False)
        steps_of(folder / f"keras {name}", feeds).save(folder / f"keras {name}.steps.pb")
        tf.saved_model.save(model, str(folder / f"module {name}"))
        steps_of(folder / f"module {name}", feeds).save(folder / f"module {name}.steps.pb")
    own = folder / "points"
    made = golden_saved_models.Points()
    tf.saved_model.save(made, str(own), signatures=made.predict.get_concrete_function(tf.TensorSpec([None, 2], tf.float32, name="x")))
    steps_of(own, [points(53, 3, 2)]).save(folder / "points.steps.pb")
    with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("", use_resource=False):
        x = v1.placeholder(tf.float32, [None, 6], "x")
        labels = v1.placeholder(tf.int32, [None], "labels")
        loss = losses()["dense"](x, labels)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder / "simple"), {"x": x, "labels": labels}, {"loss": loss})
    steps_of(folder / "simple", {"x": points(54, 3, 6), "labels": np.array([0, 1, 2], np.int32)}).save(
        folder / "simple.steps.pb")


def main(folder):
    keras.utils.set_random_seed(1)
    for kind, write in (("layers", write_layers), ("training", write_training), ("saved_models", write_saved_models),
                        ("flow", foreign_flow.write_functions), ("flow_training", foreign_flow.write_training),
                        ("idioms", foreign_idioms.write), ("functions", foreign_functions.write), ("quantized", foreign_quantized.write),
                        ("tensors", foreign_tensors.write),
                        ("networks", foreign_networks.write), ("trainers", foreign_trainers.write),
                        ("sound", foreign_sound.write), ("draws", foreign_draws.write), ("served", foreign_served.write),
                        ("studies", foreign_studies.write), ("states", foreign_states.write),
                        ("graphs", lambda each: foreign_idioms.write(each, foreign_graphs.FAMILIES)),
                        ("habits", lambda each: foreign_idioms.write(each, foreign_habits.FAMILIES)),
                        ("wild", lambda each: foreign_idioms.write(each, foreign_wild.FAMILIES)),
                        ("compat", lambda each: foreign_idioms.write(each, foreign_compat.FAMILIES)),
                        ("papers", lambda each: foreign_idioms.write(each, foreign_papers.FAMILIES)),
                        ("sequences", lambda each: foreign_idioms.write(each, foreign_sequences.FAMILIES))):
        (folder / kind).mkdir(parents=True)
        write(folder / kind)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
