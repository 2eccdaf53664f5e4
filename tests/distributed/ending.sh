#!/bin/sh
# Runs three ranks, of which one ends early.
# usage: ending.sh WAY MPIRUN PROGRAM
set -u
output=$(timeout 60 "$2" -n 3 "$3" "$1" 2>&1)
status=$?
echo "$output"
echo "status $status"
case $1 in
throws) [ "$status" -eq 3 ] ;;
returns) [ "$status" -ne 0 ] && [ "$status" -ne 124 ] && echo "$output" | grep -q 'Rank 1 has ended its program' ;;
caught) [ "$status" -eq 0 ] && [ "$(echo "$output" | grep -c 'Rank 1 has ended its program')" -eq 2 ] ;;
esac
