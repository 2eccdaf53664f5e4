"""Writes the event files that TensorFlow contributes to tests/golden."""

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import summary_pb2
from tensorflow.core.util import event_pb2

v1 = tf.compat.v1
PIXELS = np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]], [[0, 0, 0], [128, 128, 128], [255, 255, 255]]], np.uint8)


def move_events(folder, path):
    """The file that a writer has made, and nothing else, in that folder."""
    file, = folder.iterdir()
    file.replace(path)
    folder.rmdir()


def write_plain_events(folder):
    """A version and one scalar."""
    event = event_pb2.Event(wall_time=1.5, file_version="brain.Event:2")
    scalar = event_pb2.Event(wall_time=2.5, step=7)
    scalar.summary.value.add(tag="loss", simple_value=0.25)
    path = folder / "tensorflow.tfevents"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in (event, scalar):
            writer.write(each.SerializeToString(deterministic=True))


def write_events_1(folder):
    """What TensorFlow 1's FileWriter knows: a graph, operations that summarize, a session's log, a run's metadata."""
    logs = folder / "logs"
    with tf.Graph().as_default() as graph, v1.variable_scope("", use_resource=False):
        w = v1.get_variable("w", initializer=np.array([[1, 2], [3, 4]], np.float32))
        x = v1.placeholder(tf.float32, [None, 2], "x")
        tf.matmul(x, w, name="y")
    summaries = tf.Graph()
    with summaries.as_default(), v1.Session() as session:
        merged = v1.summary.merge([
            v1.summary.scalar("loss", tf.constant(0.25)),
            v1.summary.histogram("weights", tf.constant([-1.0, 0.0, 1.0, 1.0, 2.5])),
            v1.summary.image("picture", tf.constant(PIXELS[np.newaxis])),
            v1.summary.text("note", tf.constant("**bold**")),
            v1.summary.audio("sound", tf.zeros([1, 4, 1]), 8000)])
        summary = session.run(merged)
    with graph.as_default():
        writer = v1.summary.FileWriter(str(logs), graph)
    writer.add_summary(summary, 7)
    writer.add_summary(summary, 8)  # without the names of the plugins
    writer.add_session_log(event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT, checkpoint_path="model"), 8)
    metadata = v1.RunMetadata()
    metadata.step_stats.dev_stats.add(device="/device:CPU:0").node_stats.add(node_name="y", all_end_rel_micros=42)
    writer.add_run_metadata(metadata, "step 8", 8)
    writer.close()
    move_events(logs, folder / "tensorflow1.tfevents")


def write_events_2(folder):
    """TensorFlow 2's values are tensors."""
    logs = folder / "logs"
    with tf.summary.create_file_writer(str(logs)).as_default():
        for step in (7, 8):
            tf.summary.scalar("loss", 0.25, step)
        tf.summary.histogram("weights", [-1.0, 0.0, 1.0, 1.0, 2.5], 7, buckets=5)
        tf.summary.histogram("none", tf.zeros([0]), 7, buckets=5)
        tf.summary.image("pictures", np.stack([PIXELS, PIXELS[:, ::-1]]), 7)
        tf.summary.text("note", "**bold**", 7)
        tf.summary.text("notes", [["a", "b"], ["c", "d"]], 7)
        tf.summary.audio("sound", tf.zeros([1, 4, 1]), 8000, 7)
        tf.summary.write("tensor", tf.constant([[1, 2], [3, 4]], tf.int64), 7)
        tf.summary.graph(tf.function(lambda x: tf.square(x, "y")).get_concrete_function(
            tf.TensorSpec([None], tf.float32, "x")).graph.as_graph_def())
    move_events(logs, folder / "tensorflow2.tfevents")


def write_events_07(folder):
    """A file as TensorFlow 0.7 wrote it in 2016: another version, and ops from before Variables and summaries had
    their present ones."""
    graph = v1.GraphDef()
    graph.versions.producer = 8

    def node(name, op, *inputs, **attrs):
        made = graph.node.add(name=name, op=op, input=inputs)
        for key, value in attrs.items():
            made.attr[key].MergeFrom(value)

    numbers = v1.AttrValue(type=tf.float32.as_datatype_enum)
    pair = v1.AttrValue(shape=tf.TensorShape([2]).as_proto())
    node("x", "Placeholder", dtype=numbers, shape=pair)
    node("w", "Variable", dtype=numbers, shape=pair, container=v1.AttrValue(s=b""), shared_name=v1.AttrValue(s=b""))
    node("w/read", "Identity", "w", T=numbers)
    node("y", "Add", "x", "w/read", T=numbers)
    histogram = summary_pb2.HistogramProto(min=-1, max=2.5, num=5, sum=3.5, sum_squares=9.25,
                                           bucket_limit=[-1.05, -0.95, -1e-12, 1e-12, 0.95, 1.05, 2.4, 2.6, 1.7e308],
                                           bucket=[0, 1, 0, 1, 0, 2, 0, 1, 0])
    events = [event_pb2.Event(file_version="brain.Event:1"), event_pb2.Event(graph_def=graph.SerializeToString()),
              event_pb2.Event(step=7), event_pb2.Event(step=7)]
    events[2].summary.value.add(tag="loss", simple_value=0.25)
    events[3].summary.value.add(tag="weights", histo=histogram)
    with tf.io.TFRecordWriter(str(folder / "tensorflow07.tfevents")) as writer:
        for i, event in enumerate(events):
            event.wall_time = 1456000000 + i
            writer.write(event.SerializeToString(deterministic=True))


def write(folder):
    write_plain_events(folder)
    write_events_1(folder)
    write_events_2(folder)
    write_events_07(folder)
