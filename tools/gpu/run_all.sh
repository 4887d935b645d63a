#!/bin/bash
# Runs the GPU suite and the benchmark on this machine in one go, in under 8 minutes on a pair of
# H200, and writes what came of it.
#
#   tools/gpu/run_all.sh [--build DIR | --bin DIR] [--out DIR] [--nccl libnccl.so.2] [--only REGEX]
#                        [--limit SECONDS]
#
# --build  a build folder (default: build); --bin: one folder that holds all programs
# --out    for gpu_suite.json, gpu_suite.md, figures and logs (default: docs/results)
# --only   steps whose name matches, e.g. 'conformance|run_'
# --limit  seconds that any step may take at most
# NCCL_GIN_PLUGIN in the environment adds the steps that need a network.
# Exit status: 0 when every step passed or was skipped with a reason, else 1.
set -u
cd "$(dirname "$0")/../.."
build=build bin= out=docs/results nccl= only=. cap=600
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2 ;;
    --bin) bin=$2 ;;
    --out) out=$2 ;;
    --nccl) nccl=$2 ;;
    --only) only=$2 ;;
    --limit) cap=$2 ;;
    *) echo "run_all.sh: unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done
logs=$out/gpu_logs
mkdir -p "$logs"
out=$(cd "$out" && pwd) logs=$(cd "$logs" && pwd)
[ -n "$nccl" ] && export ENGRAM_NCCL_LIBRARY=$nccl
# Multicast is left alone; ranks of one machine meet over the loopback interface.
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
plugin=${NCCL_GIN_PLUGIN:-}
unset NCCL_GIN_PLUGIN

program() {
  if [ -n "$bin" ]; then
    echo "$bin/$1"
  else
    find "$build" -path "*CMakeFiles*" -prune -o -name "$1" -type f -perm -u+x -print | head -1
  fi
}

failed=0
steps=()
# step NAME SECONDS COMMAND...: one line on stdout, the rest in its log. Status 3 = skipped.
step() {
  local name=$1 limit=$2
  shift 2
  [ "$limit" -gt "$cap" ] && limit=$cap
  [[ $name =~ $only ]] || return 0
  local begin end rc state
  begin=$(date +%s.%N)
  timeout -k 5 "$limit" "$@" >"$logs/$name.log" 2>&1
  rc=$?
  end=$(date +%s.%N)
  case $rc in
    0) state=passed ;;
    3) state=skipped ;;
    124 | 137) state="over ${limit} s" ;;
    *) state=failed ;;
  esac
  [ $rc -eq 0 ] || [ $rc -eq 3 ] || failed=1
  local tests
  tests=$(grep -ohE '\[  PASSED  \] [0-9]+|OK, passed [0-9]+' "$logs/$name.log" | grep -oE '[0-9]+' |
    paste -sd ' ')
  local seconds
  seconds=$(awk "BEGIN{printf \"%.1f\", $end-$begin}")
  printf '%-34s %-10s rc %-3s %6s s  %s\n' "$name" "$state" "$rc" "$seconds" "$tests"
  grep -oh '{"stream_fetch".*' "$logs/$name.log" | sed 's/^/    /'
  case $state in
    passed) ;;
    skipped) tail -n 1 "$logs/$name.log" | cut -c1-300 | sed 's/^/    /' ;;
    *) grep -vE '^\[[0-9]\] \[ +(RUN|OK)|^$' "$logs/$name.log" | tail -n 14 | cut -c1-400 |
      sed 's/^/    /' ;;
  esac
  steps+=("{\"step\":\"$name\",\"state\":\"$state\",\"status\":$rc,\"seconds\":$seconds,\"counts\":\"$tests\"}")
}

engram=$(program engram)
conformance=$(program nccl_conformance_test)
export RC_PARAMS=${RC_PARAMS:-max_success=40}

step doctor 30 "$engram" doctor
for reuse in 0 1; do
  for way in "1" "2" "2 --processes"; do
    name=conformance_${way// --/_}_reuse$reuse
    # shellcheck disable=SC2086
    step "$name" 90 env NCCL_SYM_REUSE_SYSMEM_HANDLES=$reuse "$conformance" --ranks $way
  done
done
step run_threads 60 "$engram" run scenarios/pair.toml --backend nccl --json "$out/run_threads.json"
step run_processes 60 "$engram" launch -n 2 -- "$engram" run scenarios/pair.toml --backend nccl \
  --json "$out/run_processes.json"
if [ -n "$plugin" ]; then
  # Each GPU an NVLink domain of its own: every row of the peer goes through the network.
  step network_conformance 120 env NCCL_GIN_PLUGIN="$plugin" NCCL_NET=Socket NCCL_LSA_TEAM_SIZE=1 \
    "$conformance" --ranks 2 --processes
  step network_run 60 env NCCL_GIN_PLUGIN="$plugin" NCCL_NET=Socket NCCL_LSA_TEAM_SIZE=1 \
    "$engram" launch -n 2 -- "$engram" run scenarios/pair.toml --backend nccl \
    --set cluster.nodes=2 --set cluster.gpus_per_node=1 --json "$out/run_network.json"
fi
step kernels 90 "$(program kernels_gpu_test)"
step selftest 90 "$(program nccl_selftest)" --ranks 2 --limit 40 ${nccl:+--nccl "$nccl"}
step bench 180 "$engram" bench fetch --json "$out/bench_fetch.json"
for tool in memcheck racecheck; do
  step $tool 90 env RC_PARAMS=max_success=3 compute-sanitizer --tool $tool --report-api-errors no \
    --error-exitcode 9 "$conformance" --ranks 1 --gtest_filter='*Delivers*'
done

gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sort | uniq -c |
  sed 's/^ *\([0-9]*\) /\1x /' | paste -sd ';')
streams=$(grep -oh '{"stream_fetch".*' "$logs"/*.log 2>/dev/null | paste -sd ,)
{
  echo "{\"machine\":\"$gpus\",\"steps\":["
  (IFS=,; echo "${steps[*]}")
  echo "],\"stream_fetch\":[$streams]}"
} >"$out/gpu_suite.json"
{
  echo "# GPU suite"
  echo
  echo "On $gpus. Written by tools/gpu/run_all.sh."
  echo
  echo "| step | state | s | tests and cases passed |"
  echo "|---|---|---|---|"
  printf '%s\n' "${steps[@]}" |
    sed -E 's/.*"step":"([^"]*)","state":"([^"]*)".*"seconds":([^,]*),"counts":"([^"]*)".*/| \1 | \2 | \3 | \4 |/'
  echo
  echo "The default fetch (12,288 rows of 256 B, half of them the peer's), issue and wait through"
  echo "nccl::StreamFetch, medians:"
  echo
  echo "| ranks | processes | network | queued us | in a graph us |"
  echo "|---|---|---|---|---|"
  grep -oh '{"stream_fetch".*' "$logs"/*.log 2>/dev/null |
    sed -E 's/.*"ranks": ([0-9]+), "processes": ([a-z]+),.*"network": ([a-z]+), "queued_us": ([0-9.]+), "graph_us": ([0-9.]+).*/| \1 | \2 | \3 | \4 | \5 |/'
} >"$out/gpu_suite.md"
exit $failed
