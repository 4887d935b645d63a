#!/bin/sh
# What cannot connect ends with status 1 and a reason, not by a crash. usage: refusals.sh HOST_PEER
peer=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
expect() { # STATUS TEXT COMMAND...
  wanted=$1 text=$2
  shift 2
  "$@" >"$folder/out" 2>&1
  status=$?
  if [ $status -ne "$wanted" ] || ! grep -q "$text" "$folder/out"; then
    echo "$*: status $status, wanted $wanted with '$text'"
    cat "$folder/out"
    exit 1
  fi
}
export ENGRAM_GIN_EXCHANGE_MS=500
head -c 128 /dev/urandom >"$folder/rank1"
expect 1 "another version" "$peer" 0 2 "$folder"
expect 1 "there are 2 ranks" "$peer" 3 2 "$folder"
# A listener that nobody comes to; then one whose process is gone.
rm -f "$folder"/rank*
"$peer" 0 1 "$folder" >/dev/null 2>&1
cp "$folder/rank0" "$folder/rank1"
expect 1 "still lacks 2 connections" "$peer" 0 2 "$folder"
expect 1 "connecting to a peer" "$peer" 1 2 "$folder"
