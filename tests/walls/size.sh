#!/bin/sh
# The library stays small enough to ship beside a program: at most LIMIT bytes without its symbols.
# usage: size.sh LIBRARY LIMIT
set -eu
stripped=$(mktemp)
trap 'rm -f "$stripped"' EXIT
strip -o "$stripped" "$1"
size=$(wc -c < "$stripped")
echo "$size bytes of at most $2"
[ "$size" -le "$2" ]
