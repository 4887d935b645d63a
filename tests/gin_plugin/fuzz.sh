#!/bin/sh
# The fuzz test for longer. usage: fuzz.sh GIN_PLUGIN_TEST [SECONDS]
ENGRAM_FUZZ_SECONDS=${2:-3600} exec "$1" --gtest_filter='Fuzz.*'
