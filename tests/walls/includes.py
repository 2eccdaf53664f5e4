#!/usr/bin/env python3
"""Reads every #include of the library and checks the walls between its parts.

usage: includes.py SOURCE_ROOT
"""

import pathlib
import re
import sys

# From the ground up: a file includes only from its own part and from those before it.
PARTS = ['core', 'interface', 'backend', 'dispatch', 'ops', 'autodiff', 'graph', 'toolkit', 'distributed', 'all', 'serve']

# Which part a file belongs to, by the longest prefix of its path.
FILES = {
    'include/tapestry/detail/': 'core',
    'include/tapestry/device.hpp': 'core',
    'include/tapestry/dtype.hpp': 'core',
    'include/tapestry/float16.hpp': 'core',
    'include/tapestry/error.hpp': 'core',
    'include/tapestry/shape.hpp': 'core',
    'include/tapestry/tensor.hpp': 'core',
    'include/tapestry/numpy_legacy.hpp': 'core',
    'include/tapestry/state_dict.hpp': 'core',
    'src/core/': 'core',
    'src/backend/': 'interface',  # what the kinds of devices have in common
    'src/backend/cpu/': 'backend',
    'src/backend/cuda/': 'backend',
    'include/tapestry/attrs.hpp': 'dispatch',
    'include/tapestry/autocast.hpp': 'dispatch',
    'include/tapestry/batched_call.hpp': 'dispatch',
    'include/tapestry/op.hpp': 'dispatch',
    'src/dispatch/': 'dispatch',
    'include/tapestry/ops': 'ops',
    'include/tapestry/random.hpp': 'ops',
    'include/tapestry/sparse.hpp': 'ops',
    'src/ops/': 'ops',
    'include/tapestry/detail/results.hpp': 'autodiff',
    'include/tapestry/custom_gradient.hpp': 'autodiff',
    'include/tapestry/tape.hpp': 'autodiff',
    'include/tapestry/variable.hpp': 'autodiff',
    'src/autodiff/': 'autodiff',
    'include/tapestry/graph.hpp': 'graph',
    'include/tapestry/control_flow.hpp': 'graph',
    'include/tapestry/transformations.hpp': 'graph',
    'include/tapestry/execution_plan.hpp': 'graph',
    'include/tapestry/session.hpp': 'graph',
    'include/tapestry/trace.hpp': 'graph',
    'src/graph/': 'graph',
    'include/tapestry/train': 'toolkit',
    'include/tapestry/nn': 'toolkit',
    'include/tapestry/data': 'toolkit',
    'include/tapestry/checkpoint.hpp': 'toolkit',
    'include/tapestry/metrics.hpp': 'toolkit',
    'include/tapestry/save.hpp': 'toolkit',
    'include/tapestry/model.hpp': 'toolkit',
    'include/tapestry/onnx.hpp': 'toolkit',
    'include/tapestry/saved_model.hpp': 'toolkit',
    'include/tapestry/signature.hpp': 'toolkit',
    'include/tapestry/summary.hpp': 'toolkit',
    'include/tapestry/tensor_bundle.hpp': 'toolkit',
    'include/tapestry/png.hpp': 'toolkit',
    'src/train/': 'toolkit',
    'src/nn/': 'toolkit',
    'src/data/': 'toolkit',
    'src/io/': 'toolkit',
    'include/tapestry/distributed': 'distributed',
    'src/distributed/': 'distributed',
    'src/serve/': 'serve',  # a program of its own
    'include/tapestry/xtensor.hpp': 'core',  # the bridge to Tensor alone, which linear algebra uses, too
    'include/tapestry/tapestry.hpp': 'all',
    'src/pch/': 'all',  # precompiled, and forced on every file
}

# Third-party headers, and the only places that may include them.
THIRD_PARTY = {
    r'(xtensor|xtensor-blas|xtl|xsimd|xflens)/|(cblas|lapack\w*|openblas\w*)\.h$':
        ['src/backend/cpu/', 'include/tapestry/xtensor.hpp'],
    r'xbyak/': ['src/backend/cpu/'],
    r'(cuda|cublas|cudnn|nccl|nvrtc|curand|cub/)': ['src/backend/cuda/'],
    r'(zlib|zconf)\.h$|protozero/|nlohmann/': ['src/io/'],
    r'httplib\.h$|rapidjson/': ['src/serve/'],
    r'mpi(-ext)?\.h$': ['src/distributed/mpi/'],
    r'(grpc|grpcpp|grpc\+\+)/': ['src/distributed/grpc/'],
    r'google/protobuf/': [],  # messages are written by protozero
}

# What nvcc compiles sees plain structures only: neither Tensor nor the standard library's containers.
KERNELS = 'src/backend/cuda/kernels/'
KERNEL_INCLUDES = re.compile(r'backend/cuda/kernels/|backend/(functors|philox)\.hpp$|tapestry/float16\.hpp$|c(stdint|stddef|math)$|cub/')

# The toolkit uses public headers, but whoever reads a file fills a fresh tensor in place, and an optimizer updates a
# Variable in place by one kernel, or adds its step to a graph.
# Views of tensors are as plain as the core's own.
TOOLKIT_INTERNALS = ('src/io/', 'src/core/', 'src/backend/views.hpp')
INTERNALS = {
    'src/train/': ('src/backend/backend.hpp', 'src/dispatch/recorder.hpp', 'src/ops/checked_like.hpp', 'src/ops/sparse.hpp',
                   'src/ops/support.hpp', 'src/autodiff/row_update.hpp', 'src/autodiff/variable_cell.hpp', 'src/graph/training.hpp'),
    # Batches are eager also where a graph is being built, and shuffled by the same numbers as everything else.
    'src/data/': ('src/backend/philox.hpp', 'src/dispatch/recorder.hpp'),
    # Initial values are computed at once, also in the scope of a graph, a Variable keeps its cell, an LSTM is one op, which
    # is composed of a loop of a graph, and shapes are compared, and axes merged, when they are known. A trace is told which modules hold its
    # constants.
    'src/nn/': ('src/dispatch/recorder.hpp', 'src/autodiff/variable_cell.hpp', 'src/autodiff/flag_reads.hpp',
                'src/ops/checked_like.hpp', 'src/ops/lengths.hpp', 'src/ops/merged.hpp', 'src/ops/support.hpp'),
    # A file of a graph is made from the graph's own nodes, and a graph that is read is built of them, as their ops'
    # entries say; an op that a format lacks is written as what it is composed of. A model that a tape watches is called
    # op by op. Images are resized by the same taps.
    'src/io/': ('src/graph/call_graph.hpp', 'src/graph/flow/flow_ops.hpp', 'src/graph/flow/function_tracer.hpp',
                'src/graph/flow/registered_gradient.hpp', 'src/graph/graph_state.hpp',
                'src/graph/known_values.hpp', 'src/graph/specialize.hpp',
                'src/graph/state_ops.hpp',
                'src/graph/training.hpp', 'src/dispatch/recorder.hpp', 'src/dispatch/declaration.hpp',
                'src/dispatch/composition.hpp',
                'src/ops/bitcast.hpp', 'src/ops/handles.hpp', 'src/ops/resize.hpp', 'src/nn/ctc_loss.hpp',
                'src/nn/gru_sequence.hpp', 'src/nn/lstm_sequence.hpp', 'src/train/adam.hpp', 'src/backend/philox.hpp'),
    # Collectives are ops, which reduce with the kernels of the host. A session on a server sends its graph's own nodes,
    # and a monitored one adds operations that ask for the state of Variables. Ranks compare the steps of their optimizers.
    'src/distributed/': ('src/backend/backend.hpp', 'src/dispatch/define.hpp', 'src/dispatch/recorder.hpp',
                         'src/autodiff/variable_cell.hpp', 'src/graph/graph_state.hpp', 'src/graph/remote_session.hpp',
                         'src/graph/state_ops.hpp', 'src/train/arguments.hpp'),
}

# The server is a user of the library; but it reads files, packed bodies and protobuf's bytes by our headers, numbers the texts in
# TensorFlow's graphs, and listens for gRPC and is ended as the servers of sessions are.
SERVE = 'src/serve/'
SERVE_INTERNALS = ('src/io/deflate.hpp', 'src/io/file.hpp', 'src/io/wire.hpp',
                   'src/io/tensorflow/graph_def.hpp', 'src/io/tensorflow/meta_graph.hpp', 'src/io/tensorflow/read_graph.hpp',
                   'src/distributed/grpc/grpc_listener.hpp', 'src/core/end_signal.hpp')

# A pass is a function from a graph to a graph: it tells each new node what it is, and neither reads nor opens scopes.
PASSES = ('src/graph/passes/', 'src/graph/rewrite.')
SCOPES = re.compile(r'\b(scopes\(\)|\w*Scopes?\b(?<!CallSiteScope)|as_default\(|open_sink\()')

# The rooms of src/io/ in which the formats live. Each includes from itself, from those before it, and what all share,
# which lies in src/io/ itself and includes from no room.
IO = 'src/io/'
ROOMS = ['arrays', 'drawing', 'tensorflow', 'rpc', 'onnx', 'records', 'events']

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def part_of(path):
    prefixes = [prefix for prefix in FILES if path.startswith(prefix)]
    return FILES[max(prefixes, key=len)] if prefixes else None


def room_of(path):
    """0 for what all rooms share, else the number of the room; ROOMS has no such folder: ValueError."""
    folders = path.removeprefix(IO).split('/')[:-1]
    return ROOMS.index('/'.join(folders)) + 1 if folders else 0


def violations(path, text, files):
    """Yields what is wrong with the includes of the file at `path`; `files` are all paths of the library."""
    part = part_of(path)
    if part is None:
        yield f'{path}: belongs to no part; add it to FILES in {pathlib.Path(__file__).name}'
        return
    if path.startswith(PASSES) and (scope := SCOPES.search(text)):
        yield f'{path}: says {scope[0]}; a pass gives a node its NodeOptions'
    for quote, target in INCLUDE.findall(text):
        for pattern, allowed in THIRD_PARTY.items():
            if re.match(pattern, target) and not path.startswith(tuple(allowed)):
                yield f'{path}: includes <{target}>, which only {", ".join(allowed)} may'
        if path.startswith(KERNELS) and not KERNEL_INCLUDES.match(target):
            yield f'{path}: includes {target}, which kernels may not'
        candidates = ['include/' + target, 'src/' + target, str(pathlib.PurePosixPath(path).parent / target)]
        found = [candidate for candidate in candidates if candidate in files]
        if not found:
            if quote == '"' or target.startswith('tapestry/'):
                yield f'{path}: includes "{target}", which is not in the library'
            continue
        if path.startswith('include/') and found[0].startswith('src/'):
            yield f'{path}: a public header includes the internal {found[0]}'
        other = part_of(found[0])
        if other is None:
            continue
        if PARTS.index(other) > PARTS.index(part):
            yield f'{path}: {part} includes {found[0]} of {other}, which stands above it'
        if path.startswith(IO) and found[0].startswith(IO) and room_of(found[0]) > room_of(path):
            yield f'{path}: includes {found[0]} of a room above it'
        own_folder = '/'.join(path.split('/')[:2]) + '/'
        if part in ('toolkit', 'distributed') and found[0].startswith('src/') and not found[0].startswith(
                (own_folder, *TOOLKIT_INTERNALS, *INTERNALS.get(own_folder, ()))):
            yield f'{path}: {part} includes the internal {found[0]}'
        if path.startswith(SERVE) and found[0].startswith('src/') and not found[0].startswith((SERVE, *SERVE_INTERNALS)):
            yield f'{path}: the server includes the internal {found[0]}'
        if found[0].startswith('src/backend/') and '/' in found[0][len('src/backend/'):]:
            folder = '/'.join(found[0].split('/')[:3]) + '/'
            if not path.startswith(folder):
                yield f'{path}: includes {found[0]}; only {folder} knows this backend'


def self_test():
    """The check itself must see what it forbids."""
    files = {'include/tapestry/tensor.hpp', 'include/tapestry/tape.hpp', 'src/ops/math.cpp', 'src/train/sgd.cpp',
             'src/backend/backend.hpp', 'src/backend/cpu/cpu_backend.hpp', 'src/core/device.cpp',
             'src/dispatch/recorder.hpp', 'src/io/file.hpp', 'src/io/arrays/npy.hpp', 'src/io/onnx/onnx_writer.hpp',
             'src/io/tensorflow/graph_def.hpp', 'src/serve/json.hpp', 'src/io/wire.hpp'}
    bad = {
        'include/tapestry/tensor.hpp': ['#include "tapestry/tape.hpp"', '#include <xtensor/xarray.hpp>',
                                        '#include "backend/backend.hpp"'],
        'src/core/device.cpp': ['#include "backend/backend.hpp"', '#include "dispatch/recorder.hpp"'],
        'src/ops/math.cpp': ['#include "backend/cpu/cpu_backend.hpp"', '#include <cblas.h>', '#include "nowhere.hpp"',
                             '#  include <tapestry/tape.hpp>', '#include <cuda_runtime.h>'],
        'src/train/sgd.cpp': ['#include "backend/cpu/cpu_backend.hpp"', '#include <zlib.h>'],
        'src/data/read.cpp': ['#include "backend/backend.hpp"'],
        'src/backend/cuda/kernels/x.cu': ['#include "tapestry/tensor.hpp"', '#include <vector>'],
        'src/io/file.cpp': ['#include "io/arrays/npy.hpp"', '#include <httplib.h>', '#include "serve/json.hpp"'],
        'src/io/arrays/npy.cpp': ['#include "io/tensorflow/graph_def.hpp"', '#include "backend/cpu/cpu_backend.hpp"'],
        'src/io/tensorflow/graph_def.cpp': ['#include "io/onnx/onnx_writer.hpp"'],
        'src/graph/passes/fold.cpp': ['scopes().device = device;', 'const Graph::Scope open(graph);',
                                      'const auto scope = graph.as_default();', 'const NameScope inside("x");'],
        'src/distributed/x.cpp': ['#include <mpi.h>', '#include <grpcpp/grpcpp.h>', '#include <google/protobuf/any.h>',
                                  '#include "backend/cpu/cpu_backend.hpp"'],
        'src/serve/rest.cpp': ['#include "dispatch/recorder.hpp"', '#include "backend/backend.hpp"', '#include <cblas.h>'],
        'src/unknown/x.cpp': [''],
    }
    good = {
        'src/ops/math.cpp': '#include "backend/backend.hpp"\n#include <cmath>\n#include "tapestry/tensor.hpp"\n',
        'src/backend/cuda/kernels/x.cu': '#include <cstdint>\n',
        'src/io/onnx/onnx.cpp': '#include "io/tensorflow/graph_def.hpp"\n#include "io/file.hpp"\n#include <zlib.h>\n',
        'src/serve/rest.cpp': '#include <httplib.h>\n#include "io/wire.hpp"\n#include "tapestry/tensor.hpp"\n',
        'src/graph/passes/fold.cpp': 'const CallSiteScope site(where);  // the scope of a name: options.scope\n',
        'src/backend/cpu/matmul.cpp': '#include <cblas.h>\n#include "backend/cpu/cpu_backend.hpp"\n',
    }
    for path, lines in bad.items():
        for line in lines:
            assert list(violations(path, line, files)), f'self-test: not seen: {line} in {path}'
    for path, text in good.items():
        assert not list(violations(path, text, files)), f'self-test: wrongly forbidden in {path}'


def main():
    self_test()
    root = pathlib.Path(sys.argv[1])
    paths = [path for folder in ('include', 'src') for path in sorted((root / folder).rglob('*'))
             if path.suffix in ('.hpp', '.cpp', '.h', '.cu', '.cuh')]
    files = {path.relative_to(root).as_posix() for path in paths}
    # meson makes a file of each template.
    files |= {path.relative_to(root).as_posix().removesuffix('.in') for path in (root / 'src').rglob('*.in')}
    if not files:
        sys.exit(f'no source file below {root}')
    found = [violation for path in paths
             for violation in violations(path.relative_to(root).as_posix(), path.read_text(), files)]
    print(*found, sep='\n')
    print(f'{len(files)} files, {len(found)} violations')
    sys.exit(1 if found else 0)


if __name__ == '__main__':
    main()
