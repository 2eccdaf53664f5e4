"""Networks as programs make them that use TensorFlow, with shapes that the graph computes, and inputs of two sizes.

Each is a function that returns the network, the specs of its inputs, and lists of inputs to run it with."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def weights(seed, *shape):
    return np.random.RandomState(seed).uniform(-0.6, 0.6, shape).astype(np.float32)


def points(seed, *shape):
    return np.random.RandomState(100 + seed).normal(size=shape).astype(np.float32)


def layer_norm(x, scale, offset):
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-5)


def cnn():
    """Convolutions, batch normalization, pooling, Flatten, dense layers: a Keras model, frozen."""
    keras = tf.keras
    inputs = keras.Input((8, 8, 2), name="x")
    y = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    y = keras.layers.BatchNormalization()(y)
    y = keras.layers.ReLU(max_value=6)(y)
    y = keras.layers.DepthwiseConv2D(3, padding="same", depth_multiplier=1)(y)
    y = keras.layers.LeakyReLU()(y)
    y = keras.layers.MaxPooling2D()(y)
    y = keras.layers.UpSampling2D(2)(y)
    y = keras.layers.ZeroPadding2D(1)(y)
    y = keras.layers.AveragePooling2D(2)(y)
    y = keras.layers.Flatten()(y)
    y = keras.layers.Dense(5, activation="elu")(y)
    y = keras.layers.Dropout(0.3)(y)
    y = keras.layers.Dense(3, activation="softmax")(y)
    model = keras.Model(inputs, y)
    for i, each in enumerate(model.weights):
        value = weights(i, *each.shape)
        each.assign(np.abs(value) if "variance" in each.name else value)
    return lambda x: model(x, training=False), [tf.TensorSpec([None, 8, 8, 2], tf.float32, "x")], [
        [points(1, 1, 8, 8, 2)], [points(2, 3, 8, 8, 2)]]


def attention():
    """Two heads of self-attention with a causal mask and a layer normalization, for any batch and length."""
    width, heads = 6, 2
    parts = [weights(i, width, width) for i in range(4)]
    scale, offset = 1 + weights(5, width), weights(6, width)
    table = weights(7, 16, width)

    def split(x):
        shape = tf.shape(x)
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], heads, width // heads]), [0, 2, 1, 3])

    def call(x):
        length = tf.shape(x)[1]
        x = x + tf.gather(table, tf.range(length))
        q, k, v = (split(tf.tensordot(x, w, 1)) for w in parts[:3])
        scores = tf.matmul(q, k, transpose_b=True) / tf.sqrt(tf.cast(tf.shape(q)[-1], tf.float32))
        mask = tf.linalg.band_part(tf.ones([length, length]), -1, 0)
        p = tf.nn.softmax(scores + (1 - mask) * -1e9)
        merged = tf.reshape(tf.transpose(tf.matmul(p, v), [0, 2, 1, 3]), [tf.shape(x)[0], length, width])
        y = x + tf.einsum("btw,wo->bto", merged, parts[3])
        y = layer_norm(y, scale, offset)
        return y, tf.nn.gelu(tf.reduce_mean(y, 1))

    return call, [tf.TensorSpec([None, None, width], tf.float32, "x")], [[points(3, 1, 4, width)], [points(4, 2, 7, width)]]


def keras_attention():
    keras = tf.keras
    inputs = keras.Input((None, 4), name="x")
    y = keras.layers.MultiHeadAttention(2, 3)(inputs, inputs, use_causal_mask=True)
    y = keras.layers.LayerNormalization()(inputs + y)
    y = keras.layers.Dense(4, activation="gelu")(y)
    y = keras.layers.GlobalAveragePooling1D()(y)
    model = keras.Model(inputs, y)
    for i, each in enumerate(model.weights):
        each.assign(weights(i, *each.shape))
    return lambda x: model(x, training=False), [tf.TensorSpec([None, None, 4], tf.float32, "x")], [
        [points(5, 1, 3, 4)], [points(6, 2, 5, 4)]]


def parts():
    """Shapes, axes, paddings, bounds from subgraphs of whole numbers."""
    filters, back = weights(8, 2, 2, 2, 3), weights(9, 3, 3, 2, 2)

    def call(x, image):
        shape = tf.shape(x)
        rows, columns = shape[0], shape[1]
        every = [
            tf.reshape(x, [-1, tf.reduce_prod(shape[1:])]),
            tf.tile(x, [1, rows, 1]),
            tf.broadcast_to(x[:, :1], shape),
            tf.fill(tf.stack([columns, rows]), 2.5) + x[0, 0, 0],
            tf.transpose(x, tf.concat([[tf.rank(x) - 1], tf.range(tf.rank(x) - 1)], 0)),
            tf.slice(x, [0, columns // 2, 0], [rows, columns - columns // 2, 2]),
            x[:, 1:columns - 1, ::-1],
            x[..., tf.newaxis, : shape[-1] - 1],
            tf.reduce_sum(x, tf.range(1, tf.rank(x))),
            tf.reduce_mean(x, tf.range(1, tf.rank(x)), keepdims=True),
            tf.one_hot(tf.range(rows), columns),
            tf.pad(x, [[0, 0], [0, 5 - columns % 5], [1, 0]]),
            tf.pad(x, [[0, 0], [1, 1], [0, 0]], "REFLECT"),
            tf.concat([x, tf.zeros([rows, 2, shape[2]])], 1),
            tf.reshape(tf.gather(x, [0], axis=0), tf.gather(shape, [2, 1])),
            tf.cast(tf.size(x), tf.float32) * tf.ones([rows, 1]),
            tf.add_n(tf.split(x, 3, 2)),
            tf.stack(tf.unstack(x, axis=2), 0),
            tf.squeeze(x[:, :1], 1),
            tf.where(x > 0, x, tf.zeros_like(x)),
            tf.nn.relu6(x * 4) + tf.nn.selu(x) + tf.nn.softsign(x) + tf.math.erfc(x),
            tf.nn.l2_loss(x),
            tf.math.top_k(x, shape[2] // 2)[0],
            tf.einsum("bij,bkj->bik", x, x),
            tf.image.resize(image, 2 * tf.shape(image)[1:3], "nearest"),
            tf.image.resize(image, [7, 5]),
            v1.image.resize_bilinear(image, [7, 9], align_corners=True),
            v1.image.resize_nearest_neighbor(image, [7, 2]),
            tf.gather(x, tf.math.top_k(x[:, :, 0], 2).indices, batch_dims=1),
            tf.batch_to_space(tf.space_to_batch(image, [2, 3], [[1, 1], [0, (3 - tf.shape(image)[2] % 3) % 3]]), [2, 3],
                              [[1, 0], [1, 1]]),
            tf.nn.depth_to_space(tf.nn.space_to_depth(image, 2) * 2, 2),
            tf.nn.depthwise_conv2d(image, filters, [1, 1, 1, 1], "VALID"),
            tf.nn.conv2d_transpose(image, back, tf.stack([tf.shape(image)[0], 2 * tf.shape(image)[1],
                                                          2 * tf.shape(image)[2], 2]), 2),
            v1.placeholder_with_default(weights(10, 1, 3), [None, 3]) + x[:, 0, :3],
        ]
        return every

    specs = [tf.TensorSpec([None, None, 3], tf.float32, "x"), tf.TensorSpec([None, None, None, 2], tf.float32, "image")]
    return call, specs, [[points(7, 2, 4, 3), points(8, 1, 4, 6, 2)], [points(9, 4, 6, 3), points(10, 2, 6, 4, 2)]]


def gradients():
    """TensorFlow's own gradients, which it finds by sizes while it runs."""
    w, b, f = weights(11, 8, 3), weights(12, 3), weights(13, 3, 3, 1, 2)

    def call(x):
        w_, b_, f_ = (tf.identity(each) for each in (w, b, f))
        h = tf.nn.bias_add(tf.nn.conv2d(x, f_, 1, "SAME"), b_[:2])
        h = tf.nn.avg_pool2d(tf.nn.relu(h), 2, 2, "SAME")
        y = tf.reshape(h, [tf.shape(h)[0], -1])
        y = tf.matmul(y, w_) * tf.ones([tf.shape(x)[0], 1]) + b_
        y = tf.concat([y[:, 1:], tf.tile(y, [1, 2])], 1)
        loss = tf.reduce_mean(tf.square(y - tf.reduce_mean(y, 0)))
        return [loss, *v1.gradients(loss, [w_, b_, f_, x])]

    return call, [tf.TensorSpec([None, 4, 4, 1], tf.float32, "x")], [[points(11, 1, 4, 4, 1)], [points(12, 3, 4, 4, 1)]]


MODELS = (cnn, attention, keras_attention, parts, gradients)
