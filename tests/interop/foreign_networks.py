"""Writes Keras' networks as SavedModels; see foreign_programs.py and foreign_keras.py."""

import numpy as np
import tensorflow as tf

import foreign_keras
import foreign_pictures
from foreign_keras import LINE, Input, keras, layers, line, norm_relu, of, ops
from foreign_models import points, weights

IDS = np.array([[1, 2, 3, 0, 0], [4, 8, 0, 0, 0]], np.int32)
MASKED = LINE * (np.arange(6) < np.array([[4], [6]]))[..., None].astype(np.float32)


# ---- Sequences --------------------------------------------------------------------------------------------------------


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


NETWORKS = (*foreign_pictures.NETWORKS, conv_lstm, masked_lstm, merged, stacked_cells, own_cell, video, any_length,
            wavenet, sequence_autoencoder, masked_attention, translation, rotary, reversible_embedding, tabular,
            deep_fm, experts, graph_network, point_net, flow, codebook, own_ops)


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
KINDS = {"stateful": stateful, "detector": foreign_pictures.detector, "augmented": foreign_pictures.augmented, "looked_up": looked_up, "hashed": hashed, "low_ranks": low_ranks, "quantized to int8": quantized("int8"), "quantized to int4": quantized("int4"),
         **{f"{network.__name__} of {policy}": with_policy(policy, network) for policy in ("mixed_float16", "mixed_bfloat16", "float64")
            for network in (foreign_pictures.resnet, masked_attention)}}


def write(folder):
    foreign_keras.write(folder, NETWORKS, KINDS)
