"""Writes programs whose state changes its sizes: Variables of no shape, and tables that the program fills; see
foreign_idioms.py and foreign_served.py."""

import numpy as np
import tensorflow as tf

import foreign_idioms
import foreign_served
import write_golden
from foreign_flow import Steps
from foreign_idioms import classes, descend, train, v1, variable, weights

Spec, lookups = tf.TensorSpec, tf.lookup.experimental
SERVE = "serving_default"


# ---- Changes that nothing needs ------------------------------------------------------------------------------------------


def unneeded_changes():
    """These never happen, as nothing that is fetched waits for them."""
    def in_branches(x, labels):
        v, w = variable("v", 6), variable("w", 6)
        def changed():
            double = x * 2
            v1.assign_add(v, tf.reduce_sum(double, 0))
            total = v1.assign_add(w, tf.reduce_max(tf.sin(double), 0))
            return tf.sin(double), tf.reduce_sum(total)
        first, second = v1.cond(tf.reduce_sum(x) > -100, changed, lambda: (x, 0.0))
        with tf.control_dependencies([first]):
            return [tf.reduce_sum(first), tf.identity(v)], [second]
    yield "changes that a branch does not need", in_branches

    def in_loops(x, labels):
        v, w, u = variable("v", 6), variable("w", 6), variable("u", 6)
        def body(i, s):
            v1.assign_add(v, tf.reduce_sum(s, 0))
            with tf.control_dependencies([v1.assign_add(w, tf.reduce_max(s, 0))]):
                v1.cond(tf.equal(i % 2, 0), lambda: v1.assign_add(u, [1.0] * 6), lambda: tf.zeros([6]))
                return i + 1, tf.sin(s)
        last = tf.while_loop(lambda i, s: i < 3, body, (0, x))[1]
        with tf.control_dependencies([last]):
            return [tf.reduce_sum(last), tf.identity(v), tf.identity(u)], []
    yield "changes that an iteration does not need", in_loops


# ---- Variables of no shape --------------------------------------------------------------------------------------------


def open_variable(name, value, shape=tf.TensorShape(None), trainable=True):
    if v1.get_variable_scope().use_resource:
        return v1.Variable(value, name=name, shape=shape, use_resource=True, trainable=trainable)
    return v1.Variable(tf.constant(value), name=name, validate_shape=False, use_resource=False, trainable=trainable)


def variable_programs():
    def growing(x, labels):
        """A memory of all rows so far."""
        memory = open_variable("memory", weights(1, 2, 6), [None, 6])
        grown = v1.assign(memory, tf.concat([memory, x], 0), validate_shape=False)
        return [tf.shape(memory), tf.reduce_mean(memory, 0), tf.math.top_k(memory[:, 1], 2)[0]], [grown]
    yield "a memory that grows", growing

    def latest(x, labels):
        memory = open_variable("memory", weights(2, 0, 6), trainable=False)
        kept = tf.concat([memory, x], 0)[-8:]
        loss = tf.reduce_mean(tf.square(x @ variable("w", 6, 1) - tf.reduce_sum(kept)))
        with tf.control_dependencies([descend(loss)]):
            changed = v1.assign(memory, kept * 2, validate_shape=False)
        with tf.control_dependencies([changed]):
            after = tf.reduce_sum(memory.read_value())
        return [loss, tf.shape(memory)], [changed, after]
    yield "the latest rows", latest

    def other_ranks(x, labels):
        value = open_variable("value", np.float32(3))
        choose = v1.get_variable("choose", initializer=0, trainable=False)
        made = tf.cond(choose % 2 < 1, lambda: tf.reduce_sum(x), lambda: tf.reduce_sum(x * x))
        changed = [v1.assign(value, x * 2, validate_shape=False), v1.assign(value, tf.concat([x, x], 1)[0], validate_shape=False),
                   v1.assign(value, made, validate_shape=False)]
        return [value, tf.rank(value), tf.size(value)], changed + [v1.assign_add(choose, 1)]
    yield "values of other ranks", other_ranks

    def trained(x, labels):
        w, b = open_variable("w", weights(3, 6, 3)), open_variable("b", weights(4, 3))
        loss = classes(tf.matmul(x, w) + b, labels)
        return [loss, w], [descend(loss), train.GradientDescentOptimizer(0.2).minimize(loss)]
    yield "trained without a shape", trained

    def with_slots(x, labels):
        w = open_variable("w", weights(5, 6, 3))
        loss = classes(tf.matmul(x, w), labels)
        return [loss, w], [train.MomentumOptimizer(0.1, 0.9).minimize(loss), train.RMSPropOptimizer(0.1).minimize(loss),
                           train.AdamOptimizer(0.1).minimize(loss)]
    yield "slots without a shape", with_slots

    def of_changed_rows(x, labels):
        """Rows that are looked up, changed and added; the table doubles."""
        table = open_variable("table", weights(6, 5, 2))
        loss = tf.reduce_sum(tf.square(tf.gather(table, labels)))
        with tf.control_dependencies([v1.scatter_add(table, labels, x[:, :2])]):
            doubled = v1.assign(table, tf.concat([table, table], 0)[:20], validate_shape=False)
        return [loss, tf.shape(table)], [v1.assign_add(table, tf.ones_like(table)), v1.assign_sub(table, table / 2), doubled]
    yield "rows of a table that doubles", of_changed_rows

    def in_branches(x, labels):
        memory = open_variable("memory", weights(7, 1, 6))
        count = v1.get_variable("count", initializer=0, trainable=False)
        def changed(value):
            with tf.control_dependencies([v1.assign(memory, value, validate_shape=False)]):
                return tf.size(memory.read_value())
        add = tf.cond(count < 2, lambda: changed(tf.concat([memory, x], 0)), lambda: changed(memory[:1]))
        return [tf.reduce_sum(memory), tf.shape(memory)[0]], [add, v1.assign_add(count, 1)]
    yield "a memory changed in branches", in_branches

    def known_at_first(x, labels):
        value = v1.get_variable("value", initializer=weights(8, 2))
        changed = v1.assign(value, tf.reduce_sum(x, 1), validate_shape=False)
        with tf.control_dependencies([changed]):
            total = tf.reduce_sum(tf.identity(value))
        return [tf.reduce_sum(tf.identity(value))], [total]
    yield "a shape that an assignment changes", known_at_first


# ---- Tables -----------------------------------------------------------------------------------------------------------


def in_order(table):
    """What a table has; TensorFlow's order is that of its hashes, and a dense table has unused keys, too."""
    keys, values = table.export()
    if isinstance(table, lookups.DenseHashTable):
        keys, is_used = tf.ensure_shape(keys, [None, 1]), tf.reshape(keys >= 0, [-1])
        keys, values = keys[is_used][:, 0], values[is_used]
    order = tf.argsort(keys)
    return tf.gather(keys, order), tf.gather(values, order)


def whole(numbers):
    return tf.constant(numbers, tf.int64)


def table_programs():
    def counts(x, labels):
        """How often each label has been seen."""
        table, seen = lookups.MutableHashTable(tf.int32, tf.float32, 0.0), tf.unique(labels)[0]
        before = table.lookup(seen)
        with tf.control_dependencies([table.insert(seen, before + 1)]):
            after = table.lookup(tf.range(6))
        loss = classes(x @ variable("w", 6, 3) / (1 + before[0]), labels)
        return [loss, *in_order(table), table.size()], [descend(loss), after]
    yield "a table of counts", counts

    def changed(x, labels):
        kinds = tf.cast(labels, tf.int64)
        table = lookups.MutableHashTable(tf.int64, tf.int64, -7, experimental_is_anonymous=False)
        runs = [table.insert(kinds * 3, tf.range(5, dtype=tf.int64)), table.insert(whole([7, 7, 8]), whole([1, 2, 3])),
                table.remove(whole([3, 9, 7])), table.insert(whole([[1, 2], [3, 1]]), whole([[4, 5], [6, 7]]))]
        found = table.lookup(tf.range(9, dtype=tf.int64))
        return [found, table.lookup(whole([[0, 3], [8, 1]])), *in_order(table), table.size()], runs
    yield "keys that come and go", changed

    def of_vectors(x, labels):
        """The latest example of each label."""
        table = lookups.MutableHashTable(tf.int32, tf.float32, np.float32([0, 1, 2, 3, 4, 5]))
        with tf.control_dependencies([table.insert(labels, x * 2)]):
            loss = tf.reduce_sum(tf.square(table.lookup(labels + 1) @ variable("w", 6, 1)))
        other = table.lookup(labels, dynamic_default_values=x)
        return [other, *in_order(table)], [descend(loss), table.remove(labels[:1])]
    yield "a table of examples", of_vectors

    def dense(x, labels):
        table = lookups.DenseHashTable(tf.int64, tf.float64, default_value=-1.0, empty_key=-1, deleted_key=-2, initial_num_buckets=4)
        kinds, values = tf.cast(labels, tf.int64), tf.cast(x[:, 0], tf.float64)
        wide = lookups.DenseHashTable(tf.int32, tf.float32, default_value=tf.zeros([2]), empty_key=0, deleted_key=-1)
        return ([table.lookup(kinds * 2), table[kinds], *in_order(table), table.size(), wide.lookup(labels + 1)],
                [table.insert(kinds, values), table.insert_or_assign(kinds + 1, values * 2), table.erase(kinds[:2]),
                 wide.insert(labels + 1, x[:, :2])])
    yield "dense tables", dense

    def in_branches(x, labels):
        table, kinds = lookups.DenseHashTable(tf.int64, tf.bool, False, empty_key=-1, deleted_key=-2), tf.cast(labels, tf.int64)
        with tf.control_dependencies([x]):
            size = table.size()

        def inserted():
            with tf.control_dependencies([table.insert(kinds, kinds > 0)]):
                return table.size()

        def removed():
            with tf.control_dependencies([table.remove(whole([0, 1]))]):
                return table.size()
        added = tf.cond(size < 2, inserted, removed)
        filled = tf.while_loop(lambda i: i < 3, lambda i: tf.tuple([i + 1], control_inputs=[table.insert([i * 10], tf.constant([True]))])[0], [whole(0)])
        return [tf.cast(table.lookup(tf.range(21, dtype=tf.int64)), tf.int32), size], [added, filled]
    yield "a table in branches and loops", in_branches

    def restored(x, labels):
        """Graphs as they are exported: the table is filled by an operation of its own, and by its saver."""
        table = lookups.MutableHashTable(tf.int64, tf.float32, -1.0, name="restored")
        other = lookups.DenseHashTable(tf.int64, tf.int64, -1, empty_key=-1, deleted_key=-2, name="other")
        train.Saver()
        fill = tf.group(tf.raw_ops.LookupTableImportV2(table_handle=table.resource_handle, keys=whole([4, 1, 2]), values=[0.5, 1.5, 2.5]))
        return [table.lookup(whole([1, 2, 3, 4])), table.size(), other.lookup(whole([0, 1]))], [fill, table.insert(whole([3]), x[:1, 0]), other.insert(whole([1]), whole([5])), table.insert(whole([9]), tf.constant([1.0]))]
    yield "a table that is filled again", restored


FAMILIES = (unneeded_changes, variable_programs, table_programs)
# Of those that TensorFlow runs with one kind of Variables.
ONLY = {"changes that a branch does not need": "resource", "changes that an iteration does not need": "resource",
        "slots without a shape": "resource", "a memory changed in branches": "resource",
        "a shape that an assignment changes": "reference"}


# ---- Names ------------------------------------------------------------------------------------------------------------


def switches(folder):
    """What TensorFlow 1's nodes of branches and loops give, by their names, and is fed instead."""
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x, is_first = v1.placeholder(tf.float32, [None], "x"), v1.placeholder(tf.bool, [], "is_first")
        tf.identity(tf.cond(is_first, lambda: tf.reduce_sum(x) * 2, lambda: tf.reduce_sum(tf.sin(x))), "y")
        tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2 + x), (0, x))
        second, first = tf.raw_ops.Switch(data=x, pred=is_first, name="switch")
        tf.raw_ops.Merge(inputs=[tf.negative(second), first * 3 + tf.identity(first)], name="merge")
        tf.raw_ops.Switch(data=x * 2, pred=is_first, name="unused")
    v1.enable_control_flow_v2()
    graph_def, steps, feeds = graph.as_graph_def(), Steps(), {}
    with tf.Graph().as_default() as graph:  # Python lets no tensors of branches and loops be fetched from its own graph
        tf.import_graph_def(graph_def, name="")
    with v1.Session(graph=graph) as session:
        def feed(name, value):
            feeds[name] = value
            steps.add("feed", name, value)

        def fetch(*names):
            for name in names:
                steps.add("fetch", name, session.run(name, feeds))
        feed("x:0", np.float32([1, 2]))
        feed("is_first:0", False)
        fetch("merge:0", "y:0", "while/Exit_1:0")
        steps.add("once", "")
        for is_true, side in ((True, 1), (False, 0)):
            feed("is_first:0", is_true)
            fetch(*(f"{each}:{side}" for each in ("switch", "unused", "cond/Switch", "cond/Sum/Switch", "cond/Sin/Switch")), "merge:0",
                  "merge:1", "cond/Merge:0", "cond/Merge:1", "cond/pred_id:0", "while/Enter:0", "while/Enter_1:0", "while/Switch_1:0",
                  "while/Exit:0", "while/Exit_1:0")
        feed("switch:0", np.float32([5, 6]))
        fetch("merge:0", "y:0")
        feed("cond/Sin/Switch:0", np.float32([0.5]))
        fetch("y:0", "cond/Merge:0")
        feed("while/Exit_1:0", np.float32([7]))
        fetch("while/Exit_1:0", "while/Exit:0")
        feed("merge:0", np.float32([8]))
        fetch("merge:0")
    (folder / "names of switches.pb").write_bytes(write_golden.bytes_of(graph_def))
    steps.save(folder / "names of switches.steps.pb")


# ---- SavedModels ------------------------------------------------------------------------------------------------------


class Parts(tf.Module):
    """What a program keeps by name."""


def memories(path):
    """Tables that a signature changes, filled when the model is saved, and a Variable that grows."""
    model = Parts()
    model.counts = lookups.MutableHashTable(tf.int64, tf.float32, 0.0)
    model.rows = lookups.DenseHashTable(tf.int32, tf.float32, np.float32([0, 0]), empty_key=-1, deleted_key=-2)
    model.memory = tf.Variable(weights(9, 2, 3), shape=tf.TensorShape([None, 3]))
    model.counts.insert(tf.constant([3, 4, 9], tf.int64), [1.5, 2.5, 3.5])
    model.rows.insert([1, 7], weights(10, 2, 2))

    @tf.function(input_signature=[Spec([None], tf.int64, "keys"), Spec([None], tf.float32, "values")])
    def insert(keys, values):
        before = model.counts.lookup(keys)
        model.counts.insert(keys, before + values)
        if tf.size(keys) > 2:
            model.counts.remove(keys[:1])
        for key in tf.cast(keys, tf.int32):
            model.rows.insert([key], [[1.0, 2.0]])
        return {"before": before, "after": model.counts.lookup(keys), "size": model.counts.size(), "rows": model.rows.lookup(tf.cast(keys, tf.int32))}

    @tf.function(input_signature=[Spec([None, 3], tf.float32, "x")])
    def remember(x):
        mean = tf.reduce_mean(model.memory, 0)
        model.memory.assign(tf.concat([model.memory, x], 0))
        return {"mean": mean, "latest": model.memory[-3:], "count": tf.shape(model.memory)[0]}
    tf.saved_model.save(model, path, {"insert": insert, "remember": remember})
    keys, values = np.int64([4, 5, 9]), np.float32([1, 2, 3])
    return [("insert", {"keys": keys, "values": values}), ("insert", {"keys": keys[:1], "values": values[:1]}),
            ("remember", {"x": weights(11, 2, 3)}), ("insert", {"keys": keys, "values": values}), ("remember", {"x": weights(12, 1, 3)})], []


def old_tables(path):
    with tf.Graph().as_default(), v1.Session() as session:
        keys = v1.placeholder(tf.int64, [None], "keys")
        table = lookups.MutableHashTable(tf.int64, tf.float32, -1.0, name="numbers")
        wide = lookups.MutableHashTable(tf.int64, tf.float32, np.float32([1, 2]), name="wide")
        y = table.lookup(keys)[:, None] + wide.lookup(keys) + v1.get_variable("b", initializer=weights(13, 2))
        session.run(v1.global_variables_initializer())
        session.run([table.insert([1, 2], [0.5, 0.25]), wide.insert([2, 3], weights(14, 2, 2))])
        v1.saved_model.simple_save(session, path, {"keys": keys}, {"y": y})
    return [(SERVE, {"keys": np.int64([1, 2, 3, 4])})], []


MODELS = (memories, old_tables)


def write(folder):
    for name, program in (each for family in FAMILIES for each in family()):
        foreign_idioms.write_styles(folder, name, program, [ONLY[name]] if name in ONLY else ["resource", "reference"])
    switches(folder)
    foreign_served.write(folder, MODELS)
