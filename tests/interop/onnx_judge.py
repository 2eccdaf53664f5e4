"""Checks ONNX models of ours with onnx's checker, runs them in onnxruntime and compares.

usage: onnx_judge.py FOLDER

For each x.judge.pb in the folder (see judgement.hpp) there is x.onnx. The targets of its steps are the names of the
model's inputs and outputs. What onnxruntime has not got for a type, ONNX's own evaluator computes."""

import re
import sys

import numpy as np
import onnx
import onnx.reference
import onnxruntime

from tensorflow_judge import TOLERANCE, difference, judge_all, read_steps

TOLERANCE = TOLERANCE | {np.dtype(np.float32): 1e-5}
# What onnxruntime says where it lacks something, and by what to list that.
LACKS = (
    "NOT_IMPLEMENTED.*implementation for ([^ ]+)",
    "MLFloat16 data type is not supported with ([^ ]+)",
    "(Numpy_type [0-9]+) can't be converted",  # bfloat16, which its Python interface does not take
)


def beyond_the_evaluator(node):
    """It knows nothing of a transposed convolution in groups and of a Scan that goes backward, compares the wrong sizes
    where an axis is negative, and finds no maximum where only some axes have a border."""
    numbers = {each.name: each.i for each in node.attribute}
    directions = [way for each in node.attribute if each.name.endswith("_directions") for way in each.ints]
    border = [width for each in node.attribute if each.name == "pads" for width in each.ints]
    return (node.op_type == "ConvTranspose" and numbers.get("group", 1) > 1 or
            node.op_type == "GatherElements" and numbers.get("axis", 0) < 0 or
            node.op_type == "MaxPool" and any(border) and not all(border) or
            node.op_type == "Scan" and any(directions))


class Judge:
    def __init__(self):
        self.not_in_runtime = set()
        self.only_checked = []

    def run(self, path, names, feeds):
        """The outputs, and the factor by which they may be less exact."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return session.run(names, feeds), 1
        except Exception as error:
            reason = next((found for lack in LACKS if (found := re.search(lack, str(error)))), None)
            if not reason:
                raise
            self.not_in_runtime.add(reason[1])
        nodes = onnx.load(path).graph.node
        if any(beyond_the_evaluator(node) for node in nodes):
            self.only_checked.append(path)
            return [], 1
        evaluator = onnx.reference.ReferenceEvaluator(path)
        # Its Erf is of single precision whatever the type.
        single = any(node.op_type == "Erf" for node in nodes)
        return evaluator.run(names, feeds), 1e7 if single else 1

    def problems(self, path):
        _, *steps = read_steps(path)
        model = str(path).replace(".judge.pb", ".onnx")
        onnx.checker.check_model(model, full_check=True)
        feeds = {step.target: step.value for step in steps if step.kind == "feed"}
        fetches = [step for step in steps if step.kind == "fetch"]
        results, factor = self.run(model, [step.target for step in fetches], feeds)
        for step, found in zip(fetches, results):
            tolerance = TOLERANCE.get(step.value.dtype, 0)
            if problem := difference(found, step.value, max(tolerance, min(1e-5, factor * tolerance))):
                yield f"{step.target}: {problem}"


def main(folder):
    judge = Judge()
    passed, failed = judge_all(folder, judge.problems)
    print("By ONNX's evaluator, as onnxruntime lacks them for a type:", *sorted(judge.not_in_runtime))
    print("Checked, but computed by neither:", *(path.rsplit("/")[-1] for path in judge.only_checked))
    print(f"{passed - len(judge.only_checked)} passed, {failed} failed, {len(judge.only_checked)} checked only")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) != 0)
