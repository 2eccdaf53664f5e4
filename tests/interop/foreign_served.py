"""Writes SavedModels as they are served: of several signatures, with tables, parts, states and operations that run first,
and Keras' layers that the other networks lack; see foreign_programs.py."""

import pathlib

import numpy as np
import tensorflow as tf

import foreign_keras
from foreign_models import points

v1, keras = tf.compat.v1, tf.keras
layers, Spec = keras.layers, tf.TensorSpec
X, W = points(160, 3, 4), points(161, 4, 3)
SERVE, X_SPEC = "serving_default", [Spec([None, 4], tf.float32, "x")]


class Parts(tf.Module):
    """What a program keeps by name."""


# ---- TensorFlow 1 -----------------------------------------------------------------------------------------------------


def classifier(path):
    """Examples in and names out, beside signatures of numbers."""
    with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("", use_resource=False):
        examples = v1.placeholder(tf.string, [None], "examples")
        parsed = v1.parse_example(examples, {"x": v1.FixedLenFeature([4], tf.float32)})
        x = v1.placeholder_with_default(parsed["x"], [None, 4], "x")
        scores = tf.nn.softmax(v1.nn.xw_plus_b(x, v1.get_variable("w", initializer=W), v1.get_variable("b", initializer=np.float32([1, 0, 1]))))
        values, places = tf.nn.top_k(scores, 2)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.range(3, dtype=tf.int64), tf.constant(["cat", "dog", "cow"])), "?")
        names = table.lookup(tf.cast(places, tf.int64))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        util, made = v1.saved_model.utils, v1.saved_model.signature_def_utils
        builder = v1.saved_model.builder.SavedModelBuilder(path)
        builder.add_meta_graph_and_variables(session, ["serve"], {
            SERVE: made.predict_signature_def({"x": x}, {"scores": scores, "places": places}),
            "predict_images": made.build_signature_def({"images": util.build_tensor_info(x)}, {"scores": util.build_tensor_info(values)}, "tensorflow/serving/predict"),
            "classify": made.classification_signature_def(examples, names, values)}, main_op=v1.tables_initializer(), strip_default_attrs=True)
        builder.save()
    return [(SERVE, {"x": X}), ("predict_images", {"images": X})], []


def first_operation(path):
    """Local variables, which no checkpoint has, and an operation that runs whenever the model is loaded."""
    with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("", use_resource=True):
        x, count = v1.placeholder(tf.float32, [None, 4], "x"), v1.get_local_variable("count", initializer=np.float32(5))
        y = tf.matmul(x, v1.get_variable("w", initializer=W)) * count
        with tf.control_dependencies([v1.local_variables_initializer()]):
            first = tf.group(count.assign(7.0))
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        v1.saved_model.simple_save(session, path, {"x": x}, {"y": y}, legacy_init_op=first)
    return [(SERVE, {"x": X})], []


def in_parts(path):
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.placeholder(tf.int32, [None], "ids")
        by, random = v1.fixed_size_partitioner, v1.random_uniform_initializer
        table = v1.get_variable("table", [8, 4], initializer=random(-1, 1, seed=3), partitioner=by(3))
        columns = v1.get_variable("columns", [4, 6], initializer=random(-1, 1, seed=4), partitioner=by(2, axis=1))
        y = tf.matmul(tf.nn.embedding_lookup(table, ids), tf.convert_to_tensor(columns))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, path, {"ids": ids}, {"y": y})
    return [(SERVE, {"ids": np.int32([0, 7, 3, 3])})], []


def indices_of_file(path):
    """A vocabulary of numbers in a file of the folder of assets, which a collection names."""
    ids = pathlib.Path(path + ".ids.txt")
    ids.write_bytes(b"100\n-5\n33\n42\n")
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.int64, [None], "x")
        table = tf.lookup.StaticVocabularyTable(tf.lookup.TextFileInitializer(str(ids), tf.int64, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                                                              tf.lookup.TextFileIndex.LINE_NUMBER), 2)
        y, size = table.lookup(x), table.size()
        session.run(v1.tables_initializer())
        builder = v1.saved_model.builder.SavedModelBuilder(path)
        signature = v1.saved_model.signature_def_utils.predict_signature_def({"x": x}, {"y": y, "size": size})
        builder.add_meta_graph_and_variables(session, ["serve"], {SERVE: signature}, main_op=v1.tables_initializer(),
                                             assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS))
        builder.save()
    ids.unlink()
    return [(SERVE, {"x": np.int64([100, 42, -5, 7, 0, -12345, 33])})], []


# ---- Functions of TensorFlow 2 ----------------------------------------------------------------------------------------


def saved(path, module, **functions):
    for name, function in functions.items():
        setattr(module, name + "_", function)
    tf.saved_model.save(module, path, signatures=functions)


def ragged(path):
    module = Parts()
    module.table = tf.Variable(points(162, 9, 3))

    @tf.function(input_signature=[Spec([None], tf.int32, "values"), Spec([None], tf.int64, "splits")])
    def serve(values, splits):
        found = tf.gather(module.table, tf.RaggedTensor.from_row_splits(values, splits, validate=False))
        return {"sum": tf.reduce_sum(found, 1), "mean": tf.reduce_mean(found, 1), "max": tf.reduce_max(found, 1), "dense": found.to_tensor(),
                "lengths": found.row_lengths()}
    saved(path, module, serving_default=serve)
    return [(SERVE, {"values": np.int32([1, 2, 3, 8, 0]), "splits": np.int64([0, 2, 2, 5])})], [SERVE]


def tables(path):
    module, lookup = Parts(), tf.lookup
    module.reals = lookup.StaticHashTable(lookup.KeyValueTensorInitializer(tf.constant([3, 9, -4], tf.int64), tf.constant([1.5, 2.5, -3.5])), 0.5)
    module.words = lookup.StaticVocabularyTable(lookup.KeyValueTensorInitializer(tf.constant([10, 20, 35], tf.int64), tf.constant([0, 1, 2], tf.int64)), 2)

    @tf.function(input_signature=[Spec([None], tf.int64, "x")])
    def serve(x):
        return {"reals": module.reals.lookup(x), "words": module.words.lookup(x), "sizes": module.reals.size() * 10 + module.words.size()}
    saved(path, module, serving_default=serve)
    return [(SERVE, {"x": np.int64([3, 35, 9, 20, 11, -12345, 99999])})], []


def file_tables(path):
    """Tables of numbers that files in the folder of assets fill, whose line ends and blanks differ."""
    module, lookup, line = Parts(), tf.lookup, tf.lookup.TextFileIndex.LINE_NUMBER
    pairs, ids = pathlib.Path(path + ".pairs.csv"), pathlib.Path(path + ".ids.txt")
    pairs.write_bytes(b"7,1.5,70\r\n-3, 1e3 ,30\r\n9,0x1p3,90\r\n11,1e99,0\r\n7,1.5,70\r\n+12,-inf,-1")
    ids.write_bytes(b"100\n-5\n33\n42\n")

    def table(default, value, column, key=0, file=pairs, **options):
        options = {"delimiter": ",", **options}
        return lookup.StaticHashTable(lookup.TextFileInitializer(str(file), tf.int64, key, value, column, **options), default)
    module.reals, module.whole, module.small = table(-1.0, tf.float32, 1), table(-1, tf.int64, 2), table(0, tf.int32, 2, vocab_size=2)
    module.lines = table(-1, tf.int64, 2, key=line)
    module.numbers = table(-7, tf.int64, line, key=lookup.TextFileIndex.WHOLE_LINE, file=ids, value_index_offset=10)
    module.words = lookup.StaticVocabularyTable(lookup.TextFileInitializer(str(ids), tf.int64, lookup.TextFileIndex.WHOLE_LINE, tf.int64, line), 3)

    @tf.function(input_signature=[Spec([None], tf.int64, "x")])
    def serve(x):
        return {"reals": module.reals.lookup(x), "whole": module.whole.lookup(x), "small": module.small.lookup(x), "lines": module.lines.lookup(x),
                "numbers": module.numbers.lookup(x), "words": module.words.lookup(x), "sizes": module.reals.size() * 10 + module.words.size()}
    saved(path, module, serving_default=serve)
    for each in (pairs, ids):
        each.unlink()
    return [(SERVE, {"x": np.int64([7, -3, 9, 11, 12, 0, 1, 3, 100, -5, 33, 42, 77, -12345])})], []


def types(path):
    module = Parts()
    module.halves, module.whole, module.flags = tf.Variable(np.float16([1, 2, 3, 4])), tf.Variable(np.int64([1, 2, 3, 4])), tf.Variable([True, False, True, True])

    @tf.function(input_signature=[Spec([None, 4], tf.uint8, "image"), Spec([], tf.bool, "flag"), Spec([], tf.float64, "scale"), Spec([2], tf.float16, "half")])
    def serve(image, flag, scale, half):
        y = tf.cast(image, tf.float32) / 255.0
        y = tf.where(flag, y, 1 - y)
        return {"y": tf.cast(y, tf.float64) * scale, "bytes": tf.cast(tf.clip_by_value(y * 300, 0, 255), tf.uint8), "halves": tf.cast(y, tf.float16) * module.halves,
                "whole": module.whole * tf.cast(tf.cast(image[0], tf.int8), tf.int64), "flags": tf.math.logical_xor(module.flags, flag),
                "saturated": tf.saturate_cast(y * 1000 - 300, tf.uint8), "brain": tf.cast(tf.cast(y, tf.bfloat16) * 2, tf.float32), "square": half * half}
    saved(path, module, serving_default=serve)
    return [(SERVE, {"image": np.uint8([[0, 3, 128, 255]]), "flag": np.bool_(False), "scale": np.float64(2.5), "half": np.float16([1.5, 2])})], []


def reusable(path):
    """A model as TensorFlow Hub has it, with a moving average, nested variables and losses of its own."""
    module = Parts()
    module.w, module.mean = tf.Variable(W, name="w"), tf.Variable(tf.zeros([3]), trainable=False, name="mean")
    module.nested = {"a": tf.Variable(2.0), "b": [tf.Variable([1.0, 2, 3]), tf.Variable(3)]}

    @tf.function
    def call(x, training=False):
        y = x @ module.w
        if training:
            module.mean.assign(module.mean * 0.9 + tf.reduce_mean(y, 0) * 0.1)
        y = y - (tf.reduce_mean(y, 0) if training else module.mean)
        return {"y": y * module.nested["a"], "z": (y + module.nested["b"][0], tf.cast(module.nested["b"][1], tf.float32))}

    def flat(made):
        return {"y": made["y"], "z0": made["z"][0], "z1": made["z"][1]}
    saved(path, module, serving_default=tf.function(lambda x: flat(call(x)), X_SPEC), train=tf.function(lambda x: flat(call(x, training=True)), X_SPEC),
          penalty=tf.function(lambda: 0.01 * tf.nn.l2_loss(module.w), []))
    return [(SERVE, {"x": X}), ("train", {"x": X}), (SERVE, {"x": X}), ("penalty", {})], [SERVE]


def open_shapes(path):
    """Sizes, a rank and a number of steps that only a call knows."""
    module = Parts()
    module.w = tf.Variable(W)

    @tf.function(input_signature=[Spec([None, None], tf.float32, "x"), Spec([], tf.int32, "k"), Spec(None, tf.float32, "any")])
    def serve(x, k, any):
        y = x @ module.w
        top, i, sum_ = tf.math.top_k(y, k), tf.constant(0), tf.zeros_like(y)
        while i < k:
            sum_ += y * tf.cast(i, tf.float32)
            if tf.reduce_sum(sum_) > 10.0:
                break
            i += 1
        return {"values": top.values, "indices": top.indices, "sum": sum_, "rank": tf.rank(any), "total": tf.reduce_sum(any)}
    saved(path, module, serving_default=serve)
    return [(SERVE, {"x": X, "k": np.int32(2), "any": points(9, 2, 3)}), (SERVE, {"x": X[:1], "k": np.int32(3), "any": np.float32(4)})], [SERVE]


def trains(path):
    """A step of training as a signature, with an average of what it trains."""
    module = Parts()
    module.w, module.average, module.steps = tf.Variable(W), tf.Variable(W, trainable=False), tf.Variable(0, dtype=tf.int64)
    module.optimizer = keras.optimizers.AdamW(0.05)
    module.optimizer.build([module.w])

    @tf.function(input_signature=[*X_SPEC, Spec([None], tf.int32, "labels")])
    def train(x, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, x @ module.w))
        gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, [module.w]), 0.5)
        module.optimizer.apply_gradients(zip(gradients, [module.w]))
        module.steps.assign_add(1)
        module.average.assign(module.average * 0.9 + module.w * 0.1)
        return {"loss": loss, "norm": norm, "step": module.steps.read_value(), "average": module.average.read_value()}
    saved(path, module, train=train)
    return [("train", {"x": X, "labels": np.int32([0, 2, 1])})] * 4, []


def names_out(path):
    """A signature that gives texts harms none of numbers."""
    module = Parts()
    module.names, module.w = tf.constant(["a", "b", "c"]), tf.Variable(W)
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(["x", "y"]), tf.constant([0, 1], tf.int64)), -1)
    saved(path, module, scores=tf.function(lambda x: {"y": x @ module.w}, X_SPEC),
          names=tf.function(lambda x: {"best": tf.gather(module.names, tf.argmax(x @ module.w, 1))}, X_SPEC))
    return [("scores", {"x": X})], ["scores"]


# ---- Keras ------------------------------------------------------------------------------------------------------------


def archived(path, model, spec, trains=True, **endpoints):
    """`endpoints` beside "serve", and "train"."""
    def named(made):
        return {f"y{i}": each for i, each in enumerate(made)} if isinstance(made, list) else {"y": made}
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", lambda x: named(model(x)), [spec])
    if trains:
        archive.add_endpoint("train", lambda x: named(model(x, training=True)), [spec])
    for name, (function, own) in endpoints.items():
        archive.add_endpoint(name, function, [own])
    archive.write_out(path, verbose=False)


def prepared(path):
    """Layers that prepare numbers, some of which have looked at data."""
    inputs = {"age": keras.Input((1,), name="age"), "kind": keras.Input((1,), dtype="int64", name="kind"), "tags": keras.Input((3,), dtype="int64", name="tags")}
    normal, bins, look = layers.Normalization(), layers.Discretization(num_bins=4), layers.IntegerLookup(output_mode="one_hot")
    normal.adapt(np.float32([[1], [2], [5]]))
    bins.adapt(np.float32(range(1, 9)))
    look.adapt(np.int64([4, 4, 7, 9]))
    hashed = layers.Flatten()(layers.Embedding(5, 2)(layers.Hashing(5)(inputs["kind"])))
    first = layers.Lambda(lambda each: each[:, :1], output_shape=(1,))(inputs["tags"])
    parts = [normal(inputs["age"]), layers.CategoryEncoding(4, "one_hot")(bins(inputs["age"])), look(inputs["kind"]),
             layers.IntegerLookup(vocabulary=[3, 5, 8], output_mode="multi_hot", num_oov_indices=2)(inputs["tags"]), hashed,
             layers.HashedCrossing(6, output_mode="one_hot")((inputs["kind"], first))]
    outputs = {f"part{i}": part for i, part in enumerate(parts)}
    keras.Model(inputs, {"y": layers.Dense(2)(layers.Concatenate()(parts)), **outputs}).export(path, verbose=False)
    return [(SERVE, {"age": np.float32([[2], [7.5]]), "kind": np.int64([[7], [5]]), "tags": np.int64([[3, 8, 1], [5, 5, 2]])})], [SERVE]


def changed_at_random(path):
    x = y = keras.Input((8, 8, 3), name="x")
    for layer in (layers.RandomFlip(seed=1), layers.RandomRotation(0.2, seed=2), layers.RandomZoom(0.2, seed=3), layers.RandomTranslation(0.1, 0.1, seed=4),
                  layers.RandomContrast(0.3, seed=5), layers.RandomBrightness(0.2, seed=6, value_range=(0, 1)), layers.RandomCrop(6, 6, seed=7)):
        y = layer(y)
    archived(path, keras.Model(x, y), Spec([2, 8, 8, 3], tf.float32, "x"))
    image = np.abs(points(170, 2, 8, 8, 3)) / 3
    return [("train", {"x": image}), ("serve", {"x": image})] * 2, []


def bent_at_random(path):
    x, between = keras.Input((8, 8, 3), name="x"), {"value_range": (0, 1)}
    y = layers.RandomElasticTransform(seed=1)(layers.RandomPerspective(seed=2)(layers.RandomShear(0.2, 0.1, seed=3)(x)))
    y = layers.RandomErasing(seed=4)(layers.RandomGaussianBlur(seed=5, **between)(layers.RandomSharpness(0.5, seed=6, **between)(y)))
    z = layers.RandomHue(0.2, seed=7, **between)(layers.RandomSaturation(0.5, seed=8, **between)(layers.RandomGrayscale(seed=9)(x)))
    z = layers.RandomPosterization(3, seed=10, **between)(layers.RandomInvert(seed=11, **between)(layers.AutoContrast(**between)(z)))
    archived(path, keras.Model(x, [y, layers.RandAugment(seed=12, **between)(x), z]), Spec([2, 8, 8, 3], tf.float32, "x"))
    image = np.abs(points(175, 2, 8, 8, 3)) / 3
    return [("train", {"x": image}), ("serve", {"x": image})] * 2, []


def attends(path):
    encoder = keras.Sequential([keras.Input((6, 4)), layers.Conv1D(4, 3, padding="same", activation="gelu"), layers.GroupNormalization(2),
                                layers.Bidirectional(layers.GRU(3, return_sequences=True), merge_mode="ave")], name="encoder")
    a, b = keras.Input((6, 4), name="a"), keras.Input((6, 4), name="b")
    u, v = encoder(a), encoder(b)
    y = layers.Concatenate()([layers.Attention(score_mode="dot")([u, v]), layers.AdditiveAttention()([u, v]),
                              layers.MultiHeadAttention(2, 3, value_dim=2, output_shape=5)(u, v, use_causal_mask=True)])
    y = layers.UnitNormalization()(layers.TimeDistributed(layers.Dense(3, activation="swish"))(y))
    pooled = layers.Dense(2, kernel_regularizer="l2", kernel_constraint="max_norm")(layers.GlobalMaxPooling1D()(y))
    model = keras.Model({"a": a, "b": b}, {"pooled": pooled, "near": layers.Dot(1)([layers.Flatten()(u), layers.Flatten()(v)]), "share": layers.Softmax(axis=1)(y)})
    foreign_keras.set_weights(model)
    model.export(path, verbose=False)
    return [(SERVE, {"a": points(171, 2, 6, 4), "b": points(172, 2, 6, 4)})], [SERVE]


def moving_volumes(path):
    x = keras.Input((3, 6, 6, 2), name="x")
    y = layers.ConvLSTM2D(2, 2, return_sequences=True, padding="same")(x)
    y = layers.TimeDistributed(layers.Conv2DTranspose(3, 2, strides=2, output_padding=1, padding="same"))(y)
    y = layers.Conv3DTranspose(2, 2, strides=(1, 2, 2))(layers.Conv3D(2, 2, dilation_rate=(1, 2, 2))(y))
    y = layers.SpatialDropout3D(0.3)(layers.Cropping3D(((0, 1), (2, 1), (1, 1)))(layers.ZeroPadding3D(1)(y)))
    y = layers.AveragePooling3D(2, strides=1, padding="same")(y)
    z = layers.UpSampling1D(2)(layers.ConvLSTM1D(2, 2)(layers.Reshape((3, 6, 12))(x)))
    model = keras.Model(x, [y, z])
    foreign_keras.set_weights(model)
    model.export(path, verbose=False)
    return [(SERVE, {"x": points(173, 2, 3, 6, 6, 2)})], [SERVE]


def normalized_filters(path):
    x = keras.Input((8, 8, 2), name="x")
    y = layers.SpectralNormalization(layers.Conv2D(3, 3), power_iterations=2)(x)
    y = layers.BatchNormalization()(layers.SeparableConv2D(4, 3, depth_multiplier=2, dilation_rate=2, padding="same")(y))
    y = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(4, 1, groups=2)(y))
    y = layers.Resizing(5, 7, antialias=True)(layers.Permute((2, 3, 1))(layers.Permute((3, 1, 2))(y)))
    y = layers.GlobalAveragePooling2D(keepdims=True)(layers.Rescaling(2.0, -1)(layers.CenterCrop(3, 4)(y)))
    model = keras.Model(x, y)
    foreign_keras.set_weights(model)
    archived(path, model, Spec([None, 8, 8, 2], tf.float32, "x"))
    image = points(174, 2, 8, 8, 2)
    return [("train", {"x": image}), ("serve", {"x": image})] * 2, ["serve", "train"]


def texts_in(path):
    """A layer of texts before the model, which is served without it, too."""
    words = layers.TextVectorization(max_tokens=9, output_sequence_length=4, vocabulary=["the", "cat", "sat", "on", "mat"])
    words.build((None,))
    model = keras.Sequential([keras.Input((4,), dtype="int64"), layers.Embedding(9, 3, mask_zero=True), layers.LSTM(3), layers.Dense(2)])
    foreign_keras.set_weights(model)
    model.words = words
    archived(path, model, Spec([None, 4], tf.int64, "ids"), trains=False, texts=(lambda text: {"y": model(words(text))}, Spec([None], tf.string, "text")))
    return [("serve", {"ids": np.int64([[1, 2, 3, 0], [4, 0, 0, 0]])})], ["serve"]


MODELS = (classifier, first_operation, in_parts, indices_of_file, ragged, tables, file_tables, types, reusable, open_shapes, trains, names_out, prepared,
          changed_at_random, bent_at_random, attends, moving_volumes, normalized_filters, texts_in)


def write(folder, models=MODELS):
    for make in models:
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        path = folder / make.__name__
        calls, differentiate = make(str(path))
        foreign_keras.steps_of(path, calls, differentiate).save(folder / f"{make.__name__}.steps.pb")
