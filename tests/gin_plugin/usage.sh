#!/bin/sh
# Wrong arguments of the scripts beside this one end with status 2 and say what is accepted.
# usage: usage.sh PROGRAM
program=$1
here=$(dirname "$0")
expect() { # TEXT SCRIPT ARGUMENTS...
  text=$1 script=$2
  shift 2
  said=$("$here/$script" "$@" 2>&1)
  status=$?
  if [ $status -ne 2 ] || ! echo "$said" | grep -q "$script: $text; usage: $script "; then
    echo "$script $*: status $status, wanted 2 with '$text', got: $said"
    exit 1
  fi
}
expect "0 arguments" fuzz.sh
expect "'/no/such' is no program" fuzz.sh /no/such
expect "'many' is no number of seconds" fuzz.sh "$program" many
expect "1 arguments" loopback.sh "$program"
expect "'/' is no program" loopback.sh / auto
expect "'udp' is no transport" loopback.sh "$program" udp
expect "'-1' is no number of ranks" loopback.sh "$program" auto -1
