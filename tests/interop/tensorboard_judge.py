"""Reads an event file of ours with TensorBoard's own reader and compares.

usage: tensorboard_judge.py FOLDER    (with events/ and events.judge.pb)"""

import io
import pathlib
import sys

import numpy as np
from PIL import Image
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.compat.proto import graph_pb2
from tensorboard.util import tensor_util

EVERYTHING = {kind: 0 for kind in (event_accumulator.SCALARS, event_accumulator.HISTOGRAMS, event_accumulator.IMAGES,
                                   event_accumulator.TENSORS)}


class Reader:
    """What TensorBoard says of each kind of step."""

    def __init__(self, folder):
        self.events = event_accumulator.EventAccumulator(str(folder), size_guidance=EVERYTHING).Reload()
        self.nodes = {node.name: node for node in self.events.Graph().node}

    def node(self, name, by, value):
        return name in self.nodes

    def shape(self, name, by, value):
        shape = self.nodes[name].attr["_output_shapes"].list.shape[0]
        return [dim.size for dim in shape.dim] == list(value)

    def scalar(self, tag, by, value):
        # The format has numbers of single precision.
        return [event.value for event in self.events.Scalars(tag) if event.step == value[0]] == [np.float32(value[1])]

    def histogram(self, tag, by, value):
        found = next(event.histogram_value for event in self.events.Histograms(tag) if event.step == int(by))
        limits = np.array(found.bucket_limit)
        # A bucket reaches from the limit below it, which belongs to it, to its own.
        counts = np.bincount(np.searchsorted(limits, value, side="right"), minlength=len(limits))
        return (found.min == value.min() and found.max == value.max() and found.num == value.size and
                np.isclose(found.sum, value.sum()) and np.isclose(found.sum_squares, np.square(value).sum()) and
                np.array_equal(found.bucket, counts))

    def image(self, tag, by, value):
        event, = self.events.Images(tag)
        pixels = np.array(Image.open(io.BytesIO(event.encoded_image_string)))
        return event.step == int(by) and (event.height, event.width) == value.shape[:2] and np.array_equal(pixels, value)

    def text(self, tag, by, value):
        event, = self.events.Tensors(tag)
        return tensor_util.make_ndarray(event.tensor_proto).item() == by.encode()

    def run(self, tag, by, value):
        stats, = self.events.RunMetadata(tag).step_stats.dev_stats[0].node_stats
        return stats.node_name == by and stats.all_end_rel_micros == value[0]


def main(folder):
    steps = graph_pb2.GraphDef()
    steps.ParseFromString((folder / "events.judge.pb").read_bytes())
    reader = Reader(folder / "events")
    counts = {}
    for step in steps.node:
        value = tensor_util.make_ndarray(step.attr["value"].tensor) if "value" in step.attr else None
        target = step.attr["target"].s.decode()
        good = getattr(reader, step.op)(target, step.attr["by"].s.decode(), value)
        passed, failed = counts.get(step.op, (0, 0))
        counts[step.op] = passed + bool(good), failed + (not good)
        if not good:
            print(f"{step.op} {target}: TensorBoard reads something else")
    for kind, (passed, failed) in counts.items():
        print(f"  {kind:10} {passed:5} passed {failed:5} failed")
    passed, failed = (sum(column) for column in zip(*counts.values()))
    print(f"{passed} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])) != 0)
