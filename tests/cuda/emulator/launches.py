#!/usr/bin/env python3
"""Makes C++ of a kernel file, after the preprocessor and with its line numbers.

usage: launches.py OUTPUT COMPILER ARGUMENT...   (the command that would compile it)

  kernel<T><<<grid, block, shared, stream>>>(arguments)   becomes a call of emulator::launch
  __shared__ T x[4], y;                                   static, and announced to the emulator
  __launch_bounds__(threads) kernel(...) {                checked by every thread
"""

import pathlib
import re
import subprocess
import sys


def matching(text, begin):
    """The position of the bracket that closes the one at `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in '([{') - (text[i] in ')]}')
        if depth == 0:
            return i
    sys.exit('unbalanced brackets: ' + text[begin:begin + 80])


def callee_before(text, end):
    """Where the kernel's name begins that ends at `end`, with its template arguments."""
    i = end
    if text[i - 1] == '>':
        depth = 0
        while True:
            i -= 1
            depth += (text[i] == '>') - (text[i] == '<')
            if depth == 0:
                break
    return re.search(r'[\w:]+$', text[:i].rstrip()).start()


def rewrite_launches(text):
    done = []
    while '<<<' in text:
        mark = text.index('<<<')
        close = text.index('>>>', mark)
        arguments_end = matching(text, text.index('(', close)) + 1
        end = len(text[:mark].rstrip())
        begin = callee_before(text, end)
        kernel, configuration = text[begin:end], text[mark + 3:close]
        done.append(text[:begin])
        done.append(f'::emulator::launch("{" ".join(kernel.split())}", ::emulator::Configuration({configuration}), '
                    f'[&] {{ return [=] {{ {kernel}{text[close + 3:arguments_end]}; }}; }})')
        text = text[arguments_end:]
    return ''.join(done) + text


def rewrite_shared(match):
    declaration = match[1]
    names = [re.findall(r'\w+', re.sub(r'\[[^]]*\]', '', part))[-1] for part in declaration.split(',')]
    return f'static {declaration}; ::emulator::declare_shared({", ".join(names)});'


def rewrite_bounds(text):
    while match := re.search(r'__launch_bounds__\s*\(', text):
        close = matching(text, match.end() - 1)
        parameters = text.index('(', close + 1)
        body = matching(text, parameters)
        brace = text.index('{', body)
        threads = text[match.end():close]
        text = (text[:match.start()] + text[close + 1:brace + 1] +
                f' ::emulator::check_launch_bounds({threads});' + text[brace + 1:])
    return text


output, command = sys.argv[1], sys.argv[2:]
result = subprocess.run([*command, '-E'], stdout=subprocess.PIPE, text=True)
if result.returncode != 0:
    sys.exit(result.returncode)
code = re.sub(r'__shared__\s+([^;]+);', rewrite_shared, rewrite_bounds(rewrite_launches(result.stdout)))
pathlib.Path(output).write_text(code)
