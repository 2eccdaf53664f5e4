"""Writes SavedModels, each of a function of tensors that a Variable scales, and of its gradient by TensorFlow's tape: what is
read is run, differentiated by our tape, and its gradients are run; see foreign_programs.py.

A study takes y [n, 6] and whole numbers ids [n], and returns tensors. `plain` marks those without a gradient of TensorFlow's."""

import random

import numpy as np
import tensorflow as tf

import foreign_keras
from foreign_models import points

math, linalg, nn, signal, special = tf.math, tf.linalg, tf.nn, tf.signal, tf.math.special
sparse, image, keras = tf.sparse, tf.image, tf.keras
ops, raw = keras.ops, tf.raw_ops
X, IDS, SCALE = points(500, 4, 6), np.int32([2, 0, 2, 1]), points(501, 6)
SPECS = [tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None], tf.int32, "ids")]
STUDIES = []


def study(function):
    STUDIES.append((function, True))
    return function


def plain(function):
    STUDIES.append((function, False))
    return function


def positive(y):
    return tf.abs(y) + 0.2


def square(y):
    return tf.matmul(y, y, transpose_a=True) + tf.linalg.diag([3.0, 4, 5, 6, 7, 8])


def filled(y, *shape):
    """The elements again and again."""
    count = int(np.prod(shape))
    return tf.reshape(tf.tile(tf.reshape(y, [-1]), [count // 24 + 1])[:count], shape)


def picture(y):
    return tf.sigmoid(filled(y, 2, 8, 8, 3))


# ---- Segments, sets, counts -------------------------------------------------------------------------------------------


@study
def segments(y, ids):
    order = tf.sort(ids) * 2
    return [getattr(math, f"segment_{each}")(y, order) for each in ("sum", "mean", "prod", "max", "min")]


@study
def unsorted_segments(y, ids):
    return [getattr(math, f"unsorted_segment_{each}")(y, ids - 1, 5) for each in ("sum", "prod", "max", "min", "sqrt_n", "mean")]


@study
def segments_of_rows(y, ids):
    rows, order = tf.constant([0, 2, 1, 3, 3]), tf.constant([0, 0, 2, 2, 3])
    return [getattr(sparse, f"segment_{each}")(y, rows, order, **more) for each in ("sum", "mean", "sqrt_n") for more in ({}, {"num_segments": 6})]


@plain
def sets(y, ids):
    a, b = tf.stack([ids, ids + 1], 1), tf.stack([ids * 2, ids], 1)
    made = [tf.sets.intersection(a, b), tf.sets.union(a, b), tf.sets.difference(a, b)]
    return [*map(sparse.to_dense, made), tf.sets.size(made[2])]


@plain
def counts(y, ids):
    pairs, weights = tf.stack([ids, ids * 2], 1), tf.constant([[1.5, 2], [3, 4], [5, 6], [7, 8]])
    return [math.bincount(ids, weights=[1.0, 2, 3, 4], minlength=2, maxlength=7), math.bincount(pairs, axis=-1, minlength=3),
            math.bincount(pairs, weights=weights, axis=-1), math.bincount(pairs, axis=-1, binary_output=True),
            tf.histogram_fixed_width_bins(y, [-2.0, 2.0], 5), math.confusion_matrix([0, 1, 2, 1], ids, 6, [1.0, 2, 3, 4])]


@plain
def sparse_counts(y, ids):
    pairs, rows = tf.stack([ids, ids * 2], 1), tf.RaggedTensor.from_row_lengths(tf.constant([1, 2, 1, 0, 3]), tf.cast(ids, tf.int64))
    made = [sparse.bincount(pairs, axis=-1), sparse.bincount(pairs, weights=pairs + 1, axis=-1), sparse.bincount(sparse.from_dense(pairs), axis=-1, minlength=7)]
    return [*map(sparse.to_dense, made), math.bincount(sparse.from_dense(pairs), axis=-1), math.bincount(rows, axis=-1, minlength=2)]


@plain
def candidates(y, ids):
    return tf.random.all_candidate_sampler(tf.cast(ids, tf.int64)[:, None], 1, 4, True)


# ---- Products and slices ----------------------------------------------------------------------------------------------


@study
def equations(y, ids):
    a, b = tf.reshape(y, [2, 2, 3, 2]), tf.reshape(y, [2, 2, 2, 3])
    terms = [(each, [y] * (each.count(",") + 1)) for each in ("ij,kj->ik", "ij->ji", "ij->", "i...->...i", "ij,ij->i", "ij,kl->ikjl")]
    terms += [("ii->i", [y[:4, :4]]), ("ii->", [y[:4, :4]]), ("iij->ij", [tf.reshape(y, [2, 2, 6])]), ("i,j->ij", [y[0], y[1]]),
              ("ij,jk,kl->il", [y, tf.transpose(y), y]), ("bhqd,bhkd->bhqk", [a, a * 2]), ("...ij,...jk->...ik", [b, a]),
              ("abcd,cd->ab", [a, tf.reshape(y[0], [3, 2])]), ("abc,bc->ca", [tf.reshape(y, [2, 4, 3]), y[:, :3]])]
    return [tf.einsum(equation, *inputs) for equation, inputs in terms]


@study
def slices(y, ids):
    return [y[::-1], y[..., tf.newaxis], y[1:3, ::2], y[-1], y[:, -2:], y[::-2, 4:1:-1], y[tf.newaxis, ..., 0], y[ids[0]:], y[:ids[0], ids[3]:],
            y[:0], y[5:, 7:], y[-100:2, :100]]


@plain
def slices_that_are_set(y, ids):
    return [raw.TensorStridedSliceUpdate(input=y, begin=[1, 0], end=[3, 4], strides=[1, 2], value=y[:2, :2] * 5.0),
            raw.TensorStridedSliceUpdate(input=y, begin=[1], end=[2], strides=[1], value=y[0], shrink_axis_mask=1),
            raw.StridedSliceGrad(shape=[6, 8], begin=[1, 6], end=[5, 0], strides=[1, -1], dy=y)]


@study
def places(y, ids):
    blocks = tf.reshape(y, [4, 3, 2])
    return [tf.gather(blocks, tf.stack([ids, ids], 1), batch_dims=1), tf.gather(y, ids, axis=-1), tf.gather(blocks, [[0, 1]], axis=2),
            tf.gather_nd(blocks, ids[:, None], batch_dims=1), tf.gather_nd(y, tf.stack([ids, ids], 1)), tf.repeat(y, [1, 2, 0, 3, 1, 1], axis=1),
            tf.tensor_scatter_nd_update(y, [[0], [2]], y[:2] * 2), tf.tensor_scatter_nd_add(y, [[0, 1], [0, 1]], y[0, :2]),
            tf.tensor_scatter_nd_min(y, [[0], [1]], y[2:]), tf.scatter_nd([[1], [1], [3]], y[:3], [5, 6]),
            tf.boolean_mask(y, [True, False, True, True, False, False], axis=1), tf.where(ids[:, None] > 0, y, -y)]


@study
def filled_shapes(y, ids):
    """Shapes that are computed, of what has a gradient."""
    return [tf.fill([ids[0], 2], y[0, 0]), tf.linspace(y[0, 0], y[1, 0], 5), tf.linspace(y[0], y[1], 3, axis=1), tf.broadcast_to(y[:1], [ids[0] + 1, 6]),
            tf.pad(y, [[ids[0], 0], [2, 1]], constant_values=3.0), tf.tile(y, [ids[0], 1])]


# ---- Rows of different lengths, and sparse tensors --------------------------------------------------------------------


def rows_of(y, splits=(0, 3, 5, 10, 24)):
    return tf.RaggedTensor.from_row_splits(tf.reshape(y, [-1]), tf.constant(splits, tf.int64))


@study
def sums_of_rows(y, ids):
    rows = rows_of(y)
    return [getattr(math, f"reduce_{each}")(rows, 1) for each in ("sum", "max", "min", "prod", "mean", "variance", "std")] + [
        getattr(math, f"reduce_{each}")(rows, 0) for each in ("sum", "max", "mean")]


@study
def rows_of_rows(y, ids):
    rows = tf.RaggedTensor.from_nested_row_splits(tf.reshape(y, [-1]), [[0, 2, 3], [0, 5, 9, 24]])
    return [rows.to_tensor(), tf.reduce_sum(rows, axis=[1, 2]), tf.reduce_sum(rows, axis=2).to_tensor(), rows.merge_dims(0, 1).row_lengths()]


@study
def changed_rows(y, ids):
    rows = rows_of(y)
    made = [rows * 2 + rows, rows + tf.constant([[1.0], [2], [3], [4]]), rows - y[0, 0], tf.concat([rows, rows * 2], 1), tf.concat([rows, rows], 0), rows[1:3],
            rows[:, ::2], rows[:, -3:], rows[::-1], tf.gather(rows, ids), tf.ragged.map_flat_values(tf.tanh, rows), nn.softmax(rows), tf.reverse(rows, [1]),
            tf.where(rows > 0, rows, rows * 0), tf.ragged.stack([y[0], y[1, :2]]), tf.RaggedTensor.from_value_rowids(y, tf.sort(ids), nrows=4)]
    return [each.flat_values for each in made] + [rows[2], rows.to_tensor(-1.0, shape=[None, 5]), rows.to_tensor(shape=[6, 20]), rows.bounding_shape(),
                                                  tf.gather_nd(rows, [[0, 1], [3, 4]]), tf.RaggedTensor.from_tensor(y, padding=y[0, 0]).flat_values]


def sparse_of(y, shift=0):
    return tf.SparseTensor([[0, 1], [0, 3 - shift], [2, 0], [3 - shift, 4]], y[:, shift], [4, 5])


@study
def sparse_sums(y, ids):
    a, b, dense = sparse_of(y), sparse_of(y, 1), sparse.to_dense
    return [dense(sparse.add(a, b)), sparse.add(a, y[:, :5]), dense(sparse.add(a, b, 0.5)), sparse.reduce_sum(a, 1), sparse.reduce_sum(a),
            sparse.reduce_sum(a, [-1], keepdims=True), dense(sparse.softmax(a)), dense(sparse.slice(a, [0, 1], [3, 4])), sparse.to_dense(a, -7.0)]


@study
def sparse_moves(y, ids):
    a, dense = sparse_of(y), sparse.to_dense
    return [dense(sparse.transpose(a)), dense(sparse.reshape(a, [2, -1])), dense(sparse.retain(a, [True, False, True, True])), dense(sparse.reset_shape(a)),
            dense(sparse.fill_empty_rows(a, 2.5)[0]), dense(sparse.reorder(tf.SparseTensor([[3, 1], [0, 3], [2, 0], [0, 2]], y[:, 0], [4, 5]))),
            dense(sparse.expand_dims(a, 1)), dense(sparse.map_values(tf.square, a)), dense(a * y[:, :5]), dense(a / positive(y[:, :5]))]


@study
def sparse_products(y, ids):
    a = sparse_of(y)
    return [sparse.sparse_dense_matmul(a, tf.transpose(y[:, :5])), sparse.sparse_dense_matmul(a, y, adjoint_a=True),
            sparse.sparse_dense_matmul(a, y[:, :5], adjoint_b=True)]


@plain
def sparse_choices(y, ids):
    a, b, dense = sparse_of(y), sparse_of(y, 1), sparse.to_dense
    return [dense(sparse.concat(1, [a, b])), dense(sparse.concat(0, [a, sparse.reset_shape(b, [4, 7])], expand_nonconcat_dims=True)),
            sparse.reduce_max(a, 0), sparse.reduce_max(a, 1), *map(dense, sparse.split(sp_input=a, num_split=2, axis=0)),
            *map(dense, sparse.split(sp_input=a, num_split=2, axis=1)), sparse.to_indicator(tf.SparseTensor([[0, 0], [1, 0], [2, 1]], tf.cast(ids[:3], tf.int64), [4, 2]), 4),
            dense(sparse.from_dense(ids)), sparse.from_dense(nn.relu(y)).indices, dense(sparse.maximum(a, b)), dense(sparse.minimum(a, b))]


@study
def embeddings(y, ids):
    found, weights = (tf.SparseTensor([[0, 0], [0, 1], [2, 0], [3, 2]], values, [4, 3]) for values in (tf.cast(ids, tf.int64), tf.constant([1.0, 2, 3, 4])))
    lacking = tf.SparseTensor(found.indices, found.values - 1, [4, 3])
    return [nn.embedding_lookup(y, ids, max_norm=1.5)] + [each for how in ("sum", "mean", "sqrtn") for each in (
        nn.embedding_lookup_sparse(y, found, weights, combiner=how), nn.embedding_lookup_sparse(y, found, None, combiner=how, max_norm=1.0),
        nn.safe_embedding_lookup_sparse(y, lacking, None, combiner=how, default_id=1))]


# ---- Functions of numbers ---------------------------------------------------------------------------------------------


@study
def bessel(y, ids):
    p = positive(y)
    return [getattr(special, f"bessel_{each}")(y) for each in ("i0", "i0e", "i1", "i1e", "j0", "j1")] + [
        getattr(special, f"bessel_{each}")(p) for each in ("k0", "k0e", "k1", "k1e", "y0", "y1")]


@study
def gamma(y, ids):
    p = positive(y)
    return [math.lbeta(p), math.lgamma(y * 3 + 0.05), math.digamma(p), math.polygamma(2.0, p), math.igamma(p, p * 2), math.igammac(p, p[::-1]),
            math.betainc(tf.constant(1.5), tf.constant(2.5), tf.sigmoid(y)), math.zeta(tf.constant(2.5), p), special.expint(p), special.spence(p), special.dawsn(y)]


@study
def inverse_errors(y, ids):
    return [math.erfinv(tf.tanh(y) * 0.9), math.ndtri(tf.sigmoid(y)), math.erfcinv(1 + tf.tanh(y) * 0.5), math.cumulative_logsumexp(y, 1),
            math.cumulative_logsumexp(y, 0, exclusive=True, reverse=True), math.cumprod(y, 1, exclusive=True, reverse=True), math.cumsum(y, 0, reverse=True)]


@study
def without_nan(y, ids):
    zero = nn.relu(y)
    return [math.divide_no_nan(y, zero), math.multiply_no_nan(y, zero), math.xlogy(zero, positive(y)), math.xlog1py(y, positive(y)), math.xdivy(y, positive(y)),
            math.reciprocal_no_nan(zero), tf.atan2(y, y[::-1] + 0.1), math.reduce_euclidean_norm(y, 1)]


@study
def kinds_of_norms(y, ids):
    return [tf.norm(y, 1, axis=1), tf.norm(y, np.inf, axis=0), tf.norm(y, "fro", axis=[0, 1]), tf.norm(y, 3, axis=1, keepdims=True), tf.norm(y, 2, axis=[0, 1]),
            linalg.normalize(y, axis=1)[0], linalg.global_norm([y, y * 2]), tf.clip_by_norm(y, 1.0, [1]), *tf.clip_by_global_norm([y, y * 3], 1.0)[0],
            math.l2_normalize(y, [0, 1], epsilon=0.1), *nn.weighted_moments(y, [0], positive(y)), math.reduce_std(y)]


@plain
def isotonic(y, ids):
    return nn.isotonic_regression(y[:3])


# ---- Matrices ---------------------------------------------------------------------------------------------------------


def operators(y):
    full, diagonal = linalg.LinearOperatorFullMatrix(square(y)), linalg.LinearOperatorDiag(positive(y[0]), is_positive_definite=True)
    corner = linalg.LinearOperatorFullMatrix(square(y)[:3, :3])
    yield linalg.LinearOperatorLowerTriangular(square(y))
    yield linalg.LinearOperatorBlockDiag([corner, linalg.LinearOperatorDiag(positive(y[0, :3]))])
    yield linalg.LinearOperatorHouseholder(y[0])
    yield linalg.LinearOperatorLowRankUpdate(diagonal, tf.transpose(y[:2]))
    yield linalg.LinearOperatorToeplitz(tf.concat([[10.0], y[0, 1:]], 0), tf.concat([[10.0], y[1, 1:]], 0))
    yield linalg.LinearOperatorTridiag([y[0], y[1] + 6, y[2]], "sequence")
    yield linalg.LinearOperatorComposition([full, diagonal])
    yield linalg.LinearOperatorInversion(full)
    yield linalg.LinearOperatorBlockLowerTriangular([[corner], [linalg.LinearOperatorFullMatrix(y[:3, :3]), corner]])
    yield linalg.LinearOperatorCirculant(tf.cast(positive(y[0]), tf.complex64), input_output_dtype=tf.float32)


@study
def products_of_operators(y, ids):
    return [each.matmul(tf.transpose(y)) for each in operators(y)] + [each.matvec(y[0]) for each in operators(y)]


@study
def solutions_of_operators(y, ids):
    return [each.solve(tf.transpose(y)) for each in operators(y)]


@study
def volumes_of_operators(y, ids):
    return [part for each in operators(y) for part in (each.to_dense(), each.diag_part(), each.trace(), each.log_abs_determinant())]


@study
def decompositions(y, ids):
    m, turned = square(y), tf.transpose(y)
    return [linalg.cholesky(m), linalg.cholesky_solve(linalg.cholesky(m), turned), linalg.inv(m), linalg.logdet(m), linalg.slogdet(m)[1], linalg.expm(m * 0.1),
            linalg.eigh(m)[0], tf.abs(linalg.eigh(m)[1]), linalg.svd(y, compute_uv=False), linalg.lstsq(turned, turned, 0.1), linalg.triangular_solve(m, turned, lower=False, adjoint=True),
            linalg.tridiagonal_solve(tf.stack([y[0], y[1] + 6, y[2]]), turned), linalg.banded_triangular_solve(tf.stack([y[1] + 5, y[0]]), turned)]


@study
def diagonals(y, ids):
    m = square(y)
    return [linalg.tensor_diag(y[0]), linalg.tensor_diag_part(m), linalg.set_diag(y, y[:, 0]), linalg.set_diag(m, tf.stack([y[0], y[1]]), k=(0, 1)),
            linalg.diag_part(m, k=(-1, 1)), linalg.band_part(y, 1, 2), linalg.cross(y[:, :3], y[:, 3:]), tf.tensordot(y, y, 0)]


@plain
def factors_of_matrices(y, ids):
    m = square(y) + tf.tile(y[:1], [6, 1])
    return [*linalg.lu(m), linalg.lu_reconstruct(*linalg.lu(m)), linalg.lu_solve(*linalg.lu(m), tf.transpose(y)), tf.abs(linalg.qr(y[:, :4])[1]), linalg.pinv(y[:, :3]),
            linalg.eigh_tridiagonal(y[0], y[1, :5]), linalg.matrix_rank(y)]


# ---- Signals ----------------------------------------------------------------------------------------------------------


@study
def cosines(y, ids):
    flat = tf.reshape(y, [-1])
    return [signal.dct(y, 1), signal.dct(y, 2, norm="ortho"), signal.dct(y, 3), signal.dct(y, 4), signal.idct(y, 2, norm="ortho"), signal.idct(y, 1), signal.dct(y, 2, n=9),
            signal.mdct(flat, 8), signal.inverse_mdct(signal.mdct(flat, 8)), signal.mfccs_from_log_mel_spectrograms(y)]


@study
def frames(y, ids):
    return [signal.frame(y, 4, 3, pad_end=True, pad_value=1.0), signal.frame(y, 2, 1, axis=0), signal.overlap_and_add(signal.frame(y, 4, 1), 1),
            y[0, 0] * signal.kaiser_window(7), y[0, 1] * signal.kaiser_bessel_derived_window(8), y[0, 2] * signal.vorbis_window(8), y[0, 3] * signal.hann_window(7, False)]


# ---- Networks and pictures --------------------------------------------------------------------------------------------


@study
def convolutions(y, ids):
    image = filled(y, 2, 8, 8, 3)
    return [nn.atrous_conv2d(image, filled(y, 3, 3, 3, 2), 2, "SAME"), nn.atrous_conv2d_transpose(image, filled(y, 3, 3, 2, 3), [2, 8, 8, 2], 2, "SAME"),
            nn.conv1d_transpose(filled(y, 2, 4, 2), filled(y, 3, 3, 2), [2, 8, 3], 2), nn.conv2d_transpose(filled(y, 2, 4, 4, 2), filled(y, 3, 3, 3, 2), [2, 7, 8, 3], 2),
            nn.conv3d_transpose(filled(y, 1, 2, 2, 2, 2), filled(y, 2, 2, 2, 3, 2), [1, 4, 4, 4, 3], 2), nn.convolution(image, filled(y, 2, 2, 3, 4), dilations=[2, 3]),
            nn.depthwise_conv2d(image, filled(y, 3, 3, 3, 2), [1, 1, 1, 1], "SAME", dilations=[2, 2]), nn.dilation2d(image, filled(y, 2, 2, 3), [1, 1, 1, 1], "SAME", "NHWC", [1, 2, 1, 1]),
            nn.erosion2d(image, filled(y, 2, 2, 3), [1, 2, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]), nn.lrn(image, 1, 0.5, 0.3, 0.6),
            tf.space_to_batch(image, [2, 2], [[0, 0], [2, 0]]), raw.ExtractVolumePatches(input=filled(y, 1, 4, 4, 4, 2), ksizes=[1, 2, 3, 1, 1], strides=[1, 1, 2, 1, 1], padding="SAME")]


@study
def labels_of_sequences(y, ids):
    return [nn.ctc_loss([[1, 2], [2, 1]], filled(y, 6, 2, 4), [2, 1], [6, 5]), nn.ctc_loss([[1, 2, 0], [2, 1, 1]], filled(y, 6, 2, 4), [2, 3], [6, 6], blank_index=-1)]


@study
def resized(y, ids):
    made = picture(y)
    return [image.resize(made, [5, 5], antialias=True), image.resize(made, [12, 5], "lanczos3"), image.resize(made, [5, 11], "mitchellcubic", antialias=True),
            image.resize(made, [5, 11], "gaussian"), image.crop_and_resize(made, [[0.1, 0.2, 0.8, 0.9], [0.9, 0.1, 0.2, 0.7], [-0.5, 0, 1.5, 1]], [0, 1, 1], [3, 4], extrapolation_value=0.5),
            image.extract_patches(made, [1, 2, 3, 1], [1, 3, 2, 1], [1, 2, 1, 1], "VALID"), image.sobel_edges(made), image.rgb_to_hsv(made), image.adjust_gamma(made, 2, 0.5)]


@plain
def recoloured(y, ids):
    made = picture(y)
    return [image.adjust_hue(made, 0.2), image.rgb_to_yiq(made), image.yuv_to_rgb(made), image.stateless_random_crop(made[0], [3, 3, 3], [1, 2]),
            image.stateless_random_contrast(made, 0.5, 1.5, [1, 2]), image.stateless_random_hue(made, 0.2, [1, 2]), tf.compat.v1.image.resize_area(made, [5, 13]),
            *image.combined_non_max_suppression(filled(tf.sigmoid(y), 1, 6, 1, 4), filled(tf.sigmoid(y * 2), 1, 6, 3), 3, 5, 0.5, 0.2)]


# ---- Flow -------------------------------------------------------------------------------------------------------------


@study
def folds(y, ids):
    return [tf.foldl(lambda a, b: a * 0.5 + b, y), tf.foldr(lambda a, b: a * 0.5 + b, y), tf.scan(lambda a, b: a * 0.5 + b, y, reverse=True),
            *tf.scan(lambda a, b: (a[0] + b, a[1] * b), y, (tf.zeros([6]), tf.ones([6]))), tf.vectorized_map(lambda row: math.top_k(row, 2)[0], y),
            *tf.map_fn(lambda t: (t[0] * 2, tf.reduce_sum(t[1])), (y, y), fn_output_signature=(tf.float32, tf.float32)),
            tf.while_loop(lambda i, a: i < 100, lambda i, a: (i + 1, a * 0.9 + 0.1), [0, y], maximum_iterations=4)[1]]


@study
def loops_in_loops(y, ids):
    total, k, list_ = tf.zeros([6]), 0, tf.TensorArray(tf.float32, 0, dynamic_size=True, clear_after_read=False)
    for i in tf.range(4):
        list_ = list_.write(i, y[i] * tf.cast(i, tf.float32))
        if ids[i] == 0:
            continue
        for r in tf.range(ids[i]):
            total += y[i] * tf.cast(r + 1, tf.float32)
            if tf.reduce_sum(total) > 50.0:
                break
        k += 1
    for i in tf.range(4):
        total += list_.read(3 - i) ** 2
    return [total, k, list_.gather([1, 3]), tf.switch_case(ids[0], [lambda: y, lambda: y * 5], lambda: -y)]


@study
def tapes_in_functions(y, ids):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(y)
        z = tf.tanh(y) * y[:, :1]
        sums = tf.reduce_sum(z, 1)
    with tf.autodiff.ForwardAccumulator(y, tf.ones_like(y)) as forward:
        w = tf.sin(y) * y
    return [tape.batch_jacobian(z, y), tape.jacobian(sums, y), forward.jvp(w), tf.custom_gradient(lambda t: (t * t, lambda g: g * 3.0))(y), tf.grad_pass_through(tf.round)(y)]


# ---- keras.ops --------------------------------------------------------------------------------------------------------


@study
def keras_numbers(y, ids):
    return [ops.median(y, 1), ops.quantile(y, 0.3, axis=1), ops.moveaxis(y[None], 0, 2), ops.pad(y, ((1, 1), (0, 2)), "reflect"), ops.select([y > 1, y < 0], [y, y * 2], 0.5),
            ops.tril(y, 1), ops.var(y, 1), ops.take_along_axis(y, np.int32([[1], [2], [0], [5]]), 1), ops.logaddexp(y, y * 2), ops.hypot(y, y + 1), ops.exp2(y), ops.log2(positive(y)),
            ops.average(y, 1, weights=np.float32([1, 2, 3, 4, 5, 6])), ops.diff(y, axis=1), ops.rot90(y), ops.diagonal(y[:, :4]), ops.segment_max(y, np.int32([0, 0, 1, 2]), 3)]


@study
def keras_activations(y, ids):
    made = [getattr(ops, each)(y) for each in ("celu", "glu", "hard_shrink", "hard_tanh", "soft_shrink", "sparse_sigmoid", "sparsemax", "squareplus", "tanh_shrink", "hard_silu")]
    return made + [ops.threshold(y, 0.2, -1), ops.categorical_crossentropy(ops.softmax(y[::-1]), ops.softmax(y)), ops.binary_crossentropy(ops.sigmoid(y[::-1]), ops.sigmoid(y)),
                   ops.dot_product_attention(filled(y, 2, 3, 2, 4), filled(y * 0.9, 2, 3, 2, 4), filled(y * 1.1, 2, 3, 2, 4), is_causal=True)]


@study
def keras_flow(y, ids):
    return [ops.cond(ops.sum(y) > 0, lambda: y, lambda: -y), ops.fori_loop(0, 3, lambda i, a: a * 0.5 + ops.cast(i, "float32"), y), ops.map(lambda row: row * 2, y),
            ops.scan(lambda carry, row: (carry + row, carry * row), ops.zeros(6), y)[1], ops.vectorized_map(lambda row: ops.sum(row), y)]


@study
def keras_places(y, ids):
    places = np.float32([[[0.5, 1.2], [3.3, 4.9]], [[1.1, 2.5], [6.2, 0.4]]])
    return [ops.image.map_coordinates(filled(y, 6, 8), places, order=1), ops.image.map_coordinates(filled(y, 6, 8), places, order=0, fill_mode="nearest"),
            ops.image.gaussian_blur(filled(y, 2, 8, 8, 3), (3, 3), (1.0, 1.0)), ops.image.crop_images(filled(y, 2, 8, 8, 3), 1, 2, 3, 1),
            ops.ctc_loss(np.int32([[1, 2], [2, 1]]), filled(y, 2, 6, 4), np.int32([2, 1]), np.int32([6, 5]))]


def write_study(path, function, has_slope):
    module = tf.Module()
    module.scale = tf.Variable(SCALE, name="scale")

    def serve(x, ids):
        return {f"y{i}": tf.convert_to_tensor(each) for i, each in enumerate(tf.nest.flatten(function(x * module.scale, ids)))}

    def slope(x, ids):
        with tf.GradientTape() as tape:
            total = tf.add_n([tf.reduce_sum(tf.cast(each, tf.float64) ** 2) for each in serve(x, ids).values() if each.dtype.is_floating])
        return {"gradient": tape.gradient(total, module.scale)}

    signatures = {"serve": tf.function(serve, input_signature=SPECS)}
    if has_slope:
        signatures["slope"] = tf.function(slope, input_signature=SPECS)
    module.functions = list(signatures.values())
    tf.saved_model.save(module, path, signatures=signatures)
    return foreign_keras.steps_of(path, [(each, {"x": X, "ids": IDS}) for each in signatures], ["serve"] if has_slope else [])


def write(folder):
    # TensorFlow names wrapped functions by these numbers, and the models written before, by seed 1, have taken others.
    random.seed(2)
    for function, has_slope in STUDIES:
        write_study(str(folder / function.__name__), function, has_slope).save(folder / f"{function.__name__}.steps.pb")
