#!/bin/sh
# Ranks in processes of their own on this host. usage: loopback.sh HOST_PEER auto|tcp [NUM_RANKS]
usage() {
  echo "loopback.sh: $1; usage: loopback.sh HOST_PEER auto|tcp [NUM_RANKS]" >&2
  exit 2
}
[ $# -ge 2 ] && [ $# -le 3 ] || usage "$# arguments"
peer=$1 ranks=${3:-2}
[ -f "$peer" ] && [ -x "$peer" ] || usage "'$peer' is no program"
case $2 in auto | tcp) ;; *) usage "'$2' is no transport" ;; esac
case $ranks in '' | *[!0-9]* | 0) usage "'$ranks' is no number of ranks" ;; esac
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
