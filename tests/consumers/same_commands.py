#!/usr/bin/env python3
"""Checks that a project which has Tapestry as a subproject compiles the library's files as Tapestry's own build does:
the same files together, by the same commands. What that build's tests say then holds for the project's library.

usage: same_commands.py OWN_BUILD PROJECT_BUILD
"""

import json
import pathlib
import re
import shlex
import sys


def commands(build, library, sources):
    """Maps each object of the library to its command and to the files that it joins. The result leaves out `library`,
    the library's folder in `build`, and `sources`, an expression for the path to its sources."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        if not entry['output'].startswith(library + 'src/'):
            continue
        joined = re.sub(r'[^<>\n]*/(?=src/)', '', (build / entry['file']).read_text()) if 'unity' in entry['file'] else ''
        command = [re.sub(f'^(-I|)({sources}|{library})', r'\1', each) for each in shlex.split(entry['command'])]
        levels = [each for each in command if re.fullmatch('-O.', each)]
        ours = [each for each in command if each not in ('ccache', '-Werror', '-Wno-restrict') and each not in levels]
        found[entry['output'].removeprefix(library)] = sorted(ours), levels[-1:], joined
    return found


def main(own_build, project_build):
    own = commands(pathlib.Path(own_build), '', r'\.\./\.\./')
    project = commands(pathlib.Path(project_build), 'subprojects/tapestry/', r'\S*subprojects/tapestry/')
    different = [name for name, command in project.items() if command != own.get(name)]
    for name in different:
        print(f'{name}\n  {own.get(name)}\n  {project[name]}', file=sys.stderr)
    print(f'{len(project)} commands, {len(different)} different')
    return bool(different) or not project


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
