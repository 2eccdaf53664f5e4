"""Writes training programs over sequences and embeddings, in the idioms of TensorFlow 1; see foreign_idioms.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
from tensorflow.python.keras.legacy_tf_layers import core
from tensorflow.python.ops import rnn

from foreign_idioms import LAYER, classes, constant_initializer, descend, logits_of, variable

v1 = tf.compat.v1
train = v1.train


def recurrent_programs():
    def recurrent(make, lengths=False, **options):
        def program(x, labels):
            x = tf.reshape(x, [-1, 3, 2])
            with v1.variable_scope("", initializer=constant_initializer(5)):
                outputs, _ = rnn.dynamic_rnn(make(), x, dtype=tf.float32, sequence_length=labels + 1 if lengths else None,
                                             **options)
                loss = classes(core.dense(outputs[:, -1], 3, **LAYER), labels)
            return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
        return program
    for name, make in (("BasicRNNCell", lambda: cells.BasicRNNCell(4)), ("GRUCell", lambda: cells.GRUCell(4)),
                       ("BasicLSTMCell", lambda: cells.BasicLSTMCell(4)),
                       ("LSTMCell", lambda: cells.LSTMCell(4, use_peepholes=True, num_proj=3, cell_clip=2.0)),
                       ("MultiRNNCell", lambda: cells.MultiRNNCell([cells.GRUCell(3), cells.BasicLSTMCell(4)]))):
        yield f"dynamic_rnn of {name}", recurrent(make)
    yield "dynamic_rnn with lengths", recurrent(lambda: cells.BasicLSTMCell(4), lengths=True)

    def static(x, labels):
        with v1.variable_scope("", initializer=constant_initializer(5)):
            outputs, _ = rnn.static_rnn(cells.BasicLSTMCell(4), tf.unstack(tf.reshape(x, [-1, 3, 2]), axis=1),
                                        dtype=tf.float32)
            loss = classes(core.dense(outputs[-1], 3, **LAYER), labels)
        return [loss], [descend(loss)]
    yield "static_rnn", static

    def both_ways(x, labels):
        with v1.variable_scope("", initializer=constant_initializer(5)):
            outputs, _ = rnn.bidirectional_dynamic_rnn(cells.GRUCell(3), cells.GRUCell(3), tf.reshape(x, [-1, 3, 2]),
                                                       sequence_length=labels + 1, dtype=tf.float32)
            loss = classes(core.dense(tf.reduce_mean(tf.concat(outputs, 2), 1), 3, **LAYER), labels)
        return [loss], [descend(loss)]
    yield "bidirectional_dynamic_rnn", both_ways


def lookup_programs():
    def attention(x, labels):
        x = tf.reshape(x, [-1, 3, 2])
        q, k, v = (tf.tensordot(x, variable(name, 2, 4), 1) for name in ("q", "kk", "vvv"))
        mask = tf.sequence_mask(labels + 1, 3)
        scores = tf.matmul(q, k, transpose_b=True) / 2.0
        scores = tf.where(tf.tile(mask[:, None], [1, 3, 1]), scores, tf.fill(tf.shape(scores), -1e9))
        loss = classes(core.dense(tf.reduce_sum(tf.matmul(tf.nn.softmax(scores), v), 1), 3, **LAYER), labels)
        return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "attention with a mask", attention

    def by_words(x, labels):
        """Word vectors, several filters, as in sentence classification."""
        words = tf.cast(tf.abs(x) * 3, tf.int32)
        y = tf.expand_dims(tf.nn.embedding_lookup(variable("table", 12, 4), words), -1)
        parts = []
        for size in (2, 3):
            filters = variable("f" * size, size, 4, 1, 2)
            part = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, filters, 1, "VALID"), variable("b" * size, 2)))
            parts.append(tf.nn.max_pool2d(part, [7 - size, 1], 1, "VALID"))
        loss = classes(core.dense(tf.reshape(tf.concat(parts, 3), [-1, 4]), 3, **LAYER), labels)
        return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "filters over words", by_words

    def sparse_lookup(combiner):
        def program(x, labels):
            ids = tf.SparseTensor(v1.placeholder(tf.int64, [None, 2], "places"), v1.placeholder(tf.int64, [None], "ids"),
                                  v1.placeholder(tf.int64, [2], "dense"))
            looked_up = v1.nn.embedding_lookup_sparse(variable("table", 4, 6), ids, None, combiner=combiner)
            loss = classes(logits_of(x + looked_up), labels)
            return [loss], [train.AdagradOptimizer(0.1).minimize(loss)], {
                "places:0": np.int64([[0, 0], [0, 1], [1, 0], [2, 0], [3, 0], [3, 1], [4, 0]]),
                "ids:0": np.int64([0, 2, 2, 1, 3, 3, 0]), "dense:0": np.int64([5, 2])}
        return program
    for combiner in ("sum", "mean", "sqrtn"):
        yield f"embedding_lookup_sparse by {combiner}", sparse_lookup(combiner)

    def sampled(loss_of):
        def program(x, labels):
            sampled_values = (tf.constant([1, 4, 2], tf.int64), tf.constant([[0.3]] * 5), tf.constant([0.3, 0.1, 0.2]))
            loss = tf.reduce_mean(loss_of(
                weights=variable("w", 5, 6), biases=variable("b", 5), labels=tf.cast(labels[:, None], tf.int64), inputs=x,
                num_sampled=3, num_classes=5, sampled_values=sampled_values))
            return [loss], [descend(loss)]
        return program
    yield "nce_loss", sampled(v1.nn.nce_loss)
    yield "sampled_softmax_loss", sampled(v1.nn.sampled_softmax_loss)

    def factors(x, labels):
        """Ratings of items by users."""
        users, items = variable("users", 5, 3), variable("items_", 3, 3)
        who = tf.range(tf.shape(labels)[0])
        rating = tf.reduce_sum(tf.gather(users, who) * tf.gather(items, labels), 1)
        loss = tf.reduce_mean(tf.square(rating - x[:, 0]))
        return [loss], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "factors of a matrix", factors

    def clusters(x, labels):
        centers = variable("centers", 3, 6)
        nearest = tf.argmin(tf.reduce_sum(tf.square(x[:, None] - centers), 2), 1)
        sums = tf.math.unsorted_segment_sum(x, nearest, 3)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(x[:, :1]), nearest, 3)
        return [nearest], [v1.assign(centers, sums / tf.maximum(counts, 1))]
    yield "k means", clusters

    def by_parts(x, labels):
        parts = tf.dynamic_partition(x, labels, 3)
        ways = [tf.matmul(part, variable("w" * (i + 1), 6, 3)) for i, part in enumerate(parts)]
        places = tf.dynamic_partition(tf.range(tf.size(labels)), labels, 3)
        loss = classes(tf.dynamic_stitch(places, ways), labels)
        return [loss], [descend(loss)]
    yield "experts by dynamic_partition", by_parts

    def decoded(x, labels):
        """Words, each the likeliest behind the last one, until all sentences have ended."""
        words, out, cell = variable("words", 5, 3), variable("out", 4, 5), cells.GRUCell(
            4, kernel_initializer=constant_initializer(1))
        start = tf.tanh(tf.matmul(x, variable("first", 6, 4)))

        def step(i, last, state, sentences, ended):
            output, state = cell(tf.nn.embedding_lookup(words, last), state)
            best = tf.where(ended, tf.zeros_like(last), tf.argmax(tf.matmul(output, out), 1, tf.int32))
            return i + 1, best, state, sentences.write(i, best), ended | tf.equal(best, 1)
        count, _, state, sentences, _ = tf.while_loop(
            lambda i, *rest: (i < 6) & ~tf.reduce_all(rest[-1]), step,
            (0, tf.fill(tf.shape(labels), 2), start, tf.TensorArray(tf.int32, 0, dynamic_size=True),
             tf.zeros_like(labels, tf.bool)))
        loss = classes(tf.matmul(state, variable("classes", 4, 3)), labels)
        return [loss, count, sentences.stack()], [descend(loss)]
    yield "words until the end", decoded

    def sparse(x, labels):
        """Features by their numbers, some rows of which are empty."""
        ids = v1.sparse_placeholder(tf.int64, [None, None], name="ids")
        features = v1.sparse_placeholder(tf.float32, [5, 9], name="features")
        embedded = v1.nn.safe_embedding_lookup_sparse(variable("table", 7, 4), ids, combiner="sum")
        linear = tf.sparse.sparse_dense_matmul(features, variable("w", 9, 3)) + tf.sparse.reduce_sum(features, 1, True)
        loss = classes(linear + tf.matmul(embedded, variable("out", 4, 3)), labels)
        places = np.int64([[0, 0], [0, 1], [2, 0], [4, 1]])
        return [loss], [train.AdamOptimizer(0.1).minimize(loss)], {
            "ids/indices:0": places, "ids/values:0": np.int64([1, 3, 0, -1]), "ids/shape:0": np.int64([5, 3]),
            "features/indices:0": places, "features/values:0": np.float32([1, 2, 0.5, -1])}
    yield "sparse placeholders", sparse

    def graph_attention(x, labels):
        """Weights of a graph's edges by a softmax over those of each node."""
        edges = tf.SparseTensor(tf.constant([[0, 1], [1, 0], [1, 2], [2, 2], [3, 4], [4, 0]], tf.int64), tf.ones([6]), [5, 5])
        hidden = tf.matmul(x, variable("w", 6, 4))
        scores = tf.sparse.add(edges * tf.matmul(hidden, variable("a", 4, 1)), edges * tf.transpose(
            tf.matmul(hidden, variable("bb", 4, 1))))
        weights_ = tf.sparse.softmax(tf.sparse.map_values(tf.nn.leaky_relu, scores))
        loss = classes(tf.matmul(tf.nn.elu(tf.sparse.sparse_dense_matmul(weights_, hidden)), variable("out", 4, 3)), labels)
        return [loss], [descend(loss)]
    yield "attention over a graph", graph_attention

    def sparse_parts(x, labels):
        places = tf.where(x > 0)
        a = tf.SparseTensor(places, tf.gather_nd(x * variable("s", 6), places), tf.shape(x, out_type=tf.int64))
        b = tf.sparse.softmax(a)
        dense, joined = tf.sparse.to_dense, tf.sparse.concat(1, [a, b])
        part = tf.sparse.slice(joined, [0, 4], [4, 5])
        loss = classes(dense(part)[:, :3], labels[:4]) + tf.reduce_sum(tf.square(dense(tf.sparse.add(a, b, 0.1))))
        return [loss, dense(joined), dense(tf.sparse.maximum(a, b)), dense(tf.sparse.minimum(a, b)), tf.sparse.reduce_max(a, 1),
                *(dense(each) for each in tf.sparse.split(a, 2, 1)), v1.sparse_reduce_max_sparse(a, 0).values,
                tf.sets.size(tf.sets.intersection(labels[None], tf.constant([[1, 2, 3]])))], [descend(loss)]
    yield "parts of sparse tensors", sparse_parts


FAMILIES = (recurrent_programs, lookup_programs)
