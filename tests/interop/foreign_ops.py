"""Single nodes of TensorFlow's ops, with what TensorFlow computes: each is a case of tests/foreign_ops_test.cpp."""

import numpy as np
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

import foreign_found_ops
from foreign_cases import Case, Fed, channels_first, points
from foreign_sparse_ops import sparse
from foreign_subgraphs import removed, subgraphs

v1 = tf.compat.v1


def elementwise():
    x, y = points(1, 3, 4), points(2, 3, 4, low=0.2)
    ints = Fed([[-7, 7, -7, 7], [6, -6, 5, 2147483647]], np.int32), Fed([[2, -2, -2, 3], [3, 3, -7, 2]], np.int32)
    for op in ("Div", "TruncateDiv", "TruncateMod", "Mod", "FloorDiv", "FloorMod"):
        yield Case(op, *ints)
    for op in ("TruncateMod", "Mod", "SquaredDifference", "Xdivy", "Xlogy", "DivNoNan", "MulNoNan"):
        yield Case(op, x, y)
    zero = Fed([[0, 1, 0, -2]]), Fed([[0, 0, 2, 3]])
    for op in ("Xdivy", "DivNoNan", "MulNoNan"):
        yield Case(op, *zero, smooth=False)
    yield Case("Xlog1py", x, y)
    for op in ("Asinh", "Erfc", "Selu", "Relu6", "Softsign", "Elu", "LeakyRelu", "Softplus", "L2Loss", "GuaranteeConst",
               "DebugGradientIdentity", "Snapshot"):
        yield Case(op, x)
    for op in ("CheckNumerics", "CheckNumericsV2"):
        yield Case(op, x, message="")
    yield Case("IsInf", Fed([np.inf, -np.inf, np.nan, 1]))
    yield Case("ApproximateEqual", x, Fed(x.value + np.float32([1e-6, 1e-3, 0, -1e-2])), tolerance=1e-4)
    yield Case("AccumulateNV2", (x, y, x), shape=[3, 4])
    yield Case("AddN", (x, y, x))
    for equation in ("ij->jij", "i...->...ii", "ij,jk->kki"):
        yield Case("Einsum", (x,) if "," not in equation else (x, points(7, 4, 3)), equation=equation)
    yield Case("Cross", points(3, 2, 3), points(4, 2, 3))
    yield Case("EuclideanNorm", x, [1], keep_dims=True)
    yield Case("EuclideanNorm", x, [0])
    yield Case("Bucketize", x, boundaries=[-1.0, 0.5, 1.0])
    yield Case("Bucketize", Fed([1, 5, 10, 11], np.int32), boundaries=[1.0, 10.0])
    wide = points(5, 4, 9, low=-7, high=7.5)
    yield Case("FakeQuantWithMinMaxArgs", wide, min=-3.0, max=5.0, num_bits=4, smooth=False)
    yield Case("FakeQuantWithMinMaxArgs", wide, narrow_range=True, smooth=False)
    yield Case("FakeQuantWithMinMaxVars", wide, Fed(-1.3), Fed(4.2), num_bits=5, smooth=False)
    yield Case("FakeQuantWithMinMaxVarsPerChannel", wide, Fed(-np.arange(9) / 3), Fed(np.arange(1, 10) / 2), smooth=False)
    ends, by_channel = (Fed(-3), Fed(5)), (Fed(-np.arange(1, 10) / 3), Fed(np.arange(1, 10) / 2))
    for given in (True, False):
        for options in ({}, {"signed_input": False}, {"narrow_range": True, "round_mode": "HALF_UP"}):
            yield Case("QuantizeAndDequantizeV2", wide, *ends, num_bits=4, range_given=given, smooth=False, **options)
        yield Case("QuantizeAndDequantizeV3", wide, *by_channel, np.int32(5), range_given=given, axis=1, smooth=False)
    yield Case("QuantizeAndDequantizeV4", wide, *ends, range_given=True, smooth=False)
    yield Case("QuantizeAndDequantizeV4Grad", points(9, 4, 9), wide, *ends, smooth=False)
    scores = points(6, 3, 5)
    yield Case("InTopK", scores, Fed([1, 4, 0], np.int32), k=2)
    yield Case("InTopKV2", scores, Fed([1, 4, 0], np.int64), np.int64(3))
    yield Case("DenseBincount", Fed([1, 3, 1, 9], np.int32), np.int32(5), np.zeros([0], np.float32))
    yield Case("DenseBincount", Fed([[1, 3], [1, 1]], np.int32), np.int32(4), Fed([[0.5, 1], [2, 3]]))
    yield Case("DenseBincount", Fed([[1, 3], [1, 1]], np.int32), np.int32(4), np.zeros([0], np.float32), binary_output=True)
    yield Case("Bincount", Fed([1, 3, 1, 0], np.int32), np.int32(5), Fed([1, 2, 3, 4]))
    yield Case("NthElement", scores, np.int32(1), reverse=True)
    yield Case("NthElement", scores, np.int32(0))


def gradients():
    y, g, x = points(10, 3, 4, low=0.3), points(11, 3, 4), points(12, 3, 4, low=-4, high=8.2)
    for op in ("SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "TanhGrad", "SigmoidGrad"):
        yield Case(op, y, g)
    yield Case("SqrtGrad", Fed([0, 2, 0, 0]), Fed([0, 1, -1, 2]), smooth=False)
    yield Case("RsqrtGrad", Fed([np.inf, 2, np.inf]), Fed([0, 1, 2]), smooth=False)
    for op in ("Relu6Grad", "SeluGrad", "EluGrad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad", "ReluGrad"):
        yield Case(op, g, x)
    for mode, widths in (("REFLECT", [[0, 0], [2, 1], [1, 0]]), ("SYMMETRIC", [[0, 0], [2, 3], [0, 1]])):
        yield Case("MirrorPad", points(13, 2, 3, 4), widths, mode=mode)
        yield Case("MirrorPadGrad", points(13, 2, 8, 5), widths, mode=mode)
    image, result, small = points(14, 1, 4, 6, 2), points(15, 1, 4, 6, 4), points(16, 3, 3, 2, 2)
    strided = dict(strides=[1, 1, 1, 1], padding="SAME")
    yield Case("DepthwiseConv2dNative", image, small, images=[0], **strided)
    yield Case("DepthwiseConv2dNativeBackpropInput", [1, 4, 6, 2], small, result, images=[0, 2], **strided)
    yield Case("DepthwiseConv2dNativeBackpropFilter", image, [3, 3, 2, 2], result, images=[0, 2], gives_image=False,
               **strided)
    full = points(17, 3, 3, 2, 4)
    yield Case("Conv2DBackpropInput", [1, 4, 6, 2], full, points(18, 1, 2, 3, 4), images=[0, 2], strides=[1, 2, 2, 1],
               padding="SAME")
    yield Case("Conv2DBackpropFilter", image, [3, 3, 2, 4], points(18, 1, 2, 3, 4), images=[0, 2], gives_image=False,
               strides=[1, 2, 2, 1], padding="SAME")
    pool = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    pooled = Fed(image.value.reshape(1, 2, 2, 3, 2, 2).max((2, 4)))
    part = points(19, 1, 2, 3, 2)
    yield Case("MaxPoolGrad", image, pooled, part, images=[0, 1, 2], smooth=False, **pool)
    yield Case("MaxPoolGradV2", image, pooled, part, [1, 2, 2, 1], [1, 2, 2, 1], images=[0, 1, 2, 3, 4], smooth=False,
               padding="VALID")
    yield Case("AvgPoolGrad", [1, 4, 6, 2], part, images=[0, 1], **pool)
    yield Case("BiasAddGrad", image, images=[0], gives_image=False)
    yield Case("ResizeNearestNeighborGrad", points(20, 1, 7, 5, 1), [4, 6], half_pixel_centers=True)
    yield Case("ResizeNearestNeighborGrad", points(20, 1, 7, 5, 1), [4, 6], align_corners=True)
    for op in ("ResizeBilinearGrad", "ResizeBicubicGrad"):
        for centers in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
            yield Case(op, points(21, 1, 7, 5, 1), points(22, 1, 4, 6, 1), **centers)
    scale, mean, variance = points(23, 2), points(24, 2), points(25, 2, low=0.5)
    for op, extra in (("FusedBatchNormGrad", ()), ("FusedBatchNormGradV2", ()),
                      ("FusedBatchNormGradV3", (np.zeros([0], np.float32),))):
        for training in (True, False):
            yield Case(op, image, points(26, 1, 4, 6, 2), scale, mean, variance, *extra, images=[0, 1], epsilon=0.01,
                       is_training=training, outputs=3)
    for op in ("LRN", "LRNGrad"):
        inputs = [points(27 + i, 1, 1, 2, 7) for i in range(1 if op == "LRN" else 3)]
        yield Case(op, *inputs, depth_radius=2, bias=1.5, alpha=0.3, beta=0.75)


def images():
    image, scale, offset = points(30, 2, 4, 4, 2), points(31, 2), points(32, 2)
    mean, variance = points(33, 2), points(34, 2, low=0.5)
    for op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        for training in (True, False):
            moments = (mean, variance) if not training or op != "FusedBatchNorm" else (np.zeros([0], np.float32),) * 2
            factor = {"exponential_avg_factor": 0.25} if training and op == "FusedBatchNormV3" else {}
            yield Case(op, image, scale, offset, *moments, images=[0], epsilon=0.01, is_training=training, outputs=5 if
                       training else 1, **factor)
    small = points(35, 3, 3, 2, 2)
    yield Case("Conv2D", image, small, images=[0], strides=[1, 2, 1, 1], padding="SAME")
    yield Case("Conv2D", image, small, images=[0], strides=[1, 1, 1, 1], dilations=[1, 1, 2, 1], padding="EXPLICIT",
               explicit_paddings=[0, 0, 1, 2, 2, 0, 0, 0])
    pool = dict(ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1])
    for padding in ("SAME", "VALID"):
        yield Case("MaxPool", image, images=[0], padding=padding, **pool)
        yield Case("AvgPool", image, images=[0], padding=padding, **pool)
        yield Case("MaxPoolV2", image, [1, 3, 2, 1], [1, 2, 2, 1], images=[0, 1, 2], padding=padding)
        for batch in (True, False):
            yield Case("MaxPoolWithArgmax", image, padding=padding, include_batch_in_index=batch, **pool)
        yield Case("ExtractImagePatches", image, ksizes=[1, 2, 2, 1], strides=[1, 2, 1, 1], rates=[1, 1, 2, 1],
                   padding=padding)
    yield Case("MaxPoolGradWithArgmax", image, points(36, 2, 2, 2, 2),
               tf.nn.max_pool_with_argmax(image.value, [3, 2], 2, "SAME").argmax.numpy(), smooth=False, padding="SAME", **pool)
    yield Case("BiasAdd", image, offset, images=[0])
    yield Case("BiasAddV1", image, offset)
    yield Case("DepthToSpace", points(37, 2, 2, 3, 8), images=[0], block_size=2)
    yield Case("SpaceToDepth", image, images=[0], block_size=2)
    volume = points(38, 1, 5, 3, 4, 1)
    for padding in ("SAME", "VALID"):
        yield Case("Conv3D", volume, points(39, 3, 2, 2, 1, 2), images=[0], strides=[1, 2, 1, 2, 1], padding=padding)
        for op in ("MaxPool3D", "AvgPool3D"):
            yield Case(op, volume, images=[0], ksize=[1, 3, 2, 2, 1], strides=[1, 2, 2, 1, 1], padding=padding)
    for op in ("ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor"):
        for centers in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
            yield Case(op, points(40, 1, 4, 6, 1), [7, 4], **centers)
    yield Case("ResizeBicubic", Fed(np.arange(12).reshape(1, 3, 4, 1), np.int32), [2, 9])
    widths, filter_ = [[0, 0], [1, 2], [2, 0], [0, 0]], points(41, 3, 2, 2, 3)
    for mode, padding in (("REFLECT", "VALID"), ("SYMMETRIC", "SAME")):
        padded = {"mode": mode, "padding": padding, "strides": [1, 2, 1, 1]}
        # Of several images TensorFlow computes something else than of each alone.
        yield Case("FusedPadConv2D", points(42, 1, 5, 4, 2), widths, filter_, **padded)
        for corners in (False, True):
            yield Case("FusedResizeAndPadConv2D", points(43, 1, 4, 5, 2), [7, 3], widths, filter_,
                       resize_align_corners=corners, **padded)


def arrays():
    x = points(50, 2, 6, 4, 1)
    yield Case("SpaceToBatchND", x, [2], [[1, 1]])
    yield Case("SpaceToBatchND", x, [3, 2], [[0, 0], [1, 1]])
    yield Case("SpaceToBatchND", points(51, 2, 5), [3], [[0, 1]])
    yield Case("SpaceToBatchND", x, [1, 2, 3], [[0, 0], [0, 0], [1, 1]])
    yield Case("BatchToSpaceND", points(52, 6, 2, 3, 2), [2, 3], [[1, 0], [2, 1]])
    yield Case("BatchToSpaceND", points(53, 6, 4), [3], [[1, 2]])
    yield Case("SpaceToBatch", x, [[1, 1], [0, 2]], block_size=2)
    yield Case("BatchToSpace", points(54, 4, 2, 3, 2), [[1, 0], [0, 1]], block_size=2)
    yield Case("Concat", np.int32(1), (points(55, 2, 3), points(56, 2, 1), points(57, 2, 2)))
    yield Case("ConcatV2", (points(55, 2, 3), points(56, 2, 1)), np.int32(-1))
    indices = Fed([[[0, 2], [1, 1]], [[3, 0], [2, 2]]], np.int32)
    for axis, batches in ((1, 1), (2, 1), (-1, 0), (2, 0), (2, 2)):
        at = Fed([[0, 0]], np.int64) if axis == -1 else indices
        at = Fed(np.arange(24).reshape(2, 6, 2) % 4, np.int32) if batches == 2 else at
        yield Case("GatherV2", x, at, np.int32(axis), batch_dims=batches)
    labels = Fed([[0, 2, 5], [1, -1, 3]], np.int32)
    for axis in (-1, 0, 1):
        yield Case("OneHot", labels, np.int32(4), np.float32(2), np.float32(-1), axis=axis)
    flags = ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True})
    for op in ("Cumsum", "Cumprod"):
        for each in flags:
            yield Case(op, points(58, 3, 4), np.int32(-1), **each)
    yield Case("Reverse", points(58, 3, 4), [False, True])
    yield Case("Roll", points(58, 3, 4), np.int32(1), np.int32(-1))
    yield Case("Roll", points(50, 2, 6, 4, 1), [1, -2, 5], np.int64([-2, 1, 2]))
    yield Case("ReverseSequence", points(59, 3, 4, 2), Fed([4, 0, 3], np.int64), seq_dim=1, batch_dim=0)
    yield Case("ReverseSequence", points(59, 4, 2, 3), Fed([2, 4, 1], np.int32), seq_dim=0, batch_dim=2)
    places, updates = Fed([[2], [0], [2]], np.int32), points(60, 3, 2)
    for op in ("TensorScatterAdd", "TensorScatterSub", "ScatterNdNonAliasingAdd"):
        yield Case(op, points(61, 4, 2), places, updates)
    for op in ("SegmentSum", "SegmentMean"):
        yield Case(op, points(62, 4, 2), [0, 0, 1, 3])
    yield Case("EnsureShape", points(62, 4, 2), shape=[None, 2])
    yield Case("IdentityN", (points(62, 4, 2), points(63, 3)), )
    for op in ("MatrixDiag", "MatrixDiagPart"):
        yield Case(op, points(64, 3, 4))
    yield Case("MatrixDiagPart", points(65, 2, 3, 4))
    yield Case("MatrixDiagV3", points(65, 3, 4), [0], np.int32(-1), np.int32(-1), np.float32(7))
    yield Case("MatrixDiagV2", points(65, 3, 4), [0], np.int32(4), np.int32(4), np.float32(0))
    for op in ("MatrixDiagPartV2", "MatrixDiagPartV3"):
        yield Case(op, points(66, 2, 3, 4), np.int32(0), np.float32(0))
    for op in ("MatrixSetDiagV2", "MatrixSetDiagV3"):
        yield Case(op, points(66, 2, 3, 4), points(67, 2, 3), np.int32(0))
    # Diagonals beside the main one, alone and as bands.
    yield Case("MatrixDiagV3", points(241, 2, 3), [1], np.int32(-1), np.int32(-1), np.float32(0))
    yield Case("MatrixDiagV3", points(241, 2, 3), [-2], np.int32(5), np.int32(4), Fed(0.5))
    yield Case("MatrixDiagV3", points(241, 2, 3), [0], np.int32(3), np.int32(5), np.float32(2))
    yield Case("MatrixDiagV2", points(242, 2, 3, 3), [-1, 1], np.int32(-1), np.int32(-1), np.float32(7))
    for align in ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"):
        yield Case("MatrixDiagV3", points(242, 2, 3, 3), [-1, 1], np.int32(3), np.int32(4), np.float32(7), align=align)
        yield Case("MatrixDiagPartV3", points(243, 2, 3, 4), [-2, 1], np.float32(9), align=align)
        yield Case("MatrixSetDiagV3", points(243, 2, 3, 4), points(244, 2, 3, 3), [-1, 1], align=align)
    yield Case("MatrixDiagPartV2", points(243, 2, 3, 4), [2, 3], np.float32(9))
    yield Case("MatrixDiagPartV3", points(243, 2, 3, 4), np.int32(-1), np.float32(9))
    yield Case("MatrixSetDiagV2", points(243, 2, 3, 4), points(244, 2, 2), np.int32(2))
    yield Case("MatrixBandPart", points(66, 2, 3, 4), np.int64(1), np.int64(0))
    yield Case("Diag", points(68, 3))
    yield Case("DiagPart", points(68, 3, 3))
    yield Case("BatchMatMulV3", points(69, 2, 3, 4), points(70, 4, 5), Tout=tf.float32)


def values():
    yield Case("Unique", [5, 2, 5, -1, 2])
    yield Case("UniqueV2", np.int64([5, 2, 5]), [0], out_idx=tf.int64)
    yield Case("UniqueV2", Fed([[1, 2, 1], [3, 4, 3], [1, 2, 1], [3, 4, 4]], np.int32), [0])
    yield Case("UniqueWithCountsV2", Fed([[[1], [2], [1]], [[3], [4], [3]]]), np.int64([1]), out_idx=tf.int64, smooth=False)
    yield Case("UniqueWithCounts", [5, 2, 5, -1, 2])
    yield Case("XlaDynamicSlice", points(240, 3, 4), Fed([1, 3], np.int32), [2, 2])
    yield Case("XlaDynamicUpdateSlice", points(241, 3, 4), points(242, 2, 1), Fed([2, -1], np.int64))
    yield Case("NextAfter", Fed([[1.5, -2, 0, 0], [np.inf, 1e-45, -1, 3]]), Fed([2, -9, -1, 0.5]), smooth=False)
    yield Case("NextAfter", Fed([1.5, 0, -np.inf], np.float64), Fed([1.5, 3, 0], np.float64))
    yield Case("Bitcast", Fed([1.5, -2, 0]), type=tf.int32)
    yield Case("Bitcast", Fed([[1, 2], [-3, 1 << 30]], np.int32), type=tf.float64)
    yield Case("Bitcast", Fed([[1.5], [-0.0]]), type=tf.uint8)
    yield Case("ListDiff", [5, 2, 7, 2], [2, 9])
    yield Case("InvertPermutation", [2, 0, 1])
    yield Case("LinSpace", np.float32(-1), np.float32(2), np.int32(7))
    yield Case("Empty", [2, 3], dtype=tf.float32, init=True)
    yield Case("DataFormatVecPermute", Fed([1, 2, 3, 4], np.int32))
    yield Case("DataFormatVecPermute", Fed([7, 8], np.int32), src_format="NHWC", dst_format="NCHW")
    yield Case("DataFormatVecPermute", Fed([[1, 2], [3, 4], [5, 6], [7, 8]], np.int32), src_format="NCHW", dst_format="NHWC")
    yield Case("DataFormatDimMap", Fed([0, 1, -1, 3], np.int32))
    seeds = ([1, 2], np.int64([-5, 1 << 40]))
    for seed in seeds:
        for dtype in (tf.float32, tf.float64):
            for op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
                yield Case(op, [2, 3], seed, dtype=dtype)
        for dtype in (tf.int32, tf.int64):
            low, high = dtype.as_numpy_dtype(-3), dtype.as_numpy_dtype(100)
            yield Case("StatelessRandomUniformInt", [7], seed, low, high)
            yield Case("StatelessRandomUniformFullInt", [7], seed, dtype=dtype)
    yield Case("StatelessTruncatedNormal", [90], seeds[0])


def scattered():
    x, places, updates = points(101, 4, 3), Fed([[2], [0], [2]], np.int32), points(102, 3, 3)
    for op in ("TensorScatterUpdate", "TensorScatterMax", "TensorScatterMin"):
        yield Case(op, x, places, updates)
        yield Case(op, x, Fed([[[1, 2], [3, 0]], [[1, 2], [0, 0]]], np.int64), points(103, 2, 2))
    yield Case("TensorScatterUpdate", Fed([[1, 2], [3, 4]], np.int32), Fed([[1]], np.int32), Fed([[7, 8]], np.int32))
    for shape in ([5, 2], [4, 2]):
        yield Case("ScatterNd", Fed([[2], [0], [2]], np.int32), points(60, 3, 2), shape)
    yield Case("ScatterNd", Fed([[1, 2], [0, 0]], np.int64), points(103, 2), np.int64([2, 3]))
    ids = Fed([[0, 3], [2, 0], [0, 1], [3, 1]], np.int64)
    yield Case("SparseFillEmptyRows", ids, points(104, 4), np.int64([5, 4]), np.float32(-1.5))
    yield Case("SparseFillEmptyRows", ids, Fed([7, 5, 9, 6], np.int64), np.int64([4, 4]), np.int64(0))
    yield Case("SparseFillEmptyRowsGrad", Fed([0, 1, 4], np.int64), points(105, 6))
    yield Case("SparseReshape", Fed([[0, 1, 1], [1, 2, 0]], np.int64), np.int64([2, 3, 2]), np.int64([4, -1]))
    segments = Fed([2, 0, 2, -1, 4, 2], np.int32)
    for op in ("UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd", "UnsortedSegmentSum"):
        # Of an empty segment the largest is the lowest number, which swamps others.
        smooth = op.endswith("Prod") or op.endswith("Sum")
        yield Case(op, points(104, 6, 2), segments, np.int32(6), smooth=smooth)
        yield Case(op, points(105, 2, 3, 2), Fed([[0, 1, 0], [3, 0, 1]], np.int64), np.int32(4), smooth=smooth)
        yield Case(op, points(105, 2, 3, 2), Fed([[0, 1, 0], [2, 0, 1]], np.int64), np.int32(3))
        yield Case(op, Fed([5, -7, 2], np.int64), Fed([1, 1, 0], np.int32), np.int32(2))
    for op in ("SegmentMax", "SegmentMin", "SegmentProd", "SegmentSum", "SegmentMean"):
        yield Case(op, points(106, 5, 2), [0, 0, 1, 3, 3])
    for op in ("SegmentMaxV2", "SegmentMinV2", "SegmentProdV2", "SegmentSumV2"):
        yield Case(op, points(106, 5, 2), Fed([0, 0, 1, 3, 3], np.int32), np.int32(5), smooth=op.endswith("SumV2"))
    logits, places = points(117, 4, 3, 3), np.int64([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]])
    labels = Fed([0, 1, 1, 1, 0], np.int32)
    yield Case("CTCLoss", logits, Fed(places, np.int64), labels, Fed([4, 3, 2], np.int32))
    yield Case("CTCLoss", logits, places, labels, Fed([4, 3, 0], np.int32), ignore_longer_outputs_than_inputs=True)
    for merge in (False, True):
        yield Case("CTCGreedyDecoder", points(118, 6, 3, 3), Fed([6, 4, 1], np.int32), merge_repeated=merge, smooth=False)
    yield Case("CTCGreedyDecoder", points(118, 6, 3, 3), Fed([6, 4, 1], np.int32), blank_index=0, smooth=False)
    for op in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):
        rows, of = Fed([3, 0, 0, 1], np.int32), points(107, 4, 2)
        yield Case(op, of, rows, np.int32([0, 0, 1, 3]))
        yield Case(op + "WithNumSegments", of, rows, Fed([0, 0, 1, 3], np.int32), np.int32(6))
    sparse = Fed([[0, 2], [1, 0], [1, 3]], np.int64), points(108, 3)
    yield Case("SparseTensorDenseMatMul", *sparse, np.int64([3, 4]), points(109, 4, 2))
    yield Case("SparseTensorDenseMatMul", *sparse, np.int64([3, 4]), points(110, 2, 3), adjoint_a=True, adjoint_b=True)
    yield Case("SparseToDense", Fed([[0, 2], [1, 0]], np.int32), np.int32([2, 3]), points(111, 2), np.float32(0.5))
    yield Case("SparseToDense", Fed([1, 3], np.int64), np.int64([5]), np.float32(2), np.float32(-1))
    yield Case("SparseToDense", Fed(2, np.int32), np.int32([4]), np.int32(7), np.int32(0))
    sorted_rows = Fed(np.sort(points(112, 2, 6).value), np.float32)
    for op in ("LowerBound", "UpperBound"):
        yield Case(op, sorted_rows, points(113, 2, 4))
        yield Case(op, Fed([[1, 2, 2, 5]], np.int32), Fed([[2, 0, 9]], np.int32), out_type=tf.int64)
    yield Case("UnravelIndex", Fed([22, 0, 7], np.int32), np.int32([3, 8]))
    yield Case("HistogramFixedWidth", points(114, 3, 7), Fed([-1, 1.5]), np.int32(5))


def special():
    x = Fed([[0.1, 0.7, 1, 1.5], [2, 3.3, 8.4, 50], [-0.4, -1.3, -2.6, -7.2]])
    for op in ("Lgamma", "Digamma"):
        yield Case(op, x, smooth=False)
        yield Case(op, points(121, 3, 4, low=0.3, high=6))
        yield Case(op, Fed(x.value, np.float64))
    yield Case("Lgamma", Fed([np.inf, 1e20, 0, -3]), smooth=False)
    yield Case("Erfinv", Fed([[-0.999, -0.7, -1e-3, 0], [0.2, 0.5, 0.97, 0.99999]]), smooth=False)
    yield Case("Erfinv", points(122, 3, 4, low=-0.9, high=0.9))
    yield Case("Ndtri", Fed([1e-6, 0.01, 0.3, 0.5, 0.77, 0.999]), smooth=False)
    yield Case("Ndtri", points(123, 3, 4, low=0.1, high=0.9))
    for op in ("BesselI0", "BesselI0e", "BesselI1", "BesselI1e"):
        yield Case(op, points(124, 4, 4, low=-4, high=4))
        yield Case(op, Fed([-30, -12.5, 11.9, 25] if op.endswith("e") else [-5.5, 5.5, 7, 9]), smooth=False)
    for op in ("BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1"):
        yield Case(op, points(251, 4, 4, low=0.4, high=9))
        yield Case(op, Fed([[24.9, 25.1], [40, 70]]), smooth=False)
    yield Case("Dawsn", points(252, 4, 4, low=-4, high=4))
    yield Case("Dawsn", Fed([0, 12, -90]))
    for op in ("FresnelCos", "FresnelSin"):
        yield Case(op, points(253, 5, 5, low=-4, high=4))
        yield Case(op, Fed([0, 1.59, 1.61, 30, -2000, 1e9, -np.inf, np.nan], np.float64), smooth=False)
    yield Case("Expint", points(253, 4, 4, low=0.2, high=4))
    yield Case("Expint", Fed([-1, 15, 39.9, 40.1, 60], np.float64))
    yield Case("Spence", points(254, 4, 4, low=0.1, high=5))
    yield Case("Spence", Fed([0, 1e-3, 1, 70]), smooth=False)
    shape, bound = points(255, 3, 4, low=0.3, high=6), points(256, 3, 4, low=0.2, high=7)
    for op in ("Igamma", "Igammac"):
        yield Case(op, shape, bound)
        yield Case(op, Fed([[0.01], [90], [-1]]), Fed([0, 1e-3, 80, 110]), smooth=False)
    yield Case("IgammaGradA", shape, bound, smooth=False)
    yield Case("Betainc", shape, points(257, 3, 4, low=0.3, high=6), points(258, 3, 4, low=0.05, high=0.95))
    yield Case("Betainc", Fed([90, 0.1, 2, 2]), Fed([70, 0.2, 3, 3]), Fed([0.5, 0.9, 0, 1]), smooth=False)
    yield Case("Zeta", points(259, 3, 4, low=2, high=6), points(260, 3, 4, low=0.5, high=5))
    yield Case("Zeta", Fed([1, 0.5, 2, 40]), Fed([2, 2, -1, 3]), smooth=False)
    yield Case("Polygamma", Fed([[0], [1], [3]]), points(261, 3, 4, low=0.5, high=5), smooth=False)
    for dtype, low, high in ((np.int32, -2**31, 2**31 - 1), (np.int64, -2**63, 2**63 - 1), (np.uint8, 0, 255)):
        a, b = Fed([[low, high, 0], [5, 12, 77]], dtype), Fed([[high, 6, 3], [1, 10, 77]], dtype)
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            yield Case(op, a, b)
        yield Case("BitwiseAnd", a, Fed([6, 7, 1], dtype))
        yield Case("Invert", a)
        yield Case("PopulationCount", a)
        for op in ("LeftShift", "RightShift"):
            yield Case(op, a, Fed([[0, 3, 5], [1, 7, 2]], dtype))
    for flags in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
        yield Case("CumulativeLogsumexp", points(125, 2, 5, 2), np.int32(1), smooth=not flags.get("exclusive"), **flags)
    wide, g = points(126, 4, 9, low=-7, high=7.5), points(127, 4, 9)
    yield Case("FakeQuantWithMinMaxArgsGradient", g, wide, min=-3.0, max=5.0, num_bits=4, smooth=False)
    yield Case("FakeQuantWithMinMaxVarsGradient", g, wide, Fed(-1.3), Fed(4.2), num_bits=5, smooth=False)
    yield Case("FakeQuantWithMinMaxVarsPerChannelGradient", g, wide, Fed(-np.arange(9) / 3), Fed(np.arange(1, 10) / 2),
               smooth=False)
    factor = np.tril(points(128, 2, 3, 3, low=0.2, high=2).value)
    yield Case("CholeskyGrad", Fed(factor), points(129, 2, 3, 3), smooth=False)
    square = points(161, 2, 3, 3)
    symmetric = Fed(square.value + square.value.transpose(0, 2, 1))
    yield Case("MatrixDeterminant", square)
    yield Case("LogMatrixDeterminant", square)
    for shape in ((2, 4, 3), (3, 3), (2, 3, 5)):
        yield Case("Qr", points(162, *shape))
    yield Case("SelfAdjointEigV2", symmetric, compute_v=True, outputs=1)
    yield Case("SelfAdjointEigV2", symmetric, compute_v=False, outputs=1)
    yield Case("Svd", points(163, 2, 4, 3), compute_uv=False, outputs=1)
    yield Case("Svd", points(163, 2, 4, 3), compute_uv=True, outputs=1)


def coloured():
    colours = points(131, 2, 3, 2, 3, low=0, high=1)
    yield Case("RGBToHSV", colours)
    yield Case("RGBToHSV", Fed([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [1, 0, 0], [0, 1, 0], [0, 0, 1]]), smooth=False)
    yield Case("HSVToRGB", points(132, 3, 3, low=0.02, high=0.98), smooth=False)
    for delta in (0.3, -0.8):
        yield Case("AdjustHue", colours, Fed(delta), smooth=False)
    for scale in (0.4, 3.0):
        yield Case("AdjustSaturation", colours, Fed(scale), smooth=False)
    yield Case("AdjustContrastv2", colours, Fed(1.7))


def cells():
    x, cs, h = points(141, 2, 3), points(142, 2, 4), points(143, 2, 4)
    w, b = points(144, 7, 16, low=-1, high=1), points(145, 16)
    peepholes = [points(146 + i, 4) for i in range(3)]
    for flags in ({}, {"use_peephole": True}, {"use_peephole": True, "cell_clip": 0.5, "forget_bias": 0.3}):
        yield Case("LSTMBlockCell", x, cs, h, w, *peepholes, b, smooth="cell_clip" not in flags, **flags)
        sequence = points(149, 3, 2, 3)
        yield Case("BlockLSTM", np.int64(3), sequence, cs, h, w, *peepholes, b, smooth="cell_clip" not in flags, **flags)
    yield Case("BlockLSTMV2", np.int64(3), sequence, cs, h, w, *peepholes, b)
    yield Case("BlockLSTMV2", np.int64(3), sequence, cs, h, w, *peepholes, b, use_peephole=True, cell_clip=0.4, smooth=False)
    for peephole in (False, True):
        states = [points(150 + i, 3, 2, 4, low=-0.9, high=0.9) for i in range(9)]
        for op in ("BlockLSTMGrad", "BlockLSTMGradV2"):
            yield Case(op, np.int64(3), sequence, cs, h, w, *peepholes, b, *states, use_peephole=peephole)
        states = [points(160 + i, 2, 4, low=-0.9, high=0.9) for i in range(8)]
        yield Case("LSTMBlockCellGrad", x, cs, h, w, *peepholes, b, *states, use_peephole=peephole)
    gru = x, h, points(170, 7, 8), points(171, 7, 4), points(172, 8), points(173, 4)
    yield Case("GRUBlockCell", *gru)
    yield Case("GRUBlockCellGrad", *gru, *[points(174 + i, 2, 4, low=0.1, high=0.9) for i in range(4)])


def volumes():
    volume, filters = points(181, 1, 5, 3, 4, 2), points(182, 3, 2, 2, 2, 3)
    for padding, result in (("SAME", (1, 3, 3, 2, 3)), ("VALID", (1, 2, 2, 2, 3))):
        strides, g = [1, 2, 1, 2, 1], points(183, *result)
        options = dict(strides=strides, padding=padding)
        yield Case("Conv3DBackpropInputV2", [1, 5, 3, 4, 2], filters, g, images=[0, 2], **options)
        yield Case("Conv3DBackpropFilterV2", volume, [3, 2, 2, 2, 3], g, images=[0, 2], gives_image=False, **options)
        yield Case("ExtractVolumePatches", volume, ksizes=[1, 3, 1, 2, 1], strides=[1, 2, 1, 3, 1], padding=padding)
    window = dict(ksize=[1, 3, 2, 2, 1], strides=[1, 2, 2, 1, 1])
    for padding, result in (("SAME", (1, 3, 2, 4, 2)), ("VALID", (1, 2, 1, 3, 2))):
        g = points(185, *result)
        yield Case("AvgPool3DGrad", [1, 5, 3, 4, 2], g, images=[0, 1], padding=padding, **window)
        pooled = tf.raw_ops.MaxPool3D(input=volume.value, padding=padding, **window).numpy()
        yield Case("MaxPool3DGrad", volume, Fed(pooled), g, images=[0, 1, 2], smooth=False, padding=padding, **window)
        ties = np.random.RandomState(186).randint(-2, 2, (1, 5, 3, 4, 2)).astype(np.float32)
        pooled = tf.raw_ops.MaxPool3D(input=ties, padding=padding, **window).numpy()
        yield Case("MaxPool3DGrad", Fed(ties), Fed(pooled), g, smooth=False, padding=padding, **window)


def sampled():
    image = points(191, 2, 5, 7, 2)
    for sizes in ([3, 4], [8, 9], [5, 1]):
        yield Case("ResizeArea", image, sizes)
        yield Case("ResizeArea", image, sizes, align_corners=True)
    yield Case("ResizeArea", Fed(np.arange(12).reshape(1, 3, 4, 1), np.int32), [2, 3])
    for kernel in ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"):
        for antialias in (True, False):
            yield Case("ScaleAndTranslate", image, [3, 9], np.float32([0.6, 1.3]), np.float32([0, 0]),
                       kernel_type=kernel, antialias=antialias)
    yield Case("ScaleAndTranslate", image, [6, 6], np.float32([1.2, 0.7]), np.float32([0.4, -1.1]))
    yield Case("ScaleAndTranslateGrad", points(192, 2, 6, 6, 2), image, np.float32([1.2, 0.7]), np.float32([0.4, -1.1]))
    boxes = Fed([[0.1, 0.2, 0.85, 0.9], [0, 0, 1, 1], [-0.3, 0.4, 0.62, 1.3], [0.9, 0.8, 0.1, 0.1]])
    of_image = Fed([0, 1, 1, 0], np.int32)
    for method in ("bilinear", "nearest"):
        for size in ([3, 4], [1, 6]):
            yield Case("CropAndResize", image, boxes, of_image, size, method=method, extrapolation_value=-0.5,
                       smooth=False)
        yield Case("CropAndResizeGradImage", points(193, 4, 3, 4, 2), boxes, of_image, [2, 5, 7, 2], T=tf.float32,
                   method=method, smooth=False)
    yield Case("CropAndResizeGradBoxes", points(193, 4, 3, 4, 2), image, boxes, of_image, smooth=False)
    small = points(194, 2, 3, 2)
    for padding, result in (("SAME", (2, 3, 7, 2)), ("VALID", (2, 2, 3, 2))):
        options = dict(strides=[1, 2, 1, 1], rates=[1, 1, 2, 1], padding=padding)
        yield Case("Dilation2D", image, small, **options)
        for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
            yield Case(op, image, small, points(195, *result), smooth=False, **options)


    # Many places of each window have the largest sum: the first of them has the whole gradient.
    image, flat = Fed(np.random.RandomState(247).randint(-1, 2, (2, 5, 4, 2))), Fed(np.zeros((2, 3, 2)))
    options = dict(strides=[1, 1, 2, 1], rates=[1, 2, 1, 1], padding="SAME")
    for op in ("Dilation2DBackpropInput", "Dilation2DBackpropFilter"):
        yield Case(op, image, flat, points(248, 2, 5, 2, 2), smooth=False, **options)


def projected():
    image = points(201, 2, 5, 7, 2)
    turns = np.float32([[0.9, -0.3, 1.2, 0.25, 1.1, -0.7, 0.01, 0], [2.1, 0.4, -3.3, -0.6, 1.9, 4.2, 0, -0.02]])
    for interpolation in ("BILINEAR", "NEAREST"):
        for mode in ("CONSTANT", "REFLECT", "WRAP", "NEAREST"):
            yield Case("ImageProjectiveTransformV3", image, turns * 2.5, [6, 8], np.float32(0.5),
                       interpolation=interpolation, fill_mode=mode)
    yield Case("ImageProjectiveTransformV3", image, Fed(turns[:1]), [5, 7], Fed(-1.0), interpolation="BILINEAR",
               fill_mode="REFLECT", smooth=False)
    yield Case("ImageProjectiveTransformV2", image, turns[:1], [3, 4], interpolation="BILINEAR")


def ragged():
    def case(shape, values, missing, parts, types, **options):
        return Case("RaggedTensorToTensor", np.int64(shape), values, missing, tuple(parts), row_partition_types=types, **options)
    x, splits = points(204, 5, 2), Fed([0, 2, 2, 5], np.int64)
    yield case(-1, x, Fed(0.5), [splits], ["ROW_SPLITS"])
    yield case([4, 2, 2], x, Fed([0.5, -0.5]), [splits], ["ROW_SPLITS"])
    yield case([-1, 4, -1], x, Fed(0.5), [splits], ["ROW_SPLITS"])
    yield case(-1, x, Fed(0), [Fed(4, np.int64), Fed([0, 0, 2, 3, 3], np.int64)], ["FIRST_DIM_SIZE", "VALUE_ROWIDS"])
    yield case(-1, Fed([5, 2, 7, 1, 3], np.int32), Fed(-1, np.int32), [Fed([0, 2, 3], np.int64), Fed([0, 1, 1, 5], np.int64)],
               ["ROW_SPLITS", "ROW_SPLITS"])
    yield case(-1, x, Fed(0), [Fed(2, np.int64), Fed([0, 0, 1], np.int64), Fed([0, 0, 1, 2, 2], np.int64)],
               ["FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"])


def whole_numbers():
    """Ops that are mostly of floating point numbers."""
    x, image = Fed([[-7, 7, 4, -2], [6, -6, 5, 9]], np.int32), Fed(np.arange(64).reshape(1, 4, 8, 2) % 13 - 6, np.int32)
    pool = dict(ksize=[1, 2, 3, 1], strides=[1, 2, 2, 1], padding="SAME")
    for dtype in (np.int32, np.int64):
        for op in ("Mean", "EuclideanNorm"):
            yield Case(op, Fed(x.value, dtype), [1])
        yield Case("Mean", Fed(x.value, dtype), [0, 1], keep_dims=True)
        yield Case("MaxPool", Fed(image.value, dtype), images=[0], **pool)
    yield Case("MaxPoolV2", image, [1, 2, 3, 1], [1, 2, 2, 1], padding="SAME")
    yield Case("MaxPoolWithArgmax", image, **pool)
    yield Case("Conv2D", image, Fed(np.arange(24).reshape(3, 2, 2, 2) - 9, np.int32), images=[0], strides=[1, 1, 2, 1],
               padding="SAME")
    yield Case("Dilation2D", image, Fed(np.arange(12).reshape(3, 2, 2) - 4, np.int32), strides=[1, 1, 2, 1],
               rates=[1, 1, 1, 1], padding="VALID")
    yield Case("SegmentMean", Fed(x.value.T, np.int32), Fed([0, 0, 0, 1], np.int32))
    yield Case("Bincount", Fed([[1, 3], [1, 1]], np.int32), np.int32(4), Fed([[0.5, 1], [2, 3]]))
    yield Case("Bincount", Fed(3, np.int32), np.int32(5), np.zeros([0], np.int64))


def options():
    """What our ops lack of an op's options."""
    scores = points(211, 3, 5)
    yield Case("TopKV2", scores, np.int32(1), sorted=False, smooth=False)
    square = points(212, 2, 3, 3).value + 4 * np.eye(3)
    for lower in (True, False):
        for adjoint in (True, False):
            yield Case("MatrixTriangularSolve", Fed(square), points(213, 2, 3, 2), lower=lower, adjoint=adjoint)
    yield Case("MatrixInverse", Fed(square), adjoint=True)
    yield Case("Diag", points(215, 2, 3))
    yield Case("DiagPart", points(216, 2, 3, 2, 3))
    a, b = points(245, 3, 4), points(246, 4, 2)
    yield Case("SparseMatMul", a, b, a_is_sparse=True)
    yield Case("SparseMatMul", Fed(a.value.T), Fed(b.value.T), transpose_a=True, transpose_b=True, b_is_sparse=True)
    yield Case("ParallelConcat", (points(217, 1, 3), points(218, 1, 3)), shape=[2, 3])
    yield Case("SparseTensorDenseAdd", Fed([[0, 2], [1, 1]], np.int64), points(219, 2), np.int64([2, 3]), points(220, 2, 3))


def suppressed():
    """The best boxes of all classes."""
    numbers = np.random.RandomState(224).uniform(-0.1, 1.1, (2, 7, 3, 2, 2)).astype(np.float32)
    boxes = np.concatenate([numbers.min(-1), numbers.max(-1)], -1)
    scores = points(225, 2, 7, 3, low=0, high=1)
    for own in (1, 3):
        for options in ({}, {"pad_per_class": True}, {"clip_boxes": False}):
            yield Case("CombinedNonMaxSuppression", Fed(boxes[:, :, :own]), scores, np.int32(2), np.int32(8),
                       np.float32(0.3), np.float32(0.2), smooth=False, **options)


ALL = (elementwise, gradients, images, arrays, values, scattered, special, coloured, cells, volumes, sampled, projected,
       ragged, whole_numbers, options, sparse, suppressed, *foreign_found_ops.FAMILIES)


COMPILED = {"SegmentMaxV2", "SegmentMinV2", "SegmentProdV2", "SegmentSumV2", "XlaDynamicSlice", "XlaDynamicUpdateSlice"}  # by XLA only


def function_of(case):
    own = {"XlaDynamicSlice": gen_xla_ops.xla_dynamic_slice, "XlaDynamicUpdateSlice": gen_xla_ops.xla_dynamic_update_slice}
    return own.get(case.op) or getattr(tf.raw_ops, case.op)


def evaluated(case):
    """The outputs of a case."""
    if case.op in COMPILED:
        op, arguments = function_of(case), case.arguments(lambda x: x.value if isinstance(x, Fed) else x)
        return [tf.function(lambda: op(**arguments), jit_compile=True)().numpy()]
    with tf.Graph().as_default(), v1.Session() as session:
        made = function_of(case)(**case.arguments(lambda x: tf.constant(x.value if isinstance(x, Fed) else x)))
        made = tf.nest.flatten(made) if isinstance(made, (tuple, list)) else [made]
        return session.run(made[:case.outputs])


def write(path, bytes_of, expected):
    values, counts, old = {}, {}, []
    cases = [(case, evaluated(case)) for family in ALL for case in family()]
    for node, inputs, results in removed():
        node.name = f"{node.op.lstrip('_')}_{len(old)}"
        node.attr["T"].type = tf.float32.as_datatype_enum
        if node.op == "_FusedBatchNormEx" or "fused_ops" in node.attr and any(
                b"Relu" in each for each in node.attr["fused_ops"].list.s):
            values[f"{node.name}/steps"] = True
        old.append((node, inputs))
        for i, result in enumerate(results):
            values[f"{node.name}/out{i}"] = result.numpy()
    values["branches/in0"] = points(80, 2, 3).value
    with tf.Graph().as_default(), v1.Session() as session:
        for name, result in subgraphs().items():
            values[f"{name}/out0"] = session.run(result, {"branches/in0:0": values["branches/in0"]})
    with tf.Graph().as_default() as graph:
        def add(case, results):
            number = counts[case.op] = counts.get(case.op, 0) + 1
            name, fed = f"{case.op}_{number}", []

            def tensor(x):
                if not isinstance(x, Fed):
                    return tf.constant(x)
                key = f"{name}/in{len(fed)}"
                fed.append(key)
                values[key] = x.value
                return v1.placeholder(x.value.dtype, x.value.shape, key)
            function_of(case)(**case.arguments(tensor), name=name)
            for i, result in enumerate(results):
                values[f"{name}/out{i}"] = result
            if not case.smooth:
                values[f"{name}/steps"] = True
        for case, results in cases:
            add(case, results)
            if case.images:
                first = channels_first(case)
                if case.gives_image:
                    results = [np.moveaxis(results[0], -1, 1), *results[1:]]
                add(first, results)
        for node, inputs in old:
            for i, each in enumerate(inputs):
                key = f"{node.name}/in{i}"
                values[key] = each.value
                v1.placeholder(each.value.dtype, each.value.shape, key)
                node.input.append(key)
        subgraphs()
    graph_def = graph.as_graph_def()
    graph_def.node.extend(node for node, _ in old)
    path.write_bytes(bytes_of(graph_def))
    expected(path.with_suffix(".expected.pb"), values)
