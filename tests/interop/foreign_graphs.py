"""Writes graphs of TensorFlow 1 as its guides, model gardens and estimators make them; see foreign_idioms.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops
from tensorflow.python.keras.legacy_tf_layers import core
from tensorflow.python.ops import control_flow_ops
from tensorflow.python.training import moving_averages

from foreign_idioms import LABELS, LAYER, X, classes, constant_initializer, descend, logits_of, variable
from foreign_models import points, weights

v1 = tf.compat.v1
train, losses = v1.train, v1.losses


# ---- Programs around a model ------------------------------------------------------------------------------------------


def framework_programs():
    def estimator(x, labels):
        """A model_fn with feature columns, as the canned estimators have it."""
        step = train.get_or_create_global_step()
        c = tf.feature_column
        columns = [c.numeric_column("x", 6), c.bucketized_column(c.numeric_column("age"), [-1.0, 0.0, 1.0]),
                   c.embedding_column(c.categorical_column_with_identity("kind", 3), 2, initializer=constant_initializer(4)),
                   c.indicator_column(c.categorical_column_with_identity("kind", 3))]
        y = v1.feature_column.input_layer({"x": x, "age": x[:, :1], "kind": labels[:, None]}, columns)
        logits = core.dense(core.dense(y, 5, tf.nn.relu, **LAYER), 3, **LAYER)
        loss = losses.sparse_softmax_cross_entropy(labels, logits)
        found = tf.argmax(logits, 1)
        accuracy, update = v1.metrics.accuracy(labels, found, name="accuracy")
        v1.summary.scalar("accuracy", update)
        tf.as_string(found, name="classes")
        return [loss, accuracy], [train.AdagradOptimizer(0.1).minimize(loss, step), update]
    yield "an estimator", estimator

    def linear(x, labels):
        c = v1.feature_column
        columns = [tf.feature_column.numeric_column("x", 6), tf.feature_column.categorical_column_with_identity("kind", 3)]
        logits = c.linear_model({"x": x, "kind": labels[:, None]}, columns, units=3)
        loss = classes(logits, labels)
        return [loss], [train.FtrlOptimizer(0.1).minimize(loss)]
    yield "a linear estimator", linear

    def monitored(x, labels):
        """What a MonitoredTrainingSession adds to a graph when it is made."""
        step = train.get_or_create_global_step()
        loss = losses.sparse_softmax_cross_entropy(labels, logits_of(x))
        ran = train.MomentumOptimizer(train.exponential_decay(0.1, step, 2, 0.5, staircase=True), 0.9).minimize(loss, step)
        scaffold = train.Scaffold(saver=train.Saver(sharded=True, keep_checkpoint_every_n_hours=1)).finalize
        v1.report_uninitialized_variables(name="report")
        v1.train.Scaffold(local_init_op=tf.group(v1.local_variables_initializer(), v1.tables_initializer()))
        v1.summary.merge_all()
        del scaffold
        return [loss, step], [ran]
    yield "a monitored session", monitored

    def replicas(x, labels):
        """Towers that share their variables, whose gradients are averaged."""
        step = train.get_or_create_global_step()
        optimizer, towers = train.AdamOptimizer(0.1), []
        for i, (a, b) in enumerate(((x[:3], labels[:3]), (x[3:], labels[3:]))):
            with v1.device(train.replica_device_setter(0, worker_device="/cpu:0")), v1.variable_scope(
                    v1.get_variable_scope(), reuse=i > 0), v1.name_scope(f"tower_{i}"):
                losses.sparse_softmax_cross_entropy(b, logits_of(a))
                loss = tf.add_n(v1.get_collection(v1.GraphKeys.LOSSES, f"tower_{i}"))
                towers.append((loss, optimizer.compute_gradients(loss)))
        pairs = []
        for each in zip(*(pairs for _, pairs in towers)):
            pairs.append((tf.reduce_mean(tf.concat([tf.expand_dims(g, 0) for g, _ in each], 0), 0), each[0][1]))
        return [loss for loss, _ in towers], [optimizer.apply_gradients(pairs, step)]
    yield "replicas", replicas

    def measured(x, labels):
        logits, m = logits_of(x), v1.metrics
        loss, y, p = classes(logits, labels), labels > 0, tf.nn.softmax(logits)
        pairs = [m.mean_per_class_accuracy(labels, tf.argmax(logits, 1), 3), m.root_mean_squared_error(tf.one_hot(labels, 3), p),
                 m.mean_absolute_error(tf.one_hot(labels, 3), p), m.mean_relative_error(p + 1, p, p + 1), m.mean_tensor(tf.reshape(p, [5, 3])),
                 m.percentage_below(p, 0.3), m.false_positives(y, p[:, 1] > 0.3), m.true_negatives_at_thresholds(y, p[:, 1], [0.2, 0.5]),
                 m.sensitivity_at_specificity(y, p[:, 1], 0.5, 11), m.precision_at_thresholds(y, p[:, 1], [0.2, 0.4]),
                 m.mean_cosine_distance(tf.nn.l2_normalize(p, 1), p, 1), m.auc(y, p[:, 1], curve="PR", num_thresholds=7, summation_method="careful_interpolation")]
        return [loss] + [value for value, _ in pairs], [tf.group(*(update for _, update in pairs)), descend(loss)]
    yield "more metrics", measured

    def bert(x, labels):
        """BERT's optimizer: moments by hand, a decay of some weights, a rate that warms up."""
        step = train.get_or_create_global_step()
        loss = classes(logits_of(x), labels)
        rate = train.polynomial_decay(tf.constant(0.1), step, 10, end_learning_rate=0.0, power=1.0, cycle=False)
        done, all_ = tf.cast(tf.cast(step, tf.int32), tf.float32), tf.constant(3.0)
        warm = tf.cast(tf.cast(step, tf.int32) < 3, tf.float32)
        rate = (1.0 - warm) * rate + warm * 0.1 * done / all_
        variables = v1.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        updates = []
        for g, w in zip(gradients, variables):
            m = v1.get_variable(w.op.name + "/adam_m", w.shape.as_list(), trainable=False, initializer=v1.zeros_initializer())
            v = v1.get_variable(w.op.name + "/adam_v", w.shape.as_list(), trainable=False, initializer=v1.zeros_initializer())
            next_m = tf.multiply(0.9, m) + tf.multiply(1.0 - 0.9, g)
            next_v = tf.multiply(0.999, v) + tf.multiply(1.0 - 0.999, tf.square(g))
            update = next_m / (tf.sqrt(next_v) + 1e-6)
            if "b" != w.op.name:
                update += 0.01 * w
            updates += [w.assign(w - rate * update), m.assign(next_m), v.assign(next_v)]
        with tf.control_dependencies(updates):  # TensorFlow itself reads the rate in any order
            return [loss, rate], [tf.group(step.assign(step + 1))]
    yield "BERT's optimizer", bert

    def trust(x, labels):
        """LARS: each rate by the norms of the weights and of the gradient."""
        loss, updates = classes(logits_of(x), labels), []
        for w in v1.trainable_variables():
            g = tf.gradients(loss, w)[0] + 1e-3 * w
            wn, gn = tf.norm(w, ord=2), tf.norm(g, ord=2)
            ratio = tf.where(tf.greater(wn, 0), tf.where(tf.greater(gn, 0), 0.1 * wn / gn, 1.0), 1.0)
            slot = v1.get_variable(w.op.name + "/slot", initializer=np.zeros(w.shape, np.float32), trainable=False)
            with tf.control_dependencies([slot.assign(0.9 * slot + ratio * g)]):
                updates.append(v1.assign_sub(w, slot.read_value() if hasattr(slot, "read_value") else slot))
        return [loss], updates
    yield "LARS", trust

    def loss_scale(x, labels):
        """Half precision inside, and a scale that is changed by a condition."""
        scale = v1.get_variable("scale", initializer=np.float32(2 ** 15), trainable=False)
        good = v1.get_variable("good", initializer=np.int32(0), trainable=False)
        w, b = variable("w", 6, 3), variable("b", 3)
        half = tf.cast(tf.cast(x, tf.float16) @ tf.cast(w, tf.float16), tf.float32) + b
        loss = classes(half, labels)
        gradients = [g / scale for g in tf.gradients(loss * scale, [w, b])]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        update = tf.cond(finite, lambda: tf.group(train.GradientDescentOptimizer(0.1).apply_gradients(zip(gradients, [w, b])), good.assign_add(1)),
                         lambda: tf.group(scale.assign(scale / 2), good.assign(0)))
        return [loss, tf.identity(scale), tf.identity(good)], [update]
    yield "loss scale", loss_scale

    def slim(x, labels):
        """Layers as slim has them, with averages of the moments, a decay of the weights and a penalty in collections."""
        def conv(y, size, scope):
            with v1.variable_scope(scope):
                w = v1.get_variable("weights", [3, 3, y.shape[-1], size], initializer=constant_initializer(size),
                                    regularizer=lambda w: 0.01 * tf.nn.l2_loss(w))
                y = tf.nn.conv2d(y, w, [1, 1, 1, 1], "SAME")
                beta = v1.get_variable("beta", [size], initializer=v1.zeros_initializer())
                moving = [v1.get_variable("moving_" + name, [size], initializer=make(), trainable=False)
                          for name, make in (("mean", v1.zeros_initializer), ("variance", v1.ones_initializer))]
                mean, variance = tf.nn.moments(y, [0, 1, 2])
                for each, value in zip(moving, (mean, variance)):
                    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, moving_averages.assign_moving_average(each, value, 0.9, zero_debias=False))
                return tf.nn.relu(tf.nn.batch_normalization(y, mean, variance, beta, None, 0.001))
        y = conv(conv(tf.reshape(x, [-1, 3, 2, 1]), 3, "one"), 4, "two")
        logits = core.dense(core.flatten(y), 3, **LAYER)
        losses.softmax_cross_entropy(tf.one_hot(labels, 3), logits)
        total = tf.add_n(losses.get_losses() + v1.get_collection(v1.GraphKeys.REGULARIZATION_LOSSES), name="total")
        updates = tf.group(*v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        with tf.control_dependencies([updates]):
            barrier = tf.no_op(name="update_barrier")
        total = control_flow_ops.with_dependencies([barrier], total)
        optimizer = train.RMSPropOptimizer(0.01, 0.9, 0.9, 1.0)
        gradients = [(g * 2.0 if "weights" in w.op.name else g, w) for g, w in optimizer.compute_gradients(total)]
        step = train.get_or_create_global_step()
        applied = optimizer.apply_gradients(gradients, global_step=step)
        with tf.control_dependencies([applied]):
            ran = tf.identity(total, "train_op")
        return [losses.get_losses()[0]] + [tf.identity(each) for each in v1.global_variables("two/moving")], [ran]
    yield "slim", slim

    def shared_rows(x, labels):
        """Variables in parts that sizes decide, and rows by div and mod."""
        with v1.variable_scope("", partitioner=v1.variable_axis_size_partitioner(40)):
            table = v1.get_variable("table", [5, 4], initializer=constant_initializer(3))
        parts = [variable("part0", 2, 4), variable("part00", 1, 4)]
        y = tf.nn.embedding_lookup(table, labels) + v1.nn.embedding_lookup(parts, labels, partition_strategy="mod") + v1.nn.embedding_lookup(
            parts, labels, partition_strategy="div", max_norm=1.0)
        logits = tf.concat([x, y], 1) @ variable("w", 10, 3)
        loss = classes(logits, labels)
        return [loss, tf.convert_to_tensor(table)], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "rows in parts", shared_rows

    def batched_feeds(x, labels):
        """The queues of TensorFlow 1 before a model; the batch is fed."""
        index = train.range_input_producer(5, shuffle=False).dequeue()
        one, label = tf.gather(tf.constant(X), index), tf.gather(tf.constant(LABELS), index)
        batch, batch_labels = train.shuffle_batch([one, label], 5, 20, 5)
        loss = classes(logits_of(batch), batch_labels)
        return [loss], [descend(loss)], {batch.name: X, batch_labels.name: LABELS}
    yield "shuffled batches", batched_feeds


# ---- Gradients of all kinds -------------------------------------------------------------------------------------------


@ops.RegisterGradient("TapestryTestStraightThrough")
def _straight_through(_, gradient):
    return gradient


def gradient_programs():
    def penalty(x, labels):
        """The gradient of a gradient through convolutions, pooling and batch norm."""
        picture = tf.reshape(x, [-1, 3, 2, 1])

        def critic(y):
            y = tf.nn.leaky_relu(tf.nn.conv2d(y, variable("filters", 2, 2, 1, 4), 1, "SAME"))
            y = tf.nn.avg_pool2d(y, 2, 2, "SAME") + tf.nn.max_pool2d(y, 2, 2, "SAME")
            mean, variance = tf.nn.moments(y, [1, 2], keepdims=True)
            y = tf.nn.softplus(tf.nn.batch_normalization(y, mean, variance, None, variable("scale", 4), 1e-2))
            return tf.reshape(y, [-1, 8]) @ variable("out", 8, 1)
        value = critic(picture)
        slope = tf.gradients(value, picture)[0]
        loss = tf.reduce_mean(value) + tf.reduce_mean(tf.square(tf.sqrt(tf.reduce_sum(slope ** 2, [1, 2, 3]) + 1e-6) - 1))
        return [loss, slope], [train.AdamOptimizer(0.05, 0.0, 0.9).minimize(loss)]
    yield "a penalty on a gradient", penalty

    def hessians(x, labels):
        w, b = variable("w", 6, 3), variable("b", 3)
        loss = classes(tf.tanh(x @ w + b), labels) + 0.1 * tf.reduce_sum(w ** 4)
        hessian = tf.hessians(loss, b)[0]
        vector = tf.stop_gradient(tf.gradients(loss, w)[0])
        product = tf.gradients(tf.reduce_sum(tf.gradients(loss, w)[0] * vector), w)[0]
        jacobian = tf.stack([tf.gradients((x @ w)[0, i], w)[0] for i in range(3)])
        step = tf.linalg.solve(hessian + 0.5 * tf.eye(3), tf.gradients(loss, b)[0][:, None])[:, 0]
        return [loss, hessian, product, jacobian], [v1.assign_sub(b, step), v1.assign_sub(w, 0.05 * product)]
    yield "hessians", hessians

    def options(x, labels):
        """grad_ys, stop_gradients, gate_gradients, aggregation, unconnected gradients."""
        w, b = variable("w", 6, 3), variable("b", 3)
        hidden = tf.tanh(x @ w)
        y = hidden * tf.stop_gradient(hidden) + b
        given = tf.gradients([y, hidden], [w, b], grad_ys=[tf.ones_like(y) * 0.5, hidden], stop_gradients=[hidden])
        free = tf.gradients(y, [w, tf.constant(1.0)], unconnected_gradients="zero")
        loss = classes(y, labels)
        tree = tf.gradients(loss, [w, b], gate_gradients=True, aggregation_method=tf.AggregationMethod.EXPERIMENTAL_ACCUMULATE_N)
        optimizer = train.GradientDescentOptimizer(0.1, use_locking=True)
        pairs = optimizer.compute_gradients(loss, gate_gradients=train.Optimizer.GATE_GRAPH, colocate_gradients_with_ops=True,
                                            aggregation_method=2)
        return [loss, *(each for each in given if each is not None), free[1], *tree], [optimizer.apply_gradients(pairs)]
    yield "options of gradients", options

    def straight_through(x, labels):
        graph = v1.get_default_graph()
        w = variable("w", 6, 3)
        with graph.gradient_override_map({"Sign": "TapestryTestStraightThrough", "Identity": "TapestryTestStraightThrough"}):
            binary = tf.sign(w)
            y = tf.identity(x @ binary)
        hard = y + tf.stop_gradient(tf.cast(y > 0, tf.float32) - tf.sigmoid(y)) + tf.sigmoid(y)
        noise = v1.placeholder(tf.float32, [None, 3], "noise")
        soft = tf.nn.softmax((hard - tf.math.log(-tf.math.log(noise))) / 0.5)
        chosen = tf.stop_gradient(tf.cast(tf.equal(soft, tf.reduce_max(soft, 1, keepdims=True)), tf.float32) - soft) + soft
        loss = classes(chosen @ variable("out", 3, 3), labels)
        return [loss], [descend(loss)], {"noise:0": np.abs(np.tanh(points(140, 5, 3))) * 0.9 + 0.05}
    yield "straight through", straight_through

    def algebra(x, labels):
        w = variable("w", 6, 3)
        m = tf.matmul(x @ w, x @ w, transpose_a=True) + 2.0 * tf.eye(3)
        l = tf.linalg
        s, u, v = l.svd(m)
        e, vectors = l.eigh(m)
        q, r = l.qr(m)
        loss = l.logdet(m) + 0.1 * l.trace(l.inv(m)) + 0.01 * tf.reduce_sum(l.cholesky(m)) + 0.1 * tf.reduce_sum(tf.math.log(s)) + \
            0.1 * tf.reduce_sum(tf.sqrt(e)) + 0.01 * tf.reduce_sum(l.triangular_solve(l.cholesky(m), tf.eye(3))) + 0.01 * tf.reduce_sum(
                l.band_part(r @ r, 0, 1)) + 0.001 * l.det(m) + tf.reduce_sum(l.diag_part(m)) * 0.01 + tf.norm(m, ord="fro", axis=(0, 1)) + 0.01 * tf.norm(
                    l.lstsq(m, tf.transpose(x @ w), fast=True)) + 0.01 * tf.reduce_sum(l.matmul(u, v, transpose_b=True) * m)
        whitened = l.matmul(vectors, l.diag(1 / tf.sqrt(e)))
        return [loss, tf.abs(whitened), l.norm(m, 1, axis=(0, 1)), l.expm(m * 0.01), l.adjoint(m),
                l.cross(x[:, :3], x[:, 3:])], [descend(loss, 0.01)]
    yield "matrices", algebra

    def images(x, labels):
        i = tf.image
        picture = tf.sigmoid(tf.reshape(tf.tile(x, [1, 8]) @ variable("w", 48, 48), [-1, 4, 4, 3]))
        y = tf.stop_gradient(i.adjust_hue(picture, 0.1) + i.adjust_saturation(picture, 1.5) + i.adjust_contrast(picture, 0.8) + i.hsv_to_rgb(i.rgb_to_hsv(picture))) + i.rgb_to_yiq(picture)
        y = y + i.yuv_to_rgb(i.rgb_to_yuv(picture)) + i.per_image_standardization(picture)
        y = i.resize(y, [8, 8], "bicubic", antialias=True) + i.resize(y, [8, 8], "lanczos3") + v1.image.resize_images(y, [8, 8], align_corners=True)
        y = i.central_crop(i.resize_with_crop_or_pad(y, 6, 10), 0.5) + i.crop_and_resize(
            y, [[0.1, 0.2, 0.8, 0.9]] * 5, tf.range(5), [4, 6])
        dy, dx = i.image_gradients(y)
        loss = tf.reduce_mean(y ** 2) + tf.reduce_mean(tf.abs(dy)) + tf.reduce_mean(tf.abs(dx)) + tf.reduce_mean(i.total_variation(y))
        loss += 1 - tf.reduce_mean(i.ssim(y, y * 0.9, 2.0, filter_size=3)) + tf.reduce_mean(i.sobel_edges(y) ** 2)
        v1.summary.image("boxes", i.draw_bounding_boxes(y, [[[0.1, 0.1, 0.7, 0.8]]] * 5, [[1.0, 0.0, 0.0]]))
        return [loss, y], [descend(loss, 0.01)]
    yield "pictures", images

    def sequences(x, labels):
        s = tf.signal
        y = x @ variable("w", 6, 8)
        frames = s.frame(y, 4, 2, pad_end=True) * s.hamming_window(4)
        loss = tf.reduce_mean(s.overlap_and_add(frames, 2) ** 2) + tf.reduce_mean(s.linear_to_mel_weight_matrix(3, 8, 16, 1, 7) * 0.1)
        return [loss, s.kaiser_window(6), s.vorbis_window(4), frames], [descend(loss)]
    yield "frames of a signal", sequences

    def spectra(x, labels):
        s = tf.signal
        y = x @ variable("w", 6, 8)
        spectrum = s.stft(y, 4, 2, 4)
        power = tf.abs(spectrum) ** 2 + 1e-3
        mel = tf.tensordot(power, s.linear_to_mel_weight_matrix(4, 3, 16, 1, 7), 1)
        loss = tf.reduce_mean(tf.math.log(mel + 1)) + tf.reduce_mean(s.mfccs_from_log_mel_spectrograms(tf.math.log(mel + 1))) + tf.reduce_mean(
            s.inverse_stft(spectrum, 4, 2) ** 2) + tf.reduce_mean(s.dct(y, 2, norm="ortho") ** 2)
        return [loss, power], [descend(loss)]
    yield "spectra", spectra

    def sparse(x, labels):
        t, n = tf.sparse, v1.placeholder(tf.float32, [None], "values")
        a = tf.SparseTensor(tf.constant([[0, 1], [1, 0], [1, 2], [4, 2]], tf.int64), n, [5, 3])
        b = t.from_dense(tf.one_hot(labels, 3))
        w = variable("w", 3, 6)
        joined = t.concat(1, [a, b])
        y = t.sparse_dense_matmul(joined, tf.concat([w, w], 0)) + t.to_dense(t.add(a, b)) @ w + t.sparse_dense_matmul(t.transpose(a), x, )[
            :1] + t.reduce_sum(a, 1, keepdims=True)
        soft = t.to_dense(t.softmax(a)) + t.to_dense(a * tf.ones([5, 3])) + t.to_dense(t.retain(a, n > 1))
        part = t.to_dense(t.slice(a, [1, 0], [4, 2]))
        mapped = tf.reduce_sum(t.map_values(tf.square, a).values)
        loss = tf.reduce_mean(tf.square(y - x)) + tf.reduce_sum(soft @ w) * 0.01 + mapped * 0.1
        return [loss, soft, part, t.reduce_max(a, 0), t.to_dense(t.reset_shape(a)),
                t.to_dense(t.expand_dims(a, 1)), t.to_dense(t.maximum(a, b)), t.to_dense(t.eye(3))], [descend(loss)], {
                    "values:0": np.float32([1, 0.5, 2, 1.5])}
    yield "sparse tensors", sparse

    def texts(x, labels):
        """Texts beside a model, behind it, and before the batch that is fed."""
        parsed = tf.io.parse_example(v1.placeholder(tf.string, [None], "serialized"), {
            "x": tf.io.FixedLenFeature([6], tf.float32), "labels": tf.io.FixedLenFeature([], tf.int64)})
        x = tf.identity(parsed["x"], "parsed")
        logits = logits_of(x)
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1, 2], tf.int64), tf.constant(["a", "b", "c"])), "?")
        name = table.lookup(tf.argmax(logits, 1))
        loss = classes(logits, labels)
        shown = v1.Print(name, [tf.strings.join([name, tf.as_string(labels)])])
        tf.numpy_function(lambda each: each, [loss], tf.float32)
        tf.print("loss", loss)
        v1.summary.text("names", tf.strings.reduce_join(shown))
        v1.summary.image("weights", v1.trainable_variables()[0][None, :, :, None])
        with tf.control_dependencies([tf.debugging.assert_less(loss, 1e3, ["too large"]), v1.assert_type(x, tf.float32)]):
            return [loss], [train.AdamOptimizer(0.1).minimize(loss)], {"parsed:0": X}
    yield "texts beside a model", texts

    def scattered(x, labels):
        """Parts of tensors that are set, and parts of Variables, by Variables' own methods."""
        table = variable("table", 4, 6)
        slices = tf.IndexedSlices(x[:2], labels[:2])
        rows = tf.scatter_nd(labels[:, None], x, [4, 6]) + tf.tensor_scatter_nd_add(tf.identity(table), labels[:, None], x)
        t = tf.tensor_scatter_nd_sub(tf.tensor_scatter_nd_update(rows, [[0], [3]], x[:2]), [[1, 2]], [0.5])
        t = t + tf.math.unsorted_segment_prod(x, labels, 4) + tf.math.unsorted_segment_sqrt_n(x, labels, 4)
        loss = classes(tf.gather(t, labels) @ variable("w", 6, 3), labels) + tf.reduce_sum(tf.gather(table, [[0, 1], [1, 2]], axis=1)) * 0.01
        with tf.control_dependencies([loss]):
            change = [table.scatter_sub(slices), table.scatter_nd_update([[2]], x[:1]), table[0].assign(x[0]), table[:, 1:3].assign(tf.ones([4, 2]))]
        return [loss, t], [*change, descend(loss)]
    yield "rows that are set", scattered


# ---- Loops and conditions ---------------------------------------------------------------------------------------------


def flow_programs():
    def trains_inside(x, labels):
        """Gradient descent as a loop inside the graph, of what a Variable is."""
        w = variable("w", 6, 3)

        def body(i, value):
            return i + 1, value - 0.1 * tf.gradients(classes(x @ value, labels), value)[0]
        _, value = tf.while_loop(lambda i, _: i < 3, body, (0, tf.convert_to_tensor(w)))
        loss = classes(x @ value, labels)
        return [loss], [v1.assign(w, value)]
    yield "trains inside a loop", trains_inside

    def phase(x, labels):
        """A condition around whole networks, which share their Variables."""
        training = v1.placeholder(tf.bool, name="training")

        def network(keep):
            with v1.variable_scope("net", reuse=v1.AUTO_REUSE):
                h = tf.nn.relu(x @ v1.get_variable("w", initializer=weights(1, 6, 5)))
                return (h * keep) @ v1.get_variable("o", initializer=weights(2, 5, 3))
        network(1.0)
        logits = tf.cond(training, lambda: network(0.5), lambda: network(1.0))
        loss = classes(logits, labels) + v1.case([(tf.reduce_sum(x) > 100, lambda: 1.0), (training, lambda: 0.5)], default=lambda: 0.0)
        ema = v1.get_variable("ema", initializer=0.0, trainable=False)
        updated = tf.cond(training, lambda: v1.assign(ema, 0.9 * ema + 0.1 * tf.reduce_mean(logits)) + 0.0, lambda: ema + 0.0)
        return [loss, updated], [descend(loss)], {"training:0": np.bool_(True)}
    yield "a condition around a network", phase

    def crf(x, labels):
        """The likelihood of tags in a chain, and the best one."""
        scores = tf.reshape(tf.tile(x, [1, 2]), [-1, 4, 3]) * variable("scale", 3)
        transitions = variable("transitions", 3, 3)
        tags = tf.stack([labels, 2 - labels, labels, 1 + 0 * labels], 1)
        lengths = 2 + labels
        mask = tf.sequence_mask(lengths, 4, tf.float32)
        unary = tf.reduce_sum(tf.reduce_sum(scores * tf.one_hot(tags, 3), 2) * mask, 1)
        flat = tf.gather(tf.reshape(transitions, [-1]), tags[:, :-1] * 3 + tags[:, 1:])
        first, rest = scores[:, 0], tf.transpose(scores[:, 1:], [1, 0, 2])
        keep = tf.transpose(mask[:, 1:, None], [1, 0, 2])
        alpha = tf.scan(lambda a, each: each[1] * (tf.reduce_logsumexp(a[:, :, None] + transitions, 1) + each[0]) + (1 - each[1]) * a,
                        (rest, keep), initializer=first)[-1]
        loss = -tf.reduce_mean(unary + tf.reduce_sum(flat * mask[:, 1:], 1) - tf.reduce_logsumexp(alpha, 1))

        def viterbi(state, each):
            v = state[0][:, :, None] + transitions
            return each + tf.reduce_max(v, 1), tf.argmax(v, 1, output_type=tf.int32)
        best, pointers = tf.scan(viterbi, rest, initializer=(first, tf.zeros_like(tf.cast(first, tf.int32))))
        last = tf.argmax(best[-1], 1, output_type=tf.int32)
        path = tf.scan(lambda tag, back: tf.gather(back, tag, batch_dims=1), pointers[::-1], initializer=last)
        return [loss, path], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "a chain of tags", crf

    def detection(x, labels):
        """The end of a detector: each picture's boxes by a map, the best ones of each class, made up to a fixed number."""
        w = variable("w", 6, 48)
        raw = tf.reshape(x @ w, [-1, 8, 6])
        anchors = tf.constant(np.abs(weights(5, 8, 4)) + [0.2, 0.2, 0.3, 0.3], tf.float32)

        def decode(each):
            yc, xc, h, w_ = tf.unstack(tf.transpose(anchors))
            ty, tx, th, tw = tf.unstack(tf.transpose(each[:, :4]))
            y, x_, h, w_ = ty / 10 * h + yc, tx / 10 * w_ + xc, tf.exp(th / 5) * h, tf.exp(tw / 5) * w_
            return tf.transpose(tf.stack([y - h / 2, x_ - w_ / 2, y + h / 2, x_ + w_ / 2]))

        def one(each):
            boxes, scores = decode(each), tf.sigmoid(each[:, 4:])
            found = []
            for c in range(2):
                chosen = tf.image.non_max_suppression(boxes, scores[:, c], 3, 0.5)
                kept = tf.gather(tf.concat([boxes, scores[:, c:c + 1]], 1), chosen)
                found.append(tf.boolean_mask(kept, kept[:, 4] > 0.3))
            merged = tf.concat(found, 0)
            order = tf.argsort(-merged[:, 4])[:4]
            merged = tf.gather(merged, order)
            missing = 4 - tf.shape(merged)[0]
            return tf.pad(merged, tf.stack([tf.stack([0, missing]), [0, 0]])), tf.shape(merged)[0]
        boxes, count = tf.map_fn(one, raw, (tf.float32, tf.int32), parallel_iterations=2)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.tile(tf.cast(labels > 0, tf.float32)[:, None, None], [1, 8, 2]), logits=raw[..., 4:]))
        loss += tf.reduce_mean(tf.where(tf.abs(raw[..., :4]) < 1, raw[..., :4] ** 2 / 2, tf.abs(raw[..., :4]) - 0.5))
        return [loss, boxes, count], [train.MomentumOptimizer(0.01, 0.9).minimize(loss)]
    yield "a detector", detection

    def beam(x, labels):
        """A beam search of 4 steps over a table of transitions."""
        table = tf.nn.log_softmax(variable("table", 5, 5) * 3)

        def body(i, ids, scores):
            last = ids[:, -1]
            total = scores[:, None] + tf.gather(table, last)
            best, places = tf.nn.top_k(tf.reshape(total, [-1]), 3)
            return i + 1, tf.concat([tf.gather(ids, places // 5), (places % 5)[:, None]], 1), best
        _, ids, scores = tf.while_loop(lambda i, ids, s: tf.logical_and(i < 4, tf.reduce_any(tf.not_equal(ids[:, -1], 4))), body,
                                       (0, tf.constant([[0], [1], [2]]), tf.constant([0.0, -1.0, -2.0])),
                                       shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None]), tf.TensorShape([None])))
        loss = -tf.reduce_mean(scores)
        return [loss, ids], [descend(loss)]
    yield "a beam search", beam

    def adaptive(x, labels):
        """Steps until the state halts, for each row its own number, as in adaptive computation."""
        w, h = variable("w", 6, 6), variable("halt", 6, 1)

        def body(state, total, output, steps):
            state = tf.tanh(state @ w)
            p = tf.sigmoid(state @ h)
            going = tf.cast(total < 0.9, tf.float32)
            p = tf.minimum(p, 1 - total) * going
            return state, total + p, output + p * state, steps + going
        n = tf.shape(x)[0]
        _, total, output, steps = tf.while_loop(lambda s, t, o, k: tf.reduce_any(t < 0.9), body,
                                                (x, tf.zeros([n, 1]), tf.zeros_like(x), tf.zeros([n, 1])), maximum_iterations=6)
        loss = classes(output @ variable("out", 6, 3), labels) + 0.01 * tf.reduce_mean(steps + total)
        return [loss, steps], [descend(loss)]
    yield "as many steps as needed", adaptive

    def counts_inside(x, labels):
        """Variables that a loop changes."""
        total = v1.get_variable("total", initializer=0.0, trainable=False, use_resource=True)
        w = variable("w", 6, 3)
        loss = classes(x @ w, labels)

        def body(i):
            with tf.control_dependencies([total.assign_add(tf.cast(i, tf.float32) * loss)]):
                return i + 1
        times = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
        with tf.control_dependencies(tf.nest.flatten(times)):
            read = total.read_value()
        return [loss], [read, descend(loss)]
    yield "a loop that counts in a Variable", counts_inside


# ---- Numbers of other types -------------------------------------------------------------------------------------------


def type_programs():
    def doubles(x, labels):
        w = v1.get_variable("w", initializer=weights(1, 6, 3).astype(np.float64))
        step = v1.get_variable("steps", initializer=np.int16(0), trainable=False)
        flags = v1.get_variable("flags", initializer=np.array([True, False, True]), trainable=False)
        seen = v1.get_variable("seen", initializer=np.zeros(3, np.int8), trainable=False)
        y = tf.cast(x, tf.float64) @ w * tf.cast(flags, tf.float64)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int64), logits=y))
        return [loss, tf.cast(step, tf.int32), tf.cast(seen, tf.float32)], [
            train.AdamOptimizer(0.1).minimize(loss), v1.assign(flags, tf.logical_not(flags)), v1.assign(step, tf.cast(tf.cast(step, tf.int32) + 1, tf.int16)),
            v1.assign(seen, tf.cast(tf.cast(seen, tf.int32) + 2, tf.int8))]
    yield "doubles and small integers", doubles

    def bytes_(x, labels):
        """Pictures as bytes, of types that only pass through."""
        image = tf.cast(tf.clip_by_value(x * 50 + 128, 0, 255), tf.uint8)
        picture = tf.reshape(image, [-1, 3, 2, 1])
        y = tf.image.convert_image_dtype(picture, tf.float32)
        y = tf.concat([y, tf.cast(tf.image.flip_left_right(picture), tf.float32) / 255.0, tf.cast(tf.gather(picture, tf.range(5)), tf.float32) / 127.5 - 1], -1)
        words = tf.cast(tf.transpose(tf.cast(image, tf.uint16)), tf.int32) + tf.cast(tf.cast(labels, tf.uint32), tf.int32)[None] + tf.cast(
            tf.stack([tf.cast(labels, tf.int8)] * 6), tf.int32) + tf.cast(tf.where(x > 0, tf.cast(labels[:, None], tf.int16), tf.zeros([5, 6], tf.int16)), tf.int32)[0, 0]
        loss = classes(tf.reshape(y, [-1, 18]) @ variable("w", 18, 3), labels)
        bits = tf.reduce_sum(tf.cast(tf.bitwise.bitwise_and(image, tf.constant(3, tf.uint8)), tf.int32))
        return [loss, words, bits, tf.cast(tf.image.resize(picture, [6, 4], "nearest"), tf.int32)], [descend(loss)]
    yield "bytes", bytes_

    def bits(x, labels):
        again = tf.bitcast(tf.bitcast(x, tf.int32), tf.float32)
        halves = tf.bitcast(tf.cast(x[0], tf.float16), tf.uint8)
        rows, where = tf.raw_ops.UniqueV2(x=tf.gather(x, labels), axis=[0])
        rows3, where3, counts3 = tf.raw_ops.UniqueWithCountsV2(x=tf.stack([labels, labels % 2], 1), axis=[0])
        loss = classes(logits_of(again), labels)
        return [loss, rows, where, tf.cast(halves, tf.int32), rows3, where3, counts3, tf.math.nextafter(x, x + 1), tf.bitcast(tf.reshape(x, [-1, 2]), tf.float64)], [descend(loss)]
    yield "bits", bits

    def unknown(x, labels):
        """Values whose types and shapes the file does not tell are assigned."""
        kept = v1.get_variable("kept", initializer=np.zeros((5, 6), np.float32), trainable=False, validate_shape=False)
        table = v1.get_variable("best", initializer=np.float32(1e9), trainable=False)
        loss = classes(logits_of(x), labels)
        return [loss, tf.identity(table)], [v1.assign(kept, x, validate_shape=False), v1.assign(table, tf.minimum(table, loss)), descend(loss)]
    yield "a value of unknown shape", unknown


FAMILIES = (framework_programs, gradient_programs, flow_programs, type_programs)
