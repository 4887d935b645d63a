#!/bin/sh
# How fast the simulator runs: the scenarios of scenarios/scale, then how time grows with ranks and
# with gets. Prints a Markdown table, which scale_plot.py draws. Usage: tools/bench/scale.sh [BUILD]
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
engram=${1:-$root/build}/tools/engram

measure() {  # fidelity scenario sets...
  fidelity=$1 scenario=$2
  shift 2
  line=$(timeout 500 "$engram" run "$root/scenarios/scale/$scenario.toml" --json - --cost \
    --set run.fidelity=$fidelity "$@" 2>&1 >"${TMPDIR:-/tmp}/engram_scale.$$" | grep 'cost:') ||
    line="cost: failed"
  python3 - "$fidelity" "$line" "${TMPDIR:-/tmp}/engram_scale.$$" <<'PYTHON'
import json, re, sys
fidelity, cost, path = sys.argv[1:]
numbers = re.findall(r"[\d.]+", cost)
try:
    r = json.load(open(path))
    paths = sum(p["requests"] for p in r["paths"].values())
    print(f"| {fidelity} | {r['ranks']} | {paths // r['ranks']:,} | {r['requests']:,} | "
          f"{r['time_us']['median']:.0f} | {numbers[0]} | {numbers[1]} | {numbers[2]} | {numbers[3]} | {numbers[4]} |")
except (ValueError, IndexError):
    print(f"| {fidelity} | failed: {cost} |")
PYTHON
  rm -f "${TMPDIR:-/tmp}/engram_scale.$$"
}

echo '| fidelity | ranks | gets a rank | network reads | simulated us | wall s | CPU s | k reads/s | k reads/CPU s | MB |'
echo '|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|'
measure message message_64
measure batch batch_256
measure flow flow_2048
for nodes in 2 4 16; do measure message message_64 --set cluster.nodes=$nodes; done
for tokens in 64 128 256; do measure message message_64 --set fetch.tokens=$tokens; done
for nodes in 8 16 64; do measure batch batch_256 --set cluster.nodes=$nodes; done
for tokens in 64 128 256; do measure batch batch_256 --set fetch.tokens=$tokens; done
for nodes in 32 64 128; do measure flow flow_2048 --set cluster.nodes=$nodes; done
for tokens in 64 128 256; do
  measure flow flow_2048 --set cluster.nodes=64 --set fetch.tokens=$tokens
done
