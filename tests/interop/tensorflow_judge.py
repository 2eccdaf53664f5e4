"""Runs graphs of ours in TensorFlow and compares.

usage: tensorflow_judge.py FOLDER

For each x.pb in the folder there is x.judge.pb, a GraphDef whose nodes are the steps to make: feed, run, fetch,
gradient, variable, distribution (see judgement.hpp). Prints a line for each graph that fails and a table for the kinds of graphs."""

import collections
import pathlib
import sys

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
# In half types a formula of several ops may be off by some of the last bits of 1.
TOLERANCE = {np.dtype(np.float16): 8 * 2**-10, np.dtype(tf.bfloat16.as_numpy_dtype): 8 * 2**-7,
             np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-12}
# A Variable gathers the rounding of several steps.
VARIABLE_FACTOR = 10
# What TensorFlow itself cannot do on a processor: the beginning of the title, and a part of what it says.
LIMITS = {
    "broadcast of eight dimensions": "is not supported yet",
    "conv2d, SAME, strides, dilations": "do not yet support dilation rates larger than 1",
    # Which of its gradients says no first, and in which words, depends on the threads.
    "conv2d in groups": "Conv2DBackprop",
    "conv2d_transpose (": "do not yet support dilation rates larger than 1",
    "conv2d_transpose in groups": "Gradients for grouped convolutions are not supported",
    "conv3d, strides": "Gradients for grouped convolutions are not supported",
    "pinv, of full rank (unknown batch size)": "SVD gradient has not been implemented",
    "svd, multiplied back (unknown batch size)": "SVD gradient has not been implemented",
    "singular values (unknown batch size)": "SVD gradient has not been implemented",
}
for row in ("qr of [3,3], multiplied back", "q of [3,3]", "r of [3,3]"):
    LIMITS[f"{row} (unknown batch size)"] = "QrGrad not implemented with dynamic shapes"
# What it has no kernels for in half types, and what its definitions do not have in bfloat16.
DECOMPOSED = ("svd, multiplied back", "singular values", "det", "slogdet", "slogdet's sign", "eigh, multiplied back", "eigenvalues",
              "eigenvectors", *(f"{part} of {shape}{end}" for shape in ("[2,4,3]", "[3,3]", "[2,3,5]")
                                for part, end in (("qr", ", multiplied back"), ("q", ""), ("r", ""))))
TRIANGULAR = [f"triangular_solve{upper}{adjoint}{end}" for upper in ("", ", upper") for adjoint in ("", ", adjoint")
              for end in ("", ", multiplied back")]
for row in ("round", *TRIANGULAR, *DECOMPOSED):
    LIMITS |= {f"{row} ({dtype})": "No OpKernel was registered" for dtype in ("float16", "bfloat16")}
for row in DECOMPOSED:
    LIMITS[f"{row} (bfloat16)"] = "Value for attr 'T' of bfloat16 is not in the list of allowed values"
Step = collections.namedtuple("Step", "kind target by value")


def read_graph(path):
    graph = v1.GraphDef()
    graph.ParseFromString(path.read_bytes())
    return graph


def read_steps(path):
    for node in read_graph(path).node:
        value = tf.make_ndarray(node.attr["value"].tensor) if "value" in node.attr else None
        yield Step(node.op, node.attr["target"].s.decode(), node.attr["by"].s.decode(), value)


def difference(found, expected, tolerance):
    """Why two arrays are not the same, or None. Numbers may differ by a part of the largest one of the array, or of 1."""
    found = np.asarray(found)
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype not in TOLERANCE:
        return None if np.array_equal(found, expected) else f"{found} instead of {expected}"
    if expected.size == 0:
        return None
    if expected.dtype.itemsize == 2:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    if not np.array_equal(np.isfinite(found), np.isfinite(expected)):
        return f"{found} instead of {expected}"
    scale = max(1.0, np.max(np.abs(expected), initial=0, where=np.isfinite(expected)))
    error = np.max(np.abs(found - expected), initial=0, where=np.isfinite(expected)) / scale
    return None if error <= tolerance else f"differs by {error:.2g}"


def judge_all(folder, problems):
    """Prints what is wrong with each x.judge.pb of a folder, by `problems(path)`. Returns how many passed, and failed."""
    passed = failed = 0
    for path in sorted(pathlib.Path(folder).glob("*.judge.pb")):
        try:
            wrong = list(problems(path))
        except Exception as error:  # whatever the other program says is a verdict
            wrong = [str(error)]
        for problem in wrong:
            print(f"{path.name}: {problem}")
        failed += bool(wrong)
        passed += not wrong
    return passed, failed


def judge_folder(problems):
    """The main program of a judge: judges the folder that the command line names."""
    passed, failed = judge_all(sys.argv[1], problems)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


class Judge:
    """TensorFlow with one graph of ours."""

    def __init__(self, graph_def):
        self.graph = tf.Graph()
        with self.graph.as_default():
            tf.import_graph_def(graph_def, name="")
        self.session = None
        self.feeds = {}
        self.reads = {}

    def compute(self, tensors):
        # The gradient of a loop changes the loop, which is not possible once there is a session.
        self.session = self.session or v1.Session(graph=self.graph)
        return self.session.run(tensors, self.feeds)

    def feed(self, step):
        # A placeholder that nothing needs was left out.
        if step.target.split(":")[0] in {op.name for op in self.graph.get_operations()}:
            self.feeds[step.target] = step.value

    def add_gradient(self, step):
        with self.graph.as_default():
            y, x = self.graph.get_tensor_by_name(step.target), self.graph.get_tensor_by_name(step.by)
            found = tf.gradients(y, x)[0]
            return tf.zeros_like(x) if found is None else tf.convert_to_tensor(found)

    def variable(self, step):
        if step.target not in self.reads:
            handle = self.graph.get_tensor_by_name(step.target + ":0")
            with self.graph.as_default():
                if handle.dtype == tf.resource:
                    dtype = step.by or step.value.dtype
                    handle = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
                else:
                    handle = tf.identity(handle)
            self.reads[step.target] = handle
        return self.compute(self.reads[step.target])


def is_distributed(numbers, expected):
    """Why the numbers do not have this mean, deviation, and bounds, or None. They are drawn: 6 standard errors may be
    between the mean and theirs, and the deviation and theirs."""
    numbers, (mean, deviation, least, most) = np.asarray(numbers, np.float64).ravel(), expected
    error = deviation / np.sqrt(numbers.size)
    good = (abs(numbers.mean() - mean) <= 6 * error and abs(numbers.std() - deviation) <= 6 * error and
            numbers.min() >= least and numbers.max() <= most and np.unique(numbers).size > 1)
    return None if good else (f"mean {numbers.mean()}, deviation {numbers.std()}, from {numbers.min()} to "
                              f"{numbers.max()} instead of {expected}")


def judge(title, steps, graph_def):
    """Makes the steps; yields what is wrong."""
    judge = Judge(graph_def)
    tolerance = max(TOLERANCE.get(step.value.dtype, 0) for step in steps if step.value is not None)
    if title.startswith("pinv"):  # cubes of what two iterations for singular values round differently
        tolerance *= 4
    fetches = [step for step in steps if step.kind == "fetch"]
    gradients = iter([judge.add_gradient(step) for step in steps if step.kind == "gradient"])
    for step in steps:
        if step.kind == "feed":
            judge.feed(step)
        elif step.kind == "run":
            judge.compute(judge.graph.get_operation_by_name(step.target))
        elif step.kind == "fetch":
            # All at once: they may depend on the same random numbers.
            if step is fetches[0]:
                for each, found in zip(fetches, judge.compute([each.target for each in fetches])):
                    yield each, difference(found, each.value, tolerance)
        elif step.kind == "gradient":
            yield step, difference(judge.compute(next(gradients)), step.value, tolerance)
        elif step.kind == "distribution":
            yield step, is_distributed(judge.variable(step), step.value)
        else:
            yield step, difference(judge.variable(step), step.value, VARIABLE_FACTOR * tolerance)


def verdict(path):
    """The title of a model, the kinds of its steps, and what is wrong with them; None where TensorFlow gives up."""
    title, *steps = read_steps(path)
    try:
        model = path.with_name(path.name.replace(".judge.pb", ".pb"))
        results = list(judge(title.target, steps, read_graph(model)))
    except Exception as error:  # whatever TensorFlow says is a verdict
        text = str(error).strip()
        beyond = any(title.target.startswith(name) and part in text for name, part in LIMITS.items())
        return title.target, [], None if beyond else [text]
    wrong = [f"{step.kind} {step.target} {step.by}: {problem}" for step, problem in results if problem]
    return title.target, [step.kind for step, _ in results], wrong


def main(folder):
    failed = beyond = 0
    table = collections.Counter()
    for path in sorted(pathlib.Path(folder).glob("*.judge.pb")):
        title, kinds, wrong = verdict(path)
        table.update(["graph", *kinds])
        beyond += wrong is None
        failed += bool(wrong)
        for problem in (wrong or [])[:3]:
            print(f"{title}: {problem}")
    print("TensorFlow", tf.__version__, "compared", ", ".join(f"{n} {kind}s" for kind, n in sorted(table.items())))
    print(f"{table['graph'] - failed - beyond} passed, {failed} failed, {beyond} beyond TensorFlow's kernels")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) != 0)
