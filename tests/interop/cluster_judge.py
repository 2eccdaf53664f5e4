"""Clusters of TensorFlow's and Tapestry's servers train what a session of TensorFlow's trains in its own process.

usage: cluster_judge.py TAPESTRY_SERVER

A cluster has a parameter server and a worker, of which either is a program tapestry-server or a server of TensorFlow's,
and the client is TensorFlow's. Prints a line for each training, then 'N passed, N failed'."""

import os
import socket
import subprocess
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_eager_execution()

OPTIMIZERS = {
    "sgd": lambda: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: v1.train.MomentumOptimizer(0.05, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.01),
}
# The makers of the parameter server and of the worker, and which of them is the master.
ROLES = [
    ("Tapestry", "Tapestry", "worker"),
    ("Tapestry", "TensorFlow", "worker"),
    ("Tapestry", "TensorFlow", "ps"),
    ("TensorFlow", "Tapestry", "ps"),
    ("TensorFlow", "Tapestry", "worker"),
]


def data(*shape):
    """The same numbers in each run."""
    return np.random.RandomState(len(shape) + sum(shape)).randn(*shape).astype(np.float32)


def mlp(weights):
    x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 2])
    h = tf.nn.relu(tf.matmul(x, weights("w1", 4, 8)) + weights("b1", 8))
    return tf.reduce_mean(tf.square(tf.matmul(h, weights("w2", 8, 2)) - y)), {x: data(16, 4), y: data(16, 2)}


def cnn(weights):
    x = v1.placeholder(tf.float32, [None, 8, 8, 1])
    h = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weights("k", 3, 3, 1, 4), 1, "SAME"), weights("b", 4)))
    h = tf.reshape(tf.nn.max_pool2d(h, 2, 2, "VALID"), [-1, 64])
    return tf.reduce_mean(tf.square(tf.nn.relu(tf.matmul(h, weights("w", 64, 3)) + weights("c", 3)))), {x: data(4, 8, 8, 1)}


def train(target, model, optimizer, resource, synchronous=False):
    """The losses, the number of steps, and the Variables. A synchronous training has one worker, which is the chief."""
    with tf.Graph().as_default():
        placed = v1.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0") if target else None
        with v1.device(placed):
            loss, feeds = model(lambda name, *shape: v1.get_variable(name, initializer=data(*shape) * 0.3, use_resource=resource))
            with v1.variable_scope("", use_resource=resource):
                count = v1.train.get_or_create_global_step()
            opt = v1.train.SyncReplicasOptimizer(optimizer(), 1) if synchronous else optimizer()
            step = opt.minimize(loss, count)
        init = v1.global_variables_initializer()
        with v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=60_000)) as session:
            session.run(init)
            if synchronous:
                # Without tokens at the start each step waits for its own update; with one it may compute on older Variables.
                session.run([opt.chief_init_op, opt.get_init_tokens_op(0)])
                coordinator = tf.train.Coordinator()
                opt.get_chief_queue_runner().create_threads(session, coordinator, daemon=True, start=True)
            return ([session.run([loss, step], feeds)[0] for _ in range(4)] + [session.run(count)] +
                    [session.run(each) for each in v1.trainable_variables()])


def free_addresses(count):
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


class Cluster:
    def __init__(self, program, makers):
        addresses = free_addresses(2)
        jobs = {"ps": addresses[:1], "worker": addresses[1:]}
        text = ";".join(f"{job}={tasks[0]}" for job, tasks in jobs.items())
        self.processes, self.targets, self.servers = [], {}, []
        for job, maker in makers.items():
            if maker == "Tapestry":
                process = subprocess.Popen([program, "--cluster", text, "--job", job, "--task", "0"],
                                           stdout=subprocess.PIPE, text=True)
                self.processes.append(process)
                self.targets[job] = process.stdout.readline().strip()
            else:
                server = tf.distribute.Server(tf.train.ClusterSpec(jobs), job_name=job, task_index=0)
                self.servers.append(server)
                self.targets[job] = server.target

    def end(self):
        for each in self.processes:
            each.terminate()


def problem_of(target, *training, synchronous=False):
    try:
        found, expected = train(target, *training, synchronous), train("", *training)
    except Exception as error:  # pylint: disable=broad-except
        return f"{type(error).__name__}: {error}"
    same = all(np.allclose(a, b, rtol=2e-4, atol=1e-5) for a, b in zip(found, expected))
    return None if same and len(found) == len(expected) else f"{found} instead of {expected}"


def main():
    passed = failed = 0
    for ps, worker, master in ROLES:
        cluster = Cluster(sys.argv[1], {"ps": ps, "worker": worker})
        for model in (mlp, cnn):
            for name, optimizer in OPTIMIZERS.items():
                for resource in (True, False):
                    problem = problem_of(cluster.targets[master], model, optimizer, resource)
                    passed, failed = passed + (problem is None), failed + (problem is not None)
                    title = (f"ps {ps}, worker {worker}, master {master}: {model.__name__} {name} "
                             f"{'resource' if resource else 'reference'} Variables")
                    print(f"ok {title}" if problem is None else f"FAILED {title}: {problem}", flush=True)
        for name, optimizer in OPTIMIZERS.items():
            problem = problem_of(cluster.targets[master], mlp, optimizer, True, synchronous=True)
            passed, failed = passed + (problem is None), failed + (problem is not None)
            title = f"ps {ps}, worker {worker}, master {master}: mlp {name} with SyncReplicasOptimizer"
            print(f"ok {title}" if problem is None else f"FAILED {title}: {problem}", flush=True)
        cluster.end()
    print(f"{passed} passed, {failed} failed", flush=True)
    os._exit(0)  # TensorFlow's servers do not end by themselves


main()
