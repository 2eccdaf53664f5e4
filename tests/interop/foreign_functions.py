"""Writes functions of TensorFlow's that programs call before and behind a model; see foreign_programs.py.

A function takes x [n, 6], image [n, 8, 8, 3], whole numbers ids [n], and a number k."""

import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import foreign_features
import foreign_flow
from foreign_models import points

SPECS = [tf.TensorSpec([None, 6], tf.float32, "x"), tf.TensorSpec([None, 8, 8, 3], tf.float32, "image"),
         tf.TensorSpec([None], tf.int32, "ids"), tf.TensorSpec([], tf.int32, "k")]
FEEDS = [[points(80, 4, 6), np.abs(points(81, 4, 8, 8, 3)), np.int32([2, 0, 2, 1]), np.int32(3)],
         [points(82, 2, 6), np.abs(points(83, 2, 8, 8, 3)), np.int32([1, 1]), np.int32(1)]]


def selections(x, image, ids, k):
    places = tf.where(x > 0)
    values, inverse, counts = tf.unique_with_counts(ids)
    return (places, tf.gather_nd(x, places), tf.boolean_mask(x, ids > 0), values, inverse, counts,
            *tf.dynamic_partition(x, ids, 3), tf.math.top_k(x, k).indices, tf.sort(x, 1, "DESCENDING"), tf.argsort(x),
            tf.repeat(x, ids, axis=0), tf.sparse.to_dense(tf.sparse.from_dense(tf.where(x > 0, x, tf.zeros_like(x)))),
            tf.sequence_mask(ids, k), tf.one_hot(ids, k), tf.range(k), x[:k], x[k:, ::2],tf.reshape(x, tf.stack([-1, k - k + 2])),
            tf.tile(x, [1, k]), tf.fill([k, 2], 1.5), tf.linspace(0.0, 1.0, k + 1), tf.eye(k), tf.roll(x, k, 1),
            tf.roll(x, [k, 1], [0, 1]), tf.roll(image, [1, -2], [1, 2]), tf.signal.fftshift(x), tf.signal.ifftshift(image, [1, 2]))


def detections(x, image, ids, k):
    corners = tf.sigmoid(x[:, :4])
    boxes = tf.concat([tf.minimum(corners[:, :2], corners[:, 2:]), tf.maximum(corners[:, :2], corners[:, 2:]) + 0.1], 1)
    kept = tf.image.non_max_suppression(boxes, x[:, 4], k, 0.3)
    soft, scores = tf.image.non_max_suppression_with_scores(boxes, x[:, 4], k, 0.9, -1.0, 0.5)
    padded, count = tf.image.non_max_suppression_padded(boxes, x[:, 4], 5, 0.3, -1.0, pad_to_max_output_size=True)
    crops = tf.image.crop_and_resize(image, boxes, tf.range(tf.shape(x)[0]), [3, 3])
    return tf.gather(boxes, kept), kept, soft, scores, padded, count, crops, tf.clip_by_value(boxes, 0.0, 1.0)


def pictures(x, image, ids, k):
    i = tf.image
    return (i.resize(image, [5, 6]), i.resize(image, [16, 16], "nearest"), i.resize(image, [4, 4], "area"),
            i.resize(image, [6, 9], "bicubic"), i.resize_with_pad(image, 10, 6), i.resize_with_crop_or_pad(image, 6, 10),
            i.central_crop(image, 0.5), i.flip_left_right(image), i.flip_up_down(image), i.rot90(image), i.transpose(image),
            i.rgb_to_grayscale(image), i.grayscale_to_rgb(image[..., :1]), i.rgb_to_hsv(image), i.adjust_brightness(image, 0.1),
            i.adjust_contrast(image, 0.5), i.adjust_saturation(image, 0.5), i.adjust_gamma(image, 0.5),
            i.per_image_standardization(image), i.total_variation(image), i.image_gradients(image), i.sobel_edges(image),
            i.psnr(image, image * 0.9, 1.0), i.rgb_to_yuv(image), i.extract_patches(image, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"),
            i.pad_to_bounding_box(image, 1, 2, 12, 12), i.crop_to_bounding_box(image, 1, 2, 4, 4),
            tf.cast(tf.image.convert_image_dtype(image * 0.2, tf.uint8), tf.int32), tf.nn.local_response_normalization(image))


def similarity(x, image, ids, k):
    big = tf.image.resize(image, [24, 24])
    return tf.image.ssim(big, big * 0.8, 1.0), tf.nn.moments(image, [0, 1, 2]), tf.nn.normalize_moments(
        tf.constant(4.0), tf.reduce_sum(x), tf.reduce_sum(x * x), None)


def algebra(x, image, ids, k):
    m = tf.matmul(x, x, transpose_a=True) + 3 * tf.eye(6)
    return (tf.linalg.cholesky(m), tf.linalg.inv(m), tf.linalg.solve(m, tf.transpose(x)), tf.linalg.det(m), tf.linalg.logdet(m),
            tf.linalg.trace(m), tf.linalg.norm(x, axis=1), tf.linalg.diag(x), tf.linalg.band_part(m, 1, 0), tf.abs(tf.linalg.qr(m)[1]),
            tf.linalg.svd(m, compute_uv=False), tf.linalg.eigvalsh(m), tf.linalg.triangular_solve(m, tf.transpose(x)),
            tf.linalg.matvec(m, x), tf.linalg.slogdet(m)[1], tf.linalg.expm(m * 0.1), tf.linalg.lstsq(m, tf.transpose(x)),
            tf.einsum("ni,ij->nj", x, m), tf.tensordot(x, m, [[1], [0]]), tf.linalg.matrix_transpose(x), tf.linalg.pinv(m),
            tf.linalg.diag(x, k=1), tf.linalg.diag(x, k=-2, padding_value=2.0), tf.linalg.diag_part(m, k=(-1, 2), align="LEFT_RIGHT"),
            tf.linalg.set_diag(m, x[0, 1:], k=1), tf.linalg.tensor_diag_part(m), tf.matmul(x, m, a_is_sparse=True))


def numbers(x, image, ids, k):
    m = tf.math
    return (m.cumsum(x, 1), m.cumprod(x, 0, True), m.segment_sum(x, tf.sort(ids)), m.unsorted_segment_max(x, ids, 4),
            m.unsorted_segment_mean(x, ids, 4), m.bincount(ids), tf.histogram_fixed_width(x, [-2.0, 2.0], 5), m.confusion_matrix(ids, ids, 4),
            tf.searchsorted(tf.sort(x, 1), x), m.in_top_k(ids, x, 2), m.l2_normalize(x, 1), m.reduce_std(x, 0), m.zero_fraction(x),
            m.reduce_logsumexp(x, 1), m.erf(x), m.lgamma(tf.abs(x) + 1), m.digamma(tf.abs(x) + 1), m.igamma(tf.abs(x) + 1, tf.abs(x)),
            m.polyval([1.0, 2.0, 3.0], x), m.floormod(ids, 2), m.invert_permutation(tf.argsort(ids)), m.sobol_sample(2, 3),
            m.nextafter(x, x + 1), m.betainc(tf.abs(x) + 1, tf.abs(x) + 2, tf.sigmoid(x)), m.zeta(tf.abs(x) + 2, tf.abs(x) + 1),
            m.softsign(x), tf.meshgrid(tf.range(k), ids), tf.unravel_index(ids, [2, 2]),
            tf.scatter_nd(ids[:, None], x, [5, 6]), tf.tensor_scatter_nd_max(x, [[0, 0]], [9.0]), tf.bitwise.bitwise_and(ids, 3),
            m.angle(tf.complex(x, x)), tf.signal.frame(x, 3, 2), tf.quantization.fake_quant_with_min_max_args(x, -2, 2))


def waves(x, image, ids, k):
    return (tf.abs(tf.signal.rfft(x)), tf.math.real(tf.signal.fft(tf.cast(x, tf.complex64))), tf.signal.hann_window(k + 2), tf.signal.dct(x),
            tf.abs(tf.signal.stft(x, 4, 2)), tf.signal.irfft(tf.signal.rfft(x)))


def quantized(x, image, ids, k):
    low, high = tf.reduce_min(x), tf.reduce_max(x)
    q = tf.quantization.quantize(x, low, high, tf.quint8)
    same = tf.quantization.quantize_and_dequantize_v2(x, low, high, range_given=False)
    wide = tf.quantization.quantize(x, low - 1, high * 2, tf.quint8)
    joined = [tf.quantization.quantized_concat(1, *zip(*parts)) for parts in ((q, q), (q, wide, q))]
    return (tf.quantization.dequantize(q.output, q.output_min, q.output_max), same,
            tf.quantization.fake_quant_with_min_max_vars(x, low, high), *[tf.quantization.dequantize(*each) for each in joined])


def ragged(x, image, ids, k):
    r = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(ids)), ids)
    return r.to_tensor(-1), tf.reduce_sum(r, 1), r.row_splits, tf.ragged.boolean_mask(x, x > 0).to_tensor()


def random_checks(x, image, ids, k):
    seed = [1, 2]
    return (tf.random.stateless_uniform([3, 2], seed), tf.random.stateless_normal([k], seed), tf.image.stateless_random_flip_left_right(image, seed),
            tf.image.stateless_random_brightness(image, 0.2, seed), tf.nn.experimental.stateless_dropout(x, 0.5, seed))


def decodings(x, image, ids, k):
    logits = tf.reshape(tf.tile(x, [1, 3]), [-1, 3, 6])
    lengths = tf.minimum(ids + 1, 3)
    return (tf.nn.ctc_loss(tf.zeros_like(ids)[:, None], tf.transpose(logits, [1, 0, 2]), tf.ones_like(ids), tf.fill(tf.shape(ids), 3)),
            tf.reverse_sequence(logits, lengths, 1), tf.math.argmax(logits, -1))


def special(x, image, ids, k):
    s, y = tf.math.special, tf.abs(x) + 0.1
    return (s.bessel_j0(x), s.bessel_j1(x), s.bessel_k0(y), s.bessel_k1(y), s.bessel_k0e(y), s.bessel_k1e(y), s.bessel_y0(y),
            s.bessel_y1(y), s.dawsn(x), s.expint(y), s.spence(y), tf.math.igammac(y, y * y), tf.math.polygamma(tf.cast(k, tf.float32), y),
            tf.quantization.quantize_and_dequantize_v2(x, -1.0, 1.5, range_given=True, num_bits=6))


FUNCTIONS = (selections, detections, pictures, similarity, algebra, numbers, waves, quantized, ragged, random_checks, decodings, special,
             *foreign_features.FUNCTIONS)


def write(folder):
    """A graph for each result."""
    for function in FUNCTIONS:
        concrete = tf.function(lambda *x, f=function: [tf.identity(each) for each in tf.nest.flatten(f(*x))]).get_concrete_function(*SPECS)
        frozen = convert_variables_to_constants_v2(concrete, lower_control_flow=False)
        whole = frozen.graph.as_graph_def()
        found = [(feed, frozen(*[tf.constant(feed[each.name]) for each in frozen.inputs]))
                 for feed in ({f"{spec.name}:0": value for spec, value in zip(SPECS, values)} for values in FEEDS)]
        for i, output in enumerate(frozen.outputs):
            part = tf.compat.v1.graph_util.extract_sub_graph(whole, [output.op.name])
            part.library.CopyFrom(whole.library)
            steps = foreign_flow.Steps()
            for feed, results in found:
                for name, value in feed.items():
                    steps.add("feed", name, value)
                steps.add("fetch", output.name, results[i])
            (folder / f"{function.__name__} {i}.pb").write_bytes(part.SerializeToString(deterministic=True))
            steps.save(folder / f"{function.__name__} {i}.steps.pb")
