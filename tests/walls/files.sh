#!/bin/sh
# What the repository keeps is small, for every clone has all of it forever.
# usage: files.sh SOURCE_ROOT LIMIT      LIMIT: bytes of a file
set -eu
cd "$1"
git rev-parse --is-inside-work-tree > /dev/null 2>&1 || { echo 'skipped: not a clone'; exit 77; }
# Larger all the same, by name:
allowed='tests/golden/foreign_ops.pb tests/golden/foreign_ops.expected.pb'
large=$(git ls-files -z | xargs -0 stat -c '%s %n' | while read -r size name; do
  [ "$size" -le "$2" ] || case " $allowed " in *" $name "*) ;; *) echo "$name has $size bytes, more than $2" ;; esac
done)
echo "${large:-no tracked file has more than $2 bytes}"
[ -z "$large" ]
