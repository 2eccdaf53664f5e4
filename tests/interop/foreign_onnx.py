"""Writes ONNX models as other programs do, and what onnxruntime finds for them.

usage: foreign_onnx.py FOLDER

Each case is a folder as those of ONNX's own test data: FOLDER/onnx/NAME/model.onnx, and for each run the tensors
test_data_set_0/input_0.pb, ... and output_0.pb, ... The cases are what exporters write: branches, loops, sequences, shapes that are
computed, windows of all kinds, recurrent layers, and one model for each opset."""

import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def points(seed, *shape):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def value(name, kind=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


class Case:
    def __init__(self, name, nodes, feeds, outputs, initializers=(), opset=17, shapes=None, functions=()):
        """`feeds`: by the inputs' names, for one run or several; `shapes`: those that are declared."""
        self.name = name
        self.runs = [{key: np.asarray(array) for key, array in each.items()}
                     for each in (feeds if isinstance(feeds, list) else [feeds])]
        shapes = shapes or {}
        inputs = [value(key, helper.np_dtype_to_tensor_dtype(array.dtype), shapes.get(key, array.shape))
                  for key, array in self.runs[0].items()]
        outputs = [each if not isinstance(each, str) else value(each) for each in outputs]
        graph = helper.make_graph(nodes, "g", inputs, outputs, [constant(*each) for each in initializers])
        imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(each.domain, 1) for each in functions]
        self.model = helper.make_model(graph, opset_imports=imports, functions=functions,
                                       ir_version=10 if opset > 18 else 8)


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs.split(",") if inputs else [], outputs.split(","), **attributes)


# ---- Branches, loops, sequences ------------------------------------------------------------------------------------------


def loops():
    x, scalar = points(1, 3), lambda n: np.int64(n)
    then = helper.make_graph([node("Mul", "x,x", "r")], "then", [], [value("r")])
    inner = helper.make_graph([node("Add", "x,x", "q")], "inner", [], [value("q")])
    other = helper.make_graph([node("Identity", "x", "q")], "other", [], [value("q")])
    nested = helper.make_graph([node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s,zero", "c2"),
                                node("If", "c2", "r", then_branch=inner, else_branch=other)], "nested", [], [value("r")])
    yield Case("if in if", [node("If", "c", "y", then_branch=then, else_branch=nested)],
               [{"x": x, "c": np.bool_(c)} for c in (True, False)], ["y"], [("zero", np.float32(0))])

    def loop(name, nodes, inputs, results, **more):
        body = helper.make_graph(nodes, "body", [value("i", INT64, []), value("g", BOOL, [])] + inputs, results)
        return Case(name, [node("Loop", more.pop("given"), more.pop("gives"), body=body)], **more)

    go = node("Identity", "g", "h")
    yield loop("loop with a count", [go, node("Cast", "i", "f", to=FLOAT), node("Add", "s,f", "t"), node("Mul", "t,x", "e")],
               [value("s", FLOAT, [3])], [value("h", BOOL, []), value("t", FLOAT, [3]), value("e", FLOAT, [3])],
               given="n,,x", gives="y,stack", feeds=[{"x": x, "n": scalar(n)} for n in (0, 1, 4)], outputs=["y", "stack"])
    yield loop("loop that ends by its values",
               [node("Mul", "s,two", "t"), node("ReduceMax", "t", "m", keepdims=0), node("Less", "m,ten", "h")],
               [value("s", FLOAT, [3])], [value("h", BOOL, []), value("t", FLOAT, [3])], given=",c,x", gives="y",
               feeds={"x": np.abs(x), "c": np.bool_(True)}, outputs=["y"],
               initializers=[("two", np.float32(2)), ("ten", np.float32(10))])
    yield loop("loop with a constant count", [go, node("Sin", "s", "t")], [value("s", FLOAT, [3])],
               [value("h", BOOL, []), value("t", FLOAT, [3])], given="n,,x", gives="y", feeds={"x": x}, outputs=["y"],
               initializers=[("n", np.int64(5))])
    yield loop("loop that grows", [go, node("Concat", "s,x", "t", axis=0)], [value("s", FLOAT, [None])],
               [value("h", BOOL, []), value("t", FLOAT, [None])], given="n,,x", gives="y",
               feeds={"x": x, "n": scalar(3)}, outputs=["y"])
    yield loop("loop over rows", [go, node("Gather", "x,i", "row", axis=0), node("Add", "s,row", "t"), node("Tanh", "t", "e")],
               [value("s", FLOAT, [2])], [value("h", BOOL, []), value("t", FLOAT, [2]), value("e", FLOAT, [2])],
               given="n,,first", gives="y,stack", feeds={"x": points(2, 4, 2), "n": scalar(4), "first": points(3, 2)},
               outputs=["y", "stack"], shapes={"x": [None, 2]})
    sequence = helper.make_tensor_sequence_value_info
    go_on, grow = node("Identity", "g", "h"), node("SequenceInsert", "s,e", "t")
    body = helper.make_graph([go_on, node("Gather", "x,i", "r", axis=0), node("Tanh", "r", "e"), grow], "body",
                             [value("i", INT64, []), value("g", BOOL, []), sequence("s", FLOAT, None)],
                             [value("h", BOOL, []), sequence("t", FLOAT, None)])
    for name, attributes in (("joined", {"axis": 0}), ("stacked", {"axis": 1, "new_axis": 1})):
        yield Case(f"loop that fills a sequence, {name}", [node("SequenceEmpty", "", "empty"), node("Loop", "n,,empty", "all", body=body),
                                                          node("ConcatFromSequence", "all", "y", **attributes), node("SequenceLength", "all", "z")],
                   {"x": points(52, 4, 2), "n": scalar(4)}, ["y", value("z", INT64)])
    yield Case("sequence", [node("SplitToSequence", "x", "s", axis=1), node("SequenceAt", "s,one", "a"), node("SequenceConstruct", "a,a", "t"),
                            node("SequenceInsert", "t,a,one", "u"), node("ConcatFromSequence", "u", "y", axis=0)],
               {"x": points(53, 2, 3)}, ["y"], [("one", np.int64(1))])
    body = helper.make_graph([node("MatMul", "h,w", "p"), node("Add", "p,e", "q"), node("Tanh", "q", "t"), node("Identity", "t", "r")],
                             "body", [value("h", FLOAT, [2]), value("e", FLOAT, [2])], [value("t", FLOAT, [2]), value("r", FLOAT, [2])])
    for name, attributes in (("scan", {}), ("scan from the end", {"scan_input_directions": [1], "scan_output_directions": [1]}),
                             ("scan read from the end", {"scan_input_directions": [1]}), ("scan along axis 1", {"scan_input_axes": [1], "scan_output_axes": [1]})):
        x = points(4, 2, 5) if "axis" in name else points(4, 5, 2)
        yield Case(name, [node("Scan", "first,x", "y,stack", body=body, num_scan_inputs=1, **attributes)],
                   {"x": x, "first": points(5, 2)}, ["y", "stack"], [("w", points(6, 2, 2))])


# ---- What exporters write ------------------------------------------------------------------------------------------------


def shapes():
    x = points(7, 2, 3, 4)
    runs = [{"x": x}, {"x": points(8, 5, 3, 4)}]
    batch = {"x": ["batch", 3, 4]}
    zero, minus, one, four = (("zero", np.int64(0)), ("minus", np.array([-1])), ("one", np.array([1])), ("four", np.array([4])))
    first = [node("Shape", "x", "s"), node("Gather", "s,zero", "b"), node("Unsqueeze", "b,axis", "b1")]
    axis = ("axis", np.array([0]))
    yield Case("flatten by shape", first + [node("Concat", "b1,minus", "t", axis=0), node("Reshape", "x,t", "y")], runs, ["y"], [zero, axis, minus], shapes=batch)
    yield Case("expand by shape", first + [node("Concat", "b1,one,four", "t", axis=0), node("Expand", "row,t", "y")], runs, ["y"],
               [zero, axis, one, four, ("row", points(9, 4))], shapes=batch)
    yield Case("zeros by shape", first + [node("Concat", "b1,four", "t", axis=0), node("ConstantOfShape", "t", "y")], runs, ["y"], [zero, axis, four], shapes=batch)
    yield Case("range of a size", first + [node("Range", "zero,b,oneone", "y")], runs, [value("y", INT64)], [zero, axis, ("oneone", np.int64(1))], shapes=batch)
    yield Case("slice by shape", first + [node("Div", "b1,two", "half"), node("Slice", "x,start,half,axis", "y")], runs, ["y"],
               [zero, axis, ("two", np.array([2])), ("start", np.array([0]))], shapes=batch)
    yield Case("heads", [node("Reshape", "x,split", "a"), node("Transpose", "a", "t", perm=[0, 2, 1, 3]), node("Reshape", "t,join", "y")],
               runs, ["y"], [("split", np.array([0, 0, 2, 2])), ("join", np.array([0, -1, 6]))], shapes=batch)
    yield Case("flatten", [node("Flatten", "x", "y", axis=1)], runs, ["y"], shapes=batch)
    yield Case("flatten at 2", [node("Flatten", "x", "y", axis=2)], runs, ["y"], shapes=batch)
    yield Case("split", [node("Split", "x,sizes", "y,z", axis=2)], runs, ["y", "z"], [("sizes", np.array([1, 3]))], shapes=batch)
    yield Case("nonzero", [node("NonZero", "x", "y")], {"x": np.maximum(x, 0)}, [value("y", INT64)])
    yield Case("where of an equal", [node("Less", "x,z", "c"), node("Where", "c,z,x", "y")], runs, ["y"], [("z", np.float32(0))], shapes=batch)
    yield Case("gather of negative numbers", [node("Gather", "x,i", "y", axis=1)], [{"x": x, "i": np.array([[-1, 0], [2, -3]])}], ["y"])
    yield Case("attention", [node("Transpose", "x", "t", perm=[0, 2, 1]), node("MatMul", "x,t", "s"), node("Mul", "s,scale", "u"),
                             node("Softmax", "u", "p", axis=-1), node("MatMul", "p,x", "y")], runs, ["y"], [("scale", np.float32(0.5))], shapes=batch)


def windows():
    image, volume, row = points(10, 2, 4, 7, 6), points(11, 1, 2, 5, 6, 4), points(12, 2, 4, 9)
    for kind, x, w in (("1d", row, points(13, 6, 4, 3)), ("2d", image, points(14, 6, 4, 3, 3)), ("3d", volume, points(15, 4, 2, 2, 3, 2))):
        axes = x.ndim - 2
        for name, attributes in (("plain", {}), ("strides", {"strides": [2] * axes}), ("pads", {"pads": [1] * axes + [0] * axes}),
                                 ("dilations", {"dilations": [2] * axes}), ("same upper", {"auto_pad": "SAME_UPPER", "strides": [2] * axes}),
                                 ("same lower", {"auto_pad": "SAME_LOWER", "strides": [2] * axes})):
            yield Case(f"conv {kind} {name}", [node("Conv", "x,w,b", "y", **attributes)], {"x": x}, ["y"],
                       [("w", w), ("b", points(16, w.shape[0]))])
        kernel = [3, 2, 2][:axes]
        for op in ("MaxPool", "AveragePool"):
            for name, attributes in (("plain", {}), ("strides", {"strides": [2] * axes}), ("ceil", {"strides": [2] * axes, "ceil_mode": 1}),
                                     ("pads", {"pads": [1] * axes + [1] * axes}), ("same", {"auto_pad": "SAME_UPPER", "strides": [2] * axes})):
                yield Case(f"{op} {kind} {name}", [node(op, "x", "y", kernel_shape=kernel, **attributes)], {"x": x}, ["y"])
        yield Case(f"AveragePool {kind} with its border", [node("AveragePool", "x", "y", kernel_shape=kernel, pads=[1] * 2 * axes,
                                                                count_include_pad=1)], {"x": x}, ["y"])
    yield Case("conv in groups", [node("Conv", "x,w", "y", group=2)], {"x": image}, ["y"], [("w", points(17, 6, 2, 3, 3))])
    yield Case("conv by channel", [node("Conv", "x,w", "y", group=4)], {"x": image}, ["y"], [("w", points(18, 4, 1, 3, 3))])
    yield Case("conv of any size", [node("Conv", "x,w", "y", pads=[1, 1, 1, 1])], [{"x": image}, {"x": points(19, 1, 4, 5, 5)}], ["y"],
               [("w", points(20, 3, 4, 3, 3))], shapes={"x": [None, 4, None, None]})
    for name, attributes in (("plain", {}), ("strides", {"strides": [2, 2]}), ("padding", {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
                             ("groups", {"group": 2}), ("same", {"auto_pad": "SAME_UPPER", "strides": [2, 2]})):
        w = points(21, 4, 3, 3, 3)
        yield Case(f"conv transpose {name}", [node("ConvTranspose", "x,w", "y", **attributes)], {"x": image}, ["y"], [("w", w)])
    for mode in ("nearest", "linear", "cubic"):
        for centers in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            # Where corners are aligned and a size is rounded, onnxruntime's numbers are not those of ONNX's test data.
            for scale in (2.0,) if centers == "align_corners" else (2.0, 0.6):
                yield Case(f"resize {mode} {centers} {scale}", [node("Resize", "x,,scales", "y", mode=mode, coordinate_transformation_mode=centers)],
                           {"x": image}, ["y"], [("scales", np.array([1, 1, scale, scale], np.float32))])
    yield Case("resize to sizes", [node("Resize", "x,,,sizes", "y", mode="linear")], {"x": image}, ["y"], [("sizes", np.array([2, 4, 10, 3]))])
    yield Case("resize of any batch", [node("Resize", "x,,scales", "y", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")],
               [{"x": image}, {"x": points(22, 1, 4, 3, 3)}], ["y"], [("scales", np.array([1, 1, 2, 2], np.float32))], shapes={"x": [None, 4, None, None]})
    for norm in ("BatchNormalization", "InstanceNormalization"):
        inputs = "x,scale,offset" + (",mean,variance" if norm.startswith("Batch") else "")
        yield Case(norm, [node(norm, inputs, "y")], {"x": image}, ["y"], [("scale", points(23, 4)), ("offset", points(24, 4))] +
                   ([("mean", points(25, 4)), ("variance", np.abs(points(26, 4)))] if norm.startswith("Batch") else []))
    yield Case("LRN", [node("LRN", "x", "y", size=3)], {"x": image}, ["y"])
    for mode in ("constant", "reflect", "edge"):
        yield Case(f"pad {mode}", [node("Pad", "x,w", "y", mode=mode)], {"x": image}, ["y"], [("w", np.array([0, 0, 1, 2, 0, 0, 3, 1]))])


def recurrent():
    x = points(27, 5, 2, 3)
    for kind, gates in (("RNN", 1), ("LSTM", 4), ("GRU", 3)):
        for direction, many in (("forward", 1), ("reverse", 1), ("bidirectional", 2)):
            weights = [("w", points(28, many, gates * 4, 3)), ("r", points(29, many, gates * 4, 4)), ("b", points(30, many, gates * 8))]
            outputs = "y,h,c" if kind == "LSTM" else "y,h"
            for name, inputs, more in (("", "x,w,r,b", []), (" with lengths", "x,w,r,b,n", [("n", np.array([3, 5], np.int32))]),
                                       (" with a state", "x,w,r,b,,s" + (",s" if kind == "LSTM" else ""), [("s", points(31, many, 2, 4))])):
                yield Case(f"{kind} {direction}{name}", [node(kind, inputs, outputs, hidden_size=4, direction=direction)], {"x": x},
                           outputs.split(","), weights + more, opset=14)
    yield Case("GRU that resets behind", [node("GRU", "x,w,r,b", "y", hidden_size=4, linear_before_reset=1)], {"x": x}, ["y"],
               [("w", points(32, 1, 12, 3)), ("r", points(33, 1, 12, 4)), ("b", points(34, 1, 24))], opset=14)
    yield Case("LSTM of any length", [node("LSTM", "x,w,r,b", "y,h", hidden_size=4)], [{"x": x}, {"x": points(35, 3, 1, 3)}], ["y", "h"],
               [("w", points(36, 1, 16, 3)), ("r", points(37, 1, 16, 4)), ("b", points(38, 1, 32))], opset=14, shapes={"x": [None, None, 3]})


def opsets():
    x, image = points(39, 2, 6), points(40, 2, 3, 8, 8)
    for opset in range(7, 22):
        new = opset >= 13
        nodes = [node("Conv", "x,w,b", "a", pads=[1, 1, 1, 1]), node("BatchNormalization", "a,s,o,m,v", "n"), node("Relu", "n", "r"),
                 node("MaxPool", "r", "p", kernel_shape=[2, 2], strides=[2, 2]), node("GlobalAveragePool", "p", "g"), node("Flatten", "g", "f"),
                 node("Gemm", "f,fw,fb", "l", transB=1), node("Dropout", "l", "d"), node("Softmax", "d", "t", axis=1),
                 node("Unsqueeze", "t,axes" if new else "t", "u", **({} if new else {"axes": [1]})),
                 node("ReduceSum", "u,axes" if new else "u", "y", keepdims=0, **({} if new else {"axes": [1]}))]
        yield Case(f"network of opset {opset}", nodes, {"x": image}, ["y"],
                   [("w", points(41, 4, 3, 3, 3)), ("b", points(42, 4)), ("s", points(43, 4)), ("o", points(44, 4)), ("m", points(45, 4)),
                    ("v", np.abs(points(46, 4))), ("fw", points(47, 5, 4)), ("fb", points(48, 5))] + ([("axes", np.array([1]))] if new else []),
                   opset=opset)
    yield Case("upsample of opset 9", [node("Upsample", "x,scales", "y", mode="nearest")], {"x": image}, ["y"], [("scales", np.array([1, 1, 2, 3], np.float32))], opset=9)
    yield Case("softmax of opset 11", [node("Softmax", "x", "y", axis=1)], {"x": image}, ["y"], opset=11)
    yield Case("clip of opset 6", [node("Clip", "x", "y", min=-0.5, max=0.5)], {"x": x}, ["y"], opset=7)
    yield Case("group norm of opset 21", [node("GroupNormalization", "x,s,o", "y", num_groups=2)], {"x": points(49, 2, 4, 5)}, ["y"],
               [("s", points(50, 4)), ("o", points(51, 4))], opset=21)


def picking():
    """Indices, coordinates and boxes: what is sampled, scattered and selected."""
    x, image = points(60, 4, 3), points(61, 2, 3, 4, 5)
    rows, places = np.array([[1], [-1], [1]]), np.array([[1, 0, -1], [0, 0, 2]])
    for how in ("none", "add", "mul", "max", "min"):
        yield Case(f"scatter rows {how}", [node("ScatterND", "x,i,u", "y", reduction=how)], {"x": x, "i": rows, "u": points(62, 3, 3)}, ["y"], opset=18)
        yield Case(f"scatter elements {how}", [node("ScatterElements", "x,i,u", "y", reduction=how)], {"x": x, "i": places, "u": points(63, 2, 3)}, ["y"], opset=18)
    for mode in ("bilinear", "nearest", "bicubic"):
        for border in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                yield Case(f"sample {mode} {border} {corners}", [node("GridSample", "x,g", "y", mode=mode, padding_mode=border, align_corners=corners)],
                           {"x": image, "g": 1.2 * points(64, 2, 3, 2, 2)}, ["y"], shapes={"x": ["n", 3, "h", "w"], "g": ["n", None, None, 2]})
    yield Case("sample of volumes", [node("GridSample", "x,g", "y")], {"x": points(65, 1, 2, 3, 2, 4), "g": points(66, 1, 2, 2, 1, 3)}, ["y"], opset=20)
    yield Case("conv transpose of volumes", [node("ConvTranspose", "x,w", "y", strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 1], group=2)],
               {"x": points(67, 2, 4, 3, 2, 3)}, ["y"], [("w", points(68, 4, 2, 3, 2, 2))])
    yield Case("max unpool", [node("MaxPool", "x", "p,i", kernel_shape=[2, 2], strides=[2, 2]), node("MaxUnpool", "p,i", "y", kernel_shape=[2, 2], strides=[2, 2])],
               {"x": points(69, 1, 2, 4, 4)}, ["y"])
    corners = np.abs(points(70, 2, 9, 2))
    boxes = np.concatenate([corners, corners + np.abs(points(71, 2, 9, 2))], -1)
    for form in (0, 1):
        yield Case(f"best boxes {form}", [node("NonMaxSuppression", "b,s,most,overlap,score", "y", center_point_box=form)],
                   {"b": boxes, "s": points(72, 2, 3, 9)}, [value("y", INT64)],
                   [("most", np.array([4])), ("overlap", np.array([0.2], np.float32)), ("score", np.array([-0.5], np.float32))])
    many = np.round(points(73, 3, 8))
    for order in (0, 1):
        for axis in ({}, {"axis": 1}):
            yield Case(f"unique {order} {axis.get('axis', 'all')}", [node("Unique", "x", "y,i,v,c", sorted=order, **axis)], {"x": many},
                       ["y", value("i", INT64), value("v", INT64), value("c", INT64)])


def attention():
    q, k, v = points(80, 2, 4, 3, 6), points(81, 2, 2, 5, 6), points(82, 2, 2, 5, 7)
    yield Case("attention in groups", [node("Attention", "q,k,v", "y", is_causal=1)], {"q": q, "k": k, "v": v}, ["y"], opset=23)
    yield Case("attention with a mask", [node("Attention", "q,k,v,m", "y", softcap=2.0)], {"q": q, "k": k, "v": v, "m": points(83, 3, 5) > -0.3}, ["y"], opset=23)
    past = {"pk": points(84, 2, 2, 4, 6), "pv": points(85, 2, 2, 4, 7)}
    yield Case("attention with a past", [node("Attention", "q,k,v,,pk,pv", "y,nk,nv", is_causal=1)], {"q": q, "k": k, "v": v, **past}, ["y", "nk", "nv"], opset=23)
    flat = {"q": points(86, 2, 3, 24), "k": points(87, 2, 5, 24), "v": points(88, 2, 5, 28)}
    yield Case("attention of flat heads", [node("Attention", "q,k,v", "y", q_num_heads=4, kv_num_heads=4)], flat, ["y"], opset=23)
    for order in (0, 1):
        yield Case(f"rotary {order}", [node("RotaryEmbedding", "x,c,s,p", "y", interleaved=order, num_heads=4)],
                   {"x": flat["q"], "c": points(89, 9, 3), "s": points(90, 9, 3), "p": np.array([[0, 5, 2], [8, 1, 1]])}, ["y"], opset=23)


def bits():
    x = 3 * points(91, 3, 4)
    scale, zero = ("s", np.abs(points(92, 4)) + np.float32(0.05)), ("z", np.array([0, 128, 3, 255], np.uint8))
    yield Case("quantized and back", [node("QuantizeLinear", "x,s,z", "q"), node("DequantizeLinear", "q,s,z", "y")], {"x": x}, ["y"], [scale, zero], shapes={"x": [None, 4]})
    yield Case("quantized by its range", [node("DynamicQuantizeLinear", "x", "y,s,z")], {"x": x}, [value("y", TensorProto.UINT8), "s", value("z", TensorProto.UINT8)])
    for op in ("And", "Or", "Xor"):
        yield Case(f"bits {op}", [node(f"Bitwise{op}", "a,b", "y")], {"a": np.array([-1, 12, -2**63]), "b": np.array([[5], [-7]])}, [value("y", INT64)], opset=18)
    for window in ("Hann", "Hamming", "Blackman"):
        yield Case(f"window {window}", [node(f"{window}Window", "n", "y", periodic=0)], {"x": x}, ["y"], [("n", np.int64(7))])


def main(folder):
    folder = pathlib.Path(folder) / "onnx"
    folder.mkdir(parents=True, exist_ok=True)
    written = 0
    for cases in (loops, shapes, windows, recurrent, opsets, picking, attention, bits):
        for case in cases():
            try:
                session = onnxruntime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
                runs = [(feeds, session.run(None, feeds)) for feeds in case.runs]
            except Exception as error:  # onnxruntime lacks what ONNX allows
                print(f"onnxruntime does not run {case.name}: {str(error)[:100]}", file=sys.stderr)
                continue
            place = folder / case.name
            for number, (feeds, results) in enumerate(runs):
                data = place / f"test_data_set_{number}"
                data.mkdir(parents=True, exist_ok=True)
                for kind, arrays in (("input", feeds.values()), ("output", results)):
                    for i, array in enumerate(arrays):
                        (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(array)).SerializeToString())
            onnx.save(case.model, place / "model.onnx")
            written += 1
    print(f"{written} cases")


if __name__ == "__main__":
    main(sys.argv[1])
