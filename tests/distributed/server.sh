#!/bin/sh
# tapestry-server prints its target, ends well at SIGTERM, and says what is wrong with its arguments.
# usage: server.sh PROGRAM
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT
unset TF_CONFIG TF_CLUSTER_DEF SLURM_STEP_NODELIST || true

"$1" --cluster 'worker=localhost:0' --job worker --task 0 > "$log" &
server=$!
while ! grep -q . "$log"; do sleep 0.1; done
grep -Eqx 'grpc://localhost:[0-9]+' "$log"
kill -TERM $server
wait $server

"$1" --help | grep -q 'usage: tapestry-server'
! "$1" --job 2> "$log"
! "$1" --cluster 2> "$log"
grep -q -- '--cluster needs a value' "$log"
for arguments in '--job worker --task 1' '--task=3' '--job=x'; do
  ! "$1" $arguments 2> "$log"
  grep -q 'needs --cluster, too' "$log"
done
! TF_CONFIG='{}' "$1" 2> "$log"
grep -q 'there is no "cluster"' "$log"
! TAPESTRY_TENSORFLOW_PLUGIN=/nowhere "$1" 2> "$log"
grep -q 'Graphs cannot be read: ' "$log"
! "$1" --bind= 2> "$log"
grep -q 'is empty' "$log"
! "$1" --tls=/nowhere 2> "$log"
grep -q 'Cannot read /nowhere/certificate.pem' "$log"
! "$1" --nonsense 2> "$log"
grep -q 'Unknown argument: --nonsense' "$log"
! "$1" --bind 0.0.0.0 2> "$log"
grep -q -- --insecure "$log"
echo good
