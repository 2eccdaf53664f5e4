"""Writes training programs of papers and tutorials, in TensorFlow 1, as their repositories have them; see foreign_idioms.py."""

import numpy as np
import tensorflow as tf
from tensorflow.python.keras.legacy_tf_layers import convolutional, core
from tensorflow.python.training import moving_averages

from foreign_idioms import LAYER, classes, constant_initializer, descend, logits_of, train, v1, variable, weights
from foreign_models import points

losses = v1.losses


def dense(y, size, activation=None, seed=3, name=None):
    return core.dense(y, size, activation, name=name, kernel_initializer=constant_initializer(seed))


def picture_of(x):
    return tf.reshape(tf.concat([x, x * 0.5 - 0.1, tf.sin(x), x[:, ::-1] * 0.7], 1), [-1, 4, 3, 2])


# ---- Networks against each other, and of several losses ---------------------------------------------------------------


def adversarial_programs():
    def nets(x, z):
        def critic(y, reuse):
            with v1.variable_scope("critic", reuse=reuse):
                return dense(tf.nn.leaky_relu(dense(y, 8, name="one")), 1, name="two")
        with v1.variable_scope("generator"):
            made = dense(dense(z, 6, tf.nn.selu, name="one"), 6, tf.tanh, name="two")
        return critic(x, False), critic(made, True), critic

    def gan(x, labels):
        z = v1.placeholder(tf.float32, [None, 4], "z")
        real, fake, _ = nets(x, z)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits
        loss_d = tf.reduce_mean(entropy(labels=tf.ones_like(real) * 0.9, logits=real)) + tf.reduce_mean(
            entropy(labels=tf.zeros_like(fake), logits=fake))
        loss_g = tf.reduce_mean(entropy(labels=tf.ones_like(fake), logits=fake))
        ran = [train.AdamOptimizer(0.02, beta1=0.5).minimize(loss, var_list=v1.trainable_variables(scope))
               for loss, scope in ((loss_d, "critic"), (loss_g, "generator"))]
        return [loss_d, loss_g], ran, {"z:0": points(140, 5, 4)}
    yield "a GAN", gan

    def clipped(x, labels):
        z = v1.placeholder(tf.float32, [None, 4], "z")
        real, fake, _ = nets(x, z)
        loss = tf.reduce_mean(fake) - tf.reduce_mean(real)
        weights_ = v1.trainable_variables("critic")
        ran = train.RMSPropOptimizer(0.01).minimize(loss, var_list=weights_)
        with tf.control_dependencies([ran]):
            clip = [v1.assign(w, tf.clip_by_value(w, -0.3, 0.3)) for w in weights_]
        other = train.RMSPropOptimizer(0.01).minimize(-tf.reduce_mean(fake), var_list=v1.trainable_variables("generator"))
        return [loss], [tf.group(*clip), other], {"z:0": points(140, 5, 4)}
    yield "a critic that is clipped", clipped

    def penalized(x, labels):
        z, mix = v1.placeholder(tf.float32, [None, 4], "z"), v1.placeholder(tf.float32, [None, 1], "mix")
        real, fake, critic = nets(x, z)
        between = x + mix * (dense(z, 6, seed=5) - x)
        slopes = tf.sqrt(tf.reduce_sum(tf.square(tf.gradients(critic(between, True), [between])[0]), axis=[1]) + 1e-8)
        loss = tf.reduce_mean(fake - real) + 10.0 * tf.reduce_mean(tf.square(slopes - 1.0))
        return [loss], [train.AdamOptimizer(0.01, 0.0, 0.9).minimize(loss, var_list=v1.trainable_variables("critic"))], {
            "z:0": points(140, 5, 4), "mix:0": np.float32([[0.1], [0.5], [0.9], [0.3], [0.7]])}
    yield "a penalty on slopes", penalized

    def reversed_(x, labels):
        features = dense(x, 5, tf.nn.relu)

        @tf.custom_gradient
        def flip(y):
            return y, lambda g: -0.3 * g
        loss = classes(dense(features, 3), labels) + classes(dense(flip(features), 2, seed=4), labels % 2)
        return [loss], [train.MomentumOptimizer(0.1, 0.9).minimize(loss)]
    yield "a gradient that is reversed", reversed_

    def cycled(x, labels):
        def net(y, scope):
            with v1.variable_scope(scope, reuse=v1.AUTO_REUSE):
                return dense(dense(y, 5, tf.nn.relu, name="a"), 6, seed=4, name="b")
        there, back = net(x, "there"), net(tf.reverse(x, [0]), "back")
        loss = tf.reduce_mean(tf.abs(net(there, "back") - x)) + tf.reduce_mean(tf.abs(net(back, "there") - tf.reverse(x, [0])))
        return [loss], [train.AdamOptimizer(train.polynomial_decay(0.02, train.get_or_create_global_step(), 3, 0.0), 0.5).minimize(
            loss, global_step=train.get_global_step())]
    yield "networks in a cycle", cycled

    def distilled(x, labels):
        teacher, student = dense(dense(x, 8, tf.nn.relu, seed=8), 3, seed=9), dense(x, 3, seed=2)
        soft = tf.nn.softmax(tf.stop_gradient(teacher) / 4.0)
        loss = 16.0 * tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=soft, logits=student / 4.0)) + classes(student, labels)
        return [loss], [descend(loss)]
    yield "a teacher", distilled


# ---- Agents -----------------------------------------------------------------------------------------------------------


def agent_programs():
    def actor_critic(x, labels):
        hidden = dense(x, 6, tf.nn.relu6)
        logits, value = dense(hidden, 3), tf.squeeze(dense(hidden, 1, seed=5), [1])
        reward = v1.placeholder(tf.float32, [None], "reward")
        advantage = reward - value
        probabilities = tf.nn.softmax(logits)
        chosen = tf.reduce_sum(probabilities * tf.one_hot(labels, 3), 1)
        entropy = -tf.reduce_sum(probabilities * tf.math.log(probabilities + 1e-10), 1)
        loss = -tf.reduce_mean(tf.math.log(chosen + 1e-10) * tf.stop_gradient(advantage)) + 0.5 * tf.reduce_mean(tf.square(advantage)) \
            - 0.01 * tf.reduce_mean(entropy)
        variables = v1.trainable_variables()
        gradients, norm = tf.clip_by_global_norm(tf.gradients(loss, variables), 0.5)
        optimizer = train.RMSPropOptimizer(0.01, decay=0.99, epsilon=1e-5)
        return [loss, norm], [optimizer.apply_gradients(list(zip(gradients, variables)))], {"reward:0": points(141, 5)}
    yield "an actor and its critic", actor_critic

    def proximal(x, labels):
        def policy(scope, trainable):
            with v1.variable_scope(scope):
                mean = 2 * core.dense(x, 2, tf.tanh, trainable=trainable, **LAYER)
                log_scale = v1.get_variable("log_scale", initializer=weights(3, 2), trainable=trainable)
                return mean, log_scale, v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, scope=scope)
        def log_density(mean, log_scale, action):
            return tf.reduce_sum(-0.5 * tf.square((action - mean) / tf.exp(log_scale)) - 0.5 * np.log(2 * np.pi) - log_scale, -1)
        (mean, scale, new), (old_mean, old_scale, old) = policy("new", True), policy("old", False)
        action, advantage = x[:, :2], x[:, 2]
        ratio = tf.exp(log_density(mean, scale, action) - log_density(old_mean, old_scale, action))
        loss = -tf.reduce_mean(tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 0.8, 1.2) * advantage))
        copy = [v1.assign(o, n) for o, n in zip(old, new)]
        return [loss, ratio], [train.AdamOptimizer(0.05).minimize(loss), copy]
    yield "a policy beside its last one", proximal

    def deterministic(x, labels):
        def actor(s, scope, **options):
            with v1.variable_scope(scope, **options):
                return dense(dense(s, 4, tf.nn.relu, name="l1"), 2, tf.tanh, name="l2")
        def critic(s, a, scope, **options):
            with v1.variable_scope(scope, **options):
                w1, w2 = v1.get_variable("w1", initializer=weights(4, 6, 5)), v1.get_variable("w2", initializer=weights(5, 2, 5))
                return dense(tf.nn.relu(tf.matmul(s, w1) + tf.matmul(a, w2)), 1, name="q")
        a = actor(x, "actor")
        q = critic(x, a, "critic")
        average = train.ExponentialMovingAverage(0.9)
        mine, theirs = v1.trainable_variables("actor"), v1.trainable_variables("critic")
        target = [average.apply(mine), average.apply(theirs)]
        def averaged(getter, name, *args, **options):
            return average.average(getter(name, *args, **options))
        act = train.AdamOptimizer(0.01).minimize(-tf.reduce_mean(q), var_list=mine)
        with tf.control_dependencies(target):
            a2 = actor(x * 0.9, "actor", reuse=True, custom_getter=averaged)
            q2 = critic(x * 0.9, a2, "critic", reuse=True, custom_getter=averaged)
            error = losses.mean_squared_error(labels=x[:, :1] + 0.9 * q2, predictions=q)
            learn = train.AdamOptimizer(0.02).minimize(error, var_list=theirs)
        return [tf.reduce_mean(q)], [act, learn]
    yield "a deterministic policy", deterministic

    def dueling(x, labels):
        hidden = dense(x, 6, tf.nn.relu)
        value, advantage = dense(hidden, 1), dense(hidden, 3, seed=6)
        q = value + (advantage - tf.reduce_mean(advantage, axis=1, keepdims=True))
        places = tf.stack([tf.range(tf.shape(labels)[0], dtype=tf.int32), labels], axis=1)
        weight = v1.placeholder(tf.float32, [None, 1], "weight")
        error = tf.stop_gradient(tf.reduce_max(q, 1) * 0.9 + x[:, 0]) - tf.gather_nd(q, places)
        loss = tf.reduce_mean(weight[:, 0] * tf.where(tf.abs(error) < 0.5, 0.5 * tf.square(error), 0.5 * (tf.abs(error) - 0.25)))
        optimizer = train.AdamOptimizer(0.01, epsilon=1.5e-4)
        gradients = [(tf.clip_by_norm(g, 10.0), v) for g, v in optimizer.compute_gradients(loss) if g is not None]
        return [loss, tf.abs(error)], [optimizer.apply_gradients(gradients)], {"weight:0": np.float32([[1], [0.5], [2], [1], [0.1]])}
    yield "a duel of values", dueling

    def generalized(x, labels):
        """Advantages backward in time, by a scan, and baselines by a running mean."""
        deltas = tf.reduce_sum(x, 1)
        advantage = tf.scan(lambda sum_, delta: delta + 0.9 * sum_, deltas, reverse=True)
        mean = variable("mean", trainable=False)
        update = moving_averages.assign_moving_average(mean, tf.reduce_mean(advantage), 0.9, zero_debias=False)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits_of(x)) * tf.stop_gradient(
            advantage - mean))
        return [loss, advantage, tf.identity(mean)], [descend(loss), update]
    yield "advantages backward in time", generalized


# ---- What networks are made of ----------------------------------------------------------------------------------------


def layer_programs():
    def loss_of(y, labels):
        loss = classes(dense(core.flatten(y), 3), labels)
        return [loss], [train.MomentumOptimizer(0.05, 0.9).minimize(loss)]

    def cifar(x, labels):
        """With a loss of each layer, averages of losses, and histograms of gradients."""
        def weight(name, shape, decay):
            w = v1.get_variable(name, initializer=weights(len(name), *shape))
            if decay is not None:
                v1.add_to_collection("losses", tf.multiply(tf.nn.l2_loss(w), decay, name="weight_loss"))
            v1.summary.histogram(name + "/activations", w)
            v1.summary.scalar(name + "/sparsity", tf.nn.zero_fraction(w))
            return w
        y = tf.nn.conv2d(picture_of(x), weight("conv", [2, 2, 2, 4], None), [1, 1, 1, 1], padding="SAME")
        y = tf.nn.relu(tf.nn.bias_add(y, variable("biases", 4)))
        y = tf.nn.lrn(tf.nn.max_pool2d(y, [1, 2, 2, 1], [1, 1, 1, 1], "SAME"), 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
        y = tf.add(tf.matmul(tf.reshape(y, [tf.shape(x)[0], -1]), weight("linear", [48, 3], 0.004)), variable("out", 3), name="logits")
        v1.add_to_collection("losses", classes(y, labels))
        total, step = tf.add_n(v1.get_collection("losses"), name="total"), train.get_or_create_global_step()
        parts = v1.get_collection("losses") + [total]
        rate = train.exponential_decay(0.1, step, 2, 0.1, staircase=True)
        averages = train.ExponentialMovingAverage(0.9, name="avg").apply(parts)
        with tf.control_dependencies([averages]):
            optimizer = train.GradientDescentOptimizer(rate)
            gradients = optimizer.compute_gradients(total)
        applied = optimizer.apply_gradients(gradients, global_step=step)
        for g, v in gradients:
            v1.summary.histogram(v.op.name + "/gradients", g)
        variables = train.ExponentialMovingAverage(0.999, step)
        with tf.control_dependencies([applied]):
            ran = variables.apply(v1.trainable_variables())
        train.Saver(variables.variables_to_restore())
        v1.summary.merge_all()
        return [total, rate], [ran]
    yield "CIFAR's tutorial", cifar

    def own_norm(x, labels):
        """Batch normalization as a question on the web has it: averages in the branch that trains."""
        training = v1.placeholder(tf.bool, name="training")
        y = tf.nn.conv2d(picture_of(x), variable("filters", 2, 2, 2, 3), 1, "SAME")
        beta, gamma = variable("beta", 3), variable("gamma", 3)
        mean, variance = tf.nn.moments(y, [0, 1, 2], name="moments")
        ema = train.ExponentialMovingAverage(decay=0.5)
        def with_update():
            with tf.control_dependencies([ema.apply([mean, variance])]):
                return tf.identity(mean), tf.identity(variance)
        now = v1.cond(training, with_update, lambda: (ema.average(mean), ema.average(variance)))
        return *loss_of(tf.nn.relu(tf.nn.batch_normalization(y, *now, beta, gamma, 1e-3)), labels), {"training:0": np.bool_(True)}
    yield "averages in a branch", own_norm

    def spectral(x, labels):
        """Spectral normalization, which goes on with its vector, and weight normalization."""
        w, u = variable("w", 6, 5), variable("u", 1, 5, trainable=False)
        v = tf.nn.l2_normalize(tf.matmul(u, tf.transpose(w)), epsilon=1e-12)
        found = tf.nn.l2_normalize(tf.matmul(v, w), epsilon=1e-12)
        found, v = tf.stop_gradient(found), tf.stop_gradient(v)
        sigma = tf.matmul(tf.matmul(v, w), tf.transpose(found))[0, 0]
        with tf.control_dependencies([u.assign(found)]):
            y = tf.nn.relu(tf.matmul(x, w / sigma))
        direction, scale = variable("direction", 5, 4), variable("scale", 4)
        return loss_of(tf.nn.elu(tf.matmul(y, scale * tf.nn.l2_normalize(direction, [0]))), labels)
    yield "normalized weights", spectral

    def grouped(x, labels):
        """Normalizations of instances, groups and layers, by the kind that is learned."""
        y = tf.nn.conv2d(picture_of(x), variable("filters", 2, 2, 2, 4), 1, "SAME")
        n, h, w, c = tf.unstack(tf.shape(y))
        mean, variance = tf.nn.moments(y, [1, 2], keepdims=True)
        instance = (y - mean) * tf.math.rsqrt(variance + 1e-5)
        parts = tf.reshape(y, [n, h, w, 2, 2])
        mean, variance = tf.nn.moments(parts, [1, 2, 4], keepdims=True)
        group = tf.reshape((parts - mean) / tf.sqrt(variance + 1e-5), [n, h, w, c])
        mean = tf.reduce_mean(y, [1, 2, 3], keepdims=True)
        layer = (y - mean) / (tf.math.reduce_std(y, [1, 2, 3], keepdims=True) + 1e-5)
        mix = tf.nn.softmax(variable("mix", 3))
        y = tf.add_n([mix[i] * each for i, each in enumerate((instance, group, layer))])
        y.set_shape([None, 4, 3, 4])
        return loss_of(y, labels)
    yield "normalizations that are mixed", grouped

    def transformed(x, labels):
        """A picture that is sampled where a network says."""
        image = picture_of(x)
        n, h, w = tf.shape(image)[0], 4, 3
        theta = tf.reshape(core.dense(x, 6, kernel_initializer=v1.zeros_initializer(), bias_initializer=lambda s, dtype=None, **_: tf.constant(
            [0.9, 0.1, 0.05, -0.1, 0.8, 0.1])), [-1, 2, 3])
        gx, gy = tf.meshgrid(tf.linspace(-1.0, 1.0, w), tf.linspace(-1.0, 1.0, h))
        grid = tf.stack([tf.reshape(gx, [-1]), tf.reshape(gy, [-1]), tf.ones([h * w])])
        at = tf.matmul(theta, tf.tile(grid[None], tf.stack([n, 1, 1])))
        px, py = (at[:, 0] + 1) * (w - 1) / 2, (at[:, 1] + 1) * (h - 1) / 2
        x0, y0 = tf.cast(tf.floor(px), tf.int32), tf.cast(tf.floor(py), tf.int32)
        base = tf.tile(tf.range(n)[:, None], [1, h * w])
        def pixel(i, j):
            return tf.gather_nd(image, tf.stack([base, tf.clip_by_value(j, 0, h - 1), tf.clip_by_value(i, 0, w - 1)], 2))
        fx, fy = px - tf.cast(x0, tf.float32), py - tf.cast(y0, tf.float32)
        y = (pixel(x0, y0) * ((1 - fx) * (1 - fy))[..., None] + pixel(x0 + 1, y0) * (fx * (1 - fy))[..., None]
             + pixel(x0, y0 + 1) * ((1 - fx) * fy)[..., None] + pixel(x0 + 1, y0 + 1) * (fx * fy)[..., None])
        y = tf.reshape(y, [-1, h, w, 2])
        return loss_of(y, labels)
    yield "a spatial transformer", transformed

    def unpooled(x, labels):
        image = picture_of(x)
        y, places = tf.nn.max_pool_with_argmax(image, 2, 1, "VALID")
        n = tf.shape(image, out_type=tf.int64)[0]
        batch = tf.reshape(tf.range(n), [-1, 1]) * 24
        flat = tf.reshape(tf.reshape(places, [n, -1]) + batch, [-1, 1])
        back = tf.reshape(tf.scatter_nd(flat, tf.reshape(y, [-1]), tf.reshape(n * 24, [1])), [-1, 4, 3, 2])
        y = tf.nn.conv2d_transpose(back, variable("up", 2, 2, 3, 2), tf.stack([tf.shape(x)[0], 8, 6, 3]), 2, "SAME")
        y = tf.nn.depth_to_space(tf.nn.conv2d(y, variable("w", 1, 1, 3, 4), 1, "SAME"), 2)
        loss = tf.reduce_mean(tf.square(y - v1.image.resize_bicubic(image[..., :1], [16, 12])))
        return [loss], [train.AdamOptimizer(0.02).minimize(loss)]
    yield "pooling that is undone", unpooled

    def capsules(x, labels):
        u = tf.reshape(x, [-1, 3, 1, 2, 1])
        w = tf.tile(variable("w", 1, 3, 3, 4, 2), tf.stack([tf.shape(x)[0], 1, 1, 1, 1]))
        votes = tf.matmul(w, tf.tile(u, [1, 1, 3, 1, 1]))
        logits, fixed = tf.zeros(tf.stack([tf.shape(x)[0], 3, 3, 1, 1])), tf.stop_gradient(votes)
        def squash(s):
            square = tf.reduce_sum(tf.square(s), -2, keepdims=True)
            return square / (1 + square) / tf.sqrt(square + 1e-9) * s
        for i in range(3):
            share = tf.nn.softmax(logits, 2)
            v = squash(tf.reduce_sum(share * (votes if i == 2 else fixed), 1, keepdims=True))
            logits += tf.matmul(fixed, tf.tile(v, [1, 3, 1, 1, 1]), transpose_a=True)
        length = tf.sqrt(tf.reduce_sum(tf.square(v), [1, 3, 4]) + 1e-9)
        truth = tf.one_hot(labels, 3)
        loss = tf.reduce_mean(tf.reduce_sum(truth * tf.square(tf.maximum(0.0, 0.9 - length)) + 0.5 * (1 - truth) * tf.square(
            tf.maximum(0.0, length - 0.1)), 1))
        return [loss, length], [train.AdamOptimizer(0.05).minimize(loss)]
    yield "capsules", capsules

    def depthwise(x, labels):
        y = tf.nn.separable_conv2d(picture_of(x), variable("depth", 2, 2, 2, 2), variable("point", 1, 1, 4, 4), [1, 1, 1, 1], "SAME", dilations=[2, 1])
        y = tf.nn.atrous_conv2d(y, variable("atrous", 2, 2, 4, 3), 2, "SAME")
        y = v1.nn.dilation2d(y, filter=variable("dilation", 2, 2, 3), strides=[1, 1, 1, 1], rates=[1, 1, 1, 1], padding="SAME") - v1.nn.erosion2d(
            y, variable("erosion", 2, 2, 3), [1, 1, 1, 1], [1, 1, 1, 1], "SAME")
        y = tf.concat([y, tf.nn.pool(tf.pad(y, [[0, 0], [0, 2], [0, 1], [0, 0]]), [2, 2], "AVG", padding="VALID", dilations=[2, 1]), tf.nn.crelu(y)], 3)
        return loss_of(y, labels)
    yield "convolutions of other kinds", depthwise

    def one_dimensional(x, labels):
        y = tf.nn.conv1d(tf.reshape(x, [-1, 6, 1]), variable("w", 3, 1, 4), 1, "SAME")
        for i, rate in enumerate((1, 2)):
            padded = tf.pad(y, [[0, 0], [rate, 0], [0, 0]])
            gate = convolutional.conv1d(padded, 8, 2, dilation_rate=rate, kernel_initializer=constant_initializer(i))
            a, b = tf.split(gate, 2, 2)
            y += tf.tanh(a) * tf.sigmoid(b)
        y = tf.squeeze(v1.nn.max_pool(y[:, None], [1, 1, 2, 1], [1, 1, 2, 1], "SAME"), 1)
        return loss_of(y, labels)
    yield "gates along a line", one_dimensional


# ---- Losses -----------------------------------------------------------------------------------------------------------


def loss_programs():
    def trained(loss, *fetched):
        return [loss, *fetched], [descend(loss)]

    def margin(x, labels):
        """An angle's margin, as faces have it."""
        w = tf.nn.l2_normalize(variable("w", 6, 3), 0)
        cosine = tf.matmul(tf.nn.l2_normalize(dense(x, 6), 1), w)
        sine = tf.sqrt(tf.maximum(1.0 - tf.square(cosine), 1e-6))
        shifted = cosine * np.cos(0.5).astype(np.float32) - sine * np.sin(0.5).astype(np.float32)
        kept = tf.where(cosine > np.cos(np.pi - 0.5), shifted, cosine - np.float32(np.sin(np.pi - 0.5) * 0.5))
        mask = tf.one_hot(labels, 3)
        return trained(classes(8.0 * (mask * kept + (1.0 - mask) * cosine), labels))
    yield "an angle's margin", margin

    def yolo(x, labels):
        """Boxes on a grid, with anchors."""
        out = tf.reshape(dense(x, 2 * 2 * 2 * 8), [-1, 2, 2, 2, 8])
        cx, cy = tf.meshgrid(tf.range(2), tf.range(2))
        cells = tf.cast(tf.reshape(tf.stack([cx, cy], -1), [1, 2, 2, 1, 2]), tf.float32)
        anchors = tf.constant([[0.6, 0.9], [1.5, 1.1]])
        xy, wh = tf.sigmoid(out[..., :2]) + cells, tf.exp(out[..., 2:4]) * anchors
        truth = tf.concat([tf.reshape(tf.sigmoid(x[:, :4]), [-1, 1, 1, 1, 4]) * 2.0 + tf.zeros([1, 2, 2, 2, 4])], 0)
        low, high = tf.maximum(xy - wh / 2, truth[..., :2] - truth[..., 2:] / 2), tf.minimum(xy + wh / 2, truth[..., :2] + truth[..., 2:] / 2)
        shared = tf.reduce_prod(tf.maximum(high - low, 0.0), -1)
        iou = shared / (tf.reduce_prod(wh, -1) + tf.reduce_prod(truth[..., 2:], -1) - shared)
        best = tf.reduce_max(iou, 3, keepdims=True)
        object_ = tf.cast(iou >= best, tf.float32)
        ignore = (1.0 - object_) * tf.cast(best < 0.6, tf.float32)
        entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels=object_, logits=out[..., 4])
        kinds = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(labels[:, None, None, None] + tf.zeros_like(object_, tf.int32), 3), logits=out[..., 5:])
        loss = tf.reduce_sum(object_[..., None] * tf.square(xy - truth[..., :2])) + tf.reduce_sum(object_ * (kinds + entropy) + 0.5 * ignore * entropy)
        scores = tf.reshape(tf.sigmoid(out[..., 4:5]) * tf.nn.softmax(out[..., 5:]), [-1, 3])
        boxes = tf.reshape(tf.concat([xy - wh / 2, xy + wh / 2], -1), [-1, 4])
        mask = tf.reduce_max(scores, 1) > 0.2
        kept = tf.image.non_max_suppression(tf.boolean_mask(boxes, mask), tf.boolean_mask(tf.reduce_max(scores, 1), mask), 5, 0.4)
        return trained(loss / tf.cast(tf.shape(x)[0], tf.float32), tf.gather(tf.boolean_mask(tf.argmax(scores, 1), mask), kept))
    yield "boxes on a grid", yolo

    def focal(x, labels):
        logits, truth = logits_of(x), tf.one_hot(labels, 3)
        p = tf.sigmoid(logits)
        pt = tf.where(tf.equal(truth, 1.0), p, 1.0 - p)
        weight = tf.where(tf.equal(truth, 1.0), tf.fill(tf.shape(p), 0.25), tf.fill(tf.shape(p), 0.75))
        dice = 1 - (2 * tf.reduce_sum(p * truth, 0) + 1) / (tf.reduce_sum(p, 0) + tf.reduce_sum(truth, 0) + 1)
        return trained(tf.reduce_sum(-weight * tf.pow(1.0 - pt, 2.0) * tf.math.log(tf.clip_by_value(pt, 1e-7, 1.0))) + tf.reduce_mean(dice))
    yield "focal and dice", focal

    def lovasz(x, labels):
        logits = logits_of(x)
        found, total = tf.nn.softmax(logits), []
        for c in range(3):
            truth = tf.cast(tf.equal(labels, c), tf.float32)
            errors, order = tf.nn.top_k(tf.abs(truth - found[:, c]), tf.shape(x)[0])
            sorted_ = tf.gather(truth, order)
            all_ = tf.reduce_sum(sorted_)
            jaccard = 1.0 - (all_ - tf.cumsum(sorted_)) / (all_ + tf.cumsum(1.0 - sorted_))
            jaccard = tf.concat([jaccard[:1], jaccard[1:] - jaccard[:-1]], 0)
            total.append(tf.tensordot(errors, tf.stop_gradient(jaccard), 1))
        return trained(tf.reduce_mean(tf.stack(total)))
    yield "an extension of Jaccard's", lovasz

    def mixture(x, labels):
        """A density of several normal ones."""
        out = dense(dense(x, 6, tf.tanh), 9)
        pi, scale, mean = tf.split(out, 3, 1)
        y = x[:, :1]
        logs = tf.nn.log_softmax(pi) - 0.5 * tf.square((y - mean) / tf.nn.softplus(scale)) - tf.math.log(tf.nn.softplus(scale))
        return trained(-tf.reduce_mean(tf.reduce_logsumexp(logs, 1)))
    yield "a mixture of densities", mixture

    def flow(x, labels):
        """A masked autoregressive flow, and one by a triangular matrix."""
        mask = np.triu(np.ones([6, 6], np.float32), 1)
        shift, log_scale = tf.matmul(x, variable("shift", 6, 6) * mask), tf.tanh(tf.matmul(x, variable("scale", 6, 6) * mask))
        z = (x - shift) * tf.exp(-log_scale)
        lower = tf.linalg.band_part(variable("lower", 6, 6), -1, 0) + 2.0 * tf.eye(6)
        z = tf.transpose(tf.linalg.triangular_solve(lower, tf.transpose(z)))
        log_det = -tf.reduce_sum(log_scale, 1) - tf.reduce_sum(tf.math.log(tf.abs(tf.linalg.diag_part(lower))))
        return trained(tf.reduce_mean(0.5 * tf.reduce_sum(tf.square(z), 1) - log_det) * 0.1)
    yield "a flow", flow

    def kalman(x, labels):
        """A filter in a scan, whose noises are learned."""
        a, q, r = variable("a", 2, 2), tf.exp(variable("q", 2)), tf.exp(variable("r", 2))
        def step(state, y):
            mean, cov, _ = state
            mean, cov = tf.linalg.matvec(a, mean), tf.matmul(tf.matmul(a, cov), a, transpose_b=True) + tf.linalg.diag(q)
            s = cov + tf.linalg.diag(r)
            gain = tf.matmul(cov, tf.linalg.inv(s))
            error = y - mean
            log = 0.5 * (tf.linalg.logdet(s) + tf.reduce_sum(error * tf.linalg.matvec(tf.linalg.inv(s), error)))
            return mean + tf.linalg.matvec(gain, error), cov - tf.matmul(gain, cov), log
        _, _, logs = tf.scan(step, x[:, :2], (tf.zeros([2]), tf.eye(2), tf.constant(0.0)))
        return trained(tf.reduce_mean(logs))
    yield "a filter of noise", kalman

    def gumbel(x, labels):
        noise = v1.placeholder(tf.float32, [None, 3], "noise")
        y = tf.nn.softmax((logits_of(x) - tf.math.log(-tf.math.log(noise))) / 0.7)
        hard = tf.cast(tf.equal(y, tf.reduce_max(y, 1, keepdims=True)), y.dtype)
        y = tf.stop_gradient(hard - y) + y
        loss = tf.reduce_mean(tf.square(tf.matmul(y, variable("codes", 3, 6)) - x))
        return *trained(loss), {"noise:0": 1 / (1 + np.exp(-points(142, 5, 3)))}
    yield "choices with noise", gumbel

    def ranked(x, labels):
        users, items = variable("users", 3, 4), variable("items", 5, 4)
        bias = variable("bias", 5)
        def score(i):
            return tf.reduce_sum(tf.gather(users, labels) * tf.gather(items, i), 1) + tf.gather(bias, i)
        liked, other = labels + 1, (labels * 3 + 2) % 5
        loss = -tf.reduce_sum(tf.math.log_sigmoid(score(liked) - score(other))) + 0.01 * (
            tf.nn.l2_loss(tf.nn.embedding_lookup(users, labels)) + tf.nn.l2_loss(tf.nn.embedding_lookup(items, liked)))
        return [loss], [train.AdagradOptimizer(0.1).minimize(loss)]
    yield "pairs that are ranked", ranked

    def glove(x, labels):
        words, contexts, b, c = variable("words", 4, 3), variable("contexts", 4, 3), variable("b", 4), variable("c", 4)
        counts = tf.exp(x[:, 0]) * 3
        other = (labels + 1) % 4
        guess = tf.reduce_sum(tf.nn.embedding_lookup([words], labels) * tf.nn.embedding_lookup([contexts], other), 1)
        guess += tf.nn.embedding_lookup([b], labels) + tf.nn.embedding_lookup([c], other)
        loss = tf.reduce_sum(tf.minimum(1.0, tf.pow(counts / 10.0, 0.75)) * tf.square(guess - tf.math.log(counts)))
        return [loss], [train.AdagradOptimizer(0.05).minimize(loss)]
    yield "counts of words", glove

    def siamese(x, labels):
        def net(y):
            with v1.variable_scope("net", reuse=v1.AUTO_REUSE) as scope:
                y = dense(y, 5, tf.nn.relu, name=scope.name + "_a")
                return dense(y, 2, name="b")
        distance = tf.sqrt(tf.reduce_sum(tf.square(net(x) - net(tf.roll(x, 1, 0))), 1) + 1e-6)
        same = tf.cast(tf.equal(labels, tf.roll(labels, 1, 0)), tf.float32)
        return trained(tf.reduce_mean(same * tf.square(distance) + (1 - same) * tf.square(tf.maximum(1.0 - distance, 0))))
    yield "pairs with a contrast", siamese


FAMILIES = (adversarial_programs, agent_programs, layer_programs, loss_programs)
