"""Writes Keras' networks as SavedModels; see foreign_programs.py.

A network is a function that returns a model and its inputs, by name. What is exported is run, and differentiated by all
Variables that train."""

import contextlib

import numpy as np
import tensorflow as tf

import foreign_flow
from foreign_models import points, weights

keras = tf.keras
layers, ops = keras.layers, keras.ops
Input, Model, Sequential = keras.Input, keras.Model, keras.Sequential
IDS = np.array([[1, 2, 3, 0, 0], [4, 8, 0, 0, 0]], np.int32)
PICTURE, LINE = points(120, 2, 8, 8, 3), points(121, 2, 6, 4)
MASKED = LINE * (np.arange(6) < np.array([[4], [6]]))[..., None].astype(np.float32)


def of(inputs, outputs, *values):
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return Model(inputs, outputs), {each.name: value for each, value in zip(inputs, values)}


def norm_relu(y, activation="relu"):
    return layers.Activation(activation)(layers.BatchNormalization()(y))


def picture():
    return Input((8, 8, 3), name="x")


def head(y, classes=3):
    return layers.Dense(classes, "softmax")(layers.GlobalAveragePooling2D()(y))


# ---- Pictures ---------------------------------------------------------------------------------------------------------


def resnet():
    x = picture()
    y = norm_relu(layers.Conv2D(4, 3, 2, "same", use_bias=False)(layers.ZeroPadding2D(1)(x)))
    y = layers.MaxPooling2D(3, 2, "same")(y)
    for stride in (1, 2):
        z = norm_relu(layers.Conv2D(4, 1, stride)(y))
        z = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(z))
        y = layers.ReLU()(layers.Add()([layers.BatchNormalization()(layers.Conv2D(8, 1, stride)(y)), z]))
    return of(x, head(y), PICTURE)


def mobilenet():
    x = picture()
    y = layers.ReLU(6.0)(layers.BatchNormalization(momentum=0.999)(layers.Conv2D(4, 3, 2, "same")(layers.Rescaling(2.0, -1)(x))))
    z = norm_relu(layers.Conv2D(12, 1)(y), "hard_silu")
    z = layers.DepthwiseConv2D(3, 2, "valid")(layers.ZeroPadding2D(((0, 1), (0, 1)))(z))
    z = norm_relu(z, "hard_silu")
    s = layers.GlobalAveragePooling2D(keepdims=True)(z)
    s = layers.Conv2D(12, 1, activation="hard_sigmoid")(layers.Conv2D(3, 1, activation="relu")(s))
    y = layers.BatchNormalization()(layers.Conv2D(4, 1)(layers.Multiply()([z, s])))
    return of(x, head(layers.Dropout(0.2)(y)), PICTURE)


def efficientnet():
    x = picture()
    y = layers.Normalization(axis=3, mean=[0.4, 0.5, 0.6], variance=[0.1, 0.2, 0.3])(layers.Rescaling(1 / 3)(x))
    y = norm_relu(layers.Conv2D(4, 3, 2, "same")(y), "swish")
    z = norm_relu(layers.DepthwiseConv2D(5, padding="same")(norm_relu(layers.Conv2D(8, 1)(y), "swish")), "swish")
    s = layers.Reshape((1, 1, 8))(layers.GlobalAveragePooling2D()(z))
    s = layers.Conv2D(8, 1, activation="sigmoid")(layers.Conv2D(2, 1, activation="swish")(s))
    z = layers.BatchNormalization()(layers.Conv2D(4, 1)(z * s))
    y = layers.Add()([layers.Dropout(0.2, noise_shape=(None, 1, 1, 1))(z), y])
    return of(x, head(y), PICTURE)


def densenet():
    x = picture()
    y = layers.Conv2D(4, 3, padding="same")(x)
    for _ in range(2):
        z = layers.Conv2D(2, 3, padding="same")(norm_relu(layers.Conv2D(4, 1)(norm_relu(y))))
        y = layers.Concatenate()([y, z])
    y = layers.AveragePooling2D(2)(layers.Conv2D(3, 1)(norm_relu(y)))
    return of(x, head(y), PICTURE)


def inception():
    x = picture()
    parts = [layers.Conv2D(2, 1)(x), layers.Conv2D(2, 3, padding="same")(layers.Conv2D(2, 1)(x)),
             layers.Conv2D(2, (1, 7), padding="same")(layers.Conv2D(2, (7, 1), padding="same")(x)),
             layers.Conv2D(2, 1)(layers.AveragePooling2D(3, 1, "same")(x))]
    y = norm_relu(layers.Concatenate()(parts))
    y = layers.Concatenate()([layers.MaxPooling2D(3, 2)(y), layers.Conv2D(3, 3, 2)(y)])
    return of(x, head(y), PICTURE)


def xception():
    x = picture()
    y = norm_relu(layers.SeparableConv2D(4, 3, padding="same", use_bias=False)(x))
    y = layers.MaxPooling2D(3, 2, "same")(layers.SeparableConv2D(6, 3, padding="same", depth_multiplier=2)(y))
    return of(x, head(y + layers.Conv2D(6, 1, 2, "same")(x)), PICTURE)


def convnext():
    x = picture()
    y = layers.LayerNormalization(epsilon=1e-6)(layers.Conv2D(4, 2, 2)(x))

    class Scale(layers.Layer):
        def build(self, shape):
            self.gamma = self.add_weight(shape=(shape[-1],), name="gamma")

        def call(self, z):
            return z * self.gamma

    z = layers.Conv2D(4, 7, padding="same", groups=4)(y)
    z = layers.Dense(4)(layers.Dense(8, "gelu")(layers.LayerNormalization()(z)))
    return of(x, head(y + Scale()(z)), PICTURE)


def unet():
    x = picture()
    a = layers.Conv2D(3, 3, activation="relu", padding="same")(x)
    b = layers.Conv2D(4, 3, activation="relu", padding="same")(layers.MaxPooling2D()(a))
    c = layers.Conv2D(5, 2, activation="relu")(layers.MaxPooling2D()(b))
    up = layers.Conv2DTranspose(4, 2, 2)(c)
    up = layers.Conv2D(4, 3, padding="same")(layers.Concatenate()([layers.Cropping2D(1)(b), up]))
    up = layers.ZeroPadding2D(1)(up)
    up = layers.Conv2DTranspose(3, 3, 2, "same", output_padding=1)(up)
    return of(x, layers.Conv2D(2, 1, activation="softmax")(layers.Concatenate()([a, up])), PICTURE)


def super_resolution():
    x = Input((None, None, 3), name="x")
    y = layers.PReLU(shared_axes=[1, 2])(layers.Conv2D(12, 5, padding="same")(x))
    y = layers.Lambda(lambda z: tf.nn.depth_to_space(z, 2))(y)
    y = layers.Conv2D(3, 3, padding="same", activation="tanh")(y)
    return of(x, y + layers.UpSampling2D(2)(x), PICTURE)


def attention_module():
    """Channels, then places, as in CBAM."""
    x = picture()
    shared = Sequential([layers.Dense(2, "relu"), layers.Dense(3)])
    channels = layers.Activation("sigmoid")(shared(layers.GlobalAveragePooling2D()(x)) + shared(layers.GlobalMaxPooling2D()(x)))
    y = layers.Multiply()([x, layers.Reshape((1, 1, 3))(channels)])
    places = ops.concatenate([ops.mean(y, 3, True), ops.max(y, 3, True)], 3)
    return of(x, y * layers.Conv2D(1, 3, padding="same", activation="sigmoid")(places), PICTURE)


def vision_transformer():
    x = picture()

    class Tokens(layers.Layer):
        def build(self, shape):
            self.token = self.add_weight(shape=(1, 1, shape[-1]), name="token")
            self.places = self.add_weight(shape=(1, shape[1] + 1, shape[-1]), name="places")

        def call(self, y):
            return ops.concatenate([ops.broadcast_to(self.token, (ops.shape(y)[0], 1, y.shape[-1])), y], 1) + self.places

    y = Tokens()(layers.Reshape((-1, 4))(layers.Conv2D(4, 4, 4)(x)))
    z = layers.LayerNormalization()(y)
    y = y + layers.MultiHeadAttention(2, 2)(z, z)
    y = y + layers.Dense(4)(layers.Dense(8, "gelu")(layers.LayerNormalization()(y)))
    return of(x, layers.Dense(3)(y[:, 0]), PICTURE)


def normalized():
    x = picture()
    y = layers.SpectralNormalization(layers.Conv2D(4, 3, padding="same"))(x)
    y = layers.GroupNormalization(2)(y) + layers.GroupNormalization(-1)(y) + layers.LayerNormalization([1, 2, 3])(y)
    y = layers.BatchNormalization(axis=1)(y) + layers.UnitNormalization()(y) + layers.LayerNormalization(scale=False)(y)
    return of(x, layers.RMSNormalization()(y), PICTURE)


def locally_connected():
    """Filters of their own at each place."""
    x = picture()

    class Local(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(6, 6, 27, 2), name="kernel")

        def call(self, y):
            return ops.einsum("bhwi,hwio->bhwo", ops.image.extract_patches(y, 3, 1), self.kernel)

    return of(x, Local()(x), PICTURE)


def augmented():
    x = picture()
    y = layers.RandomZoom(0.2)(layers.RandomRotation(0.2)(layers.RandomFlip()(x)))
    y = layers.RandomTranslation(0.1, 0.1)(layers.RandomContrast(0.2)(layers.RandomBrightness(0.2)(y)))
    y = layers.Resizing(5, 6, crop_to_aspect_ratio=True)(layers.RandomCrop(6, 7)(layers.CenterCrop(7, 8)(y)))
    return of(x, layers.Conv2D(2, 2)(y), PICTURE)


def detector():
    """The head of YOLO: boxes by a grid, and the best of them."""
    x = picture()
    y = layers.Reshape((16, 6))(layers.Conv2D(6, 2, 2)(x))

    def decode(y):
        grid = tf.stack(tf.meshgrid(tf.range(4), tf.range(4)), -1)
        centers = (tf.sigmoid(y[..., :2]) + tf.cast(tf.reshape(grid, [1, 16, 2]), tf.float32)) / 4
        sizes = tf.exp(y[..., 2:4]) * [0.3, 0.4]
        boxes = tf.concat([centers - sizes / 2, centers + sizes / 2], -1)
        found = tf.image.combined_non_max_suppression(boxes[:, :, None], tf.sigmoid(y[..., 4:]), 3, 5, 0.5, 0.3, clip_boxes=True)
        return list(found)

    return of(x, layers.Lambda(decode)(y), PICTURE)


def sampler():
    """A spatial transformer."""
    x = picture()
    theta = layers.Dense(6)(layers.Flatten()(layers.Conv2D(2, 3, 2)(x)))

    def sample(x, theta):
        grid = tf.stack([*tf.meshgrid(tf.linspace(-1.0, 1.0, 8), tf.linspace(-1.0, 1.0, 8)), tf.ones([8, 8])], -1)
        at = tf.einsum("hwk,bck->bhwc", grid, tf.reshape(theta * 0.1, [-1, 2, 3]) + tf.eye(2, 3)) * 3.5 + 3.5
        low = tf.clip_by_value(tf.cast(tf.floor(at), tf.int32), 0, 6)
        part = at - tf.cast(low, tf.float32)
        total = 0
        for dy in (0, 1):
            for dx in (0, 1):
                place = tf.stack([low[..., 1] + dy, low[..., 0] + dx], -1)
                share = (part[..., 1] if dy else 1 - part[..., 1]) * (part[..., 0] if dx else 1 - part[..., 0])
                total += tf.gather_nd(x, place, batch_dims=1) * share[..., None]
        return total

    return of(x, layers.Lambda(lambda each: sample(*each))([x, theta]), PICTURE)


def volumes():
    x = Input((4, 4, 4, 2), name="x")
    y = layers.Conv3DTranspose(2, 3, 2, "same")(layers.MaxPooling3D(2)(layers.Conv3D(3, 3, padding="same", activation="elu")(x)))
    return of(x, layers.GlobalAveragePooling3D()(layers.BatchNormalization()(y)), points(122, 2, 4, 4, 4, 2))


def quantization_aware():
    x = picture()
    fake = tf.quantization.fake_quant_with_min_max_vars

    class Quantized(layers.Layer):
        def build(self, shape):
            self.kernel = self.add_weight(shape=(3, 3, shape[-1], 4), name="kernel")

        def call(self, y):
            kernel = tf.quantization.fake_quant_with_min_max_vars_per_channel(self.kernel, [-0.5] * 4, [0.5] * 4, narrow_range=True)
            return fake(tf.nn.relu6(tf.nn.conv2d(y, kernel, 1, "SAME")), 0.0, 6.0)

    return of(x, head(Quantized()(x)), PICTURE)


# ---- Sequences --------------------------------------------------------------------------------------------------------


def line():
    return Input((6, 4), name="x")


def conv_lstm():
    one, two, three = Input((3, 5, 2), name="a"), Input((3, 5, 5, 2), name="b"), Input((2, 3, 3, 3, 1), name="c")
    return of([one, two, three], [layers.ConvLSTM1D(2, 3, padding="same")(one),
                                  layers.ConvLSTM2D(2, 3, return_sequences=True, recurrent_activation="hard_sigmoid")(two),
                                  layers.ConvLSTM3D(1, 2, padding="same", return_state=True)(three)[2]],
              points(123, 2, 3, 5, 2), points(124, 2, 3, 5, 5, 2), points(125, 2, 2, 3, 3, 3, 1))


def masked_lstm():
    x = line()
    y = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(layers.Masking()(x))
    y = layers.Bidirectional(layers.GRU(2, return_sequences=True), merge_mode="ave")(y)
    y = layers.TimeDistributed(layers.Dense(3, "tanh"))(y)
    return of(x, [y, layers.LSTM(2)(y)], MASKED)


def merged():
    x = line()
    return of(x, tf.nest.flatten([layers.Bidirectional(layers.SimpleRNN(2), merge_mode=mode)(x) for mode in ("sum", "mul", "concat", None)]), LINE)


def stacked_cells():
    x, h = line(), Input((3,), name="h")
    y, *states = layers.RNN([layers.LSTMCell(3), layers.GRUCell(3, reset_after=False)], return_state=True)(
        x, initial_state=[[h, h * 2], h])
    more, last = layers.GRU(3, return_sequences=True, return_state=True)(x, initial_state=y)
    return of([x, h], [more, last, *tf.nest.flatten(states)], LINE, points(126, 2, 3))


def own_cell():
    x = line()

    class Cell(layers.Layer):
        def __init__(self):
            super().__init__()
            self.state_size = 3

        def build(self, shape):
            self.kernel = self.add_weight(shape=(4, 3), name="kernel")
            self.recurrent = self.add_weight(shape=(3,), name="recurrent")

        def call(self, y, states):
            y = ops.relu(ops.matmul(y, self.kernel) + states[0] * self.recurrent)
            return y, [y]

    return of(x, layers.RNN(Cell(), return_sequences=True, go_backwards=True)(x), LINE)


def video():
    x = Input((3, 8, 8, 2), name="x")
    y = layers.TimeDistributed(layers.Conv2D(2, 3, activation="relu"))(x)
    y = layers.TimeDistributed(layers.GlobalAveragePooling2D())(layers.TimeDistributed(layers.MaxPooling2D())(y))
    return of(x, layers.LSTM(3)(y), points(127, 2, 3, 8, 8, 2))


def any_length():
    x = Input((None, 4), name="x")
    y = layers.LSTM(3, return_sequences=True)(layers.Conv1D(3, 2, padding="causal")(x))
    return of(x, layers.Attention()([y, y]), LINE)


def wavenet():
    x = line()
    y, skips = layers.Conv1D(3, 1)(x), []
    for rate in (1, 2, 4):
        z = layers.Conv1D(3, 2, padding="causal", dilation_rate=rate, activation="tanh")(y) * layers.Conv1D(
            3, 2, padding="causal", dilation_rate=rate, activation="sigmoid")(y)
        skips.append(layers.Conv1D(3, 1)(z))
        y = y + skips[-1]
    return of(x, layers.Softmax(axis=1)(layers.Add()(skips)), LINE)


def sequence_autoencoder():
    x = line()
    y = layers.Conv1DTranspose(4, 3, 2, "same")(layers.Conv1D(3, 3, 2, "same", activation="selu")(x))
    z = layers.RepeatVector(6)(layers.GRU(2)(layers.UpSampling1D(2)(layers.Cropping1D(1)(x))))
    return of(x, y + layers.Dense(4)(z), LINE)


def masked_attention():
    ids, other, mask = Input((5,), dtype="int32", name="ids"), line(), Input((5, 6), dtype="bool", name="mask")
    y = layers.Embedding(9, 4, mask_zero=True)(ids)
    y = layers.MultiHeadAttention(2, 3, value_dim=2)(y, y, use_causal_mask=True)
    z, scores = layers.MultiHeadAttention(2, 3, output_shape=4)(y, other, attention_mask=mask, return_attention_scores=True)
    return of([ids, other, mask], [y, z, scores, layers.GlobalAveragePooling1D()(y)], IDS, LINE, np.arange(60).reshape(2, 5, 6) % 3 > 0)


def translation():
    """The decoder attends to what the encoder gives, both of masked words."""
    a, b = Input((5,), dtype="int32", name="a"), Input((5,), dtype="int32", name="b")
    memory, state = layers.GRU(4, return_sequences=True, return_state=True)(layers.Embedding(9, 4, mask_zero=True)(a))
    y = layers.GRU(4, return_sequences=True)(layers.Embedding(9, 3, mask_zero=True)(b), initial_state=state)
    y = layers.Concatenate()([y, layers.AdditiveAttention()([y, memory])])
    return of([a, b], layers.Dense(9)(layers.LayerNormalization()(y)), IDS, IDS[:, ::-1].copy())


def rotary():
    ids = Input((None,), dtype="int32", name="ids")

    class Attention(layers.Layer):
        def build(self, shape):
            self.qkv = layers.EinsumDense("btd,dhk->bthk", (None, 6, 4))
            self.out = layers.EinsumDense("bthk,hkd->btd", (None, 8), bias_axes="d")
            self.qkv.build(shape)
            self.out.build((*shape[:2], 2, 4))

        def call(self, x):
            q, k, v = ops.split(self.qkv(x), 3, 2)
            length = ops.shape(x)[1]
            angle = ops.cast(ops.arange(length), "float32")[:, None] / ops.power(100.0, ops.arange(2, dtype="float32") / 2)
            sin, cos = ops.sin(angle)[:, None], ops.cos(angle)[:, None]

            def turn(y):
                a, b = ops.split(y, 2, -1)
                return ops.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

            scores = ops.einsum("bqhd,bkhd->bhqk", turn(q), turn(k)) / 2.0
            seen = ops.arange(length)[:, None] >= ops.arange(length)
            return self.out(ops.einsum("bhqk,bkhd->bqhd", ops.softmax(ops.where(seen, scores, -1e9)), v))

    embedding = layers.Embedding(9, 8)
    y = embedding(ids)
    y = y + Attention()(layers.RMSNormalization()(y))
    gate, up = ops.split(layers.Dense(16, use_bias=False)(layers.RMSNormalization()(y)), 2, -1)
    y = y + layers.Dense(8)(ops.silu(gate) * up)
    return of(ids, layers.Dense(5)(y), IDS)


def reversible_embedding():
    ids = Input((5,), dtype="int32", name="ids")
    table = layers.ReversibleEmbedding(9, 4)
    return of(ids, table(layers.GRU(4, return_sequences=True)(table(ids)), reverse=True), IDS)


# ---- Tables, sets, graphs ---------------------------------------------------------------------------------------------


def tabular():
    age, kind, income = Input((1,), name="age"), Input((1,), dtype="int64", name="kind"), Input((1,), name="income")
    buckets = layers.Discretization([18.0, 30.0, 50.0], output_mode="one_hot")(age)
    known = layers.IntegerLookup(vocabulary=[3, 5, 8], output_mode="one_hot")(kind)
    counted = layers.CategoryEncoding(4, "count")(layers.Discretization([0.0, 1.0, 2.0])(income))
    y = layers.Concatenate()([buckets, known, counted, layers.Flatten()(layers.Embedding(12, 3)(kind)),
                              layers.Normalization(mean=2.0, variance=4.0)(income)])
    return of([age, kind, income], layers.Dense(2)(layers.Dense(4, "relu")(y)), np.float32([[15], [33]]), np.int64([[3], [9]]),
              np.float32([[0.5], [3]]))


def deep_fm():
    ids, numbers = Input((3,), dtype="int32", name="ids"), Input((4,), name="numbers")
    vectors = layers.Embedding(9, 4)(ids)
    first = ops.sum(layers.Embedding(9, 1)(ids), 1) + layers.Dense(1)(numbers)
    second = 0.5 * ops.sum(ops.square(ops.sum(vectors, 1)) - ops.sum(ops.square(vectors), 1), 1, True)
    deep = layers.Dense(1)(layers.Dense(5, "relu")(layers.Concatenate()([layers.Flatten()(vectors), numbers])))
    crossed = layers.Dot(1)([numbers, layers.Dense(4)(numbers)])
    return of([ids, numbers], layers.Activation("sigmoid")(first + second + deep + crossed), IDS[:, :3].copy(), points(128, 2, 4))


def experts():
    x = Input((4,), name="x")

    class Experts(layers.Layer):
        def build(self, shape):
            self.gate, self.kernel = self.add_weight(shape=(4, 3)), self.add_weight(shape=(3, 4, 5))

        def call(self, y):
            best, places = ops.top_k(ops.matmul(y, self.gate), 2)
            share = ops.sum(ops.softmax(best)[..., None] * ops.one_hot(places, 3), 1)
            return ops.einsum("be,bd,edo->bo", share, y, self.kernel)

    return of(x, Experts()(x), points(129, 3, 4))


def graph_network():
    nodes, source, target = Input((4,), name="nodes"), Input((), dtype="int32", name="source"), Input((), dtype="int32", name="target")

    def messages(each):
        y, a, b = each
        count = tf.shape(y)[0]
        sent = tf.gather(y, a)
        degree = tf.math.unsorted_segment_sum(tf.ones_like(b, tf.float32), b, count)
        scores = tf.exp(tf.reduce_sum(sent * tf.gather(y, b), 1))
        share = scores / tf.gather(tf.math.unsorted_segment_sum(scores, b, count), b)
        return tf.math.unsorted_segment_sum(sent * share[:, None], b, count) / (degree[:, None] + 1) + tf.math.unsorted_segment_max(
            tf.concat([sent, y], 0), tf.concat([b, tf.range(count)], 0), count)

    y = layers.Dense(3, "tanh")(nodes)
    y = layers.Lambda(messages, output_shape=(3,))([y, source, target])
    return of([nodes, source, target], layers.Dense(2)(y), points(130, 3, 4), np.int32([0, 1, 2, 2]), np.int32([1, 2, 0, 1]))


def point_net():
    x = line()
    transform = layers.Reshape((4, 4))(layers.Dense(16)(layers.GlobalMaxPooling1D()(norm_relu(layers.Conv1D(5, 1)(x)))))
    y = layers.Dot((2, 1))([x, transform])
    return of(x, layers.Dense(2)(layers.GlobalMaxPooling1D()(layers.Conv1D(4, 1, activation="relu")(y))), LINE)


def flow():
    """RealNVP: what comes out, and the logarithm of its density."""
    x = Input((4,), name="x")
    y, total = x, 0.0
    for i in range(2):
        mask = np.float32([i, 1 - i] * 2)
        h = layers.Dense(6, "relu")(y * mask)
        s, t = layers.Dense(4, "tanh")(h) * (1 - mask), layers.Dense(4)(h) * (1 - mask)
        y, total = y * ops.exp(s) + t, total + ops.sum(s, 1)
    return of(x, [y, total - 0.5 * ops.sum(ops.square(y), 1)], points(131, 3, 4))


def codebook():
    x = line()

    class Codes(layers.Layer):
        def build(self, shape):
            self.codes = self.add_weight(shape=(5, shape[-1]), name="codes")

        def call(self, y):
            distances = ops.sum(y ** 2, -1, True) - 2 * ops.matmul(y, ops.transpose(self.codes)) + ops.sum(self.codes ** 2, 1)
            chosen = ops.argmin(distances, -1)
            found = ops.take(self.codes, chosen, 0)
            return y + ops.stop_gradient(found - y), chosen, ops.mean((found - ops.stop_gradient(y)) ** 2)

    return of(x, list(Codes()(layers.Dense(3)(x))), LINE)


def own_ops():
    """What Keras has for arrays."""
    x, o = line(), ops
    square = o.matmul(o.transpose(x, (0, 2, 1)), x) + 3 * o.eye(4)
    return of(x, [o.logsumexp(x, 1), o.cumsum(x, 1), o.sort(x, 1), o.argsort(x, 1), o.median(x, 1), o.quantile(x, [0.25, 0.5], 1),
                  o.var(x, 2), o.roll(x, 2, 1), o.flip(x, 1), o.diff(x, axis=1), o.tril(square), o.cholesky(square), o.inv(square),
                  o.solve(square, o.transpose(x, (0, 2, 1))), o.norm(x, axis=(1, 2)), o.pad(x, ((0, 0), (1, 2), (0, 0)), "reflect"),
                  o.moveaxis(x, 1, 2), o.clip(x, -0.5, 0.5), o.segment_max(x[0], o.convert_to_tensor([0, 0, 1, 1, 2, 2]), 3),
                  o.scatter(o.convert_to_tensor([[1], [3]]), x[0, :2], (5, 4)), o.slice_update(x, (0, 1, 0), x[:, :2] * 2),
                  o.where(x > 0, x, o.erf(x)), o.take_along_axis(x, o.argmax(x, 2, True), 2), o.repeat(x, 2, 1), o.outer(x[0, 0], x[0, 1]),
                  o.logaddexp(x, x * 2), o.isfinite(x), o.count_nonzero(x, 1), o.digitize(x, np.float32([-1, 0, 1])), o.tensordot(x, x, [[1], [1]]),
                  o.erfinv(o.tanh(x)), o.linspace(x[:, 0], x[:, 1], 3), o.unstack(x, axis=2)[1], o.nan_to_num(o.log(x)), o.trace(square),
                  o.max(o.abs(o.qr(square)[1]), 1), o.average(x, 1), o.vectorized_map(lambda row: o.sum(row * row), x), o.swapaxes(x, 1, 2),
                  o.meshgrid(x[0, 0], x[0, 1])[0],
                  o.rot90(x, axes=(1, 2)),
                  o.image.resize(x[..., None], (3, 8)), o.image.rgb_to_grayscale(x[..., :3]), o.left_shift(o.cast(x > 0, "int32"), 2),
                  o.image.affine_transform(x[..., None], np.float32([[1, 0.1, 0, 0.2, 1, 0, 0, 0]] * 2)), o.slogdet(square)[1],
                  o.image.map_coordinates(x[0], np.float32([[0.5, 1.5], [1.0, 2.2]]), 1), o.svd(square, compute_uv=False), o.log1p(o.exp(x)),
                  o.in_top_k(o.convert_to_tensor([1, 2]), x[:, 0], 2), o.one_hot(o.argmax(x, 1), 6), o.searchsorted(o.sort(x[0, 0]), x[0, 1])], LINE)


NETWORKS = (resnet, mobilenet, efficientnet, densenet, inception, xception, convnext, unet, super_resolution, attention_module,
            vision_transformer, normalized, locally_connected, sampler, volumes, quantization_aware, conv_lstm,
            masked_lstm, merged, stacked_cells, own_cell, video, any_length, wavenet, sequence_autoencoder, masked_attention,
            translation, rotary, reversible_embedding, tabular, deep_fm, experts, graph_network, point_net, flow, codebook, own_ops)


def stateful():
    x = Input(batch_shape=(2, 3, 4), name="x")
    return of(x, layers.GRU(3, stateful=True)(x), LINE[:, :3])


def looked_up():
    x, lookup = Input((3,), dtype="int64", name="x"), layers.IntegerLookup
    return of(x, [lookup(vocabulary=[3, 5, 8, 1000, -4])(x), lookup(vocabulary=[3, 5, 8], output_mode="multi_hot")(x),
                  lookup(vocabulary=[30, 5], mask_token=0, num_oov_indices=2)(x), lookup(vocabulary=[30, 5], invert=True)(x % 3),
                  lookup(vocabulary=[3, 7, 5], output_mode="tf_idf", idf_weights=[0.5, 0.2, 0.3])(x)], np.int64([[3, 0, -4], [1000, 7, 8]]))


def hashed():
    x = Input((3,), dtype="int64", name="x")
    return of(x, [layers.Hashing(5)(x), layers.Hashing(7, mask_value=0)(x), layers.Hashing(5, salt=(3, 4))(x)],
              np.int64([[3, 0, -4], [1000, 7, 1 << 60]]))


def low_ranks():
    x = Input((4,), name="x")
    model, values = of(x, layers.Dense(3)(layers.Dense(6, "relu")(x)), points(132, 3, 4))
    for each in model.layers[1:]:
        each.enable_lora(2)
    return model, values


def quantized(mode):
    def made():
        x = Input((4,), name="x")
        model, values = of(x, layers.Dense(3)(layers.EinsumDense("bd,do->bo", (6,))(layers.Dense(6, "relu")(x))), points(133, 3, 4))
        for i, each in enumerate(model.weights):
            each.assign(weights(i, *each.shape))
        model.quantize(mode)
        return model, values
    return made


def with_policy(policy, network):
    def made():
        keras.mixed_precision.set_global_policy(policy)
        try:
            return network()
        finally:
            keras.mixed_precision.set_global_policy("float32")
    return made


# The others: not differentiated by their Variables, or of other types.
KINDS = {"stateful": stateful, "detector": detector, "augmented": augmented, "looked_up": looked_up, "hashed": hashed, "low_ranks": low_ranks, "quantized to int8": quantized("int8"), "quantized to int4": quantized("int4"),
         **{f"{network.__name__} of {policy}": with_policy(policy, network) for policy in ("mixed_float16", "mixed_bfloat16", "float64")
            for network in (resnet, masked_attention)}}


# ---- Writing ----------------------------------------------------------------------------------------------------------


def set_weights(model):
    for i, each in enumerate(model.weights):
        if each.dtype.startswith("float") and each.path.rsplit("/", 1)[-1] not in ("mean", "variance", "seed_generator_state"):
            value = weights(i, *each.shape)
            each.assign(np.abs(value) + 0.1 if "variance" in each.path else value)


def steps_of(folder, calls, differentiate=()):
    """`calls`: names of signatures, and their feeds. By `differentiate` the squares of all that it gives, by all Variables."""
    steps, loaded = foreign_flow.Steps(), tf.saved_model.load(str(folder))
    for name, feeds in calls:
        signature, given = loaded.signatures[name], {key: tf.constant(value) for key, value in feeds.items()}
        steps.add("signature", name)
        for key, value in feeds.items():
            steps.add("feed", key, value)
        with tf.GradientTape() if name in differentiate else contextlib.nullcontext() as tape:
            results = signature(**given)
            floats = [each for each in results.values() if each.dtype.is_floating]
            total = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64) ** 2) for each in floats] or [0.0])
        for key, value in results.items():
            steps.add("fetch", key, value)
        if name in differentiate:
            variables = [each for each in signature.trainable_variables if each.dtype.is_floating]
            for each, gradient in zip(variables, tape.gradient(total, variables)):
                if gradient is not None:
                    steps.add("variable", each.name, each)
                    steps.add("gradient", each.name, tf.convert_to_tensor(gradient))
    return steps


def write(folder, networks=NETWORKS, kinds=KINDS):
    for name, network in (*((each.__name__, each) for each in networks), *kinds.items()):
        keras.backend.clear_session()
        keras.utils.set_random_seed(1)
        model, feeds = network()
        if "quantized" not in name:
            set_weights(model)
        model.export(str(folder / name), verbose=False)
        calls = [("serving_default", feeds)] * (2 if name == "stateful" else 1)
        steps_of(folder / name, calls, ["serving_default"] if name not in kinds else []).save(folder / f"{name}.steps.pb")
