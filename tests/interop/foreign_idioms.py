"""Writes training programs in the idioms of TensorFlow 1; see foreign_programs.py.

A program is a function of x [5, 6] and labels [5] that returns what is fetched in each step, and what is run after it."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.legacy_tf_layers import convolutional, core, pooling

import write_golden
from foreign_flow import Steps
from foreign_models import points, weights

v1 = tf.compat.v1
train, losses = v1.train, v1.losses
X, LABELS = points(40, 5, 6), np.array([0, 2, 1, 1, 0], np.int32)


def variable(name, *shape, **options):
    return v1.get_variable(name, initializer=weights(len(name), *shape), **options)


def logits_of(x):
    hidden = tf.nn.relu(v1.nn.xw_plus_b(x, variable("w", 6, 8), variable("b", 8)))
    return tf.matmul(hidden, variable("out", 8, 3))


def classes(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


def descend(loss, rate=0.1, **options):
    return train.GradientDescentOptimizer(rate).minimize(loss, **options)


def constant_initializer(seed):
    """Numbers that do not depend on a random generator, for layers that make their variables themselves."""
    return lambda shape, dtype=None, partition_info=None: tf.constant(weights(seed, *shape))


LAYER = {"kernel_initializer": constant_initializer(3)}


# ---- Losses -----------------------------------------------------------------------------------------------------------


def loss_programs():
    def regression(function, **options):
        def program(x, labels):
            prediction, targets = logits_of(x), tf.one_hot(labels, 3)
            loss = function(targets, prediction, **options)
            return [loss], [descend(loss)]
        return program

    per_example = [[1.0], [0.0], [2.0], [0.5], [1.0]]
    yield "absolute_difference", regression(losses.absolute_difference)
    yield "mean_squared_error", regression(losses.mean_squared_error, weights=per_example)
    yield "huber_loss", regression(losses.huber_loss, delta=0.5)
    yield "hinge_loss", regression(losses.hinge_loss)
    yield "log_loss", lambda x, labels: (lambda loss: ([loss], [descend(loss)]))(
        losses.log_loss(tf.one_hot(labels, 3), tf.sigmoid(logits_of(x)), weights=2.0))
    yield "cosine_distance", regression(losses.cosine_distance, axis=1)
    yield "mean_pairwise_squared_error", regression(losses.mean_pairwise_squared_error)
    yield "sigmoid_cross_entropy", regression(losses.sigmoid_cross_entropy, label_smoothing=0.1)
    yield "softmax_cross_entropy", regression(losses.softmax_cross_entropy, label_smoothing=0.1,
                                              weights=[1.0, 0.0, 2.0, 0.5, 1.0])

    def sparse_softmax_cross_entropy(x, labels):
        loss = losses.sparse_softmax_cross_entropy(labels, logits_of(x), weights=tf.cast(labels > 0, tf.float32))
        return [loss], [descend(loss)]
    yield "sparse_softmax_cross_entropy", sparse_softmax_cross_entropy

    def weighted_by_feed(x, labels):
        given = v1.placeholder(tf.float32, None, "given")
        loss = losses.mean_squared_error(tf.one_hot(labels, 3), logits_of(x), weights=given)
        return [loss], [descend(loss)], {"given:0": np.array(per_example, np.float32)}
    yield "weights of unknown rank", weighted_by_feed

    def regularized(x, labels):
        with v1.variable_scope("", regularizer=lambda w: 0.1 * tf.nn.l2_loss(w)):
            logits = logits_of(x)
        losses.sparse_softmax_cross_entropy(labels, logits)
        loss = losses.get_total_loss()
        return [loss, losses.get_regularization_loss()], [descend(loss)]
    yield "total loss with regularization", regularized

    def weighted_cross_entropy(x, labels):
        logits = logits_of(x)
        loss = tf.reduce_mean(tf.nn.weighted_cross_entropy_with_logits(tf.one_hot(labels, 3), logits, 2.0)) + \
            tf.reduce_mean(tf.nn.log_poisson_loss(tf.one_hot(labels, 3), logits)) + tf.reduce_mean(
                v1.nn.softmax_cross_entropy_with_logits_v2(labels=tf.one_hot(labels, 3), logits=logits))
        return [loss], [descend(loss)]
    yield "losses of tf.nn", weighted_cross_entropy

    def masked_cross_entropy(x, labels):
        """Rows of labels that do not sum to 1, for which TensorFlow's gradient is not that of its loss."""
        logits, rows = logits_of(x), tf.one_hot(labels - 1, 3)
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=rows, logits=logits)) + tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=rows * [1.0, 2.0, 3.0], logits=logits))
        return [loss], [descend(loss)]
    yield "masked cross-entropy", masked_cross_entropy

    def triplet(x, labels):
        embedded = tf.nn.l2_normalize(tf.matmul(x, variable("w", 6, 4)), 1)
        distances = tf.reduce_sum(tf.square(embedded[:, None] - embedded[None]), -1)
        same = tf.equal(labels[:, None], labels[None])
        positive = tf.reduce_max(tf.where(same, distances, tf.zeros_like(distances)), 1)
        negative = tf.reduce_min(tf.where(same, 1e3 + distances, distances), 1)
        loss = tf.reduce_mean(tf.maximum(positive - negative + 0.2, 0.0))
        return [loss, tf.boolean_mask(distances, same)], [descend(loss)]
    yield "triplets", triplet

    def center(x, labels):
        centers = variable("centers", 3, 6, trainable=False)
        features = tf.tanh(tf.matmul(x, variable("w", 6, 6)))
        near = tf.gather(centers, labels)
        _, places, counts = tf.unique_with_counts(labels)
        difference = (near - features) / tf.cast(1 + tf.gather(counts, places)[:, None], tf.float32)
        loss = classes(tf.matmul(features, variable("out", 6, 3)), labels) + tf.nn.l2_loss(features - near)
        with tf.control_dependencies([v1.scatter_sub(centers, labels, 0.5 * difference)]):
            return [loss], [descend(loss)]
    yield "centers", center

    def masked(x, labels):
        some = tf.boolean_mask(logits_of(x), labels > 0)
        loss = classes(some, tf.boolean_mask(labels, labels > 0))
        return [loss, tf.shape(some)], [descend(loss)]
    yield "rows by a mask", masked

    def hard_examples(x, labels):
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits_of(x))
        count = v1.placeholder(tf.int32, [], "count")
        hardest, places = tf.nn.top_k(each, count)
        loss = tf.reduce_mean(hardest)
        return [loss, places], [descend(loss)], {"count:0": np.int32(3)}
    yield "the hardest examples", hard_examples


# ---- Rates, averages, clipping ----------------------------------------------------------------------------------------


def optimizer_programs():
    def with_rate(rate_of, optimizer=train.GradientDescentOptimizer):
        def program(x, labels):
            step = train.get_or_create_global_step()
            loss, rate = classes(logits_of(x), labels), rate_of(step)
            return [loss, rate], [optimizer(rate).minimize(loss, step)]
        return program

    yield "piecewise_constant", with_rate(lambda step: train.piecewise_constant(step, [0, 2], [0.3, 0.1, 0.01]))
    yield "piecewise_constant of a float step", with_rate(
        lambda step: train.piecewise_constant(tf.cast(step, tf.float32), [0.5, 1.5], [0.3, 0.2, 0.1]), train.AdamOptimizer)
    yield "cosine_decay_restarts", with_rate(lambda step: train.cosine_decay_restarts(0.3, step, 2))
    yield "linear_cosine_decay", with_rate(lambda step: train.linear_cosine_decay(0.3, step, 8))
    yield "polynomial_decay in cycles", with_rate(lambda step: train.polynomial_decay(0.3, step, 2, 0.01, cycle=True))
    yield "warming up", with_rate(lambda step: tf.cond(
        step < 2, lambda: 0.1 * tf.cast(step + 1, tf.float32), lambda: train.exponential_decay(0.3, step - 2, 3, 0.5)))
    yield "rate in a variable", with_rate(lambda step: variable("rate", trainable=False) * 0 + 0.2)

    def fed_rate(x, labels):
        loss = classes(logits_of(x), labels)
        rate = v1.placeholder_with_default(0.1, [], "rate")
        return [loss], [train.MomentumOptimizer(rate, 0.9).minimize(loss)], {"rate:0": np.float32(0.2)}
    yield "rate by a placeholder", fed_rate

    def averaged(x, labels):
        step = train.get_or_create_global_step()
        loss = classes(logits_of(x), labels)
        average = train.ExponentialMovingAverage(0.9, step)
        with tf.control_dependencies([descend(loss, global_step=step)]):
            ran = average.apply(v1.trainable_variables() + [loss])
        return [loss, tf.identity(average.average(v1.trainable_variables()[0])), tf.identity(average.average(loss))], [ran]
    yield "ExponentialMovingAverage", averaged

    def zero_debias(x, labels):
        loss = classes(logits_of(x), labels)
        average = train.ExponentialMovingAverage(0.9, zero_debias=True)
        with tf.control_dependencies([descend(loss)]):
            ran = average.apply([loss])
        return [loss, tf.identity(average.average(loss))], [ran]
    yield "ExponentialMovingAverage without bias", zero_debias

    def clipped(clip):
        def program(x, labels):
            loss = classes(logits_of(x), labels)
            optimizer = train.AdamOptimizer(0.1)
            pairs = [(clip(g), w) for g, w in optimizer.compute_gradients(loss) if g is not None]
            return [loss], [optimizer.apply_gradients(pairs)]
        return program
    yield "clip_by_value", clipped(lambda g: tf.clip_by_value(g, -0.05, 0.05))
    yield "clip_by_norm", clipped(lambda g: tf.clip_by_norm(g, 0.1))
    yield "clip_by_average_norm", clipped(lambda g: v1.clip_by_average_norm(g, 0.01))

    def every_other_step(x, labels):
        step = train.get_or_create_global_step()
        loss = classes(logits_of(x), labels)
        other = v1.trainable_variables()[-1]
        update = tf.cond(tf.equal(step % 2, 0), lambda: tf.group(v1.assign_sub(other, 0.1 * tf.gradients(loss, other)[0])),
                         lambda: tf.no_op())
        with tf.control_dependencies([update]):
            return [loss], [v1.assign_add(step, 1)]
    yield "an update in a branch", every_other_step

    def in_turns(x, labels):
        """Two optimizers with variables of their own, as in adversarial training."""
        with v1.variable_scope("generator"):
            made = tf.tanh(tf.matmul(x, variable("w", 6, 6)))
        with v1.variable_scope("discriminator"):
            w = variable("w", 6, 1)
            real, fake = tf.matmul(x, w), tf.matmul(made, w)
        cross = tf.nn.sigmoid_cross_entropy_with_logits
        loss = tf.reduce_mean(cross(labels=tf.ones_like(real), logits=real) + cross(labels=tf.zeros_like(fake), logits=fake))
        other = tf.reduce_mean(cross(labels=tf.ones_like(fake), logits=fake))
        own = lambda scope: v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope)
        return [loss, other], [train.AdamOptimizer(0.1, 0.5).minimize(loss, var_list=own("discriminator")),
                               train.AdamOptimizer(0.1, 0.5).minimize(other, var_list=own("generator"))]
    yield "two optimizers", in_turns

    def target_network(x, labels):
        """The update of a deep Q network."""
        def network(scope):
            with v1.variable_scope(scope):
                return logits_of(x)
        values, target = network("online"), network("target")
        chosen = tf.reduce_sum(values * tf.one_hot(labels, 3), 1)
        rows = tf.stack([tf.range(tf.shape(labels)[0]), tf.argmax(values, 1, output_type=tf.int32)], 1)
        wanted = tf.stop_gradient(1.0 + 0.9 * tf.gather_nd(target, rows))
        loss = tf.reduce_mean(tf.square(wanted - chosen))
        own = lambda scope: v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, scope)
        copies = [v1.assign(t, 0.9 * t + 0.1 * o) for t, o in zip(own("target"), own("online"))]
        optimizer = train.RMSPropOptimizer(0.05)
        return [loss], [optimizer.minimize(loss, var_list=own("online")), tf.group(*copies)]
    yield "a target network", target_network

    def dual_averaging(rows):
        def program(x, labels):
            step = train.get_or_create_global_step()
            y = tf.gather(variable("table", 3, 6), labels) if rows else x
            loss = classes(logits_of(y), labels)
            optimizer = train.AdagradDAOptimizer(0.1, step, l1_regularization_strength=0.001, l2_regularization_strength=0.01)
            return [loss], [optimizer.minimize(loss, step)]
        return program
    yield "AdagradDA", dual_averaging(False)
    yield "rows by AdagradDA", dual_averaging(True)

    def scattered(x, labels):
        """Every way to change parts of a variable, which are not twice the same where the last one counts."""
        table = variable("table", 4, 6, trainable=False)
        loss = classes(logits_of(tf.gather(table, labels)), labels)
        some = tf.reshape(labels[:2], [-1, 1])
        updates = [v1.scatter_nd_update(table, some, x[:2]), v1.scatter_nd_add(table, [[0, 1], [2, 3], [0, 1]], [1.0, 2.0, 3.0]),
                   v1.scatter_nd_sub(table, tf.reshape(labels, [-1, 1]), x), v1.scatter_mul(table, labels, x),
                   v1.scatter_mul(table, [3, 3], 0.5), v1.scatter_div(table, labels, tf.abs(x) + 0.5), v1.scatter_max(table, labels, x),
                   v1.scatter_min(table, labels, x * 0.5)]
        return [loss, tf.identity(table)], [*updates, descend(loss)]
    yield "parts of a variable", scattered

    def second_order(x, labels):
        w = variable("w", 6, 3)
        loss = classes(tf.matmul(x, w), labels)
        inner = tf.gradients(loss, w)[0]
        outer = classes(tf.matmul(x, w - 0.1 * inner), labels)
        return [loss, outer, tf.hessians(tf.reduce_sum(w ** 3), w)[0]], [descend(outer)]
    yield "a gradient of a gradient", second_order

    def rows_by(name):
        """Gradients of rows that are looked up several times."""
        def program(x, labels):
            table, ids = variable("table", 4, 3), tf.concat([labels, labels * 0 + 3], 0)
            loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) - 0.5))
            return [loss, tf.identity(table)], [write_golden.optimizers(tf.constant(0))[name]().minimize(loss)]
        return program
    for name in ("adadelta", "adam", "ftrl", "ftrl_v2", "proximal", "proximal_adagrad", "rmsprop_centered"):
        yield f"rows by {name}", rows_by(name)


def batch_normalization(x, training, momentum=0.8, fused=True):
    """As tf.layers have it, in which TensorFlow 2 lacks it."""
    with v1.variable_scope(None, "batch_normalization"):
        size = x.shape[-1]
        scale, offset = v1.get_variable("gamma", initializer=tf.ones([size])), v1.get_variable("beta", initializer=tf.zeros([size]))
        moving = [v1.get_variable("moving_" + name, initializer=value, trainable=False)
                  for name, value in (("mean", tf.zeros([size])), ("variance", tf.ones([size])))]

        def of_batch():
            if fused:
                return v1.nn.fused_batch_norm(x, scale, offset, epsilon=1e-3)
            mean, variance = tf.nn.moments(x, [0, 1, 2])
            return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3), mean, variance

        def of_all():
            if fused:
                return v1.nn.fused_batch_norm(x, scale, offset, *moving, epsilon=1e-3, is_training=False)
            return tf.nn.batch_normalization(x, *moving, offset, scale, 1e-3), *(tf.identity(each) for each in moving)

        if isinstance(training, bool):
            y, *found = of_batch() if training else of_all()
            rate = 1 - momentum if training else 0.0
        else:
            y, *found = v1.cond(training, of_batch, of_all)
            rate = v1.cond(training, lambda: tf.constant(1 - momentum), lambda: tf.constant(0.0))
        for each, value in zip(moving, found):
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_sub(each, (each - value) * rate))
        return y


# ---- Layers -----------------------------------------------------------------------------------------------------------


def layer_programs():
    def picture(x):
        return tf.reshape(tf.concat([x, x * 0.5, x + 1], 1), [-1, 3, 3, 2])

    def network(x, labels):
        y = convolutional.conv2d(picture(x), 4, 2, padding="same", activation=tf.nn.relu, **LAYER)
        y = pooling.max_pooling2d(y, 2, 1)
        y = core.flatten(y)
        y = core.dense(y, 5, tf.nn.elu, **LAYER)
        loss = classes(core.dense(y, 3, **LAYER), labels)
        return [loss], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "tf.layers", network

    def normalized(is_training, feeds=None, fused=True):
        def program(x, labels):
            training = is_training()
            y = convolutional.conv2d(picture(x), 4, 2, use_bias=False, **LAYER)
            y = tf.nn.relu(batch_normalization(y, training=training, momentum=0.8, fused=fused))
            loss = classes(core.dense(core.flatten(y), 3, **LAYER), labels)
            updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
            with tf.control_dependencies(updates):
                ran = descend(loss)
            return [loss] + [tf.identity(each) for each in v1.global_variables() if "moving" in each.name], [ran], feeds or {}
        return program
    for fused in (True, False):
        kind = "fused" if fused else "by moments"
        yield f"batch norm {kind}, training", normalized(lambda: True, fused=fused)
        yield f"batch norm {kind}, not training", normalized(lambda: False, fused=fused)
        for value in (True, False):
            yield f"batch norm {kind}, a placeholder is {value}", normalized(
                lambda: v1.placeholder(tf.bool, [], "training"), {"training:0": np.bool_(value)}, fused)
        yield f"batch norm {kind}, a default", normalized(
            lambda: v1.placeholder_with_default(True, [], "training"), fused=fused)
        yield f"batch norm {kind}, against a default", normalized(
            lambda: v1.placeholder_with_default(False, [], "training"), {"training:0": np.bool_(True)}, fused)

    def dropped(x, labels):
        keep = v1.placeholder(tf.float32, [], "keep")
        training = v1.placeholder_with_default(False, [], "training")
        y = v1.nn.dropout(tf.nn.relu(core.dense(x, 8, **LAYER)), keep_prob=keep)
        y = core.dropout(y, 0.5, training=training)
        loss = classes(core.dense(y, 3, **LAYER), labels)
        return [loss], [descend(loss)], {"keep:0": np.float32(1)}
    yield "dropout", dropped

    def phase_with_constant(x, labels):
        training = v1.placeholder_with_default(False, [], "training")
        scale = v1.cond(training, lambda: tf.constant(0.5), lambda: tf.constant(1.0))
        noise = v1.cond(training, lambda: tf.nn.relu(x), lambda: tf.zeros_like(x))
        loss = classes(logits_of(x * scale + noise), labels)
        return [loss], [descend(loss)]
    yield "a phase that chooses a constant", phase_with_constant

    def autoencoder(x, labels):
        y = convolutional.conv2d(picture(x), 3, 2, strides=2, padding="same", activation=tf.sigmoid, **LAYER)
        y = convolutional.conv2d_transpose(y, 2, 3, strides=2, padding="same", **LAYER)
        loss = tf.reduce_mean(tf.square(y[:, :3, :3] - picture(x)))
        return [loss], [train.RMSPropOptimizer(0.01).minimize(loss)]
    yield "an autoencoder", autoencoder

    def variational(x, labels):
        noise = v1.placeholder(tf.float32, [None, 2], "noise")
        mean, log_deviation = tf.split(core.dense(x, 4, **LAYER), 2, 1)
        z = mean + tf.exp(log_deviation) * noise
        loss = tf.reduce_mean(tf.square(core.dense(z, 6, **LAYER) - x)) - 0.5 * tf.reduce_mean(
            1 + 2 * log_deviation - tf.square(mean) - tf.exp(2 * log_deviation))
        return [loss], [train.AdamOptimizer(0.05).minimize(loss)], {"noise:0": points(41, 5, 2)}
    yield "a variational autoencoder", variational

    def residual(x, labels):
        y = picture(x)
        for i in range(2):
            z = tf.nn.relu(batch_normalization(y, training=True))
            y = y + convolutional.separable_conv2d(z, 2, 3, padding="same", depthwise_initializer=LAYER["kernel_initializer"],
                                                   pointwise_initializer=LAYER["kernel_initializer"])
        y = tf.reduce_mean(tf.image.resize(y, [6, 6]), [1, 2])
        loss = classes(core.dense(y, 3, **LAYER), labels)
        return [loss], [train.MomentumOptimizer(0.05, 0.9).minimize(loss)]
    yield "a residual network", residual

    def partitioned(x, labels):
        with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(2)):
            w = v1.get_variable("w", [6, 3], initializer=constant_initializer(3))
            table = v1.get_variable("table", [4, 6], initializer=constant_initializer(4))
        looked_up = tf.nn.embedding_lookup(table, labels)
        loss = classes(tf.matmul(x + looked_up, tf.convert_to_tensor(w)), labels)
        return [loss], [train.AdagradOptimizer(0.1).minimize(loss)]
    yield "a variable in parts", partitioned


# ---- Beside a model ---------------------------------------------------------------------------------------------------


def other_programs():
    def checked(x, labels):
        with tf.control_dependencies([v1.assert_equal(tf.shape(x)[0], tf.shape(labels)[0], message="rows"),
                                      v1.assert_non_negative(labels), v1.assert_rank(x, 2)]):
            logits = tf.debugging.check_numerics(logits_of(x), "logits")
        loss = v1.Print(classes(logits, labels), [tf.shape(x)], "shape: ")
        with tf.control_dependencies([v1.Assert(loss < 100.0, [loss, "diverges"])]):
            return [loss], [descend(loss)]
    yield "assertions and prints", checked

    def measured(x, labels):
        logits = logits_of(x)
        loss, found = classes(logits, labels), tf.argmax(logits, 1)
        metrics = v1.metrics
        pairs = [metrics.accuracy(labels, found), metrics.mean(loss), metrics.precision(labels > 0, found > 0),
                 metrics.recall(labels > 0, found > 0), metrics.mean_squared_error(tf.one_hot(labels, 3), logits),
                 metrics.auc(labels > 0, tf.nn.softmax(logits)[:, 1], num_thresholds=11), metrics.mean_iou(labels, found, 3)]
        return [loss] + [value for value, _ in pairs], [tf.group(*(update for _, update in pairs)), descend(loss)]
    yield "metrics", measured

    def summarized(x, labels):
        loss = classes(logits_of(x), labels)
        for each in v1.trainable_variables():
            v1.summary.histogram(each.op.name, each)
        v1.summary.scalar("loss", loss)
        v1.summary.merge_all()
        ran = descend(loss, global_step=train.get_or_create_global_step())
        train.Saver(max_to_keep=2, sharded=True)
        return [loss], [ran]
    yield "summaries and a Saver", summarized

    def queued(x, labels):
        queue = v1.FIFOQueue(10, [tf.float32, tf.int32], [[5, 6], [5]])
        queue.enqueue([X, LABELS])
        batch, classes_ = queue.dequeue(name="batch")
        loss = classes(logits_of(batch), classes_)
        return [loss], [descend(loss)], {"batch:0": X, "batch:1": LABELS}
    yield "a queue", queued

    def iterated(x, labels):
        data = tf.data.Dataset.from_tensor_slices((X, LABELS)).repeat().batch(5, drop_remainder=True)
        iterator = v1.data.make_initializable_iterator(data)
        batch, classes_ = iterator.get_next()
        loss = classes(logits_of(batch), classes_)
        return [loss], [descend(loss)], {batch.name: X, classes_.name: LABELS}
    yield "an iterator", iterated

    def counted(x, labels):
        """A variable that counts the steps, and one of which a slice is assigned."""
        steps = v1.get_variable("steps", initializer=np.int64(0), trainable=False)
        table = variable("table", 4, 6)
        loss = classes(logits_of(tf.gather(table, labels)), labels)
        return [loss, tf.identity(table), tf.identity(steps)], [
            v1.count_up_to(steps, 100), table[1:3, ::2].assign(x[:2, :3] * 0.5), descend(loss)]
    yield "a counter and a slice", counted

    def read_behind(x, labels):
        """Variables that are used behind their updates; some were read before."""
        steps = v1.get_variable("steps", initializer=np.int32(0), trainable=False)
        logits = logits_of(x)
        loss, variables = classes(logits, labels), v1.trainable_variables()
        slow = [v1.get_variable("slow/" + each.op.name, initializer=np.zeros(each.shape, np.float32), trainable=False)
                for each in variables]
        sizes = v1.get_variable("sizes", initializer=np.zeros(2, np.float32), trainable=False)
        before = tf.add_n([tf.nn.l2_loss(each) for each in variables])
        with tf.control_dependencies([before]):
            ran = descend(loss, global_step=steps)
        with tf.control_dependencies([ran]):
            is_even = tf.equal(steps % 2, 0)
            moved = [v1.assign(a, tf.where(is_even, 0.9 * a + 0.1 * b, tf.identity(a))) for a, b in zip(slow, variables)]
            after = tf.add_n([tf.nn.l2_loss(each) for each in variables])
        with tf.control_dependencies(moved):
            sized = sizes.assign(tf.stack([before, after]) + tf.cast(steps, tf.float32))
        return [loss, tf.identity(sizes)] + [tf.identity(each) for each in slow], [sized]
    yield "reads behind updates", read_behind

    def own_gradient(x, labels):
        @tf.custom_gradient
        def reversed_(y):
            return y * 1.0, lambda g: -0.5 * g
        loss = classes(tf.matmul(reversed_(tf.tanh(tf.matmul(x, variable("w", 6, 4)))), variable("out", 4, 3)), labels)
        return [loss], [descend(loss)]
    yield "a gradient of its own", own_gradient

    def unknown_rank(x, labels):
        x, y = v1.placeholder(tf.float32, name="any"), v1.placeholder(tf.float32, name="other")
        w, b = variable("w", 1), variable("bias", 1)
        loss = tf.reduce_sum(tf.square(w * x + b - y))
        return [loss], [descend(loss, 0.01)], {"any:0": np.float32([1, 2, 3, 4]), "other:0": np.float32([0, -1, -2, -3])}
    yield "the first guide", unknown_rank

    def process(x, labels):
        """The likelihood of a Gaussian process."""
        scale = tf.exp(variable("scale"))
        distances = tf.reduce_sum(tf.square(x[:, None] - x[None]), -1)
        factor = tf.linalg.cholesky(tf.exp(-distances * scale / 10) + 0.1 * tf.eye(tf.shape(x)[0]))
        y = tf.cast(labels, tf.float32)[:, None]
        loss = 0.5 * tf.reduce_sum(y * tf.linalg.cholesky_solve(factor, y)) + tf.reduce_sum(
            tf.math.log(tf.linalg.diag_part(factor)))
        return [loss], [descend(loss, 0.05)]
    yield "a Gaussian process", process

    def style(x, labels):
        picture = variable("picture", 1, 4, 4, 3)
        features = tf.nn.conv2d(picture, weights(7, 3, 3, 3, 4), 1, "SAME")
        rows = tf.reshape(features, [-1, 4])
        loss = tf.nn.l2_loss(tf.matmul(rows, rows, transpose_a=True) / tf.cast(tf.size(rows), tf.float32)) + \
            0.1 * tf.reduce_sum(tf.image.total_variation(picture))
        return [loss], [train.AdamOptimizer(0.1).minimize(loss)]
    yield "a picture that is trained", style


FAMILIES = (loss_programs, optimizer_programs, layer_programs, other_programs)
# TensorFlow itself has no reference to a Variable in functions, and initializes averages in any order.
RESOURCES_ONLY = ("an update in a branch", "ExponentialMovingAverage", "loss scale", "a condition around a network",
                  "a deterministic policy", "CIFAR's tutorial", "a look ahead", "masks of weights")


def write(folder, families=FAMILIES):
    for name, program in (each for family in families for each in family()):
        write_styles(folder, name, program, ["resource"] if name in RESOURCES_ONLY else ["resource", "reference"])


def write_styles(folder, name, program, styles):
    for style in styles:
        v1.enable_control_flow_v2()
        has_flow = write_program(folder, f"{name}, {style}", program, style == "resource")
        if has_flow:
            v1.disable_control_flow_v2()
            write_program(folder, f"{name}, {style}, frames", program, style == "resource")
    v1.enable_control_flow_v2()


def write_program(folder, name, program, use_resource):
    """Returns whether it has branches or loops."""
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=use_resource):
        x, labels = v1.placeholder(tf.float32, [None, 6], "x"), v1.placeholder(tf.int32, [None], "labels")
        fetches, runs, *more = program(x, labels)
        fetches = [tf.identity(each, f"fetched_{i}") for i, each in enumerate(fetches)]
        runs = [tf.group(each, name=f"run_{i}") for i, each in enumerate(runs)]
        tf.group(v1.global_variables_initializer(), v1.local_variables_initializer(), name="start")
    feeds = {"x:0": X, "labels:0": LABELS, **(more[0] if more else {})}
    steps = Steps()
    for key, value in feeds.items():
        steps.add("feed", key, value)
    with v1.Session(graph=graph) as session:
        session.run("start")
        steps.add("run", "start")
        for _ in range(4):
            for each, value in zip(fetches, session.run(fetches, feeds)):
                steps.add("fetch", each.name, value)
            for each in runs:
                session.run(each, feeds)
                steps.add("run", each.name)
    graph_def = graph.as_graph_def()
    for node in graph_def.node:  # as on a cluster
        node.device = node.device.replace("/job:localhost/task:0", "/job:worker/task:1")
    (folder / f"{name}.pb").write_bytes(write_golden.bytes_of(graph_def))
    steps.save(folder / f"{name}.steps.pb")
    return any(each.type.endswith(("If", "While", "Case")) for each in graph.get_operations())
