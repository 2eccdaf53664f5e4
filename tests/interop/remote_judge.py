"""TensorFlow's own sessions run programs on a Tapestry server, and Tapestry's sessions on a TensorFlow server.

usage: remote_judge.py TAPESTRY_SERVER REMOTE_CASES [PROGRAM]...

TAPESTRY_SERVER is the program tapestry-server; REMOTE_CASES the tests that take targets of servers from the environment.
Prints a line for each program (all, or those that are named), then 'N passed, N failed'. A program builds a graph and
yields what its session computes; a session in this process is the judge."""

import os
import socket
import subprocess
import sys
import time
import traceback

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def data(*shape):
    """The same numbers in each run."""
    return np.random.RandomState(len(shape) + sum(shape)).randn(*shape).astype(np.float32)


def weights(name, *shape, resource=True):
    return v1.get_variable(name, initializer=data(*shape) * 0.3, use_resource=resource)


def mlp(resource=True):
    x, y = v1.placeholder(tf.float32, [None, 4], "x"), v1.placeholder(tf.float32, [None, 2], "y")
    h = tf.tanh(tf.matmul(x, weights("w1", 4, 8, resource=resource)) + weights("b1", 8, resource=resource))
    return x, y, tf.reduce_mean(tf.square(tf.matmul(h, weights("w2", 8, 2, resource=resource)) - y), name="loss")


def train(session, step, loss, x, y, init=None, more=None, steps=5):
    session.run(v1.global_variables_initializer() if init is None else init)
    for i in range(steps):
        feeds = {x: data(16, 4) + i, y: data(16, 2)}
        feeds.update(more(i) if more else {})
        yield session.run([loss, step], feeds)[0]
    for each in v1.global_variables():
        yield session.run(each)


def optimized(optimizer, resource=True):
    def run(connect):
        x, y, loss = mlp(resource)
        step, init = optimizer().minimize(loss), v1.global_variables_initializer()
        with connect() as session:
            yield from train(session, step, loss, x, y, init)
    return run


PROGRAMS["adam"] = optimized(lambda: v1.train.AdamOptimizer(0.01))
PROGRAMS["adam_reference"] = optimized(lambda: v1.train.AdamOptimizer(0.01), False)
PROGRAMS["sgd"] = optimized(lambda: v1.train.GradientDescentOptimizer(0.1))
PROGRAMS["sgd_reference"] = optimized(lambda: v1.train.GradientDescentOptimizer(0.1), False)
PROGRAMS["momentum_nesterov"] = optimized(lambda: v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True))
PROGRAMS["rmsprop"] = optimized(lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5))
PROGRAMS["adagrad"] = optimized(lambda: v1.train.AdagradOptimizer(0.1))


@program
def clipped(connect):
    x, y, loss = mlp()
    optimizer = v1.train.GradientDescentOptimizer(0.5)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 0.5)
    step, init = optimizer.apply_gradients(zip(gradients, variables)), v1.global_variables_initializer()
    with connect() as session:
        yield from train(session, step, norm, x, y, init)


@program
def rate_fed(connect):
    x, y, loss = mlp()
    rate = v1.placeholder(tf.float32, [])
    step, init = v1.train.AdamOptimizer(rate).minimize(loss), v1.global_variables_initializer()
    with connect() as session:
        yield from train(session, step, loss, x, y, init, lambda i: {rate: 0.1 / (i + 1)})


@program
def rate_decays(connect):
    x, y, loss = mlp()
    count = v1.train.get_or_create_global_step()
    rate = v1.train.exponential_decay(0.1, count, 2, 0.5, staircase=True)
    step = v1.train.GradientDescentOptimizer(rate).minimize(loss, count)
    init = v1.global_variables_initializer()
    with connect() as session:
        yield from train(session, step, loss, x, y, init)
        yield session.run([count, rate])


@program
def one_hot_accuracy(connect):
    labels, logits = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.float32, [None, 5])
    loss = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot(labels, 5), logits=logits)
    right = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    with connect() as session:
        yield from session.run([loss, accuracy, right], {labels: [0, 1, 2, 3], logits: data(4, 5)})


@program
def cnn(connect):
    x = v1.placeholder(tf.float32, [None, 8, 8, 1])
    h = tf.nn.relu(tf.nn.conv2d(x, weights("k", 3, 3, 1, 4), 1, "SAME") + weights("b", 4))
    h = tf.nn.max_pool2d(h, 2, 2, "VALID")
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.reshape(h, [-1, 64]), weights("w", 64, 3))))
    step, init = v1.train.AdamOptimizer(0.01).minimize(loss), v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        for _ in range(3):
            yield session.run([loss, step], {x: data(4, 8, 8, 1)})[0]


@program
def batch_norm(connect):
    x = v1.placeholder(tf.float32, [None, 4, 4, 3])
    scale, offset = weights("scale", 3), weights("offset", 3)
    y, mean, variance = v1.nn.fused_batch_norm(x, scale, offset)[:3]
    loss = tf.reduce_sum(tf.square(y) * data(4, 3))
    gradients = tf.gradients(loss, [x, scale, offset])
    init = v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        yield from session.run([y, mean, variance, *gradients], {x: data(5, 4, 4, 3)})


@program
def embedding(connect):
    ids = v1.placeholder(tf.int32, [None])
    table = weights("table", 7, 3)
    loss = tf.reduce_sum(tf.square(tf.nn.embedding_lookup(table, ids)))
    step, init = v1.train.GradientDescentOptimizer(0.1).minimize(loss), v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        for _ in range(3):
            yield session.run([loss, step], {ids: [1, 3, 1]})[0]
        yield session.run(table)


@program
def fixed_initializers(connect):
    a = v1.get_variable("a", [2, 3], initializer=v1.zeros_initializer())
    b = v1.get_variable("b", [4], initializer=v1.ones_initializer())
    init = v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        yield from session.run([a, b])


@program
def random_initializers(connect):
    """Their mean and deviation alone: the numbers are others."""
    a = v1.get_variable("a", [200, 200], initializer=v1.random_normal_initializer(stddev=2.0))
    b = v1.get_variable("b", [200, 200], initializer=v1.glorot_uniform_initializer())
    init = v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        for each in session.run([a, b]):
            yield np.round(each.mean() / each.std(), 1) + 0.0, np.round(each.std(), 1)


@program
def dropout(connect):
    x = tf.ones([100, 100])
    y = tf.nn.dropout(x, rate=0.5)
    with connect() as session:
        value = session.run(y)
        yield sorted(set(value.ravel().tolist())), np.round(value.mean(), 1)


@program
def assign_add(connect):
    for resource in (True, False):
        v = v1.get_variable(f"v{resource}", initializer=3.0, use_resource=resource)
        add = v1.assign_add(v, 2.0)
        with connect() as session:
            session.run(v.initializer)
            yield session.run(add), session.run(add), session.run(v)


@program
def control_dependencies(connect):
    v = v1.get_variable("v", initializer=1.0)
    with tf.control_dependencies([v.assign(5.0)]):
        y = v.read_value() * 2.0
    with connect() as session:
        session.run(v.initializer)
        yield session.run(y), session.run(v)


@program
def array_ops(connect):
    x = v1.placeholder(tf.float32, [None, 6])
    parts = tf.split(x, 3, axis=1)
    y = tf.concat([parts[2], tf.transpose(tf.pad(x[:2, 1:3], [[0, 1], [0, 0]]))[:, :3]], axis=0) if False else parts[2]
    z = tf.pad(tf.transpose(tf.concat([parts[0], y], 1))[1:3, ::2], [[1, 0], [0, 2]])
    with connect() as session:
        yield from session.run([y, z, tf.shape(x) if False else z], {x: data(4, 6)})


@program
def keras_layers(connect):
    x = v1.placeholder(tf.float32, [None, 4])
    y = tf.keras.layers.Dense(3, "relu", kernel_initializer="ones")(x)
    y = tf.keras.layers.Dense(2, kernel_initializer="ones")(y)
    init = v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        yield session.run(y, {x: data(5, 4)})


@program
def partial_run(connect):
    a, b = v1.placeholder(tf.float32, []), v1.placeholder(tf.float32, [])
    first = a + 1.0
    second = first * b
    with connect() as session:
        handle = session.partial_run_setup([first, second], [a, b])
        yield session.partial_run(handle, first, {a: 2.0})
        yield session.partial_run(handle, second, {b: 10.0})


@program
def linear_algebra(connect):
    x = data(4, 4)
    x = tf.constant(x @ x.T + 4 * np.eye(4, dtype=np.float32))
    results = [tf.linalg.cholesky(x), tf.linalg.inv(x), tf.einsum("ij,kj->ik", x, x)]
    with connect() as session:
        yield from session.run(results)


@program
def integers(connect):
    a, b = v1.placeholder(tf.int32, [None]), v1.placeholder(tf.int64, [None])
    results = [a // 3, a % 3, tf.cast(a, tf.int64) * b, tf.cumsum(b), tf.bitwise.bitwise_and(a, 6)]
    with connect() as session:
        yield from session.run(results, {a: [-7, 7, 12], b: [1, 2, 3]})


@program
def top_k(connect):
    x = v1.placeholder(tf.float32, [None, 6])
    values, indices = tf.nn.top_k(x, 3)
    with connect() as session:
        yield from session.run([values, indices, tf.nn.softmax(x)] if False else [values, indices], {x: data(3, 6)})


@program
def while_loop(connect):
    n = v1.placeholder(tf.int32, [])
    _, total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s * 1.5 + tf.cast(i, tf.float32)),
                             [tf.constant(0), tf.constant(1.0)])
    with connect() as session:
        yield session.run(total, {n: 4}), session.run(total, {n: 9})


@program
def while_gradient(connect):
    x = v1.placeholder(tf.float32, [])
    _, y = tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s * x), [tf.constant(0), tf.constant(1.0)])
    slope, = tf.gradients(y, x)
    with connect() as session:
        yield session.run([y, slope], {x: 1.5})


@program
def cond(connect):
    x = v1.placeholder(tf.float32, [])
    y = tf.cond(x > 0, lambda: x * 2.0, lambda: -x + 1.0)
    with connect() as session:
        yield session.run(y, {x: 3.0}), session.run(y, {x: -3.0})


@program
def frames(connect):
    """TensorFlow 1's own branches and loops."""
    v1.disable_control_flow_v2()
    try:
        yield from while_loop(connect)
        yield from cond(connect)
    finally:
        v1.enable_control_flow_v2()


@program
def unused_op(connect):
    x = v1.placeholder(tf.float32, [])
    y = x * 2.0
    tf.raw_ops.StringLower(input="A")
    with connect() as session:
        yield session.run(y, {x: 2.0})


@program
def fetched_attribute(connect):
    axis = tf.constant(1, name="axis")
    x = v1.placeholder(tf.float32, [2, 3])
    y = tf.reduce_sum(x, axis)
    with connect() as session:
        yield from session.run([y, axis], {x: data(2, 3)})
        yield session.run(y, {x: data(2, 3), axis: 0})


@program
def fed_shape(connect):
    n = v1.placeholder(tf.int32, [2])
    y = tf.reshape(tf.range(6.0), n)
    with connect() as session:
        yield session.run(y, {n: [2, 3]})
        yield session.run(y, {n: [3, 2]})


@program
def extended(connect):
    with connect() as session:
        a = tf.constant(2.0)
        yield session.run(a)
        b = a * 3.0
        yield session.run(b)
        v = v1.get_variable("v", initializer=b + 1.0)
        session.run(v.initializer)
        yield session.run(v)


@program
def callables(connect):
    x = v1.placeholder(tf.float32, [])
    y = x * x
    with connect() as session:
        f = session.make_callable(y, [x])
        yield f(2.0), f(3.0)
        options = v1_callable_options(x, y)
        g = session._make_callable_from_options(options)
        yield g(np.float32(4.0))[0]


def v1_callable_options(x, y):
    from tensorflow.core.protobuf import config_pb2
    return config_pb2.CallableOptions(feed=[x.name], fetch=[y.name])


@program
def shared_variables(connect):
    v = v1.get_variable("shared", initializer=1.0)
    add = v.assign_add(1.0)
    with connect() as first, connect() as second:
        first.run(v.initializer)
        second.run(v.initializer if connect.is_local else add)
        if connect.is_local:
            second.run(add), first.run(add)
        yield second.run(v)
        if not connect.is_local:
            yield first.run(v)
        else:
            yield first.run(v)


@program
def reported_uninitialized(connect):
    v = v1.get_variable("v", initializer=1.0)
    ready = v1.is_variable_initialized(v)
    with connect() as session:
        yield session.run(ready)
        session.run(v.initializer)
        yield session.run(ready)


@program
def metadata(connect):
    x = v1.placeholder(tf.float32, [2])
    y = tf.square(x, name="squared")
    with connect() as session:
        stats = v1.RunMetadata()
        yield session.run(y, {x: [1.0, 2.0]}, options=v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), run_metadata=stats)
        yield len(stats.step_stats.dev_stats) > 0


@program
def devices(connect):
    with connect() as session:
        yield [(each.device_type, each.memory_limit_bytes > 0) for each in session.list_devices()
               if each.device_type == "CPU"]


@program
def types(connect):
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64, tf.uint8, tf.bool):
        x = v1.placeholder(dtype, [None, 2])
        y = tf.concat([x, x], 0)
        with connect() as session:
            yield session.run(y, {x: np.asarray([[1, 0]]).astype(dtype.as_numpy_dtype)}).astype(np.float64)


@program
def large(connect):
    x = v1.placeholder(tf.float32, [None])
    y = x + 1.0
    with connect() as session:
        yield session.run(y, {x: np.arange(10_000_000, dtype=np.float32)})[::1000]


def fails(session, fetch, feeds=None):
    """The class of the error, and whether its text has the line of this program."""
    try:
        session.run(fetch, feeds)
        return "none", False
    except tf.errors.OpError as error:
        return type(error).__name__, "remote_judge.py" in str(error.message)


@program
def errors(connect):
    x = v1.placeholder(tf.float32, [None], "x")
    v = v1.get_variable("v", initializer=1.0)
    bad = tf.reshape(x, [7], name="bad")
    with connect() as session:
        yield fails(session, x * 2.0)
        yield fails(session, bad, {x: [1.0, 2.0]})
        yield fails(session, v)
        yield fails(session, tf.cast(x[:1], tf.int32) // 0 if False else bad, {x: [1.0]})


@program
def monitored_errors(connect):
    """Sessions that are closed, and one that the server no longer knows."""
    a = tf.constant(1.0)
    with connect() as session:
        yield session.run(a)
    try:
        session.run(a)
        yield "no error"
    except RuntimeError as error:
        yield str(error)


@program
def summaries(connect):
    summary = v1.summary.scalar("loss", tf.constant(2.0))
    with connect() as session:
        yield v1.Summary.FromString(session.run(summary)).value[0].simple_value


@program
def saver(connect):
    v = v1.get_variable("v", initializer=data(3))
    keep = v1.train.Saver()
    init = v1.global_variables_initializer()
    with connect() as session:
        session.run(init)
        path = keep.save(session, f"/tmp/remote_judge_{os.getpid()}/model")
        session.run(v.assign([0.0, 0.0, 0.0]))
        keep.restore(session, path)
        yield session.run(v)


@program
def monitored_session(connect):
    x, y, loss = mlp()
    count = v1.train.get_or_create_global_step()
    step = v1.train.GradientDescentOptimizer(0.1).minimize(loss, count)
    with v1.train.MonitoredTrainingSession(master=connect.target, hooks=[]) as session:
        for _ in range(3):
            yield session.run([loss, step], {x: data(16, 4), y: data(16, 2)})[0]


@program
def dataset(connect):
    values = v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    with connect() as session:
        yield [session.run(values) for _ in range(3)]


# What the server cannot do, in the words of its error. A program that leaves this list cannot come back.
LACKS = {"summaries", "saver", "monitored_session", "dataset"}


class Connect:
    def __init__(self, target):
        self.target = target
        self.is_local = target == ""

    def __call__(self):
        return v1.Session(self.target, config=v1.ConfigProto(
            operation_timeout_in_ms=0 if self.is_local else 60_000,
            # What TensorFlow's optimizer folds has no line of its own in errors.
            graph_options=v1.GraphOptions(rewrite_options=None)))


def results(function, target):
    with tf.Graph().as_default():
        if target:
            v1.Session.reset(target)
        return list(function(Connect(target)))


def difference(found, expected):
    """What is wrong, or None."""
    if isinstance(expected, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(expected):
            return f"{found} instead of {expected}"
        return next((problem for each in zip(found, expected) if (problem := difference(*each))), None)
    if isinstance(expected, str):
        return None if found == expected else f"{found} instead of {expected}"
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if not np.allclose(found.astype(np.float64), expected.astype(np.float64), rtol=2e-4, atol=1e-5):
        return f"{found.ravel()[:5]} instead of {expected.ravel()[:5]}"
    return None


def judge(name, target):
    expected = results(PROGRAMS[name], "")
    try:
        return difference(results(PROGRAMS[name], target), expected)
    except Exception as error:  # pylint: disable=broad-except
        if os.environ.get("REMOTE_TRACE"):
            traceback.print_exc()
        return f"{type(error).__name__}: {str(error).splitlines()[0]} {' '.join(str(error).splitlines()[1:3])}"


def targets():
    """What tells the cases a server of TensorFlow's, and a cluster of two."""
    alone = tf.distribute.Server.create_local_server()
    yield {"REMOTE_TARGET": alone.target}
    sockets = [socket.create_server(("localhost", 0)) for _ in range(2)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    cluster = tf.train.ClusterSpec({"ps": addresses[:1], "worker": addresses[1:]})
    tasks = [tf.distribute.Server(cluster, job_name=job, task_index=0) for job in ("ps", "worker")]
    yield {"REMOTE_TARGET": tasks[1].target, "REMOTE_CLUSTER": "1"}


def main():
    server_program, cases, *names = sys.argv[1:]
    passed = failed = 0
    server = subprocess.Popen([server_program], stdout=subprocess.PIPE, text=True)
    try:
        target = server.stdout.readline().strip()
        for name in names or PROGRAMS:
            begin = time.time()
            problem = judge(name, target)
            good = (problem is not None) == (name in LACKS)
            passed, failed = passed + good, failed + (not good)
            print(f"{'ok' if good else 'FAILED'} {name} ({time.time() - begin:.1f} s)"
                  f"{': ' + problem if problem else ''}", flush=True)
    finally:
        server.terminate()
        server.wait()
    for environment in [] if names else targets():
        good = subprocess.run([cases], env={**os.environ, **environment}, check=False).returncode == 0
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed")


if __name__ == "__main__":
    main()
