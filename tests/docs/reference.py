#!/usr/bin/env python3
"""Runs doxygen as the target `reference` does: what it warns of, and a public name without a docstring, is a failure.

usage: reference.py DOXYFILE
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SKIPPED = 77

# What doxygen 1.9 does not look at when it warns of undocumented names.
UNWATCHED = ['.//memberdef[@kind="enum"][@prot="public"]/enumvalue', './compounddef[@kind="concept"]']


def is_documented(element):
    return any(''.join(element.find(kind).itertext()).strip() for kind in ('briefdescription', 'detaileddescription'))


def name_of(element):
    return element.findtext('name') or element.findtext('compoundname')


def problems(settings):
    """Runs doxygen with these settings; returns what is wrong, a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        settings += f'\nOUTPUT_DIRECTORY = {folder}\nGENERATE_HTML = NO\nGENERATE_XML = YES\nXML_PROGRAMLISTING = NO\n'
        ran = subprocess.run(['doxygen', '-'], input=settings, capture_output=True, text=True)
        found = list(dict.fromkeys(ran.stderr.splitlines()))
        if ran.returncode and not found:
            found = [f'doxygen: exit status {ran.returncode}']
        for page in sorted(pathlib.Path(folder).glob('xml/*.xml')):
            root = ElementTree.parse(page).getroot()
            # A member of a group is in the group's page and in its namespace's.
            found += {f'{name_of(each)} is not documented.' for path in UNWATCHED for each in root.findall(path)
                      if not is_documented(each)} - set(found)
        return found


def self_test(settings):
    """The check itself must see what it forbids."""
    header = """/// A namespace.
namespace space {
/// @defgroup topic Topic
/// A topic.
/// @{
int free_function();
/// A function, and one that shares its words.
/// @{
int shared_first();
int shared_second();
/// @}
/// A class.
class Class {
 public:
  int member();
  int first_field, second_field;  ///< of two
};
class OtherClass {
  int private_field;
};
/// Numbers.
enum class Enum { value };
template <class T>
concept Concept = true;
/// @}
namespace detail {
int internal();
}
}
"""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / 'header.hpp'
        path.write_text(header)
        found = '\n'.join(problems(f'{settings}\nINPUT = {path}\nUSE_MDFILE_AS_MAINPAGE =\n'))
    for name in ('free_function', 'member', 'first_field', 'OtherClass', 'value', 'Concept'):
        assert name in found, f'self-test: not seen: {name}\n{found}'
    for name in ('shared', 'second_field', 'internal'):
        assert name not in found, f'self-test: wrongly forbidden: {name}\n{found}'


def main(doxyfile):
    if not shutil.which('doxygen'):
        print('skipped: doxygen is not installed')
        return SKIPPED
    settings = pathlib.Path(doxyfile).read_text()
    self_test(settings)
    found = problems(settings)
    print(*found, f'{len(found)} problems', sep='\n')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
