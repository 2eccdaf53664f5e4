"""A node of one of TensorFlow's ops: the op, its inputs in order, and its attributes. An input that is wrapped in Fed is a
placeholder."""

import numpy as np
from tensorflow.python.framework import op_def_registry

RENAMED = {"reduction_indices": "axis"}  # where Python calls an input otherwise than the file


class Fed:
    def __init__(self, value, dtype=np.float32):
        self.value = np.asarray(value, dtype)


def points(seed, *shape, low=-2.0, high=2.0):
    """Numbers no two of which are close, so that small steps do not change which is the largest."""
    count = int(np.prod(shape))
    places = np.random.RandomState(seed).permutation(count)
    return Fed((low + (high - low) * (places + 0.5) / count).reshape(shape))


class Case:
    def __init__(self, op, *inputs, smooth=True, images=None, gives_image=True, outputs=None, **attrs):
        self.op, self.inputs, self.attrs, self.smooth = op, inputs, attrs, smooth
        self.images, self.gives_image, self.outputs = images, gives_image, outputs

    def arguments(self, make):
        names = [RENAMED.get(each.name, each.name) for each in op_def_registry.get(self.op).input_arg]
        parts = [[make(part) for part in each] if isinstance(each, tuple) else make(each) for each in self.inputs]
        return {**dict(zip(names, parts)), **self.attrs}


def to_first(list_):
    return [list_[0], list_[-1], *list_[1:-1]]


def channels_first(case):
    """The same node with the channels before the rows, which TensorFlow cannot run on the CPU."""
    def moved(i, value):
        if i not in case.images:
            return value
        if isinstance(value, Fed):
            return Fed(np.moveaxis(value.value, -1, 1), value.value.dtype)
        return to_first(value)
    attrs = {key: to_first(value) if key in ("strides", "ksize", "dilations") else value
             for key, value in case.attrs.items()}
    if "explicit_paddings" in attrs:
        pairs = attrs["explicit_paddings"]
        attrs["explicit_paddings"] = sum(to_first([pairs[i:i + 2] for i in range(0, len(pairs), 2)]), [])
    attrs["data_format"] = "NCDHW" if "3D" in case.op else "NCHW"
    return Case(case.op, *(moved(i, value) for i, value in enumerate(case.inputs)), smooth=case.smooth, **attrs)
