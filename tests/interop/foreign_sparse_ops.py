"""Single nodes of TensorFlow's ops of sparse tensors; see foreign_ops.py."""

import numpy as np

from foreign_cases import Case, Fed, points


def sparse():
    coordinates, values, shape = Fed([[1, 1], [0, 2], [1, 0]], np.int64), points(221, 3), np.int64([2, 3])
    yield Case("SparseReorder", coordinates, values, shape)
    for axes in ([1], [0], [-1, 0], []):
        yield Case("SparseReduceSum", coordinates, values, shape, np.int32(axes))
    yield Case("SparseReduceSum", coordinates, values, shape, np.int32([1]), keep_dims=True)
    for op in ("Add", "Mul", "Div"):
        yield Case(f"SparseDenseCwise{op}", coordinates, values, shape, points(222, 1, 3, low=0.5))
        yield Case(f"SparseDenseCwise{op}", coordinates, values, shape, points(223, 2, 3, low=0.5))
    a = Fed([[0, 1], [1, 0], [1, 2]], np.int64), points(230, 3), np.int64([2, 3])
    b = Fed([[0, 0], [0, 1], [1, 1], [1, 2]], np.int64), points(231, 4), np.int64([2, 3])
    nothing = Fed(np.zeros([0, 2]), np.int64), Fed(np.zeros([0])), np.int64([2, 3])
    for threshold in (0, 1):
        yield Case("SparseAdd", *a, *b, np.float32(threshold), outputs=3)
    yield Case("SparseAdd", *a, *nothing, np.float32(0))
    flat = *nothing[:2], np.int64([0, 3])
    yield Case("SparseAdd", *flat, *flat, np.float32(0))
    total = Fed([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]], np.int64)
    yield Case("SparseAddGrad", points(232, 5), a[0], b[0], total)
    for op in ("Maximum", "Minimum"):
        yield Case(f"SparseSparse{op}", *a, *b)
    wide = Fed([[0, 3], [1, 1]], np.int64), points(233, 2), np.int64([2, 5])
    for axis, parts in ((1, (a, wide, b)), (-2, (a, b)), (0, (a,) * 2)):
        yield Case("SparseConcat", *(tuple(part[i] for part in parts) for i in range(3)), concat_dim=axis)
    for start, size in (([0, 1], [2, 2]), ([1, 0], [5, 3]), ([0, 3], [2, 2])):
        yield Case("SparseSlice", *b, np.int64(start), np.int64(size))
    yield Case("SparseSliceGrad", points(234, 2), b[0], np.int64([0, 1]), Fed([[0, 0], [1, 0]], np.int64))
    for axis in (0, 1):
        yield Case("SparseSplit", np.int64(axis), *wide, num_split=2)
    cube = Fed([[0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 1, 0], [1, 1, 1]], np.int64), points(235, 5), np.int64([2, 2, 3])
    for given in (a, b, cube, nothing):
        yield Case("SparseSoftmax", *given)
    for axes in ([2], [0, -1], []):
        yield Case("SparseReduceMax", *cube, np.int32(axes), keep_dims=axes == [2])
        for op in ("Max", "Sum"):
            yield Case(f"SparseReduce{op}Sparse", *cube, np.int32(axes), keep_dims=axes == [2])
    yield Case("SetSize", cube[0], Fed([3, 4, 5, 4, 4], np.int64), cube[2])
    yield Case("SetSize", *nothing[:1], Fed(np.zeros([0]), np.int32), nothing[2])
    spoken = points(236, 4, 3, 5)
    for options in ({}, {"merge_repeated": True}, {"merge_repeated": True, "blank_index": 0}):
        yield Case("CTCGreedyDecoder", spoken, Fed([4, 0, 3], np.int32), **options)
    steady = np.repeat(spoken.value[:2], 2, 0)
    yield Case("CTCGreedyDecoder", Fed(steady), Fed([4, 4, 3], np.int32), merge_repeated=True, smooth=False)
