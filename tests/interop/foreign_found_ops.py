"""Single nodes of TensorFlow's ops of sound, sequences of labels, rows of different lengths, places in images, and systems
of equations; see foreign_ops.py."""

import numpy as np
import tensorflow as tf

from foreign_cases import Case, Fed, points


def heard():
    sound = points(300, 96, 2)
    for squared in (True, False):
        yield Case("AudioSpectrogram", sound, window_size=20, stride=9, magnitude_squared=squared)
    yield Case("AudioSpectrogram", points(301, 40, 1), window_size=32, stride=16, magnitude_squared=True)
    squares = points(302, 2, 3, 17, low=0.1, high=4)
    yield Case("Mfcc", squares, np.int32(16000))
    yield Case("Mfcc", squares, np.int32(8000), upper_frequency_limit=3000.0, lower_frequency_limit=100.0,
               filterbank_channel_count=7, dct_coefficient_count=5)


def labelled():
    logits, lengths = points(303, 5, 3, 6), Fed([5, 3, 4], np.int32)
    for paths, options in ((1, {}), (3, {"merge_repeated": False}), (2, {"beam_width": 50})):
        yield Case("CTCBeamSearchDecoder", logits, lengths, **{"beam_width": 6, "top_paths": paths, **options})
    given = Fed([[0, 0], [0, 1], [0, 2], [1, 0], [3, 0]], np.int64), Fed([1, 2, 3, 5, 4], np.int32), Fed([4, 3], np.int64)
    truth = Fed([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]], np.int64), Fed([1, 3, 4, 5, 6], np.int32), Fed([3, 2], np.int64)
    for normalize in (True, False):
        yield Case("EditDistance", *given, *truth, normalize=normalize)
    deep = Fed([[0, 1, 0], [1, 0, 0], [1, 0, 1]], np.int64), Fed([7, 8, 9], np.int64), Fed([2, 2, 2], np.int64)
    yield Case("EditDistance", *deep, *deep[:1], Fed([7, 9, 9], np.int64), deep[2])


def rows():
    for dtype in (np.int32, np.float32):
        yield Case("RaggedRange", Fed([0, 5, 8, 3], dtype), Fed([3, 5, 2, 8], dtype), Fed([1, 1, -2, 2], dtype), smooth=False)
    yield Case("RaggedRange", Fed([2, 0, 3], np.int64), np.int64(4), np.int64(1), Tsplits=np.int32)
    limits, inner = Fed([0, 2, 2, 5], np.int64), Fed([0, 1, 1, 4, 6, 7], np.int64)
    elements = points(304, 7, 2)
    for indices in (Fed([2, 0, 2], np.int32), Fed([[0, 1], [2, 2]], np.int64)):
        rank = indices.value.ndim
        yield Case("RaggedGather", (limits,), points(305, 5), indices, OUTPUT_RAGGED_RANK=rank)
        yield Case("RaggedGather", (limits, inner), elements, indices, OUTPUT_RAGGED_RANK=rank + 1)
    yield Case("RaggedTensorToSparse", (limits,), points(306, 5))
    yield Case("RaggedTensorToSparse", (limits, inner), elements)


def placed():
    image, places = points(307, 3, 7, 6, 2), Fed([[0.2, -0.3], [-0.9, 0.8], [0.05, 3.1]])
    for op in ("ExtractGlimpse", "ExtractGlimpseV2"):
        for centered, normalized in ((True, True), (True, False), (False, True), (False, False)):
            yield Case(op, image, np.int32([3, 4]), places, centered=centered, normalized=normalized, uniform_noise=False,
                       noise="zero")
    boxes = Fed([[[0.1, 0.2, 0.7, 0.9], [-0.3, 0.4, 0.5, 1.6]], [[0.9, 0.1, 0.2, 0.3], [0, 0, 1, 1]]])
    for channels in (1, 3, 4):
        drawn = points(308, 2, 8, 9, channels)
        yield Case("DrawBoundingBoxes", drawn, boxes, smooth=False)
        yield Case("DrawBoundingBoxesV2", drawn, boxes, points(309, 3, channels), smooth=False)


def solved():
    for dtype in (np.float32, np.float64):
        square = points(320, 2, 3, 3).value.astype(dtype)
        yield Case("MatrixSquareRoot", Fed(square @ np.swapaxes(square, 1, 2) + np.eye(3, dtype=dtype), dtype))
        yield Case("MatrixSquareRoot", Fed([[4, 1, -2], [0, 9, 3], [0, 0, 1]], dtype))
    for shape in ((4, 4), (2, 3, 3)):
        yield Case("Lu", points(310, *shape))
    yield Case("Lu", Fed([[3.0]]), output_idx_type=np.int64)
    for shape in ((3, 5), (2, 3, 4)):
        diagonals = points(311, *shape).value
        diagonals[..., 1, :] += 5
        right = points(312, *shape[:-2], shape[-1], 2)
        for options in ({}, {"partial_pivoting": False}):
            yield Case("TridiagonalSolve", Fed(diagonals), right, **options)
        yield Case("TridiagonalMatMul", *(Fed(diagonals[..., i:i + 1, :]) for i in range(3)), right)
        for lower in (True, False):
            band = points(313, *shape).value
            band[..., 0 if lower else -1, :] += 5
            for adjoint in (False, True):
                yield Case("BandedTriangularSolve", Fed(band), right, lower=lower, adjoint=adjoint)


def chosen():
    places, shape = Fed([[0, 0], [0, 1], [2, 0]], np.int64), Fed([3, 2], np.int64)
    kinds, dense = Fed([5, -7, 1 << 40], np.int64), Fed([[1, 2], [3, 4], [5, 6]], np.int64)
    options = {"hashed_output": True, "out_type": np.int64, "internal_type": np.int64}
    yield Case("SparseCross", (places,), (kinds,), (shape,), (dense,), num_buckets=1000, hash_key=956888297470, **options)
    yield Case("SparseCross", (places, places), (kinds, kinds), (shape, shape), (), num_buckets=0, hash_key=3, **options)
    given = Fed([[0, 0], [0, 1], [1, 0], [1, 1]], np.int64), Fed([4, 6, 1, 1], np.int64), Fed([3, 2], np.int64)
    other = Fed([[0, 0], [1, 0], [1, 1], [2, 0]], np.int64), Fed([6, 2, 1, 9], np.int64), Fed([3, 3], np.int64)
    for operation in ("a-b", "b-a", "intersection", "union"):
        yield Case("SparseToSparseSetOperation", *given, *other, set_operation=operation)
        yield Case("DenseToSparseSetOperation", dense, *other, set_operation=operation)
    whole = Fed([7, -7, 9], np.int32)
    yield Case("SparseDenseCwiseDiv", places, whole, shape, Fed([[2, 2], [2, -2], [-4, 5]], np.int32))
    yield Case("FusedResizeAndPadConv2D", Fed(points(316, 1, 4, 5, 2).value, np.float64), [7, 3], [[0, 0], [1, 2], [2, 0], [0, 0]],
               Fed(points(317, 3, 2, 2, 3).value, np.float64), resize_align_corners=True, mode="REFLECT", padding="VALID",
               strides=[1, 2, 1, 1])
    shared = points(314, 5, 5, low=0.0, high=1.0)
    yield Case("NonMaxSuppressionWithOverlaps", shared, points(315, 5), np.int32(4), np.float32(0.6), np.float32(-1.5))
    for sizes in (([5, 1], [5, 1]), ([5, 1], [1, 5, 1]), ([1], [1]), ([2, 1, 3], [2, 1, 1]), ([1, 1], [1]), ([4], [])):
        yield Case("BroadcastGradientArgs", *(np.array(each, np.int32) for each in sizes))
    yield Case("AllCandidateSampler", Fed([[1, 2], [0, 3]], np.int64), num_true=2, num_sampled=4, unique=True)


def drawn():
    """Random numbers of a seed, and of a key and a counter that is about to carry."""
    seed, key = np.int32([3, 7]), (np.uint64([1 << 40 | 5]), np.uint64([(1 << 64) - 2, (1 << 32) - 1]), np.int32(1))
    shapes = Fed([0.2, 1.0, 7.5], np.float64)
    for shape in ([3], [40, 3], [2, 5, 3], [0, 3]):
        yield Case("StatelessRandomGammaV2", shape, seed, shapes, smooth=False)
        yield Case("StatelessRandomGammaV3", shape, *key, Fed(shapes.value), smooth=False)
        yield Case("StatelessRandomPoisson", shape, seed, Fed([0.2, 3.0, 55.0]), dtype=np.float32, smooth=False)
    yield Case("StatelessRandomPoisson", [60], np.int64([-9, 1 << 40]), Fed(9.5, np.float64), dtype=np.int64, smooth=False)
    counts, chances = Fed([[0.0], [3.0], [100.0]]), Fed([0.0, 0.05, 0.4, 0.75, 1.0])
    for dtype in (np.int32, np.float32):
        yield Case("StatelessRandomBinomial", [30, 3, 5], seed, counts, chances, dtype=dtype, smooth=False)
    for dtype in (np.int32, np.int64):
        logits = Fed([[0.0, 1.0, -2.0], [np.log(0.5), -np.inf, np.log(0.5)]])
        yield Case("StatelessMultinomial", logits, np.int32(21), seed, output_dtype=dtype, smooth=False)
    for value in (Fed(np.arange(9), np.int32), points(318, 6, 2), Fed([3.0]), Fed(2.0)):
        yield Case("StatelessShuffle", value, *key)
    for dtype in (np.float16, tf.bfloat16.as_numpy_dtype):
        for op in ("StatelessRandomUniformV2", "StatelessRandomNormalV2", "StatelessTruncatedNormalV2"):
            yield Case(op, [9], *key, dtype=dtype)
    for dtype in (np.int32, np.int64):
        yield Case("StatelessRandomUniformFullIntV2", [9], *key, dtype=dtype)
    yield Case("StatelessRandomUniformV2", [9], *key)
    bounds = ((0.0, 1.0, -1.0, 2.0), (0.0, 1.0, -np.inf, 0.3), (2.0, 0.5, 4.0, np.inf), (0.0, 1.0, 0.4, 0.7), (1.0, 3.0, -9.0, -4.0))
    for dtype in (np.float32, np.float64):
        for each in bounds:
            yield Case("StatelessParameterizedTruncatedNormal", [40], seed, *(Fed(value, dtype) for value in each), smooth=False)
        columns = [Fed(value, dtype) for value in (np.transpose(bounds)[0], 1.0, np.transpose(bounds)[2], np.transpose(bounds)[3])]
        yield Case("StatelessParameterizedTruncatedNormal", [7, 5], seed, *columns, smooth=False)
    for dtype, last in ((np.int32, 9), (np.int64, 70000), (np.int64, (1 << 40) + 3)):
        yield Case("RandomIndexShuffle", Fed([0, 1, 5, 9], dtype), np.int32([3, -7, 12345]), dtype(last))
        yield Case("RandomIndexShuffle", Fed(4, dtype), np.int64([1, 1 << 33, 8]), dtype(last), rounds=8)
    yield Case("RandomIndexShuffle", Fed([0, 1, 2], np.int64), np.int32([[1, 2, 3], [4, 5, 6], [7, 8, 9]]), np.int64([5, 1, 65536]))


def counted():
    listed = Fed([0, 2, 2, 5], np.int64), Fed([1, 3, 1, 0, 9], np.int64)
    for weights in (np.zeros([0], np.float32), Fed([1, 2.5, 3, 4, 5])):
        for binary in (True, False):
            yield Case("RaggedBincount", *listed, np.int64(4), weights, binary_output=binary)
            yield Case("RaggedCountSparseOutput", *listed, weights, binary_output=binary, maxlength=5 if binary else -1)
    numbers, weights = Fed([2, 2, 0], np.int32), Fed([1.5, 2, 3])
    for places, shape in (([[0, 0], [0, 2], [2, 1]], [3, 4]), ([[0], [2], [3]], [4])):
        yield Case("SparseBincount", Fed(places, np.int64), numbers, np.int64(shape), np.int32(3), weights)
        yield Case("SparseCountSparseOutput", Fed(places, np.int64), numbers, np.int64(shape), weights, binary_output=False, minlength=2)
    for numbers in ([[1, 2, 3], [0, 5, 5]], [1, 1, 4], [[0], [0]]):
        for options in ({}, {"maxlength": 4}, {"minlength": 9}, {"maxlength": 0}):
            yield Case("DenseCountSparseOutput", Fed(numbers, np.int64), np.zeros([0], np.int64), binary_output=False, **options)


FAMILIES = (counted, drawn, heard, labelled, rows, placed, solved, chosen)
