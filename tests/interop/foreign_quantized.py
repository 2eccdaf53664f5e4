"""Writes networks as the tools for mobile phones made them: of bytes; see foreign_programs.py."""

import numpy as np
import tensorflow as tf

from foreign_flow import Steps
from foreign_models import points, weights

v1 = tf.compat.v1
raw = tf.raw_ops


def from_bytes(value):
    """A constant of bytes, made real again, as "quantize_weights" writes it."""
    low, high = float(value.min()), float(value.max())
    numbers = np.round((value - low) / (high - low) * 255).astype(np.uint8)
    return raw.Dequantize(input=constant(numbers), min_range=low, max_range=high, mode="MIN_FIRST")


def constant(numbers):
    proto = tf.make_tensor_proto(numbers)
    proto.dtype = tf.quint8.as_datatype_enum
    graph = v1.get_default_graph()
    return graph.create_op("Const", [], [tf.quint8], attrs={"dtype": v1.AttrValue(type=proto.dtype), "value": v1.AttrValue(
        tensor=proto)}).outputs[0]


def quantized(x):
    return raw.QuantizeV2(input=x, min_range=tf.reduce_min(x), max_range=tf.reduce_max(x), T=tf.quint8, mode="MIN_FIRST")


def as_bytes(x):
    """Of sums of 32 bits."""
    low, high = raw.RequantizationRange(input=x[0], input_min=x[1], input_max=x[2])
    return raw.Requantize(input=x[0], input_min=x[1], input_max=x[2], requested_output_min=low, requested_output_max=high,
                          out_type=tf.quint8)


def real(x):
    return raw.Dequantize(input=x[0], min_range=x[1], max_range=x[2], mode="MIN_FIRST")


def weights_of_bytes(picture):
    y = tf.nn.relu6(tf.nn.conv2d(picture, from_bytes(weights(1, 3, 3, 3, 4)), 2, "SAME"))
    return tf.matmul(tf.reshape(y, [tf.shape(y)[0], -1]), from_bytes(weights(2, 64, 5)))


def network_of_bytes(picture):
    x = quantized(picture)
    kernel, bias = quantized(tf.constant(weights(3, 3, 3, 3, 4))), quantized(tf.constant(weights(4, 4)))
    y = as_bytes(raw.QuantizedConv2D(input=x[0], filter=kernel[0], min_input=x[1], max_input=x[2], min_filter=kernel[1],
                                     max_filter=kernel[2], strides=[1, 1, 1, 1], padding="SAME"))
    y = as_bytes(raw.QuantizedBiasAdd(input=y[0], bias=bias[0], min_input=y[1], max_input=y[2], min_bias=bias[1],
                                      max_bias=bias[2], out_type=tf.qint32))
    y = raw.QuantizedRelu(features=y[0], min_features=y[1], max_features=y[2])
    pools = dict(input=y[0], min_input=y[1], max_input=y[2], ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    most, mean = raw.QuantizedMaxPool(**pools), raw.QuantizedAvgPool(**pools)
    joined = raw.QuantizedConcat(concat_dim=3, values=[most[0], mean[0]], input_mins=[most[1], mean[1]],
                                 input_maxes=[most[2], mean[2]])
    capped = raw.QuantizedRelu6(features=joined[0], min_features=joined[1], max_features=joined[2])
    rows = raw.QuantizedReshape(tensor=capped[0], shape=[-1, 128], input_min=capped[1], input_max=capped[2])
    out = quantized(tf.constant(weights(5, 128, 5)))
    product = raw.QuantizedMatMul(a=rows[0], b=out[0], min_a=rows[1], max_a=rows[2], min_b=out[1], max_b=out[2])
    shrunk = raw.QuantizeDownAndShrinkRange(input=product[0], input_min=product[1], input_max=product[2], out_type=tf.quint8)
    return tf.concat([real(shrunk), real(product), tf.reshape(real(joined), [tf.shape(picture)[0], -1])], 1)


def every_mode(picture):
    rows = tf.reshape(picture, [-1, 3])
    results = []
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        for dtype in (tf.quint8, tf.qint8, tf.quint16, tf.qint16) if mode != "MIN_FIRST" else (tf.quint8,):
            for rounding in ("HALF_TO_EVEN", "HALF_AWAY_FROM_ZERO") if mode == "SCALED" else ("HALF_AWAY_FROM_ZERO",):
                q = raw.QuantizeV2(input=rows, min_range=-1.5, max_range=2.0, T=dtype, mode=mode, round_mode=rounding)
                results.append(raw.Dequantize(input=q[0], min_range=q[1], max_range=q[2], mode=mode))
    q = raw.QuantizeV2(input=rows, min_range=[-1.0, -2.0, 0.0], max_range=[1.0, 0.5, 3.0], T=tf.qint8, mode="SCALED", axis=1,
                       narrow_range=True)
    results.append(raw.Dequantize(input=q[0], min_range=q[1], max_range=q[2], mode="SCALED", axis=1, narrow_range=True))
    return tf.concat(results, 1)


def write(folder):
    for make in (weights_of_bytes, network_of_bytes, every_mode):
        with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            picture = v1.placeholder(tf.float32, [None, 8, 8, 3], "picture")
            tf.identity(make(picture), "y")
            steps = Steps()
            for count in (2, 1):
                feeds = {"picture:0": points(count, count, 8, 8, 3)}
                steps.add("feed", "picture:0", feeds["picture:0"])
                steps.add("fetch", "y:0", session.run("y:0", feeds))
        (folder / f"{make.__name__}.pb").write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
        steps.save(folder / f"{make.__name__}.steps.pb")
