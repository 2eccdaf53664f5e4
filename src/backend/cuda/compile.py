#!/usr/bin/env python3
"""Runs nvcc and keeps what ptxas tells about registers, for tests/cuda/registers.py to read.

usage: compile.py LOG NVCC ARGUMENT...
"""

import pathlib
import subprocess
import sys

log, command = sys.argv[1], sys.argv[2:]
result = subprocess.run([*command, '-Xptxas', '-v'], stderr=subprocess.PIPE, text=True)
report, messages = [], []
for line in result.stderr.splitlines(keepends=True):
    ours = line.startswith('ptxas info') or 'bytes stack frame' in line
    (report if ours else messages).append(line)
pathlib.Path(log).write_text(''.join(report))
sys.stderr.write(''.join(messages))
sys.exit(result.returncode)
