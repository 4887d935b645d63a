#!/bin/sh
# The fuzz test for longer. usage: fuzz.sh GIN_PLUGIN_TEST [SECONDS]
usage() {
  echo "fuzz.sh: $1; usage: fuzz.sh GIN_PLUGIN_TEST [SECONDS]" >&2
  exit 2
}
[ $# -ge 1 ] && [ $# -le 2 ] || usage "$# arguments"
[ -f "$1" ] && [ -x "$1" ] || usage "'$1' is no program"
seconds=${2:-3600}
case $seconds in '' | *[!0-9]* | 0) usage "'$seconds' is no number of seconds" ;; esac
ENGRAM_FUZZ_SECONDS=$seconds exec "$1" --gtest_filter='Fuzz.*'
