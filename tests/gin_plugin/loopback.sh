#!/bin/sh
# Ranks in processes of their own on this host. usage: loopback.sh HOST_PEER auto|tcp [NUM_RANKS]
peer=$1 ranks=${3:-2}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export ENGRAM_GIN_TRANSPORT=$2 ENGRAM_GIN_ADDRESS=127.0.0.1 ENGRAM_GIN_WORKERS=1
others=""
rank=1
while [ $rank -lt "$ranks" ]; do
  "$peer" $rank "$ranks" "$folder" &
  others="$others $!"
  rank=$((rank + 1))
done
"$peer" 0 "$ranks" "$folder" || exit 1
for p in $others; do wait $p || exit 1; done
