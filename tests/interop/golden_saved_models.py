"""Writes the SavedModels that TensorFlow and Keras contribute to tests/golden."""

import numpy as np
import tensorflow as tf

import foreign_models

v1 = tf.compat.v1


class Points(tf.Module):
    """Two signatures, one of which changes a Variable; a function that calls another one; a type that others lack."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[1.0, 2.0], [3.0, 4.0]], name="w")
        self.b = tf.Variable([0.5, -0.5], name="b")
        self.calls = tf.Variable(7, trainable=False, name="calls", dtype=tf.int64)
        self.title = tf.Variable("points", trainable=False, name="title")

    @tf.function
    def predict(self, x):
        y = tf.matmul(x, self.w) + self.b
        top, index = tf.math.top_k(y, k=1)
        return {"y": tf.nn.relu(y), "top": top, "index": index}

    @tf.function
    def count(self, by):
        self.calls.assign_add(by)
        return {"calls": self.calls.read_value()}


def write_saved_models(folder):
    points = Points()
    tf.saved_model.save(points, str(folder / "saved_model2"), signatures={
        "serving_default": points.predict.get_concrete_function(tf.TensorSpec([None, 2], tf.float32, name="x")),
        "count": points.count.get_concrete_function(tf.TensorSpec([], tf.int64, name="by"))})
    with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("layer", use_resource=False):
        x = v1.placeholder(tf.float32, [None, 2], "x")
        w = v1.get_variable("w", initializer=np.array([[1, 2, 3], [4, 5, 6]], np.float32))
        b = v1.get_variable("b", initializer=np.array([1, 0, -1], np.float32))
        v1.get_variable("step", initializer=np.int64(3), trainable=False)
        parts = v1.get_variable("parts", [4], initializer=v1.constant_initializer(2),
                                partitioner=v1.fixed_size_partitioner(2))
        y = tf.add(tf.matmul(x, w), b, name="y") + tf.reduce_sum(tf.convert_to_tensor(parts))
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder / "saved_model1"), {"x": x}, {"y": y})


class Words(tf.Module):
    """A signature with numbers, and one with texts, which a table from a file makes numbers."""

    def __init__(self, vocabulary):
        super().__init__()
        file = tf.lookup.TextFileInitializer(vocabulary, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                                             tf.lookup.TextFileIndex.LINE_NUMBER)
        self.table = tf.lookup.StaticHashTable(file, -1)
        self.w = tf.Variable([0.5, 1.5, 2.5, 3.5], name="w")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="words")])
    def look_up(self, words):
        return {"y": tf.gather(self.w, self.table.lookup(words) + 1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def scale(self, x):
        return {"y": x * self.w[1]}


class Texts(tf.Module):
    """Signatures that get and give texts: tf.Examples, labels, digits, and what the client sent."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[0.5, -0.5], [1.0, 2.0], [-1.5, 0.25]], name="w")
        self.labels = tf.constant(["cat", "dog"])

        def table(keys, values, default):
            return tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant(keys), tf.constant(values)), default)

        self.ids = table(["cat", "dog"], tf.constant([10, 20], tf.int64), -1)
        self.sounds = table(["dog", "cat"], ["woof", "meow"], "?")
        self.names = table(tf.constant([1, 2], tf.int64), ["cat", "dog"], "nobody")

    def scores(self, examples):
        features = {"x": tf.io.FixedLenFeature([3], tf.float32), "n": tf.io.FixedLenFeature([], tf.int64, 7),
                    "name": tf.io.FixedLenFeature([], tf.string, "nobody")}
        parsed = tf.io.parse_example(examples, features)
        return parsed["x"] @ self.w + tf.cast(parsed["n"], tf.float32)[:, None], parsed["name"]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
    def classify(self, inputs):
        scores, _ = self.scores(inputs)
        return {"classes": tf.tile(self.labels[None, :], [tf.shape(scores)[0], 1]), "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])
    def regress(self, inputs):
        return {"outputs": self.scores(inputs)[0][:, 1]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples"), tf.TensorSpec([None, 2], tf.string, "keys")])
    def label(self, examples, keys):
        scores, name = self.scores(examples)
        best = tf.argmax(scores, 1)
        return {"label": tf.gather(self.labels, best), "best": tf.strings.as_string(best - 1), "name": name,
                "key_bytes": keys[:, ::-1], "scores": scores}

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.string, "words")])
    def look_up(self, words):
        ids = self.ids.lookup(words)
        return {"ids": ids, "sounds": self.sounds.lookup(words), "names": self.names.lookup(ids // 10)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "numbers")])
    def look_up_digits(self, numbers):
        return {"ids": self.ids.lookup(tf.strings.as_string(numbers))}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "texts")])
    def longer(self, texts):
        return {"longer": tf.strings.join([texts, "!"])}


def write_text_model(folder):
    texts = Texts()
    tf.saved_model.save(texts, str(folder / "saved_model_texts"), signatures={
        "serving_default": texts.classify, "regress": texts.regress, "label": texts.label, "longer": texts.longer,
        "look_up": texts.look_up, "look_up_digits": texts.look_up_digits})


class Digits(tf.Module):
    """Numbers written as texts, examples that are parsed twice, and tables of a part of a file, counted from 5."""

    def __init__(self, vocabulary):
        super().__init__()
        file = tf.lookup.TextFileInitializer
        whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        part = {"filename": vocabulary, "vocab_size": 2, "value_index_offset": 5}
        self.ids = tf.lookup.StaticHashTable(file(key_dtype=tf.string, key_index=whole, value_dtype=tf.int64, value_index=line,
                                                  **part), -1)
        self.words = tf.lookup.StaticHashTable(file(key_dtype=tf.int64, key_index=line, value_dtype=tf.string, value_index=whole,
                                                    **part), "none")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "words")])
    def look_up(self, words):
        ids = self.ids.lookup(words)
        return {"ids": ids, "words": self.words.lookup(ids), "next": self.words.lookup(ids + 1)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "numbers"), tf.TensorSpec([None], tf.string, "words")])
    def write(self, numbers, words):
        return {"digits": tf.strings.as_string(numbers), "both": tf.concat([words, tf.strings.as_string(numbers), ["end"]], 0)}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def parse(self, examples):
        first = tf.io.parse_example(examples, {"n": tf.io.FixedLenFeature([], tf.int64, 1)})["n"]
        second = tf.io.parse_example(examples, {"n": tf.io.FixedLenFeature([1], tf.int64, 5),
                                                "w": tf.io.FixedLenFeature([], tf.string, "none")})
        return {"digits": tf.strings.as_string(first), "sum": first + second["n"][:, 0], "w": second["w"]}


def write_digits_model(folder):
    vocabulary = folder / "words.txt"
    vocabulary.write_text("one\ntwo\nthree\n")
    digits = Digits(str(vocabulary))
    tf.saved_model.save(digits, str(folder / "saved_model_digits"), signatures={
        "serving_default": digits.write, "parse": digits.parse, "look_up": digits.look_up})
    vocabulary.unlink()


def write_table_model(folder):
    vocabulary = folder / "words.txt"
    vocabulary.write_text("one\ntwo\nthree\n")
    words = Words(str(vocabulary))
    tf.saved_model.save(words, str(folder / "saved_model_table"), signatures={"serving_default": words.scale,
                                                                              "look_up": words.look_up})
    vocabulary.unlink()


def write_number_tables(folder):
    """Tables that a signature fills further, whose keys and values are in the checkpoint, and a Variable that grows."""
    model, lookups = tf.Module(), tf.lookup.experimental
    model.numbers = lookups.MutableHashTable(tf.int64, tf.float32, -1.0)
    model.pairs = lookups.MutableHashTable(tf.int32, tf.float64, np.float64([1, 2]))
    model.memory = tf.Variable([1.0, 2.0], shape=tf.TensorShape([None]), name="memory")
    model.numbers.insert(tf.constant([3, 5], tf.int64), [0.5, 0.25])
    model.pairs.insert([5, 6], tf.constant([[3, 4], [5, 6]], tf.float64))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int64, "keys"), tf.TensorSpec([None], tf.float32, "values")])
    def insert(keys, values):
        before = model.numbers.lookup(keys)
        model.numbers.insert(keys, values)
        model.memory.assign(tf.concat([model.memory, values], 0))
        return {"before": before, "pairs": model.pairs.lookup(tf.cast(keys, tf.int32)), "size": model.numbers.size(),
                "memory": model.memory.read_value()}
    tf.saved_model.save(model, str(folder / "saved_model_numbers"), signatures={"serving_default": insert})


def write_keras_model(folder, expected):
    """A model as Keras exports it, with what it gives and with the gradients of the sum of the squares."""
    keras = tf.keras
    keras.utils.set_random_seed(3)
    image = keras.Input((6, 6, 1), name="image")
    y = keras.layers.Conv2D(3, 3, activation="relu")(image)
    y = keras.layers.BatchNormalization()(y)
    y = keras.layers.Dropout(0.4)(keras.layers.Flatten()(y))
    model = keras.Model(image, keras.layers.Dense(2, activation="softmax", name="scores")(y))
    for i, each in enumerate(model.weights):
        value = foreign_models.weights(i, *each.shape)
        each.assign(np.abs(value) if "variance" in each.name else value)
    x = foreign_models.points(13, 2, 6, 6, 1)
    with tf.GradientTape() as tape:
        scores = model(x, training=False)
        loss = tf.reduce_sum(tf.square(scores))
    weights = model.trainable_weights
    values = {"image": x, "scores": scores.numpy()}
    for i, (each, gradient) in enumerate(zip(weights, tape.gradient(loss, [each.value for each in weights]))):
        values |= {f"value/{i}": each.numpy(), f"gradient/{i}": gradient.numpy()}
    expected(folder / "saved_model_keras.expected.pb", values)
    model.export(str(folder / "saved_model_keras"), verbose=False)


def write_twins(folder, expected):
    """A model of layers whose Variables have the same names, with a signature of a type that Tapestry lacks."""
    keras = tf.keras

    class Block(keras.layers.Layer):
        def __init__(self, units):
            super().__init__()
            self.dense = keras.layers.Dense(units)

        def call(self, x):
            return tf.tanh(self.dense(x))

    class Twins(keras.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [Block(3), Block(2), Block(3)]
            self.version = tf.Variable(np.int8(3))

        def call(self, x):
            for each in self.blocks:
                x = each(x)
            return x

    model, x = Twins(), foreign_models.points(14, 2, 3)
    model(x)
    for i, each in enumerate(model.weights):
        each.assign(foreign_models.weights(i, *each.shape))
    expected(folder / "saved_model_twins.expected.pb", {"x": x, "y": model(x).numpy()})
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", lambda x: model(x), [tf.TensorSpec([None, 3], tf.float32)])
    archive.add_endpoint("version", lambda x: x + model.version, [tf.TensorSpec([], tf.int8)])
    archive.write_out(str(folder / "saved_model_twins"), verbose=False)


class OwnGradients(tf.Module):
    """Signatures whose functions have gradients of their own, each with one result, a number."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable([[0.5, -2.0], [1.5, 0.25]], name="w")
        self.b = tf.Variable([0.5, -0.5], name="b")
        self.rate = tf.Variable(0.25, trainable=False, name="rate")

    def reverse(self, x):
        """Its gradient alone reads the rate."""
        return tf.custom_gradient(lambda x: (tf.identity(x), lambda dy: -self.rate * dy))(x)

    @staticmethod
    @tf.custom_gradient
    def sign(x):
        return tf.sign(x), lambda dy: dy * tf.cast(tf.abs(x) <= 1.0, dy.dtype)

    @staticmethod
    @tf.custom_gradient
    def pair(a, b):
        """Of two results, whose gradients are made one of length 1, together."""
        def gradient(da, db):
            length = tf.sqrt(tf.reduce_sum(da ** 2) + tf.reduce_sum(db ** 2))
            return da / length, db / length
        return (a * b, b * 2.0), gradient

    @staticmethod
    @tf.custom_gradient
    def scaled(times, x):
        """The first argument has no gradient."""
        return x * tf.cast(times, x.dtype), lambda dy: (None, dy * 5.0)

    def layer(self, x):
        """Has a gradient for the Variable that it reads."""
        def layer(x):
            def gradient(dy, variables=None):
                return (2.0 * tf.matmul(dy, variables[0], transpose_b=True),
                        [3.0 * tf.matmul(x, dy, transpose_a=True)])
            return tf.matmul(x, self.w), gradient
        return tf.custom_gradient(layer)(x)

    def functions(self):
        def repeated(x):
            for _ in tf.range(3):
                x = self.sign(x * self.b) + x
            return x

        inner = tf.function(lambda x: self.layer(self.reverse(x)))
        return {"reverse": lambda x: self.reverse(x * self.b),
                "sign": lambda x: self.sign(x * self.b) * x,
                "pair": lambda x: tf.add(*self.pair(x * self.b, x)),
                "scaled": lambda x: self.scaled(tf.constant(3), x * self.b),
                "layer": self.layer,
                "called": lambda x: inner(inner(x)),
                "branch": lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: self.sign(x * self.b), lambda: x),
                "loop": repeated,
                "map": lambda x: tf.map_fn(lambda row: tf.nn.silu(row * self.b), x)}


def write_own_gradients(folder, expected):
    model = OwnGradients()
    x = np.array([[1, 2], [-0.3, 0.4], [0.7, 3]], np.float32)
    values, signatures = {"x": x}, {}
    for name, function in model.functions().items():
        function = tf.function(lambda x, f=function: {"y": tf.reduce_sum(f(x) ** 2)}, autograph=True,
                               input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        signatures[name] = function.get_concrete_function()
        with tf.GradientTape() as outer:
            given = tf.constant(x)
            outer.watch(given)
            with tf.GradientTape() as tape:
                tape.watch(given)
                y = function(given)["y"]
            of_x, of_w, of_b = tape.gradient(y, [given, model.w, model.b], unconnected_gradients="zero")
            norm = tf.reduce_sum(of_x ** 2)
        values |= {f"{name}/y": y.numpy(), f"{name}/x": of_x.numpy(), f"{name}/w": of_w.numpy(),
                   f"{name}/b": of_b.numpy()}
        values[f"{name}/second"] = outer.gradient(norm, given, unconnected_gradients="zero").numpy()
    tf.saved_model.save(model, str(folder / "saved_model_gradients"), signatures=signatures)
    expected(folder / "saved_model_gradients.expected.pb", values)


def write(folder, expected):
    """`expected(path, values)` writes the numbers that a model must give."""
    write_saved_models(folder)
    write_table_model(folder)
    write_number_tables(folder)
    write_text_model(folder)
    write_digits_model(folder)
    write_keras_model(folder, expected)
    write_twins(folder, expected)
    write_own_gradients(folder, expected)
    for each in folder.glob("*/fingerprint.pb"):
        each.unlink()
