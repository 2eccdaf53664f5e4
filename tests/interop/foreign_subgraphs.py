"""Several nodes of TensorFlow together, which foreign_ops.py writes with what TensorFlow computes: those that Python makes at
once, and those that TensorFlow's optimizer makes of others."""

import numpy as np
import tensorflow as tf

from foreign_cases import Fed, points

v1 = tf.compat.v1


def fused():
    """Nodes that TensorFlow's optimizer makes."""
    image, by_channel = points(231, 2, 4, 5, 3), [points(232 + i, 4, low=0.4) for i in range(4)]
    rows, square, full, depth = points(236, 3, 4), points(237, 4, 4), points(238, 2, 3, 3, 4), points(239, 2, 2, 3, 1)
    products = {
        "_FusedConv2D": ([image, full], tf.nn.conv2d(image.value, full.value, [1, 2, 1, 1], "SAME")),
        "_FusedDepthwiseConv2dNative": ([image, depth], tf.nn.depthwise_conv2d(image.value, depth.value, [1, 1, 1, 1], "VALID")),
        "_FusedMatMul": ([rows, square], tf.matmul(rows.value, square.value, transpose_b=True))}
    functions = {"Relu": tf.nn.relu, "Relu6": tf.nn.relu6, "Elu": tf.nn.elu, "Tanh": tf.tanh, "Sigmoid": tf.sigmoid,
                 "LeakyRelu": lambda x: tf.nn.leaky_relu(x, 0.3), "GeluExact": tf.nn.gelu,
                 "GeluApproximate": lambda x: tf.nn.gelu(x, True)}
    cases = [(op, ["BiasAdd"] + extra) for op in products for extra in ([], ["Relu6"])]
    cases += [("_FusedMatMul", ["BiasAdd", each]) for each in functions]
    cases += [("_FusedConv2D", ["FusedBatchNorm", "LeakyRelu"]), ("_FusedConv2D", ["BiasAdd", "Add", "Relu"])]
    for op, names in cases:
        inputs, result = products[op]
        inputs, channels = list(inputs), by_channel if op != "_FusedDepthwiseConv2dNative" else [points(240, 3)]
        node = v1.NodeDef(op=op)
        node.attr["fused_ops"].list.s.extend(each.encode() for each in names)
        for each in names:
            if each == "BiasAdd":
                inputs.append(channels[0])
                result += channels[0].value
            elif each == "Add":
                inputs.append(points(241, *result.shape))
                result += inputs[-1].value
            elif each == "FusedBatchNorm":
                inputs += channels
                scale, offset, mean, variance = (channel.value for channel in channels)
                result = tf.nn.batch_normalization(result, mean, variance, offset, scale, 0.01)
            else:
                result = functions[each](result)
        node.attr["num_args"].i = len(inputs) - 2
        node.attr["epsilon"].f, node.attr["leakyrelu_alpha"].f = 0.01, 0.3
        if op == "_FusedMatMul":
            node.attr["transpose_b"].b = True
        else:
            node.attr["strides"].list.i.extend([1, 2, 1, 1] if op == "_FusedConv2D" else [1, 1, 1, 1])
            node.attr["padding"].s = b"SAME" if op == "_FusedConv2D" else b"VALID"
        yield node, inputs, [result]
    image = points(242, 2, 3, 3, 4)
    for side in (False, True):
        node = v1.NodeDef(op="_FusedBatchNormEx")
        node.attr["epsilon"].f, node.attr["is_training"].b, node.attr["activation_mode"].s = 0.01, False, b"Relu"
        node.attr["num_side_inputs"].i = int(side)
        scale, offset, mean, variance = (each.value for each in by_channel)
        result = tf.nn.batch_normalization(image.value, mean, variance, offset, scale, 0.01)
        added = points(243, 2, 3, 3, 4)
        yield node, [image, *by_channel] + [added] * side, [tf.nn.relu(result + added.value if side else result)]


def removed():
    """Ops that only TensorFlow's old graphs have: a node, its inputs, and what its successor computes."""
    x, mean, variance = points(90, 2, 2, 2, 3), points(91, 3), points(92, 3, low=0.5)
    offset, scale = points(93, 3), points(94, 3)
    for scaled in (True, False):
        node = v1.NodeDef(op="BatchNormWithGlobalNormalization")
        node.attr["scale_after_normalization"].b = scaled
        node.attr["variance_epsilon"].f = 0.01
        inputs = [x, mean, variance, offset, scale]
        numbers = [each.value for each in inputs]
        yield node, inputs, [tf.nn.batch_normalization(*numbers[:4], numbers[4] if scaled else None, 0.01)]
        back, node = points(95, 2, 2, 2, 3), v1.NodeDef(op="BatchNormWithGlobalNormalizationGrad", attr=node.attr)
        sources = [tf.constant(each) for each in numbers]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            y = tf.nn.batch_normalization(*sources[:4], sources[4] if scaled else None, 0.01) * back.value
        yield node, [x, mean, variance, scale, back], tape.gradient(y, sources, unconnected_gradients="zero")
    yield from fused()
    square = points(130, 2, 3)
    yield v1.NodeDef(op="BatchMatrixDiag"), [square], [tf.linalg.diag(square.value)]
    matrices = points(161, 2, 3, 3)
    yield v1.NodeDef(op="BatchMatrixDeterminant"), [matrices], [tf.linalg.det(matrices.value)]
    image = points(136, 2, 3, 2, 3)
    ends = [Fed(1.7), Fed(-1), Fed(0.9)]
    adjusted = tf.raw_ops.AdjustContrastv2(images=image.value, contrast_factor=1.7)
    yield v1.NodeDef(op="AdjustContrast"), [image, *ends], [tf.clip_by_value(adjusted, -1, 0.9)]
    volume, filters, g = points(181, 1, 5, 3, 4, 2), points(182, 3, 2, 2, 2, 3), points(184, 1, 5, 3, 4, 3)
    options = dict(out_backprop=g.value, strides=[1] * 5, padding="SAME")
    by_input = tf.raw_ops.Conv3DBackpropInputV2(input_sizes=[1, 5, 3, 4, 2], filter=filters.value, **options)
    by_filter = tf.raw_ops.Conv3DBackpropFilterV2(input=volume.value, filter_sizes=[3, 2, 2, 2, 3], **options)
    for op, result in (("Conv3DBackpropInput", by_input), ("Conv3DBackpropFilter", by_filter)):
        node = v1.NodeDef(op=op)
        node.attr["strides"].list.i.extend([1] * 5)
        node.attr["padding"].s = b"SAME"
        yield node, [volume, filters, g], [result]
    node = v1.NodeDef(op="TopK")
    node.attr["k"].i = 2
    yield node, [x], list(tf.math.top_k(x.value, 2))


def random_by_keys():
    """What tf.random.stateless_uniform and others add."""
    yield "uniform", lambda: tf.random.stateless_uniform([4, 3], [3, 4])
    yield "normal", lambda: tf.random.stateless_normal([4, 3], [3, 4], dtype=tf.float64)
    yield "truncated", lambda: tf.random.stateless_truncated_normal([4, 3], [3, 4])
    yield "integers", lambda: tf.random.stateless_uniform([4, 3], [3, 4], 2, 9, tf.int32)
    yield "all", lambda: tf.random.stateless_uniform([4, 3], [3, 4], None, None, tf.int64)


def branches():
    """Both sides of a condition, as TensorFlow 1 writes them, for a constant and for what may be fed."""
    x = v1.placeholder(tf.float32, [2, 3], "branches/in0")
    phase = v1.placeholder_with_default(False, [], "phase")
    for name, condition in (("constant", tf.constant(True)), ("default", phase), ("not", tf.logical_not(phase))):
        def nested(condition=condition):
            return v1.cond(tf.logical_not(condition), lambda: x - 1, lambda: tf.exp(x))
        y = v1.cond(condition, lambda: x * 2 + tf.ones([3]), nested)
        y += v1.cond(condition, lambda: tf.constant(1.0), lambda: tf.constant(2.0))
        y *= v1.cond(condition, lambda: tf.constant(3.0), lambda: x[0, 0])
        yield name, y


def complex_numbers(x):
    """Between real numbers, which are as few as an axis has, or more, or less."""
    s, c = tf.signal, tf.complex
    z, w = c(x, 1 - x), c(tf.constant(2.0), x)
    yield "spectrum", tf.abs(s.rfft(x, [4])) + tf.abs(s.rfft(x, [5]))[:, ::-1][:, :3]
    yield "spectrum of few", tf.math.real(s.rfft(x, [2])) - tf.math.imag(s.rfft(x))
    yield "transforms", tf.math.real(s.fft(z)) + tf.math.imag(s.ifft(w)) + tf.math.real(s.fft2d(w)) + tf.math.imag(s.ifft2d(z)[:, ::-1])
    yield "of a vector", tf.math.imag(s.fft(z[0])) + tf.math.real(s.ifft3d(tf.stack([z, w]))[1, 0])
    yield "back", s.irfft(s.rfft(x), [3]) + s.irfft(z, [4])[:, 1:] + s.irfft2d(s.rfft2d(x, [2, 4]), [2, 3])
    yield "quotients", tf.math.real(z * tf.math.conj(w) / c(x + 3, x)) + tf.math.imag(tf.math.divide_no_nan(z, w))
    yield "functions", tf.math.imag(tf.exp(c(0.0, x)) + tf.math.log(c(x, x + 5))) + tf.math.angle(w) + tf.math.real(tf.square(z) + 1 / w)
    yield "products", tf.abs(tf.matmul(z, w, adjoint_b=True)) + tf.math.real(tf.einsum("ab,cb->ac", z, w)) + tf.math.real(tf.reduce_mean(z * 1j))
    yield "parts", tf.math.real(tf.concat([tf.transpose(z)[:2], tf.stack([w[0, :2], z[1, 1:]])], 0)) + tf.abs(tf.reduce_sum(tf.gather(w, [1, 0]), 1))
    yield "gradient", v1.gradients(tf.reduce_sum(tf.abs(s.rfft(x, [4])) ** 2 * tf.range(3.0)) + tf.reduce_sum(s.irfft(z * w, [4]) ** 3), x)[0]
    yield "wider", tf.math.real(tf.cast(z, tf.complex128)) + tf.cast(tf.size(z), tf.float64) + tf.cast(tf.shape(w)[0], tf.float64)


def small_integers(x):
    """Types that Tapestry lacks: what passes through, and what leaves their range."""
    whole = tf.cast(x * 100, tf.int32)
    for dtype in (tf.int8, tf.int16, tf.uint16, tf.uint32):
        small = tf.cast(whole * 300, dtype)
        yield dtype.name, tf.cast(tf.concat([small * small + tf.constant([[3, 0, 7]], dtype), -small[:1]] if dtype.min < 0 else [small], 0), tf.int64)
        yield dtype.name + " moved", tf.cast(tf.where(x > 0, tf.reverse(tf.gather(small, [1, 0]), [1]), tf.zeros_like(small)), tf.int64)
        flat, to = tf.reshape(small, [-1]), tf.constant([[1], [3], [1], [0], [1], [3]])
        placed = [tf.scatter_nd(to, flat, [5])] + [scatter(flat[1:], to[:5] % 5, flat[1:] * flat[:5]) for scatter in (
            tf.tensor_scatter_nd_add, tf.tensor_scatter_nd_sub, tf.tensor_scatter_nd_max, tf.tensor_scatter_nd_min)]
        yield dtype.name + " placed", tf.cast(tf.stack(placed), tf.int64)
        unique, where = tf.unique(tf.roll(tf.reverse_sequence(small, [2, 3], 1), 1, 1)[1])
        sums = tf.math.segment_sum(tf.transpose(small), [0, 0, 1]) + tf.math.unsorted_segment_sum(tf.transpose(small), [1, 0, 1], 2)
        yield dtype.name + " summed", tf.cast(tf.concat([unique + tf.cast(where, dtype), tf.linalg.diag_part(sums)], 0), tf.int64)
    signs = tf.bitcast(tf.bitcast(whole * 30000000, tf.uint32) // 3, tf.int32) + tf.cast(tf.bitcast(tf.cast(whole * 7, tf.uint8), tf.int8), tf.int32)
    yield "signs", signs - tf.cast(tf.bitcast(tf.cast(whole, tf.int16), tf.uint16), tf.int32)
    bits = tf.bitwise
    yield "bits", tf.cast(bits.right_shift(bits.bitwise_xor(tf.cast(whole, tf.int8), tf.constant(15, tf.int8)), tf.constant(2, tf.int8)), tf.int32)


def unsigned(x):
    """Numbers of uint64 in their order, also those from 2^63 on."""
    numbers = np.uint64([0, 1, 7, (1 << 63) - 1, 1 << 63, (1 << 63) + 12345, (1 << 64) - 1, 10 ** 19, 5])
    divisors, counts = np.uint64([1, 1, 3, 2, 3, 1 << 63, (1 << 64) - 2, 7, (1 << 63) + 1]), np.uint64([0, 1, 2, 63, 62, 5, 1, 33, 0])
    a = tf.bitcast(numbers.view(np.int64) + tf.cast(x[0, 0] * 0, tf.int64), tf.uint64)
    b, square = tf.reverse(a, [0]), tf.reshape(a, [3, 3])
    made = {"maximum": tf.maximum(a, b), "minimum": tf.minimum(a, b), "max": tf.reduce_max(square, 1), "min": tf.reduce_min(square, 0, keepdims=True),
            "quotient": a // divisors, "remainder": a % divisors, "other_quotient": b // divisors, "truncated": tf.raw_ops.TruncateDiv(x=b, y=divisors),
            "shifted": tf.bitwise.right_shift(a, counts), "of_floats": tf.cast(tf.constant([0.0, 2.7, 9.3e18, 1.8e19], tf.float64), tf.uint64),
            "top": tf.math.top_k(square, 2)[0], "relu6": tf.raw_ops.Relu6(features=a), "relu": tf.raw_ops.Relu(features=a),
            "highest": tf.tensor_scatter_nd_max(a, [[1], [4], [1]], b[:3]), "lowest": tf.tensor_scatter_nd_min(a, [[1], [4], [1]], b[:3]),
            "clipped": tf.clip_by_value(a, tf.constant(5, tf.uint64), tf.constant((1 << 63) + 5, tf.uint64))}
    for name, result in made.items():
        yield name, tf.bitcast(result, tf.int64)
    yield from {"places": tf.math.top_k(square, 2)[1], "less": a < b,
                "at_most": a <= b, "greater": a > b, "at_least": a >= b, "first": tf.argmax(a), "last": tf.argmin(square, 1, output_type=tf.int32),
                "doubles": tf.cast(a, tf.float64), "floats": tf.cast(a, tf.float32)}.items()


def subgraphs():
    v1.disable_control_flow_v2()
    made = {}
    for name, make in random_by_keys():
        made[f"random/{name}"] = tf.identity(make(), f"random/{name}")
    for name, result in list(branches()):
        made[f"branches/{name}"] = tf.identity(result, f"branches/{name}")
    x = v1.get_default_graph().get_tensor_by_name("branches/in0:0")
    for family in (complex_numbers, small_integers, unsigned):
        for name, result in list(family(x)):
            name = f"branches/{family.__name__}/{name}".replace(" ", "_")
            made[name] = tf.identity(result, name)
    return made
