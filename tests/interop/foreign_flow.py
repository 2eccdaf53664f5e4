"""Writes branches and loops as others write them with TensorFlow; see foreign_programs.py."""

import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

from foreign_models import points, weights

v1 = tf.compat.v1
layers = tf.keras.layers
SQUARE = weights(60, 3, 3)


class Steps:
    """What is to be done with a graph, and what TensorFlow finds: nodes feed, run and fetch of a GraphDef."""

    def __init__(self):
        self.graph = v1.GraphDef()

    def add(self, kind, target, value=None):
        node = self.graph.node.add(name=str(len(self.graph.node)), op=kind)
        node.attr["target"].s = target.encode()
        if value is not None:
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.asarray(value)))

    def save(self, path):
        path.write_bytes(self.graph.SerializeToString(deterministic=True))


# ---- Functions of x: float32[n, 3] and n: int32 ---------------------------------------------------------------------------


def counted(x, n):
    return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tf.tanh(s @ SQUARE) + x), (0, x))[1]


def until_small(x, n):
    return tf.while_loop(lambda s: tf.reduce_max(tf.abs(s)) > 0.1, lambda s: s * 0.7 - 0.01 * s ** 3, [x],
                         maximum_iterations=n)[0]


def chosen(x, n):
    return tf.cond(n > 2, lambda: x * 2, lambda: tf.sin(x) @ SQUARE)


def passed_through(x, n):
    return tf.cond(n > 2, lambda: (x, tf.reduce_sum(x)), lambda: (x * 3, 7.0))


def one_of(x, n):
    return tf.switch_case(n, [lambda: x * 2, lambda: x @ SQUARE, lambda: x + 1])


def nested(x, n):
    return tf.while_loop(
        lambda i, s: i < n,
        lambda i, s: (i + 1, tf.cond(i % 2 == 0,
                                     lambda: tf.while_loop(lambda k, t: k < i, lambda k, t: (k + 1, tf.sin(t) + x), (0, s))[1],
                                     lambda: tf.cond(tf.reduce_sum(s) > 0, lambda: s * 0.5, lambda: s + 1))), (0, x))[1]


def mapped(x, n):
    return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x), tf.map_fn(
        lambda row: (row[0], row[1:]), x, fn_output_signature=(tf.float32, tf.float32))


def scanned(x, n):
    return tf.scan(lambda a, row: tf.tanh(a @ SQUARE + row), x, tf.zeros([2, 3])), tf.scan(
        lambda a, row: a * 0.5 + row, x, reverse=True)


def folded(x, n):
    return tf.foldl(lambda a, row: a * 0.9 + row, x), tf.foldr(lambda a, row: tf.sin(a) + row, x)


def written(x, n):
    """Lists of several sizes, read and written in several orders."""
    every = tf.TensorArray(tf.float32, 4, element_shape=[3])
    first = every.write(0, x[0])
    _, filled = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a.write(i + 1, a.read(i) * 0.5 + x[1])), (0, first))
    some = tf.TensorArray(tf.float32, 6, element_shape=[])
    count, part = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a.write(i, tf.reduce_sum(x) * tf.cast(i, tf.float32))),
                                (0, some))
    rows = tf.TensorArray(tf.float32, 2).split(x[:2], [1, 1])
    return filled.stack(), part.stack(), count, rows.concat(), filled.gather([2, 0])


def grows(x, n):
    return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tf.concat([s, s[:1] + 1], 0)), (0, x),
                         shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))[1]


def grows_by_others(x, n):
    """Loop variables that grow by what comes from elsewhere: rows of another tensor, and those of an inner loop."""
    grown = lambda start, more: tf.while_loop(
        lambda i, s: i < n, lambda i, s: (i + 1, tf.concat([s, more(i, s)], 0)), (0, start),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))[1]
    inner = lambda i, s: tf.while_loop(
        lambda k, t: k < i, lambda k, t: (k + 1, tf.concat([t, tf.sin(t[-1:])], 0)), (0, s[:1]),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 3])))[1]
    return grown(tf.zeros([1, 3]), lambda i, s: x[:1] * tf.cast(i, tf.float32)), grown(x[:2], inner)


def grows_of_any_rank(x, n):
    """As greedy decoding: x has an unknown rank, of which the product takes one alone."""
    return tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, tf.concat([s, tf.tanh(s[-1:] @ SQUARE)], 0)), (0, x),
                         shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)))[1]


def written_elsewhere(x, n):
    """Lists of unknown length, and of elements of unknown sizes, written backwards and one place behind."""
    back = tf.while_loop(lambda i, _: i < n + 1, lambda i, a: (i + 1, a.write(n - i, tf.sin(x) * tf.cast(i, tf.float32))),
                         (0, tf.TensorArray(tf.float32, n + 1)))[1]
    behind = tf.while_loop(lambda i, _: i < n + 2, lambda i, a: (i + 1, a.write(i - 1, tf.cos(x) * tf.cast(i, tf.float32))),
                           (1, tf.TensorArray(tf.float32, n + 1, element_shape=[None, 3])))[1]
    return back.stack(), behind.stack()


def lengthened(x, n):
    """Lists that become longer when an element beyond their end is written."""
    def rows_of(reserved):
        return tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i, x[0] * tf.cast(i, tf.float32))),
                             (0, tf.TensorArray(tf.float32, reserved, dynamic_size=True, element_shape=[3])))[1].stack()
    each = tf.while_loop(lambda i, _: i < tf.shape(x)[0], lambda i, a: (i + 1, a.write(i, x[i] * 2)),
                         (0, tf.TensorArray(tf.float32, 0, dynamic_size=True)))[1]
    return rows_of(0), rows_of(2), each.stack(), each.size()


def differentiated(x, n):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = counted(x, n) * chosen(x, n)
    return y, tape.gradient(y, x)


# Those that the tests read without TensorFlow.
GOLDEN = ("counted, frames", "nested, frames", "nested, functions", "written, functions", "lengthened, functions",
          "lengthened, frames", "mapped, frames", "grows_by_others, frames", "grows_of_any_rank, functions",
          "written_elsewhere, frames",
          "passed_through, frames", "one_of, frames", "LSTM masked of any length, frames")
GOLDEN_TRAINING = ("recurrent, frames, resource", "both, frames, reference", "nested, frames, resource",
                   "unused_array, frames, reference", "in_branch, frames, resource", "nested, functions, resource",
                   "both, functions, resource", "in_branch, functions, resource", "case_with_loops, functions, resource",
                   "second_order_loop, functions, resource", "branches_in_nested_loops, functions, resource",
                   "second_order, frames, resource", "branch_in_branch_in_loop, frames, reference",
                   "loop_in_branch_in_loop, frames, reference", "scan_in_branch_in_map, frames, reference",
                   "arrays, frames, resource", "decoded, frames, resource", "looked_up, frames, resource",
                   "by_size, frames, resource", "descent_in_loop, frames, reference", "tiled, functions, resource",
                   "tiled_in_branch, frames, reference", "growing_in_growing, frames, reference",
                   "growing_map_in_loop, functions, resource", "called_loop, functions, resource",
                   "calling_loop, frames, reference")
GOLDEN_IDIOMS = ("reads behind updates, reference", "masked cross-entropy, resource")

FUNCTIONS = (counted, until_small, chosen, passed_through, one_of, nested, mapped, scanned, folded, written, grows,
             grows_by_others, grows_of_any_rank, written_elsewhere, lengthened, differentiated)


def layers_with_loops():
    def recurrent(name, **options):
        return getattr(layers, name)(3, **options)
    for name in ("SimpleRNN", "LSTM", "GRU"):
        for options in ({}, {"return_sequences": True}, {"go_backwards": True}, {"return_state": True}):
            yield " ".join([name, *options]), recurrent(name, **options)
        yield f"{name} bidirectional", layers.Bidirectional(recurrent(name, return_sequences=True))
        yield f"{name} masked", tf.keras.Sequential([layers.Masking(0.5), recurrent(name)])
    yield "GRU reset before", recurrent("GRU", reset_after=False, return_sequences=True)
    yield "two layers", tf.keras.Sequential([recurrent("LSTM", return_sequences=True), recurrent("GRU")])
    yield "ConvLSTM1D", tf.keras.Sequential([layers.Reshape((-1, 3, 1)), layers.ConvLSTM1D(2, 2)])


def save(folder, name, graph, feeds, fetches):
    steps = Steps()
    for feed in feeds:
        for tensor, value in feed.items():
            steps.add("feed", tensor, value)
        for tensor, value in fetches(feed):
            steps.add("fetch", tensor, value)
    (folder / f"{name}.pb").write_bytes(graph.SerializeToString(deterministic=True))
    steps.save(folder / f"{name}.steps.pb")


def freeze(folder, name, function, feeds, specs):
    concrete = tf.function(function).get_concrete_function(*specs)
    for form, lowered in (("functions", False), ("frames", True)):
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=lowered)

        def fetches(feed, frozen=frozen):
            results = frozen(*[tf.constant(feed[each.name]) for each in frozen.inputs])
            results = results if isinstance(results, (list, tuple)) else [results]
            return [(each.name, value) for each, value in zip(frozen.outputs, results)]
        given = [{each.name: value for each, value in zip(frozen.inputs, feed)} for feed in feeds]
        save(folder, f"{name}, {form}", frozen.graph.as_graph_def(), given, fetches)


def write_functions(folder):
    feeds = [[points(61, 2, 3), np.int32(n)] for n in (0, 1, 3, 5)] + [[points(62, 4, 3), np.int32(2)]]
    for each in FUNCTIONS:
        tall = each in (scanned,)
        shape = [None, 2, 3] if tall else None if each is grows_of_any_rank else [None, 3]
        given = [[points(63, n, 2, 3), np.int32(n)] for n in (1, 4)] if tall else feeds
        freeze(folder, each.__name__, each, given, [tf.TensorSpec(shape, tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")],)
    for name, layer in layers_with_loops():
        x = points(64, 2, 4, 3)
        x[0, 2] = 0.5
        layer(x)
        for i, each in enumerate(layer.weights):
            if each.dtype.startswith("float"):
                each.assign(weights(i, *each.shape))
        for length, others in (("", []), (" of any length", [[points(65, 3, 7, 3)]])):
            freeze(folder, name + length, lambda x, layer=layer: layer(x), [[x]] + others,
                   [tf.TensorSpec([None, None if length else 4, 3], tf.float32, "x")])


def write_golden_cases(folder):
    with tempfile.TemporaryDirectory() as all_cases:
        import foreign_idioms  # which uses this module
        import foreign_quantized
        write_functions(pathlib.Path(all_cases))
        write_training(pathlib.Path(all_cases))
        foreign_idioms.write(pathlib.Path(all_cases), [foreign_idioms.loss_programs, foreign_idioms.other_programs])
        folder.mkdir(exist_ok=True)
        foreign_quantized.write(folder)
        for name in GOLDEN + GOLDEN_TRAINING + GOLDEN_IDIOMS:
            for ending in (".pb", ".steps.pb"):
                shutil.copy(pathlib.Path(all_cases) / (name + ending), folder / (name.replace(", ", "_").replace(" ", "_") + ending))


# ---- Training programs of TensorFlow 1 ------------------------------------------------------------------------------------


def losses():
    """By name: the loss of x [n, 6]."""
    def variable(name, *shape):
        return v1.get_variable(name, initializer=weights(len(name), *shape))

    def recurrent(x):
        w, u = variable("w", 2, 4), variable("ww", 4, 4)
        parts = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(tf.reshape(x, [-1, 3, 2]), [1, 0, 2]))
        out = tf.TensorArray(tf.float32, 3)
        _, state, out = tf.while_loop(
            lambda i, *_: i < 3, lambda i, s, a: (lambda next: (i + 1, next, a.write(i, next * 2)))(tf.tanh(parts.read(i) @ w + s @ u)),
            (0, tf.zeros([tf.shape(x)[0], 4]), out))
        return tf.reduce_mean(tf.square(state)) + tf.reduce_mean(out.stack())

    def arrays(x):
        """Lists outside of loops."""
        w = variable("w", 6)
        rows = tf.TensorArray(tf.float32, 5).unstack(x * w)
        some = tf.TensorArray(tf.float32, 2, dynamic_size=True).write(0, x[0] * w).write(1, w).write(2, x[1])
        pairs = tf.TensorArray(tf.float32, 2, clear_after_read=False).split(x[:4] * w, [2, 2])
        return tf.reduce_mean(rows.gather([4, 0, 2])) + tf.reduce_sum(tf.sin(pairs.concat())) + tf.reduce_mean(
            pairs.read(1) * tf.cast(some.size(), tf.float32)) + tf.reduce_sum(tf.cos(some.stack()))

    def decoded(x):
        """Two lists that become longer until what is computed ends it."""
        w = variable("w", 6, 6)
        scores, places = (tf.TensorArray(dtype, 0, dynamic_size=True) for dtype in (tf.float32, tf.int32))
        _, state, scores, places = tf.while_loop(
            lambda i, s, *_: (i < 6) & (tf.reduce_max(s) < 2.5),
            lambda i, s, a, b: (lambda next: (i + 1, next, a.write(i, next), b.write(i, tf.argmax(next, 1, tf.int32))))(
                s + tf.nn.relu(s @ w + x)), (0, x, scores, places))
        return tf.reduce_mean(scores.stack()) * tf.cast(tf.size(places.stack()), tf.float32) + tf.reduce_mean(state)

    def looked_up(x):
        """Rows of a table, whose sparse gradient becomes longer in each iteration."""
        table, w = variable("table", 4, 3), variable("w", 6, 4)
        _, places, state = tf.while_loop(lambda i, *_: i < 3, lambda i, p, s: (
            lambda next: (i + 1, tf.argmax(next @ w, 1, tf.int32), next))(
                tf.tanh(s + tf.concat([tf.nn.embedding_lookup(table, p), x[:, :3]], 1))), (0, tf.fill([tf.shape(x)[0]], 2), x))
        return tf.reduce_mean(tf.square(state)) + 0.0 * tf.reduce_mean(tf.cast(places, tf.float32))

    def branch(x):
        w = variable("w", 6, 2)
        return tf.reduce_mean(v1.cond(tf.reduce_sum(x) > 0, lambda: tf.square(x @ w), lambda: tf.sin(x @ w)))

    def both(x):
        w = variable("w", 6, 6)
        y = tf.while_loop(lambda i, s: i < 4, lambda i, s: (
            i + 1, tf.cond(i % 2 > 0, lambda: tf.tanh(s @ w), lambda: s * 0.5 + x)), (0, x))[1]
        return tf.reduce_mean(tf.square(y))

    def scan(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.scan(lambda a, row: tf.tanh(a * w + row), x, tf.zeros([6])))

    def nested(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.while_loop(
            lambda k, t: k < i, lambda k, t: (k + 1, tf.sin(t * w) + x), (0, s))[1]), (0, x))[1])

    def in_branch(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) < 9, lambda: tf.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s * w)), (0, x))[1], lambda: x * w))

    def tiled(x):
        """A layer of capsules: TensorFlow sums the gradients of its tiles in tensors of ten axes."""
        w = variable("w", 1, 3, 4, 2, 2)
        votes = tf.matmul(tf.tile(w, [tf.shape(x)[0], 1, 1, 1, 1]), tf.tile(tf.reshape(x, [-1, 3, 1, 2, 1]), [1, 1, 4, 1, 1]))
        return tf.reduce_mean(tf.square(tf.reduce_sum(votes, 1))) + tf.reduce_mean(tf.sin(tf.repeat(w, 3, axis=3)))

    def tiled_in_branch(x):
        w = variable("w", 2, 1, 3, 1, 1)
        return tf.cond(tf.reduce_sum(x) < 9, lambda: tf.reduce_mean(tf.sin(tf.tile(w, [1, 2, 2, 3, 1]))), lambda: tf.reduce_mean(w))

    def by_size(x):
        """Branches that read a Variable, chosen by sizes."""
        w = variable("w", 6)
        many = tf.cond(tf.shape(x)[0] > 3, lambda: tf.tanh(x * w), lambda: x * 2 * w)
        return tf.reduce_mean(many) + tf.reduce_mean(
            tf.cond(tf.equal(tf.size(x), 7), lambda: tf.exp(w), lambda: tf.sin(w) * tf.reduce_sum(x)))

    def map_in_loop(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (
            i + 1, tf.map_fn(lambda row: tf.sin(row * w), s)), (0, x))[1])

    def unused_array(x):
        """An array that is written, but whose gradient is zero."""
        w, n = variable("w", 6), tf.shape(x)[0]
        rows, out = tf.TensorArray(tf.float32, n).unstack(x * w), tf.TensorArray(tf.float32, n)
        return tf.reduce_mean(tf.while_loop(lambda i, *_: i < n, lambda i, s, a: (
            i + 1, tf.tanh(s + rows.read(i)), a.write(i, s * w)), (0, tf.zeros([6]), out))[1])

    def until(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda s: tf.reduce_sum(s * s) < 100.0, lambda s: s * (1.3 + tf.abs(w)), [x])[0])

    def read_and_written(x):
        w = variable("w", 6)
        rows = tf.TensorArray(tf.float32, 6, clear_after_read=False).write(0, x[0] * w)
        return tf.reduce_mean(tf.while_loop(lambda i, a: i < 5, lambda i, a: (
            i + 1, a.write(i + 1, tf.sin(a.read(i)) * w)), (0, rows))[1].stack())

    def rows_of_table(x):
        w = variable("w", 9, 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 4, lambda i, s: (
            i + 1, tf.tanh(s * 0.5 + tf.gather(w, [i, i + 1, 2, 3, i]))), (0, x))[1])

    def folded_back(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.foldr(lambda a, row: tf.sin(a) * w + row, x * w))

    def branch_in_map(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.map_fn(lambda row: tf.cond(
            tf.reduce_sum(row) > 0, lambda: row * w, lambda: tf.sin(row) * tf.reduce_sum(w)), x * 2))

    def scan_and_map(x):
        w = variable("w", 6)
        y = tf.scan(lambda a, row: tf.sin(a) * w + row, x * w)
        return tf.reduce_mean(y * y) + tf.reduce_sum(tf.map_fn(lambda row: row[0] * row[1], y))

    def two_loops(x):
        w = variable("w", 6)
        a = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s * w)), (0, x))[1]
        return tf.reduce_mean(a * tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, tf.cos(s * w) + a), (0, a))[1])

    return {each.__name__: each for each in (
        recurrent, branch, both, scan, nested, in_branch, map_in_loop, unused_array, until, read_and_written, rows_of_table,
        folded_back, by_size, tiled, tiled_in_branch, branch_in_map, scan_and_map, two_loops, arrays, decoded,
        looked_up)}


def compositions():
    """By name: the loss of x [n, 6]. Branches and loops in each other, whose gradients pass on what these compute."""
    def variable(name, *shape):
        return v1.get_variable(name, initializer=weights(len(name), *shape))

    def loop_in_branch_in_loop(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, tf.cond(
            i % 2 > 0, lambda: tf.while_loop(lambda k, t: k < i, lambda k, t: (k + 1, tf.sin(t * w) + x), (0, s))[1],
            lambda: s * w)), (0, x))[1])

    def branch_in_branch(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) < 9, lambda: tf.cond(
            tf.reduce_sum(x) > -9, lambda: tf.sin(x * w), lambda: tf.exp(x * tf.reduce_sum(w))), lambda: x * tf.tanh(w)))

    def case(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, tf.switch_case(i % 4, [
            lambda: s * w, lambda: tf.sin(s) * tf.reduce_sum(w), lambda: tf.tanh(s + w), lambda: s + 1.0])), (0, x))[1])

    def branches_in_nested_loops(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.while_loop(
            lambda k, t: k < i, lambda k, t: (k + 1, tf.cond(k > 0, lambda: tf.sin(t * w), lambda: tf.reduce_sum(t * w) * x)),
            (0, s))[1]), (0, x))[1])

    def three_loops(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.while_loop(
            lambda k, t: k < i, lambda k, t: (k + 1, tf.while_loop(
                lambda l, u: l <= k, lambda l, u: (l + 1, tf.sin(u * w)), (0, t))[1] + x),
            (0, s))[1]), (0, x))[1])

    def branch_in_branch_in_loop(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, tf.cond(i % 2 > 0, lambda: tf.cond(
            i > 2, lambda: tf.sin(s * w), lambda: tf.exp(-s * tf.reduce_sum(w))), lambda: s * tf.tanh(w))), (0, x))[1])

    def second_order(x):
        w = variable("w", 6)
        y = tf.reduce_sum(tf.cond(tf.reduce_sum(x) < 9, lambda: tf.sin(x * w), lambda: x * tf.tanh(w)))
        return tf.reduce_mean(tf.square(tf.gradients(y, w)[0]))

    def second_order_in_loop(x):
        w = variable("w", 6)
        y = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.cond(
            i > 1, lambda: tf.sin(s * w), lambda: s + tf.tanh(w))), (0, x))[1]
        return tf.reduce_mean(tf.gradients(tf.reduce_sum(y), w)[0] * (x[0] + 2.0)) + 0.5 * tf.reduce_mean(tf.square(w))

    def second_order_loop(x):
        w = variable("w", 6)
        y = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.sin(s * w)), (0, x))[1]
        return tf.reduce_mean(tf.gradients(tf.reduce_sum(y), w)[0] * (x[0] + 2.0)) + 0.5 * tf.reduce_mean(tf.square(w))

    def scan_in_branch(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) < 9, lambda: tf.scan(lambda a, row: tf.tanh(a * w + row), x),
            lambda: tf.map_fn(lambda row: row * w, x)))

    def scan_in_branch_in_map(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.map_fn(lambda r: tf.cond(
            tf.reduce_sum(r) < 0, lambda: tf.scan(lambda a, e: tf.tanh(a * w[0] + e), r * w), lambda: tf.map_fn(lambda e: e * e, r * w)), x))

    def growing_map_in_loop(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (
            i + 1, tf.concat([tf.map_fn(lambda row: tf.sin(row * w), s), x[:1]], 0)), (0, x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 6])))[1])

    def growing(s, step, grows=(True, False)):
        """A loop of three iterations whose state grows along these axes."""
        shape = tf.TensorShape([None if each else size for each, size in zip(grows, (5, 6))])
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, step(i, s)), (0, s),
                                            shape_invariants=(tf.TensorShape([]), shape))[1])

    def growing_rows(x):
        w = variable("w", 6)
        return growing(x, lambda i, s: tf.concat([s, tf.tanh(s[-1:] * w)], 0))

    def growing_columns(x):
        w = variable("w", 6)
        return growing(x * w, lambda i, s: tf.concat([s, tf.reduce_sum(tf.sin(s), 1, keepdims=True)], 1), (True, True))

    def growing_twofold(x):
        w = variable("w", 6)
        return growing(x, lambda i, s: tf.concat([s, tf.sin(s * w)], 0))

    def growing_in_growing(x):
        w = variable("w", 6)
        def step(i, s):
            return tf.while_loop(lambda k, t: k < i, lambda k, t: (k + 1, tf.concat([t, tf.sin(t[-1:] * w)], 0)), (0, s[:1]),
                                 shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 6])))[1]
        return growing(x, lambda i, s: tf.concat([s, step(i, s)], 0))

    def called_loop(x):
        w, table = variable("w", 6), variable("wwwww", 5, 6)

        @tf.function
        def looked_up(s):
            for i in tf.range(3):
                s = tf.tanh(s * w) + tf.gather(table, i)
            return s
        return tf.reduce_mean(looked_up(x))

    def calling_loop(x):
        w = variable("w", 6)

        @tf.function
        def step(s, w):
            if tf.reduce_sum(s) > 0.5:
                s = 0.5 * s
            for _ in tf.range(2):
                s = tf.sin(s * w) + 0.25
            return s
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, step(s, w)), (0, x))[1])

    def until_in_loop(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, tf.while_loop(
            lambda t: tf.reduce_sum(t * t) < 50.0 * tf.cast(i + 1, tf.float32), lambda t: t * (1.3 + tf.abs(w)),
            [s])[0] * 0.7), (0, x))[1])

    def gradient_in_branch(x):
        w = variable("w", 6)
        y = tf.reduce_sum(tf.cond(tf.reduce_sum(x) < 9, lambda: tf.sin(x * w), lambda: x * tf.tanh(w)))
        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) > -100, lambda: tf.gradients(y, w)[0] * w, lambda: w))

    def empty_inner(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, w * tf.while_loop(
            lambda k, t: k < 0, lambda k, t: (k + 1, tf.sin(t * w) + x), (0, s))[1]), (0, x))[1])

    def two_of_one_condition(x):
        w = variable("w", 6)
        p = tf.reduce_sum(x) < 9
        a = tf.cond(p, lambda: tf.sin(x * w), lambda: x * tf.tanh(w))
        return tf.reduce_mean(tf.cond(p, lambda: tf.cos(a * w) * a, lambda: tf.exp(-a) * tf.reduce_sum(w)))

    def scan_of_branches(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.scan(lambda a, row: tf.cond(
            tf.reduce_sum(row) > 0, lambda: tf.tanh(a * w + row), lambda: a * 0.5 - row), x))

    def case_with_loops(x):
        w = variable("w", 6)
        return tf.reduce_mean(tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, tf.switch_case(i % 3, [
            lambda: s * w, lambda: tf.while_loop(lambda k, t: k < i, lambda k, t: (k + 1, tf.sin(t * w)), (0, s))[1],
            lambda: tf.while_loop(lambda k, t: k < 2, lambda k, t: (k + 1, tf.cos(t) + x * w), (0, s))[1]])), (0, x))[1])

    return {each.__name__: each for each in (
        loop_in_branch_in_loop, branch_in_branch, case, branches_in_nested_loops, three_loops, branch_in_branch_in_loop,
        second_order, second_order_in_loop, second_order_loop, scan_in_branch, scan_in_branch_in_map,
        growing_map_in_loop, growing_rows, growing_columns, growing_twofold, growing_in_growing, called_loop, calling_loop,
        until_in_loop,
        gradient_in_branch, empty_inner, two_of_one_condition, scan_of_branches,
        case_with_loops)}


# TensorFlow 1's loops have no second derivatives.
FUNCTIONS_ONLY = ("second_order_loop", "second_order_in_loop")


def write_training(folder):
    x = points(66, 5, 6)
    for form, switch in (("functions", v1.enable_control_flow_v2), ("frames", v1.disable_control_flow_v2)):
        switch()
        all_losses = {**losses(), **compositions()}
        for name in all_losses:
            if form == "frames" and name in FUNCTIONS_ONLY:
                continue
            for style in ("reference", "resource"):
                with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=style == "resource"):
                    loss = tf.identity(all_losses[name](v1.placeholder(tf.float32, [None, 6], "x")), "loss")
                    v1.train.AdamOptimizer(0.1).minimize(loss, name="train")
                    tf.group(v1.global_variables_initializer(), name="init")
                steps = Steps()
                steps.add("feed", "x:0", x)
                with v1.Session(graph=graph) as session:
                    session.run("init")
                    steps.add("run", "init")
                    for _ in range(4):
                        steps.add("fetch", "loss:0", session.run("loss:0", {"x:0": x}))
                        session.run("train", {"x:0": x})
                        steps.add("run", "train")
                (folder / f"{name}, {form}, {style}.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
                steps.save(folder / f"{name}, {form}, {style}.steps.pb")
    write_descent_in_loop(folder, x)
    v1.enable_control_flow_v2()


def write_descent_in_loop(folder, value):
    """A reference Variable that a loop reads and changes, which only frames can do."""
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=False):
        x = v1.placeholder(tf.float32, [None, 6], "x")
        w = v1.get_variable("w", initializer=weights(70, 6, 1))
        targets = tf.reduce_mean(x, 1, keepdims=True)

        def body(i):
            gradient = tf.matmul(x, x @ w - targets, transpose_a=True)
            with tf.control_dependencies([v1.assign_sub(w, 0.1 * gradient)]):
                return i + 1
        tf.group(tf.while_loop(lambda i: i < 3, body, [tf.constant(0)], parallel_iterations=1), name="train")
        tf.identity(w, "fetched")
        tf.group(v1.global_variables_initializer(), name="init")
    steps = Steps()
    steps.add("feed", "x:0", value)
    with v1.Session(graph=graph) as session:
        session.run("init")
        steps.add("run", "init")
        for _ in range(2):
            session.run("train", {"x:0": value})
            steps.add("run", "train")
            steps.add("fetch", "fetched:0", session.run("fetched:0"))
    (folder / "descent_in_loop, frames, reference.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
    steps.save(folder / "descent_in_loop, frames, reference.steps.pb")
