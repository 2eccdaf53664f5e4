"""Functions of TensorFlow's on complex numbers, rows of different lengths, hashes, sound and places in images; see
foreign_functions.py."""

import tensorflow as tf

raw = tf.raw_ops


def complexes(x, image, ids, k):
    m, z = tf.math, tf.complex(x, x[:, ::-1] * 0.5)
    square = tf.complex(3 * tf.eye(3), tf.eye(3)) + tf.complex(x[:1, :3], x[:1, 3:])
    right = tf.complex(tf.eye(3), 2 * tf.ones([3, 3]))
    made = (tf.sqrt(z), m.rsqrt(z), tf.sin(z), tf.cos(z), tf.tan(z), tf.sinh(z), tf.cosh(z), tf.tanh(z), tf.sigmoid(z), m.expm1(z),
            m.log1p(z), tf.pow(z, 2), tf.pow(z, z), m.reciprocal(z), tf.reduce_prod(z, 1), tf.linalg.inv(square),
            tf.linalg.inv(square, adjoint=True), tf.linalg.solve(square, right), tf.linalg.solve(square, right, adjoint=True),
            tf.sqrt(tf.complex(x * 0, x * 0)), tf.tanh(z * 30))
    return (*[tf.stack([m.real(each), m.imag(each)]) for each in made], tf.equal(z, tf.complex(x, x)), tf.not_equal(z, m.conj(z)))


def more_ragged(x, image, ids, k):
    rows = tf.RaggedTensor.from_row_lengths(tf.range(tf.reduce_sum(ids)), ids)
    reals = tf.RaggedTensor.from_tensor(x, lengths=tf.cast(ids, tf.int64))
    return (tf.ragged.range(ids).to_tensor(), tf.ragged.range(ids, ids * 2 + 1).flat_values, tf.gather(rows, ids * 0 + 1).to_tensor(),
            tf.concat([rows, rows], 1).to_tensor(), tf.concat([reals, reals], 0).to_tensor(), tf.reduce_mean(reals, 1),
            tf.sparse.to_dense(rows.to_sparse()), rows[:, :2].to_tensor(), tf.reverse(rows, [1]).to_tensor(), tf.nn.softmax(reals).to_tensor(),
            tf.tile(rows, [1, 2]).to_tensor(), reals[:, 1:].flat_values, tf.stack([rows, rows]).to_tensor(), tf.where(rows > 1),
            tf.nn.embedding_lookup(image[0, :, :, 0], rows % 3).to_tensor(), rows.value_rowids(), tf.ragged.boolean_mask(reals, reals > 0).to_tensor())


def hashes(x, image, ids, k):
    many, text = tf.cast(ids, tf.int64) * 1234567890123 - 5, tf.strings.as_string
    pairs = tf.sparse.from_dense(tf.stack([many, many + 2], 1))
    return (tf.strings.to_hash_bucket_fast(text(ids), 10), tf.strings.to_hash_bucket_fast(text(many), 1000),
            tf.strings.to_hash_bucket_strong(text(many), 1000, [3, 4]), tf.compat.v1.string_to_hash_bucket(text(many), 1000),
            tf.strings.to_hash_bucket_fast(text(many * 1000000), 1 << 40),
            tf.sparse.to_dense(tf.sparse.cross_hashed([pairs, many[:, None], pairs], 1000)),
            tf.sparse.cross_hashed([pairs, many[:, None]], hash_key=7).values)


def sounds(x, image, ids, k):
    sound = tf.reshape(image[:2], [-1, 2])
    spectrum = raw.AudioSpectrogram(input=sound, window_size=30, stride=10, magnitude_squared=True)
    return (spectrum, raw.AudioSpectrogram(input=sound, window_size=16, stride=16),
            raw.Mfcc(spectrogram=spectrum, sample_rate=16000), raw.Mfcc(spectrogram=spectrum, sample_rate=8000, dct_coefficient_count=20))


def placed(x, image, ids, k):
    places, corners = x[:, :2] / 2, tf.sigmoid(x[:, None, :4])
    boxes = tf.concat([tf.minimum(corners[..., :2], corners[..., 2:]), tf.maximum(corners[..., :2], corners[..., 2:])], -1)
    shared = tf.sigmoid(tf.matmul(x, x, transpose_b=True))
    return (tf.image.extract_glimpse(image, [3, 4], places, noise="zero"), tf.image.extract_glimpse(image, [5, 2], places * 4, False, False, "zero"),
            raw.ExtractGlimpse(input=image, size=[3, 3], offsets=places, noise="zero", uniform_noise=False), tf.image.draw_bounding_boxes(image, boxes, [[1.0, 0, 0], [0, 1, 0.5]]),
            raw.DrawBoundingBoxes(images=image, boxes=boxes), tf.image.non_max_suppression_overlaps(shared, x[:, 0], k, 0.5, -1.0))


def sequences(x, image, ids, k):
    logits = tf.transpose(tf.reshape(tf.tile(x, [1, 5]), [-1, 5, 6]), [1, 0, 2]) * tf.reshape([1.0, 0.7, 1.3, 0.9, 0.5], [5, 1, 1])
    best, likelihood = tf.nn.ctc_beam_search_decoder(logits, ids + 1, 8, 2)
    greedy, _ = tf.nn.ctc_greedy_decoder(logits, ids + 1)
    wide, many = tf.sparse.from_dense(tf.stack([ids + 1, ids + 2], 1)), tf.stack([ids + 2, ids + 5], 1)
    sets, given = tf.sets, tf.sparse.from_dense(many)
    return (*[tf.sparse.to_dense(each) for each in best], likelihood, tf.edit_distance(greedy[0], best[1]), tf.edit_distance(wide, given, False),
            *[tf.sparse.to_dense(each) for each in (sets.union(wide, given), sets.intersection(many, wide), sets.difference(wide, given),
                                                    sets.difference(many, wide, False))])


def systems(x, image, ids, k):
    l, m = tf.linalg, tf.matmul(x, x, transpose_a=True) + 3 * tf.eye(6)
    factors, diagonals = l.lu(m), tf.stack([x[0], x[1] + 5, x[0] * x[1]])
    return (*factors, l.lu_solve(*factors, tf.transpose(x)), l.lu_matrix_inverse(*factors), l.tridiagonal_solve(diagonals, tf.transpose(x)),
            l.tridiagonal_solve(diagonals, x[0], partial_pivoting=False), l.tridiagonal_matmul(diagonals, tf.transpose(x)),
            l.banded_triangular_solve(diagonals[1:], tf.transpose(x)), l.LinearOperatorTridiag(diagonals, "compact").matvec(x[0]))


FUNCTIONS = (complexes, more_ragged, hashes, sounds, placed, sequences, systems)
