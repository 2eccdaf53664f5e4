#!/bin/sh
# links.sh PROGRAM: runs the cases of a cluster whose links go down, in a network that ends with the program.
if ! unshare --map-root-user --net ip link add bridge type bridge 2> /dev/null; then
  echo 'skipped: there is no ip, or no network namespace may be made'
  exit 77
fi
exec unshare --map-root-user --net "$1" --no-skip --test-case='*link*'
