"""Writes training programs as projects of TensorFlow 1 have them: columns of features, parts of variables, averages that
are restored, updates of rows beside each other, and losses of sequences; see foreign_idioms.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

from foreign_idioms import classes, constant_initializer, descend, logits_of, train, v1, variable, weights

columns = tf.feature_column
MADE = constant_initializer(7)


@tf.RegisterGradient("ClippedTwice")
def clipped_twice(_, g):
    return tf.clip_by_value(g, -0.1, 0.1) * 2


# ---- Columns of features ----------------------------------------------------------------------------------------------


def column_programs():
    def features(x, labels):
        number = columns.numeric_column
        kind = columns.categorical_column_with_identity("kind", 5)
        chosen = [number("x", shape=(6,)), columns.embedding_column(kind, 3, initializer=MADE), columns.indicator_column(kind),
                  columns.bucketized_column(number("y"), [-1.0, 0.0, 1.0])]
        hidden = v1.feature_column.input_layer({"x": x, "kind": labels, "y": x[:, 0]}, chosen)
        loss = classes(hidden @ variable("out", 18, 3), labels)
        return [loss], [descend(loss)]
    yield "columns of features", features

    def crossed(x, labels):
        part = columns.bucketized_column(columns.numeric_column("y"), [-1.0, 0.0, 1.0])
        kind = columns.categorical_column_with_identity("kind", 5)
        chosen = [columns.indicator_column(columns.crossed_column([part, kind], 10)),
                  columns.indicator_column(columns.categorical_column_with_hash_bucket("kind", 7, tf.int32)),
                  columns.embedding_column(columns.crossed_column([kind, part], 6, hash_key=3), 2, initializer=MADE)]
        hidden = v1.feature_column.input_layer({"kind": labels, "y": x[:, 0]}, chosen)
        loss = classes(hidden @ variable("out", 19, 3), labels)
        return [loss, hidden], [descend(loss)]
    yield "crossed columns", crossed

    def linear(x, labels):
        part = columns.bucketized_column(columns.numeric_column("y"), [-1.0, 0.0, 1.0])
        kind = columns.categorical_column_with_identity("kind", 5)
        found = v1.feature_column.linear_model({"kind": labels, "y": x[:, 0]}, [part, kind, columns.numeric_column("y")])
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels > 0, tf.float32)[:, None], logits=found))
        return [loss], [train.FtrlOptimizer(0.1).minimize(loss)]
    yield "a linear model of columns", linear


# ---- Variables --------------------------------------------------------------------------------------------------------


def variable_programs():
    def partitioned(x, labels):
        with v1.variable_scope("parts", partitioner=v1.fixed_size_partitioner(3)):
            w = v1.get_variable("w", [6, 8], initializer=MADE)
            table = v1.get_variable("table", [6, 8], initializer=v1.constant_initializer(0.1))
        with v1.variable_scope("shards", partitioner=v1.min_max_variable_partitioner(2, axis=0, min_slice_size=16)):
            other = v1.get_variable("table", [6, 8], initializer=v1.constant_initializer(0.3))
        rows = v1.nn.embedding_lookup(table, labels, partition_strategy="div") + v1.nn.embedding_lookup(other, labels)
        loss = classes(tf.nn.relu(x @ tf.convert_to_tensor(w) + rows) @ variable("out", 8, 3), labels)
        train.Saver()
        return [loss], [train.AdagradOptimizer(0.1).minimize(loss)]
    yield "tables in shards", partitioned

    def averaged(x, labels):
        w, average = variable("w", 6, 3), train.ExponentialMovingAverage(0.9)
        loss = classes(x @ w, labels)
        with tf.control_dependencies([descend(loss)]):
            updated = average.apply([w])
        train.Saver(average.variables_to_restore())
        return [loss, classes(x @ average.average(w), labels)], [updated]
    yield "an average that is restored", averaged

    def history(x, labels):
        """Two updates of rows of one table, and two of others, that do not wait for each other."""
        place = v1.get_variable("place", initializer=0, trainable=False)
        kept = v1.get_variable("kept", initializer=np.zeros([4], np.float32), trainable=False)
        counts = v1.get_variable("counts", initializer=np.ones([4, 2], np.float32), trainable=False)
        loss = classes(logits_of(x), labels)
        updates = [v1.scatter_update(kept, place, loss), v1.scatter_nd_update(kept, [[3]], [loss]),
                   v1.scatter_add(counts, labels, tf.ones([5, 2])), v1.scatter_mul(counts, [3], [[2.0, 3.0]])]
        with tf.control_dependencies(updates):
            moved = v1.assign(place, (place + 1) % 3)
        return [loss, kept + 0, tf.reduce_sum(counts)], [moved, updates[:1], [updates[2]], descend(loss)]
    yield "a history of losses", history

    def accumulated(x, labels):
        """Gradients of two batches are added up before they are applied."""
        loss, optimizer = classes(logits_of(x), labels), train.AdamOptimizer(0.1)
        trained = v1.trainable_variables()
        sums = [v1.get_variable(f"sum_{i}", initializer=np.zeros(each.shape, np.float32), trainable=False)
                for i, each in enumerate(trained)]
        added = [v1.assign_add(total, g) for total, (g, _) in zip(sums, optimizer.compute_gradients(loss, trained))]
        cleared = [v1.assign(each, tf.zeros_like(each)) for each in sums]
        applied = optimizer.apply_gradients([(total / 2, each) for total, each in zip(sums, trained)])
        return [loss], [cleared, added, added, applied]
    yield "gradients added up", accumulated

    def decayed(x, labels):
        loss = classes(logits_of(x), labels)
        step = train.get_or_create_global_step()
        with tf.control_dependencies([train.AdamOptimizer(0.01).minimize(loss, global_step=step)]):
            done = tf.group(*[each.assign_sub(0.01 * each) for each in v1.trainable_variables()])
        return [loss, tf.identity(step)], [done]
    yield "a decay of its own", decayed

    def towers(x, labels):
        optimizer, found = train.AdamOptimizer(0.05), []
        for i, (part, own) in enumerate(zip(tf.split(x[:4], 2), tf.split(labels[:4], 2))):
            with tf.device("/job:localhost/task:0/device:CPU:0"), v1.name_scope(f"tower_{i}"), v1.variable_scope(
                    v1.get_variable_scope(), reuse=i > 0):
                w = v1.get_variable("w", [6, 3], initializer=MADE)
                loss = classes(part @ w, own)
                found.append(optimizer.compute_gradients(loss))
        means = [(tf.reduce_mean(tf.stack([g for g, _ in pairs]), 0), pairs[0][1]) for pairs in zip(*found)]
        return [loss], [optimizer.apply_gradients(means)]
    yield "towers", towers


# ---- Losses and gradients ---------------------------------------------------------------------------------------------


def gradient_programs():
    def overridden(x, labels):
        hidden = x @ variable("w", 6, 8)
        with v1.get_default_graph().gradient_override_map({"Identity": "ClippedTwice", "Relu": "ClippedTwice"}):
            hidden = tf.nn.relu(tf.identity(hidden))
        loss = classes(hidden @ variable("out", 8, 3), labels)
        return [loss], [descend(loss)]
    yield "gradients of other ops", overridden

    def sampled(x, labels):
        w, b, many = variable("w", 9, 6), variable("b", 9), tf.cast(labels, tf.int64)[:, None]
        given = tf.range(9, dtype=tf.int64), tf.ones([5, 1]), tf.ones([9])
        loss = tf.reduce_mean(v1.nn.nce_loss(w, b, many, x, 9, 9, sampled_values=given))
        few = tf.constant([1, 3, 5, 7], tf.int64), tf.ones([5, 1]) * 0.5, tf.ones([4]) * 0.5
        loss += tf.reduce_mean(v1.nn.sampled_softmax_loss(w, b, many, x, 4, 9, sampled_values=few))
        drawn = tf.random.fixed_unigram_candidate_sampler(many, 1, 3, True, 4, unigrams=[3.0, 2.0, 1.0], num_reserved_ids=1)
        all_of = tf.random.all_candidate_sampler(many, 1, 4, True)
        return [loss, tf.sort(drawn.sampled_candidates), all_of.sampled_candidates, all_of.true_expected_count], [descend(loss)]
    yield "classes that are given", sampled

    def spoken(x, labels):
        logits = tf.transpose(tf.reshape(tf.tile(x, [1, 4]), [-1, 6, 4]) * variable("scale", 4), [1, 0, 2])
        places = tf.cast(tf.stack([tf.range(5), tf.zeros([5], tf.int32)], 1), tf.int64)
        truth = tf.SparseTensor(places, labels, [5, 1])
        loss = tf.reduce_mean(v1.nn.ctc_loss(truth, logits, tf.fill([5], 6)))
        greedy, _ = tf.nn.ctc_greedy_decoder(logits, tf.fill([5], 6))
        beam, likelihood = tf.nn.ctc_beam_search_decoder(logits, tf.fill([5], 6), 5)
        errors = [tf.reduce_mean(tf.edit_distance(tf.cast(each, tf.int32), truth)) for each in (greedy[0], beam[0])]
        return [loss, *errors, likelihood], [train.MomentumOptimizer(0.01, 0.9).minimize(loss)]
    yield "labels of speech", spoken

    def glimpsed(x, labels):
        image = tf.reshape(tf.tile(x, [1, 6]), [-1, 6, 6, 1])
        seen = tf.image.extract_glimpse(image, [3, 3], x[:, :2] / 3, noise="zero")
        loss = classes(tf.reshape(seen, [-1, 9]) @ variable("w", 9, 3), labels)
        return [loss], [descend(loss)]
    yield "glimpses", glimpsed

    def spectral(x, labels):
        z = tf.complex(x @ variable("w", 6, 4), x @ variable("v", 6, 4))
        y = tf.sqrt(z) * tf.exp(tf.complex(0.0, 0.3)) / (tf.tanh(z) + 2)
        loss = classes(tf.concat([tf.math.real(y), tf.math.imag(y)], 1) @ variable("out", 8, 3), labels)
        return [loss], [descend(loss)]
    yield "complex numbers", spectral

    def factored(x, labels):
        lower, order = tf.linalg.lu(weights(5, 6, 6) + 3 * np.eye(6, dtype=np.float32))
        y = tf.linalg.lu_solve(lower, order, tf.transpose(x))
        diagonals = tf.stack([variable("above", 6), 4 + variable("main", 6), variable("below", 6)])
        y = tf.transpose(tf.linalg.tridiagonal_solve(diagonals, y))
        loss = classes(y @ variable("out", 6, 3), labels)
        return [loss], [descend(loss, 0.01)]
    yield "systems of equations", factored


# ---- Recurrent networks -----------------------------------------------------------------------------------------------


def recurrent_programs():
    def with_cell(make):
        def program(x, labels):
            outputs, _ = v1.nn.dynamic_rnn(make(), tf.reshape(x, [-1, 3, 2]), dtype=tf.float32)
            loss = classes(outputs[:, -1] @ variable("out", 4, 3), labels)
            return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
        return program

    def gru(**options):
        return cells.GRUCell(4, kernel_initializer=MADE, bias_initializer=tf.zeros_initializer(), **options)
    yield "a projected LSTM", with_cell(lambda: cells.LSTMCell(5, num_proj=4, initializer=MADE, proj_clip=2.0))
    yield "residual cells", with_cell(lambda: cells.MultiRNNCell([gru(), cells.ResidualWrapper(gru())]))
    yield "cells on devices", with_cell(lambda: cells.DeviceWrapper(cells.DropoutWrapper(gru(), output_keep_prob=1.0), "/job:localhost/task:0"))

    def raw(x, labels):
        cell, count = cells.LSTMCell(4, initializer=MADE), tf.shape(x)[0]
        steps = tf.TensorArray(tf.float32, 3).unstack(tf.transpose(tf.reshape(x, [-1, 3, 2]), [1, 0, 2]))

        def each(time, output, state, _):
            ended = time >= labels + 1
            given = tf.cond(tf.reduce_all(ended), lambda: tf.zeros([count, 2]), lambda: steps.read(tf.minimum(time, 2)))
            given.set_shape([None, 2])
            return ended, given, cell.zero_state(count, tf.float32) if output is None else state, output, None
        outputs, state, _ = v1.nn.raw_rnn(cell, each)
        loss = classes(state.h @ variable("out", 4, 3), labels) + 0.01 * tf.nn.l2_loss(outputs.stack())
        return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "raw_rnn", raw

    def translated(x, labels):
        with v1.variable_scope("reader"):
            read, state = v1.nn.dynamic_rnn(gru(), tf.reshape(x, [-1, 3, 2]), sequence_length=labels + 1, dtype=tf.float32)
        table, cell, out = variable("table", 5, 3), gru(name="writer"), variable("out", 4, 5)
        ids, logits, now = tf.stack([labels, labels + 1, labels + 2], 1), [], state
        for i in range(3):
            y, now = cell(tf.nn.embedding_lookup(table, ids[:, i]), now)
            y += tf.einsum("bt,bth->bh", tf.nn.softmax(tf.einsum("bth,bh->bt", read, y)), read)
            logits.append(y @ out)
        mask = tf.sequence_mask(labels + 1, 3, tf.float32)
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=ids, logits=tf.stack(logits, 1))
        loss = tf.reduce_sum(entropies * mask) / tf.reduce_sum(mask)

        def body(i, word, now, words):
            y, now = cell(tf.nn.embedding_lookup(table, word), now)
            word = tf.argmax(y @ out, 1, output_type=tf.int32)
            return i + 1, word, now, words.write(i, word)
        words = tf.while_loop(lambda i, *_: i < 4, body, (0, labels * 0, state, tf.TensorArray(tf.int32, 4)))[3]
        return [loss, words.stack()], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "a translator", translated


FAMILIES = (column_programs, variable_programs, gradient_programs, recurrent_programs)
