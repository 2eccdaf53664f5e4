"""Compares the names of outputs by which functions are written with the definitions of TensorFlow's ops.

usage: op_outputs.py src/io/tensorflow/op_outputs.cpp"""

import pathlib
import re
import sys

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session


def table(source):
    """The outputs of each op in the table, a C++ array of pairs of texts."""
    rows = source[source.index("named_outputs[] = {") + len("named_outputs[] = {"):source.index("\n};", source.index("named_outputs[]"))]
    for row in re.findall(r'\{([^{}]*)\}', rows):
        outputs, ops = re.split(r",\s*(?=\")", row.strip(), maxsplit=1)
        names = "".join(re.findall(r'"([^"]*)"', outputs)).split()
        yield from ((op, names) for op in "".join(re.findall(r'"([^"]*)"', ops)).split())


# Ops of accelerators that TensorFlow alone has, of its own tests, and of libraries for decision trees.
LEFT_OUT = re.compile(r"^_|TPU|Tpu|Xla|SparseCore|Csr|Coo|>|^(Boosted|Rpc|Foo|GetMinibatch|Custom|SplitDedup)|Canonical|Outputs?$|Struct$")


def main(path):
    ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    lengths = {op.name: [each.number_attr or each.type_list_attr for each in op.output_arg] for op in ops.op}
    # The length of a list counts where others follow it.
    known = {op.name: [each.name + (f"={length}" if length and len(op.output_arg) > 1 else "")
                       for each, length in zip(op.output_arg, lengths[op.name])] for op in ops.op}
    found = dict(table(pathlib.Path(path).read_text()))
    wrong = [op for op, outputs in found.items() if known.get(op, outputs) != outputs]
    for op in wrong:
        print(f"{op} has the outputs {known[op]}, not {found[op]}")
    lacking = [op for op, outputs in known.items() if len(outputs) > 1 and op not in found and not LEFT_OUT.search(op)]
    for op in lacking:
        print(f"{op}, of several outputs, is not in the table")
    print(f"{len(found) - len(wrong)} passed, {len(wrong) + len(lacking)} failed")
    return wrong + lacking


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1])))
