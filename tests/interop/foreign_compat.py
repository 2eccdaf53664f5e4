"""Writes programs of compat.v1 that change parts of variables in turns, wrap cells, and ask for gradients of odd kinds; see
foreign_idioms.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells

from foreign_idioms import classes, constant_initializer, descend, logits_of, losses, train, v1, variable, weights

KERNEL = constant_initializer(3)


def after(update, make):
    with tf.control_dependencies([update]):
        return make()


# ---- Variables --------------------------------------------------------------------------------------------------------


def parts_of_variables():
    def slices(x, labels):
        v, u = variable("v", 4, 6), variable("u", 6)
        first = v[1:3, ::2].assign(x[:2, :3])
        second = after(first, lambda: u[2].assign(x[0, 0] * 2))
        return [tf.reduce_sum(v * v) + tf.reduce_sum(u)], [after(second, lambda: v[..., -1].assign(x[:4, 1] + u[:4]))]
    yield "slices of variables", slices

    def backward(x, labels):
        v = variable("v", 5, 6)
        return [tf.identity(v)], [v[::-2, 4:0:-1].assign(x[:3, :4] * 0.5)]
    yield "slices backward", backward

    def scatters(x, labels):
        v = variable("v", 5, 6)
        update = v1.scatter_nd_update(v, [[0, 1], [2, 3]], [9.0, 8.0])
        for make in (lambda: v1.scatter_nd_add(v, [[1], [1]], x[:2]), lambda: v1.scatter_nd_sub(v, [[4, 4]], [1.5]), lambda: v1.scatter_mul(v, [0, 2], x[:2]),
                     lambda: v1.scatter_div(v, [3], tf.abs(x[:1]) + 1), lambda: v1.scatter_max(v, [0], x[:1])):
            update = after(update, make)
        return [tf.identity(v)], [update]
    yield "scatters in turns", scatters

    def counters(x, labels):
        c, n, k = (v1.get_variable(name, initializer=value, trainable=False) for name, value in (("c", np.int64([3, 4])), ("n", np.int32(0)), ("k", np.int32(0))))
        return [tf.identity(c), tf.identity(n)], [tf.group(c.assign_add([1, 2]), v1.assign_sub(n, 3)), v1.count_up_to(k, 10)]
    yield "counters", counters

    def rows(x, labels):
        table, ids = v1.get_variable("t", [7, 4], initializer=constant_initializer(5)), tf.stack([labels, labels * 2 + 1], 1)
        summed = tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1)
        mean = tf.nn.embedding_lookup_sparse(table, tf.sparse.from_dense(tf.cast(ids, tf.int64) + 1), None, combiner="mean")
        loss = tf.reduce_mean(tf.square(summed - mean))
        return [loss], [train.AdamOptimizer(0.1).minimize(loss), train.AdagradOptimizer(0.1).minimize(loss)]
    yield "two optimizers of a table", rows

    def found(x, labels):
        table = v1.get_variable("t", [7, 4], initializer=constant_initializer(5))
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, tf.where(labels > 0)[:, 0]) ** 2)
        return [loss], [train.FtrlOptimizer(0.1).minimize(loss)]
    yield "rows that are found", found


# ---- Cells ------------------------------------------------------------------------------------------------------------


def more_cells():
    def wrapped(x, labels):
        cell = cells.GRUCell(6, kernel_initializer=constant_initializer(1), bias_initializer=constant_initializer(2))
        cell = cells.DropoutWrapper(cells.ResidualWrapper(cell), output_keep_prob=1.0)
        y, state = v1.nn.dynamic_rnn(cell, tf.reshape(tf.tile(x, [1, 3]), [-1, 3, 6]), dtype=tf.float32, sequence_length=labels + 1)
        loss = classes(tf.matmul(state, variable("out", 6, 3)), labels)
        return [loss, y], [descend(loss)]
    yield "wrapped cells", wrapped

    def clipped(x, labels):
        cell = cells.LSTMCell(5, use_peepholes=True, num_proj=4, cell_clip=0.8, proj_clip=0.9, initializer=KERNEL, forget_bias=0.3)
        y = tf.transpose(tf.reshape(tf.tile(x, [1, 2]), [-1, 2, 6]), [1, 0, 2])
        _, state = v1.nn.dynamic_rnn(cell, y, dtype=tf.float32, time_major=True)
        loss = classes(tf.matmul(state.h, variable("out", 4, 3)), labels)
        return [loss], [train.RMSPropOptimizer(0.05, momentum=0.5).minimize(loss)]
    yield "a clipped LSTM", clipped

    def both_ways(x, labels):
        steps = tf.unstack(tf.reshape(tf.tile(x, [1, 3]), [5, 3, 6]), axis=1)
        with v1.variable_scope("both", initializer=KERNEL):
            y, *_ = v1.nn.static_bidirectional_rnn(cells.BasicRNNCell(3), cells.BasicRNNCell(3), steps, dtype=tf.float32)
        loss = classes(tf.matmul(y[-1], variable("out", 6, 3)), labels)
        return [tf.add_n(y)], [descend(loss)]
    yield "static_bidirectional_rnn", both_ways

    def by_hand(x, labels):
        cell = cells.BasicLSTMCell(4)
        state, outputs = cell.zero_state(tf.shape(x)[0], tf.float32), []
        with v1.variable_scope("cell", initializer=KERNEL) as scope:
            for i in range(3):
                if i:
                    scope.reuse_variables()
                output, state = cell(x * (i + 1.0), state)
                outputs.append(output)
        loss = classes(tf.matmul(tf.concat(outputs, 1), variable("out", 12, 3)), labels)
        return [loss], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "cells by hand", by_hand

    def arrays(x, labels):
        w = variable("w", 6, 6)

        def body(i, h, list_):
            h = tf.tanh(h @ w)
            return i + 1, h, list_.write(i, tf.reduce_sum(h, 1))
        _, h, list_ = v1.while_loop(lambda i, *_: i < 4, body, [0, x, tf.TensorArray(tf.float32, 4)], parallel_iterations=1, swap_memory=True)
        loss = tf.reduce_mean(list_.stack() ** 2) + classes(h[:, :3], labels)
        return [loss], [descend(loss)]
    yield "a loop with an array", arrays


# ---- Gradients and steps ----------------------------------------------------------------------------------------------


def odd_functions(labels):
    """Each has a gradient of its own."""
    m, l, nn = tf.math, tf.linalg, tf.nn
    picture = lambda t: tf.reshape(t, [1, 5, 6, 1])
    gram = lambda t: tf.matmul(t, t, transpose_a=True)
    return (lambda t: m.igamma(t, t * 0 + 1.5), lambda t: l.logdet(gram(t) + tf.eye(6)), lambda t: tf.reduce_prod(t, 1), lambda t: m.cumprod(t, 1, True, True),
            lambda t: tf.image.resize(picture(t), [8, 3]), lambda t: nn.top_k(t, 3)[0], lambda t: m.segment_mean(t, [0, 0, 1, 1, 1]), lambda t: tf.sort(t, 1),
            lambda t: m.unsorted_segment_prod(t, [0, 1, 0, 1, 2], 3), lambda t: l.cholesky(gram(t) + 3 * tf.eye(6)), lambda t: nn.max_pool2d(picture(t), 2, 1, "SAME"),
            lambda t: nn.avg_pool2d(picture(t), [2, 3], [2, 1], "VALID"), lambda t: m.atan2(t, t * t), lambda t: tf.reverse_sequence(t, [1, 2, 3, 4, 5], 1),
            lambda t: l.inv(gram(t) + tf.eye(6)), lambda t: nn.softmax(t, 0), lambda t: tf.cumsum(t, 1, reverse=True), m.lgamma, m.erfc,
            lambda t: nn.lrn(tf.reshape(t, [1, 5, 3, 2])), lambda t: l.det(gram(t) * 0.1 + tf.eye(6)), lambda t: l.svd(t, compute_uv=False),
            lambda t: l.eigvalsh(gram(t) + l.diag([1.0, 2, 3, 4, 5, 6])), lambda t: tf.gather(t, labels, axis=1), lambda t: m.xlogy(t, t),
            lambda t: tf.batch_to_space(tf.reshape(t[:4], [4, 1, 2, 3]), [2, 2], [[0, 0], [0, 1]]), lambda t: m.reduce_std(t[:, :1] * 0 + t[:, :1], 1),
            lambda t: m.betainc(tf.constant(2.0), tf.constant(3.0), tf.sigmoid(t)), lambda t: nn.l2_normalize(t, 1), lambda t: tf.clip_by_norm(t, 1.0, 1),
            lambda t: tf.einsum("ii->i", t[:, :5]))


def odd_gradients():
    def many(x, labels):
        a = tf.abs(x) + 0.3
        return [tf.gradients(f(a) ** 2, a)[0] for f in odd_functions(labels)], []
    yield "gradients of many ops", many

    def given(x, labels):
        w = variable("w", 6, 3)
        y = tf.tanh(x @ w)
        first, = tf.gradients(y, [w], grad_ys=[x[:, :3]])
        stopped, = tf.gradients([y, tf.reduce_sum(y, 1)], w, stop_gradients=[x])
        return [first, *tf.gradients(first, [w]), stopped], [w.assign_sub(0.1 * first)]
    yield "given gradients", given

    def decomposed(x, labels):
        w = variable("w", 6, 6)
        loss = tf.reduce_sum(tf.linalg.svd(w)[0]) + tf.reduce_sum(tf.abs(tf.linalg.qr(w)[1]))
        return [loss], [descend(loss, 0.01)]
    yield "decomposed weights", decomposed

    def in_turns(x, labels):
        w, step = variable("w", 6, 3), v1.get_variable("s", initializer=np.int32(0), trainable=False)
        loss = v1.cond(tf.equal(step % 2, 0), lambda: classes(x @ w, labels), lambda: tf.reduce_mean((x @ w) ** 2))
        return [loss, tf.identity(step)], [after(descend(loss), lambda: v1.assign_add(step, 1))]
    yield "losses in turns", in_turns

    def experts(x, labels):
        each = [part @ variable(f"w{'x' * i}", 6, 2) for i, part in enumerate(tf.dynamic_partition(x, labels, 3))]
        y = tf.dynamic_stitch(tf.dynamic_partition(tf.range(5), labels, 3), each)
        loss = tf.reduce_mean(y ** 2)
        return [loss, y], [descend(loss)]
    yield "experts by labels", experts


def odd_steps():
    def rates(x, labels):
        step, loss = train.get_or_create_global_step(), classes(logits_of(x), labels)
        rate = train.linear_cosine_decay(0.1, step, 5) + train.exponential_decay(0.1, step, 2, 0.5, True) + train.polynomial_decay(0.05, step, 3)
        return [loss, rate], [train.GradientDescentOptimizer(rate).minimize(loss, step)]
    yield "rates that are added", rates

    def proximal(x, labels):
        loss = classes(logits_of(x), labels)
        return [loss], [train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)]
    yield "ProximalAdagrad of a network", proximal

    def doubles(x, labels):
        w = v1.get_variable("w", initializer=weights(3, 6, 3).astype(np.float64))
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.cast(x, tf.float64) @ w))
        return [loss], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "doubles by Adam", doubles

    def measured(x, labels):
        metrics, chosen, scores = v1.metrics, tf.argmax(logits_of(x), 1), tf.sigmoid(x[:, 0])
        made = [metrics.accuracy(labels, chosen), metrics.precision(labels > 0, chosen > 0), metrics.auc(labels > 0, scores), metrics.mean_iou(labels, chosen, 3),
                metrics.mean_per_class_accuracy(labels, chosen, 3), metrics.recall_at_k(tf.cast(labels, tf.int64)[:, None], x[:, :3], 2),
                metrics.sensitivity_at_specificity(labels > 0, scores, 0.5)]
        return [v1.confusion_matrix(labels, chosen, 3), *[value for value, _ in made]], [tf.group(*[update for _, update in made])]
    yield "many metrics", measured

    def weighted(x, labels):
        hidden = v1.nn.relu_layer(x, variable("w", 6, 8), variable("b", 8))
        loss = losses.compute_weighted_loss(tf.reduce_sum(tf.nn.softmax(hidden) * hidden, 1), tf.cast(labels, tf.float32),
                                            reduction=losses.Reduction.SUM_BY_NONZERO_WEIGHTS)
        return [loss, v1.nn.zero_fraction(hidden)], [descend(loss)]
    yield "weighted losses", weighted


FAMILIES = (parts_of_variables, more_cells, odd_gradients, odd_steps)
