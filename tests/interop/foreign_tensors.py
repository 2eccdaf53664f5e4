"""Writes graphs of which every tensor is fetched, and fed, by its name; see foreign_programs.py.

A graph is a function of x [5, 6] and labels [5] that returns what is fetched while each other tensor is fed."""

import numpy as np
import tensorflow as tf

import write_golden
from foreign_flow import Steps
from foreign_idioms import LABELS, X, classes, descend, logits_of, variable

v1 = tf.compat.v1


def sizes(x, labels):
    rows, count = tf.raw_ops.ShapeN(input=[x, tf.cast(labels, tf.float32)])
    wide = tf.raw_ops.ShapeN(input=[x, x[:2], x[0]], out_type=tf.int64)
    return tf.reshape(tf.fill(rows, 2.0), [count[0], -1]) + tf.reshape(x, wide[0]) * tf.cast(wide[1][0] + wide[2][0], tf.float32)


def joined_sizes(x, labels):
    n = tf.shape(x)
    a, b = tf.unstack(n)
    first, *rest = tf.unstack(tf.transpose(x[:, :3]), axis=0)
    y = tf.reshape(x, tf.stack([a, 2, b // 2]))
    return tf.reduce_sum(tf.tile(y, [1, tf.size(n), 1]), tf.range(1, tf.rank(y))) + first * rest[0] + tf.broadcast_to(
        1.0, tf.broadcast_dynamic_shape(n[:1], tf.constant([1])))


def identities(x, labels):
    a, b, c = tf.identity_n([x, tf.cast(labels, tf.float32), labels])
    d, e = tf.raw_ops.IdentityN(input=[a * 2.0, c])
    return tf.reduce_sum(a + d, 1) * b + tf.cast(e, tf.float32)


def parts(x, labels):
    a, b, c = tf.split(x, 3, 1)
    d, e = tf.split(x, [2, 4], 1)
    g = tf.unstack(x, axis=1)
    return a * b + c * d + tf.add_n(g[2:4])[:, None] + e[:, 1:3]


def chosen(x, labels):
    values, places = tf.nn.top_k(x, 2)
    found, where = tf.unique(labels)
    again, back, counts = tf.unique_with_counts(labels)
    left, at = v1.setdiff1d(labels, [1])
    return tf.reduce_sum(values) + tf.cast(tf.reduce_sum(places) + tf.reduce_sum(found * 2) + tf.reduce_sum(where * 3)
                                           + tf.reduce_sum(again) + tf.reduce_sum(back * counts[0]) + tf.reduce_sum(counts)
                                           + tf.reduce_sum(left) + tf.reduce_sum(at), tf.float32)


def normalized(x, labels):
    picture = tf.reshape(x, [-1, 3, 2, 1])
    scale, offset = tf.constant([1.5]), tf.constant([0.5])
    y, mean, variance, *spaces = tf.raw_ops.FusedBatchNormV3(x=picture, scale=scale, offset=offset, mean=[], variance=[])
    z, *rest = tf.raw_ops.FusedBatchNormV3(x=picture, scale=scale, offset=offset, mean=mean, variance=variance, is_training=False)
    back = tf.raw_ops.FusedBatchNormGradV3(y_backprop=picture, x=picture, scale=scale, reserve_space_1=spaces[0],
                                           reserve_space_2=spaces[1], reserve_space_3=spaces[2])
    moments = tf.nn.moments(x, 0)
    return (tf.reduce_sum(y + z + back[0]) + tf.reduce_sum(back[1] + back[2] + mean + variance)
            + tf.reduce_sum(moments[0] * moments[1]))


def decomposed(x, labels):
    square = tf.matmul(x, x, transpose_a=True) + 3.0 * tf.eye(6)
    values, vectors = tf.linalg.eigh(square)
    s, u, v = tf.linalg.svd(x)
    q, r = tf.linalg.qr(x)
    sign, log = tf.linalg.slogdet(square)
    return tf.reduce_sum(values) + tf.reduce_sum(tf.abs(vectors)) + tf.reduce_sum(s) + tf.reduce_sum(tf.abs(u)) + tf.reduce_sum(
        tf.abs(v)) + tf.reduce_sum(tf.abs(q)) + tf.reduce_sum(tf.abs(r)) + sign * log


def entropies(x, labels):
    sparse = tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=x, labels=labels)
    dense = tf.raw_ops.SoftmaxCrossEntropyWithLogits(features=x, labels=tf.one_hot(labels, 6))
    return sparse[0] * dense[0] + tf.reduce_sum(sparse[1] * dense[1], 1)


def pooled(x, labels):
    y, places = tf.nn.max_pool_with_argmax(tf.reshape(x, [-1, 3, 2, 1]), 2, 1, "VALID")
    boxes = tf.concat([x[:, :2], x[:, :2] + 1.0], 1)
    kept, count = tf.raw_ops.NonMaxSuppressionV4(boxes=boxes, scores=x[:, 2], max_output_size=3, iou_threshold=0.1,
                                                 score_threshold=-5.0, pad_to_max_output_size=True)
    return tf.reduce_sum(y) + tf.cast(tf.reduce_sum(places), tf.float32) + tf.cast(tf.reduce_sum(kept) * count, tf.float32)


def gathered(x, labels):
    low, high, *more = tf.dynamic_partition(x, labels, 3)
    stitched = tf.dynamic_stitch(tf.dynamic_partition(tf.range(5), labels, 3), [low, high, *more])
    axes = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(x), s1=tf.shape(x[:1]))
    offsets = tf.raw_ops.ConcatOffset(concat_dim=1, shape=[tf.shape(x), tf.shape(x[:, :2])])
    return stitched + tf.reduce_sum(x, axes[1], keepdims=True) + tf.slice(tf.concat([x, x[:, :2]], 1), offsets[1], [5, 2])[:, :1]


def cells(x, labels):
    weights_ = variable("w", 8, 8)
    made = tf.raw_ops.LSTMBlockCell(x=x, cs_prev=x[:, :2], h_prev=x[:, 2:4], w=weights_, wci=[0.0, 0], wcf=[0.0, 0], wco=[0.0, 0],
                                    b=[0.1] * 8)
    return tf.add_n(list(made))


def asserted(x, labels):
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(x < 100.0), [x, "too large"]),
                                  v1.assert_equal(tf.shape(x)[0], tf.shape(labels)[0], message="rows"),
                                  v1.assert_less(x, 50.0), v1.assert_rank_at_least(x, 1)]):
        return x * 2.0


def branched(x, labels):
    y = v1.cond(tf.reduce_sum(x) > 0, lambda: tf.square(x), lambda: x * 3.0)
    pair = v1.cond(labels[0] > 2, lambda: (x, labels + 1), lambda: (tf.sin(x), labels * 2))
    inner = v1.cond(labels[1] > 1, lambda: v1.cond(labels[2] > 0, lambda: x + 1.0, lambda: x - 1.0), lambda: -x)
    low, high = tf.raw_ops.Switch(data=x, pred=labels[3] > 7)
    _, number = tf.raw_ops.Merge(inputs=[low * 2.0, high * 3.0])
    return tf.reduce_sum(y + pair[0] + inner, 1) + tf.cast(pair[1] + number, tf.float32)


def by_constant(x, labels):
    training = v1.placeholder_with_default(False, [], "training")
    y = v1.cond(training, lambda: tf.nn.relu(x), lambda: x * 2.0)
    low, high = tf.raw_ops.Switch(data=x, pred=tf.constant(True))
    merged, number = tf.raw_ops.Merge(inputs=[low * 2.0, high * 3.0])
    return y + merged * tf.cast(number + 1, tf.float32)


def branched_by_function(x, labels):
    w = variable("w", 6)
    a, b = tf.cond(tf.reduce_sum(x) > 0, lambda: (tf.square(x), labels), lambda: (x * w, labels + 1))
    c, d = tf.switch_case(labels[0], [lambda: (x, w), lambda: (x + 1.0, w * 2.0), lambda: (x - 1.0, w)])
    return tf.reduce_sum(a + c * d, 1) * tf.cast(b, tf.float32)


def looped(x, labels):
    i, s, t = tf.while_loop(lambda i, *_: i < 3, lambda i, s, t: (i + 1, tf.sin(s) + t, t * 0.5), (0, x, x))
    kept = tf.scan(lambda a, row: a + row, x)
    total = tf.map_fn(lambda row: tf.reduce_sum(row), x)
    return s * t * tf.cast(i, tf.float32) + kept + total[:, None]


def listed(x, labels):
    rows = tf.TensorArray(tf.float32, 5).unstack(x)
    joined = tf.TensorArray(tf.float32, 2).write(0, tf.gather(x, [0, 1])).write(1, tf.gather(x, [2, 3]))
    return rows.gather([3, 1]) * tf.cast(rows.size(), tf.float32) + joined.concat()[:2]


def changed(x, labels):
    w, count = variable("w", 6), v1.get_variable("count", initializer=np.int32(3), trainable=False)
    added, table = v1.assign_add(count, 2), variable("table", 4, 6)
    rows = v1.scatter_add(table, labels, x)
    return x * w * tf.cast(added, tf.float32) + tf.gather(rows, labels)


def trained(x, labels):
    loss = classes(logits_of(x), labels)
    step = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.3, step, 2, 0.5)
    with tf.control_dependencies([loss]):
        update = v1.train.MomentumOptimizer(rate, 0.9).minimize(loss, step)
    with tf.control_dependencies([update]):
        return loss + tf.add_n([tf.nn.l2_loss(tf.identity(each)) for each in v1.trainable_variables()])


def concatenated(x, labels):
    y = tf.concat([x, tf.sin(x[:, :2]), x[:, 3:] * x[:, :3]], 1)
    return tf.gradients(tf.reduce_sum(tf.square(y)), x)[0]


def sparse(x, labels):
    some = tf.sparse.from_dense(tf.nn.relu(x))
    filled, empty = tf.sparse.fill_empty_rows(some, 2.0)
    ordered = tf.sparse.reorder(tf.SparseTensor(filled.indices[::-1], filled.values[::-1], filled.dense_shape))
    return tf.sparse.sparse_dense_matmul(ordered, tf.ones([6, 2])) + tf.cast(empty, tf.float32)[:, None]


GRAPHS = (sizes, joined_sizes, identities, parts, chosen, normalized, decomposed, entropies, pooled, gathered, cells, asserted,
          branched, by_constant, branched_by_function, looped, listed, changed, trained, concatenated, sparse)


def is_number(tensor):
    """Not what is in a loop or a branch, nor the flow of a TensorArray, which stands for its elements, nor vectors of any
    sign, nor what TensorFlow's batch normalization leaves without a value."""
    op, index = tensor.op.type, tensor.value_index
    if op in ("Enter", "Switch") or op in ("SelfAdjointEigV2", "Svd") and index > 0:
        return False
    if op == "FusedBatchNormV3" and index >= (5 if tensor.op.get_attr("is_training") else 3):
        return False
    if op.startswith("TensorArray") and tensor.shape == [] and tensor.dtype == tf.float32 or op == "Exit" and any(
            each.type.startswith("TensorArray") for each in tensor.consumers()):
        return False
    return not tensor.dtype._is_ref_dtype and (tensor.dtype.is_floating or tensor.dtype in (tf.int32, tf.int64, tf.bool))


def changed_value(value):
    if value.dtype == np.bool_:
        return ~value
    return value + (np.asarray(0.25, value.dtype) if value.dtype.kind == "f" else np.asarray(1, value.dtype))


def write(folder):
    for make in GRAPHS:
        for style in ("resource", "reference"):
            for form in ("frames", "functions"):
                (v1.disable_control_flow_v2 if form == "frames" else v1.enable_control_flow_v2)()
                write_graph(folder, f"{make.__name__}, {style}, {form}", make, style == "resource")
    v1.enable_control_flow_v2()


def write_graph(folder, name, make, use_resource):
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=use_resource):
        x, labels = v1.placeholder(tf.float32, [None, 6], "x"), v1.placeholder(tf.int32, [None], "labels")
        result = tf.identity(make(x, labels), "result")
        start = tf.group(v1.global_variables_initializer(), name="start").name
    steps, feeds = Steps(), {"x:0": X, "labels:0": LABELS}
    for key, value in feeds.items():
        steps.add("feed", key, value)
    values = {}
    with v1.Session(graph=graph) as session:
        def run(tensor, given):
            session.run(start)
            try:
                return session.run(tensor, given)
            except (tf.errors.OpError, ValueError):  # a branch that is not taken, a value that does not fit
                return None
        steps.add("run", start)
        steps.add("fetch", result.name, run(result, feeds))
        steps.add("once", "")
        for tensor in (each for op in graph.get_operations() for each in op.outputs):
            if graph.is_fetchable(tensor) and is_number(tensor):
                value = run(tensor, feeds)
                if value is not None:
                    values[tensor.name] = value
                    steps.add("run", start)
                    steps.add("fetch", tensor.name, value)
        for key, value in values.items():
            tensor = graph.get_tensor_by_name(key)
            # TensorFlow reads a reference when it likes, and its loops do not notice what their results are fed.
            is_read = not use_resource and key.endswith("/read:0") or tensor.op.type.endswith("While")
            counts = any(each.type in ("Enter", "StatelessWhile") for each in tensor.consumers()) and tensor.dtype == tf.int32
            if key in feeds or is_read or counts or not graph.is_feedable(tensor):
                continue
            for given in (value, changed_value(np.asarray(value))):
                found = run(result, {**feeds, key: given})
                if found is None:
                    continue
                steps.add("run", start)
                steps.add("feed", key, given)
                steps.add("fetch", result.name, found)
                steps.add("unfeed", key)
    (folder / f"{name}.pb").write_bytes(write_golden.bytes_of(graph.as_graph_def()))
    steps.save(folder / f"{name}.steps.pb")
