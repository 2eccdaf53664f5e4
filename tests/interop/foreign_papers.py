"""Writes more training programs of papers, in TensorFlow 1: sequences, memories, updates of their own, and what is trained
for small machines; see foreign_wild.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.layers.legacy_rnn import rnn_cell_impl as cells
from tensorflow.python.keras.legacy_tf_layers import core
from tensorflow.python.training import moving_averages

from foreign_idioms import classes, constant_initializer, descend, logits_of, train, v1, variable, weights
from foreign_models import points
from foreign_wild import dense, picture_of

MADE = constant_initializer(7)


# ---- Sequences --------------------------------------------------------------------------------------------------------


def sequence_programs():
    def characters(x, labels):
        """A state that is fed and fetched between the parts of a text."""
        cell = cells.MultiRNNCell([cells.BasicLSTMCell(4, state_is_tuple=True, name=f"layer{i}") for i in range(2)])
        fed = v1.placeholder(tf.float32, [2, 2, None, 4], "state")
        state = tuple(cells.LSTMStateTuple(each[0], each[1]) for each in tf.unstack(fed, axis=0))
        ids = tf.stack([labels, (labels + 1) % 3, labels], 1)
        with v1.variable_scope("rnn", initializer=MADE):
            y, state = v1.nn.dynamic_rnn(cell, tf.nn.embedding_lookup(variable("embedding", 3, 4), ids), initial_state=state)
        logits = tf.reshape(tf.tensordot(y, variable("softmax_w", 4, 3), 1) + variable("softmax_b", 3), [-1, 3])
        loss = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(tf.roll(ids, -1, 1), [-1]), logits=logits)) / 5
        variables = v1.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 1.0)
        rate = v1.get_variable("rate", initializer=1.0, trainable=False)
        ran = train.GradientDescentOptimizer(rate).apply_gradients(zip(gradients, variables), train.get_or_create_global_step())
        with tf.control_dependencies([ran]):
            slower = rate.assign(rate * 0.5)
        return [loss, state[1].h, state[0].c], [slower], {"state:0": points(150, 2, 2, 5, 4) * 0.3}
    yield "characters with a state", characters

    def transformer(x, labels):
        """As tensor2tensor has it: signals of places, biases for what is padded and what is later, smooth labels."""
        ids = tf.stack([labels, labels + 1, labels * 2, labels * 0], 1)
        pad = tf.cast(tf.equal(ids, 0), tf.float32)
        scales = tf.exp(tf.range(3, dtype=tf.float32) * -(np.log(1e4) / 2).astype(np.float32))
        time = tf.cast(tf.range(tf.shape(ids)[1]), tf.float32)[:, None] * scales[None]
        y = tf.gather(variable("table", 6, 6), ids) * 6 ** 0.5 * tf.expand_dims(1 - pad, -1) + tf.concat([tf.sin(time), tf.cos(time)], 1)
        lower = tf.linalg.band_part(tf.ones([tf.shape(ids)[1]] * 2), -1, 0)
        bias = tf.expand_dims(tf.expand_dims(pad * -1e9, 1), 1) + tf.reshape(-1e9 * (1.0 - lower), [1, 1, 4, 4])

        def norm(y, name):
            scale, shift = variable(name + "_scale", 6), variable(name + "_shift", 6)
            mean = tf.reduce_mean(y, [-1], keepdims=True)
            variance = tf.reduce_mean(tf.square(y - mean), [-1], keepdims=True)
            return (y - mean) * tf.math.rsqrt(variance + 1e-6) * scale + shift

        def heads(y):
            return tf.transpose(tf.reshape(y, [tf.shape(y)[0], -1, 2, 3]), [0, 2, 1, 3])
        for i in range(2):
            z = norm(y, f"a{i}")
            q, k, v = (heads(dense(z, 6, seed=s)) for s in (1, 2, 3))
            share = tf.nn.softmax(tf.matmul(q * 3 ** -0.5, k, transpose_b=True) + bias)
            z = tf.reshape(tf.transpose(tf.matmul(share, v), [0, 2, 1, 3]), [-1, 4, 6])
            y += dense(z, 6, seed=4)
            y += dense(dense(norm(y, f"b{i}"), 8, tf.nn.relu, seed=5), 6, seed=6)
        logits = tf.tensordot(norm(y, "last"), variable("softmax", 6, 6), [[2], [1]])
        low = 0.1 / 5
        constant = -(0.9 * np.log(0.9) + 5 * low * np.log(low + 1e-20))
        loss = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(ids, 6, 0.9, low), logits=logits) - constant
        weight = 1 - pad
        loss = tf.reduce_sum(loss * weight) / tf.maximum(tf.reduce_sum(weight), 1)
        step = train.get_or_create_global_step()
        now = tf.cast(step, tf.float32)
        rate = 6 ** -0.5 * tf.minimum((now + 1.0) * 4 ** -1.5, tf.math.rsqrt(now + 1.0)) * 0.2
        return [loss, rate], [train.AdamOptimizer(rate, 0.9, 0.98, 1e-9).minimize(loss, step)]
    yield "a transformer", transformer

    def pointers(x, labels):
        """Places in a sequence by an attention that masks what was chosen."""
        y = tf.reshape(x, [-1, 3, 2])
        keys, state, mask, loss = dense(y, 4, seed=1), dense(x, 4, tf.tanh, seed=2), tf.zeros([tf.shape(x)[0], 3]), 0.0
        v = variable("v", 4)
        for i in range(2):
            scores = tf.reduce_sum(v * tf.tanh(keys + tf.expand_dims(state, 1)), 2) - 1e8 * mask
            loss += tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=(labels + i) % 3, logits=scores))
            mask += tf.one_hot((labels + i) % 3, 3)
            state = tf.tanh(tf.reduce_sum(tf.nn.softmax(scores)[:, :, None] * keys, 1) + state)
        return [loss], [train.AdamOptimizer(0.02).minimize(loss)]
    yield "places in a sequence", pointers

    def memory(x, labels):
        """A machine with a memory that is read and written by content."""
        store = tf.tile(variable("store", 4, 3)[None], [tf.shape(x)[0], 1, 1])
        read, share = tf.zeros([tf.shape(x)[0], 3]), tf.fill([tf.shape(x)[0], 4], 0.25)
        kernel = variable("kernel", 5, 13)
        for part in tf.split(x, 3, 1):
            out = tf.matmul(tf.concat([part, read], 1), kernel)
            key, strength, gate, shift, erase, add = tf.split(out, [3, 1, 1, 2, 3, 3], 1)
            near = tf.squeeze(tf.matmul(tf.nn.l2_normalize(store, 2), tf.expand_dims(tf.nn.l2_normalize(tf.tanh(key), 1), 2)), 2)
            content = tf.nn.softmax(tf.nn.softplus(strength) * near)
            mixed = tf.sigmoid(gate) * content + (1 - tf.sigmoid(gate)) * share
            shift = tf.nn.softmax(shift)
            moved = shift[:, :1] * mixed + shift[:, 1:] * tf.roll(mixed, 1, 1)
            sharp = tf.pow(moved + 1e-6, 1.5)
            share = sharp / tf.reduce_sum(sharp, 1, keepdims=True)
            store = store * (1 - tf.expand_dims(share, 2) * tf.sigmoid(erase)[:, None]) + tf.expand_dims(share, 2) * tf.tanh(add)[:, None]
            read = tf.reduce_sum(tf.expand_dims(share, 2) * store, 1)
        loss = classes(dense(read, 3), labels)
        return [loss, share], [train.RMSPropOptimizer(0.01, momentum=0.9).minimize(loss)]
    yield "a memory", memory

    def own_scan(x, labels):
        """A recurrent network as a fold, with parts of rows that end early."""
        w, u, b = variable("w", 2, 4), variable("u", 4, 4), variable("b", 4)
        parts = tf.transpose(tf.reshape(x, [-1, 3, 2]), [1, 0, 2])
        mask = tf.transpose(tf.sequence_mask(labels + 1, 3, tf.float32))[..., None]
        def step(state, given):
            y, m = given
            new = tf.tanh(tf.matmul(y, w) + tf.matmul(state, u) + b)
            return m * new + (1.0 - m) * state
        states = tf.scan(step, (parts, mask), initializer=tf.zeros([tf.shape(x)[0], 4]))
        last = tf.foldr(lambda a, s: 0.5 * a + s, states)
        loss = classes(dense(last, 3), labels)
        return [loss, states[-1]], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "a recurrent fold", own_scan

    def adaptive(x, labels):
        """A softmax in clusters: the head, and tails of what is rare."""
        hidden = dense(x, 4, tf.tanh)
        ids = labels * 2
        head = tf.matmul(hidden, variable("head", 4, 4))
        in_tail = ids >= 3
        head_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.where(in_tail, tf.fill(tf.shape(ids), 3), ids), logits=head)
        some = tf.where(in_tail)[:, 0]
        tail = tf.matmul(tf.matmul(tf.gather(hidden, some), variable("down", 4, 2)), variable("tail", 2, 3))
        tail_loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.gather(ids, some) - 3, logits=tail)
        loss = (tf.reduce_sum(head_loss) + tf.reduce_sum(tail_loss)) / tf.cast(tf.size(ids), tf.float32)
        return [loss], [descend(loss)]
    yield "a softmax in clusters", adaptive

    def factorized(x, labels):
        """Crosses of features by factors, with sparse ids that are weighted."""
        ids = tf.stack([labels, labels + 3, labels + 6], 1)
        vectors = tf.nn.embedding_lookup(variable("factors", 9, 3), ids) * tf.expand_dims(x[:, :3], 2)
        first = tf.reduce_sum(tf.squeeze(tf.nn.embedding_lookup(variable("linear", 9, 1), ids), 2) * x[:, :3], 1)
        second = 0.5 * tf.reduce_sum(tf.square(tf.reduce_sum(vectors, 1)) - tf.reduce_sum(tf.square(vectors), 1), 1)
        deep = tf.squeeze(dense(dense(core.flatten(vectors), 4, tf.nn.relu), 1), 1)
        crossed, now = core.flatten(vectors), core.flatten(vectors)
        now = tf.tensordot(tf.reshape(crossed, [-1, 9, 1]) * tf.expand_dims(now, 1), variable("cross", 9), [[2], [0]]) + now
        logit = first + second + deep + tf.reduce_sum(now, 1) * 0.1
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels > 0, tf.float32), logits=logit))
        loss += tf.add_n([1e-3 * tf.nn.l2_loss(v) for v in v1.trainable_variables()])
        return [loss, tf.sigmoid(logit)], [train.FtrlOptimizer(0.1, l1_regularization_strength=0.01).minimize(loss)]
    yield "crosses of features", factorized


# ---- Updates of their own ---------------------------------------------------------------------------------------------


def update_programs():
    def lamb(x, labels):
        loss = classes(logits_of(x), labels)
        step, updates = train.get_or_create_global_step(), []
        for v, g in zip(v1.trainable_variables(), tf.gradients(loss, v1.trainable_variables())):
            m, s = (v1.get_variable(v.op.name + "/" + name, v.shape, initializer=v1.zeros_initializer(), trainable=False) for name in "ms")
            new_m, new_s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * tf.square(g)
            update = new_m / (tf.sqrt(new_s) + 1e-6) + 0.01 * v
            w, u = tf.norm(v, ord=2), tf.norm(update, ord=2)
            ratio = tf.where(tf.greater(w, 0), tf.where(tf.greater(u, 0), w / u, 1.0), 1.0)
            updates += [v.assign(v - ratio * 0.01 * update), m.assign(new_m), s.assign(new_s)]
        with tf.control_dependencies(updates):
            return [loss], [v1.assign_add(step, 1)]
    yield "LAMB", lamb

    def lookahead(x, labels):
        loss, step = classes(logits_of(x), labels), train.get_or_create_global_step()
        ran = train.AdamOptimizer(0.05).minimize(loss, step)
        fast = v1.trainable_variables()
        slow = [v1.get_variable(v.op.name + "/slow", initializer=weights(len(v.op.name), *v.shape), trainable=False) for v in fast]
        with tf.control_dependencies([ran]):
            def both():
                moved = [s.assign_add(0.5 * (v - s)) for v, s in zip(fast, slow)]
                with tf.control_dependencies(moved):
                    return tf.group(*[v.assign(s.read_value() if hasattr(s, "read_value") else s) for v, s in zip(fast, slow)])
            after = tf.cond(tf.equal(step % 2, 0), both, tf.no_op)
        return [loss], [after]
    yield "a look ahead", lookahead

    def contrastive(x, labels):
        """A restricted Boltzmann machine, whose samples compare with what is fed."""
        chances = v1.placeholder(tf.float32, [2, None, 6], "chances")
        w, a, b = variable("w", 6, 4), variable("a", 6), variable("b", 4)
        v0 = tf.cast(x > 0, tf.float32)
        h0 = tf.sigmoid(tf.matmul(v0, w) + b)
        sample = tf.nn.relu(tf.sign(h0 - chances[0, :, :4]))
        v = tf.nn.relu(tf.sign(tf.sigmoid(tf.matmul(sample, w, transpose_b=True) + a) - chances[1]))
        h = tf.sigmoid(tf.matmul(v, w) + b)
        change = (tf.matmul(v0, h0, transpose_a=True) - tf.matmul(v, h, transpose_a=True)) / tf.cast(tf.shape(x)[0], tf.float32)
        velocity = variable("velocity", 6, 4, trainable=False)
        with tf.control_dependencies([velocity.assign(0.5 * velocity + 0.1 * change)]):
            updates = [w.assign_add(velocity + 0.0), a.assign_add(0.1 * tf.reduce_mean(v0 - v, 0)), b.assign_add(0.1 * tf.reduce_mean(h0 - h, 0))]
        energy = -tf.reduce_sum(tf.matmul(v0, a[:, None])) - tf.reduce_sum(tf.nn.softplus(tf.matmul(v0, w) + b))
        return [energy, tf.reduce_mean(tf.square(v0 - v))], [updates], {"chances:0": np.random.RandomState(3).rand(2, 5, 6).astype(np.float32)}
    yield "a Boltzmann machine", contrastive

    def self_organized(x, labels):
        """A map that organizes itself, one example after the other."""
        map_, step = variable("map", 9, 6), train.get_or_create_global_step()
        places = tf.constant([[i // 3, i % 3] for i in range(9)], tf.float32)
        one = x[tf.cast(step % 5, tf.int32)]
        best = tf.argmin(tf.reduce_sum(tf.square(map_ - one), 1), 0)
        distance = tf.reduce_sum(tf.square(places - tf.gather(places, best)), 1)
        rate = 0.5 * tf.exp(-tf.cast(step, tf.float32) / 10.0)
        near = tf.exp(-distance / (2 * tf.square(1.5 * rate + 0.3)))
        with tf.control_dependencies([map_.assign_add((rate * near)[:, None] * (one - map_))]):
            return [best, tf.identity(map_)], [v1.assign_add(step, 1)]
    yield "a map that organizes itself", self_organized

    def cyclical(x, labels):
        """A rate in cycles, whose momentum goes the other way, and noise that is fed."""
        step = train.get_or_create_global_step()
        now = tf.cast(step, tf.float32)
        cycle = tf.floor(1 + now / 4.0)
        place = tf.maximum(0.0, 1.0 - tf.abs(now / 2.0 - 2.0 * cycle + 1.0))
        rate, momentum = 0.01 + 0.09 * place, 0.95 - 0.1 * place
        loss = classes(logits_of(x), labels)
        noise = v1.placeholder(tf.float32, [6, 8], "noise")
        optimizer = train.MomentumOptimizer(rate, momentum)
        pairs = [(g + noise / tf.pow(1.0 + now, 0.55) if g.shape == (6, 8) else g, v) for g, v in optimizer.compute_gradients(loss)]
        pairs = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in pairs]
        return [loss, rate, momentum], [optimizer.apply_gradients(pairs, step)], {"noise:0": points(151, 6, 8) * 0.01}
    yield "a rate in cycles", cyclical

    def evolved(x, labels):
        """Strategies of evolution: losses of many networks at once, and no gradient."""
        center, noise = variable("center", 18), v1.placeholder(tf.float32, [4, 18], "directions")
        def loss_at(w):
            return classes(tf.matmul(x, tf.reshape(w, [6, 3])), labels)
        many = tf.concat([center + 0.1 * noise, center - 0.1 * noise], 0)
        found = tf.map_fn(loss_at, many)
        ranks = tf.cast(tf.argsort(tf.argsort(found)), tf.float32) / 7.0 - 0.5
        step = tf.linalg.matvec(tf.concat([noise, -noise], 0), ranks, transpose_a=True) / 8.0
        return [loss_at(center), found], [center.assign_sub(0.5 * step)], {"directions:0": points(152, 4, 18)}
    yield "strategies of evolution", evolved

    def halves(x, labels):
        """Variables of float32 that networks of float16 use, and a loss that is scaled."""
        def getter(getter, name, shape=None, dtype=None, initializer=None, trainable=True, *args, **options):
            v = getter(name, shape, dtype=tf.float32 if trainable else dtype, initializer=initializer, trainable=trainable, *args, **options)
            return tf.cast(v, dtype) if trainable and v.dtype.base_dtype != dtype else v
        with v1.variable_scope("fp16", custom_getter=getter, dtype=tf.float16):
            w = v1.get_variable("w", [6, 8], tf.float16, initializer=constant_initializer(2))
            out = v1.get_variable("out", [8, 3], tf.float16, initializer=constant_initializer(4))
        logits = tf.cast(tf.matmul(tf.nn.relu(tf.matmul(tf.cast(x, tf.float16), w)), out), tf.float32)
        loss, variables = classes(logits, labels), v1.trainable_variables()
        gradients = [g / 128.0 for g in tf.gradients(loss * 128.0, variables)]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients])
        safe = [tf.where(finite, g, tf.zeros_like(g)) for g in gradients]
        return [loss, finite], [train.MomentumOptimizer(0.1, 0.9).apply_gradients(zip(safe, variables))]
    yield "halves beside float32", halves


# ---- Small machines ---------------------------------------------------------------------------------------------------


def small_programs():
    def quantized(x, labels):
        """Training that knows of 8 bits: the ranges are averages, which the forward pass changes."""
        def quantize(y, name, per_batch):
            low, high = (v1.get_variable(f"{name}/{end}", initializer=value, trainable=False) for end, value in (("min", -1.0), ("max", 1.0)))
            if per_batch:
                return tf.quantization.fake_quant_with_min_max_vars(y, low.assign(tf.minimum(tf.reduce_min(y), 0.0)), high.assign(
                    tf.maximum(tf.reduce_max(y), 0.0)), narrow_range=True)
            low = moving_averages.assign_moving_average(low, tf.reduce_min(y), 0.9, zero_debias=False)
            high = moving_averages.assign_moving_average(high, tf.reduce_max(y), 0.9, zero_debias=False)
            return tf.quantization.fake_quant_with_min_max_vars(y, low, high)
        y = tf.nn.relu6(tf.matmul(quantize(x, "in", False), quantize(variable("w", 6, 8), "w", True)) + variable("b", 8))
        y = tf.matmul(quantize(y, "mid", False), quantize(variable("out", 8, 3), "out", True))
        loss = classes(y, labels)
        return [loss], [train.GradientDescentOptimizer(0.1).minimize(loss)]
    yield "training that knows of 8 bits", quantized

    def pruned(x, labels):
        """Masks that follow from thresholds, in some of the steps."""
        w, mask = variable("w", 6, 8), v1.get_variable("mask", initializer=np.ones([6, 8], np.float32), trainable=False)
        threshold = v1.get_variable("threshold", initializer=0.0, trainable=False)
        loss = classes(tf.matmul(tf.nn.relu(tf.matmul(x, w * mask)), variable("out", 8, 3)), labels)
        step = train.get_or_create_global_step()
        ran = train.GradientDescentOptimizer(0.1).minimize(loss, step)
        with tf.control_dependencies([ran]):
            share = 0.5 + (0.1 - 0.5) * tf.pow(1.0 - tf.minimum(1.0, tf.cast(step, tf.float32) / 4.0), 3.0)
            def prune():
                size = tf.abs(w)
                k = tf.cast(tf.round(48.0 * (1 - share)), tf.int32)
                values, _ = tf.nn.top_k(tf.reshape(size, [-1]), 48)
                new = tf.gather(values, k - 1)
                smooth = threshold * 0.5 + new * 0.5
                return tf.group(threshold.assign(smooth), mask.assign(tf.cast(size > smooth, tf.float32)))
            after = tf.cond(tf.logical_and(step >= 1, tf.equal(step % 2, 1)), prune, tf.no_op)
        return [loss, tf.nn.zero_fraction(tf.identity(mask))], [after]
    yield "masks of weights", pruned

    def binary(x, labels):
        """Weights of one bit, and activations of two."""
        @tf.custom_gradient
        def sign(w):
            return tf.sign(w) * tf.reduce_mean(tf.abs(w)), lambda g: tf.where(tf.abs(w) <= 1, g, tf.zeros_like(g))
        y = tf.clip_by_value(tf.matmul(x, sign(variable("w", 6, 8))), 0.0, 1.0)
        y = y + tf.stop_gradient(tf.round(y * 3.0) / 3.0 - y)
        loss = classes(tf.matmul(y, sign(variable("out", 8, 3))), labels)
        return [loss], [train.AdamOptimizer(0.01).minimize(loss)]
    yield "weights of one bit", binary

    def commands(x, labels):
        """As the tutorial of speech commands has it: checks before each step, a rate that is fed, and a matrix of confusion."""
        rate, keep = v1.placeholder(tf.float32, [], "learning_rate_input"), v1.placeholder(tf.float32, [], "dropout_rate")
        fingerprint = tf.reshape(x, [-1, 3, 2, 1])
        y = v1.nn.dropout(tf.nn.relu(tf.nn.conv2d(fingerprint, variable("first", 2, 2, 1, 4), [1, 1, 1, 1], "SAME") + variable("b", 4)), rate=keep)
        y = tf.nn.max_pool2d(y, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
        size = int(y.shape[1]) * int(y.shape[2]) * 4
        logits = tf.matmul(tf.reshape(y, [-1, size]), variable("final", size, 3)) + variable("final_b", 3)
        with v1.name_scope("cross_entropy"):
            loss = v1.losses.sparse_softmax_cross_entropy(labels=labels, logits=logits)
        with v1.name_scope("train"), tf.control_dependencies([tf.debugging.check_numerics(loss, "bad")]):
            ran = train.GradientDescentOptimizer(rate).minimize(loss)
        found = tf.argmax(logits, 1)
        confusion = tf.math.confusion_matrix(labels, found, num_classes=3)
        accuracy = tf.reduce_mean(tf.cast(tf.equal(found, tf.cast(labels, tf.int64)), tf.float32))
        step = train.get_or_create_global_step()
        v1.summary.scalar("accuracy", accuracy)
        v1.summary.merge_all(scope="eval")
        return [loss, confusion, accuracy], [tf.group(ran, v1.assign(step, step + 1))], {"learning_rate_input:0": np.float32(0.05), "dropout_rate:0": np.float32(0)}
    yield "commands that are spoken", commands

    def counted(x, labels):
        """What evaluation adds up over batches, and lists of it."""
        logits = logits_of(x)
        found, confusion = tf.argmax(logits, 1, output_type=tf.int32), v1.get_local_variable("confusion", initializer=np.zeros([3, 3], np.int32))
        seen = v1.get_local_variable("seen", [], tf.int64, initializer=v1.zeros_initializer())
        best = v1.get_local_variable("best", initializer=np.float32(-1))
        update = tf.group(v1.assign_add(confusion, tf.math.confusion_matrix(labels, found, 3)), v1.assign_add(seen, tf.shape(x, out_type=tf.int64)[0]))
        with tf.control_dependencies([update]):
            now = tf.identity(confusion)
            diagonal = tf.cast(tf.linalg.diag_part(now), tf.float32)
            union = tf.cast(tf.reduce_sum(now, 0) + tf.reduce_sum(now, 1), tf.float32) - diagonal
            iou = tf.reduce_mean(tf.where(union > 0, diagonal / tf.maximum(union, 1), tf.zeros_like(union)))
            better = v1.assign(best, tf.maximum(best, iou))
        loss = classes(logits, labels)
        return [tf.identity(confusion), tf.identity(seen), tf.identity(best)], [better, descend(loss)]
    yield "what evaluation adds up", counted

    def pictures(x, labels):
        """Examples that are changed, each in its own way, by numbers that are fed."""
        image, chance = picture_of(x), v1.placeholder(tf.float32, [None], "chance")
        def change(given):
            one, p = given
            one = tf.cond(p > 0.5, lambda: tf.image.flip_left_right(one), lambda: one)
            one = tf.image.adjust_brightness(one, p - 0.5)
            size = tf.cast(tf.round(3.0 + p), tf.int32)
            cut = tf.image.resize(one[:size, :2], [4, 3])
            return tf.image.per_image_standardization(cut)
        changed = tf.map_fn(change, (image, chance), fn_output_signature=tf.float32)
        mixed = 0.7 * changed + 0.3 * tf.gather(changed, tf.reverse(tf.range(tf.shape(x)[0]), [0]))
        mixed.set_shape([None, 4, 3, 2])
        loss = classes(dense(core.flatten(mixed), 3), labels)
        return [loss, tf.reduce_sum(changed, [1, 2, 3])], [descend(loss)], {"chance:0": np.float32([0.1, 0.9, 0.4, 0.7, 0.55])}
    yield "examples that are changed", pictures


FAMILIES = (sequence_programs, update_programs, small_programs)
