#!/bin/sh
# Two "hosts" on one: each rank in a network namespace of its own, joined by a veth pair.
# usage: two_namespaces.sh HOST_PEER. Exit status 77 (skip) where namespaces may not be made.
set -u
peer=$1
folder=$(mktemp -d)
a=gin_a_$$ b=gin_b_$$
clean() {
  ip netns del $a 2>/dev/null
  ip netns del $b 2>/dev/null
  rm -rf "$folder"
}
trap clean EXIT
if ! { ip netns add $a && ip netns add $b &&
       ip link add va$$ netns $a type veth peer name vb$$ netns $b &&
       ip -n $a addr add 10.77.0.1/24 dev va$$ && ip -n $b addr add 10.77.0.2/24 dev vb$$ &&
       ip -n $a link set va$$ up && ip -n $b link set vb$$ up; } 2>"$folder/why"; then
  echo "skipped, no network namespaces here: $(tr '\n' ' ' <"$folder/why")"
  exit 77
fi
export ENGRAM_GIN_SECRET=two-namespaces ENGRAM_GIN_EXCHANGE_MS=20000
ip netns exec $b env ENGRAM_GIN_ADDRESS=10.77.0.2 "$peer" 1 2 "$folder" &
other=$!
ip netns exec $a env ENGRAM_GIN_ADDRESS=10.77.0.1 "$peer" 0 2 "$folder"
mine=$?
wait $other
theirs=$?
[ $mine -eq 0 ] && [ $theirs -eq 0 ] || exit 1
# Without the secret the ranks say what to set, and do not connect.
rm -f "$folder"/rank*
unset ENGRAM_GIN_SECRET
ip netns exec $b env ENGRAM_GIN_ADDRESS=10.77.0.2 ENGRAM_GIN_EXCHANGE_MS=3000 "$peer" 1 2 "$folder" \
  2>"$folder/refused" &
refused=$!
ip netns exec $a env ENGRAM_GIN_ADDRESS=10.77.0.1 ENGRAM_GIN_EXCHANGE_MS=3000 "$peer" 0 2 "$folder" \
  2>/dev/null
mine=$?
wait $refused
theirs=$?
# 1 is an error that was told; a crash has another status.
if [ $mine -ne 1 ] || [ $theirs -ne 1 ]; then
  echo "without a secret the ranks ended with $mine and $theirs, not with 1 and 1"
  exit 1
fi
grep -q ENGRAM_GIN_SECRET "$folder/refused"
