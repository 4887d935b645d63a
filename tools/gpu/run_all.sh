#!/bin/bash
# Runs the GPU suite and the benchmark on this machine in one go, in under 8 minutes on a pair of
# H200, and writes what came of it.
#
#   tools/gpu/run_all.sh [--build DIR | --bin DIR] [--out DIR] [--nccl libnccl.so.2] [--only REGEX]
#                        [--limit SECONDS] [--budget SECONDS]
#
# --build  a build folder (default: build); --bin: one folder that holds all programs
# --out    for gpu_suite.{json,md}, gather.{json,md}, other figures and logs (default: docs/results);
#          what is said about them stands in *_notes.md, which no script writes
# --only   steps whose name matches, e.g. 'conformance|run_'
# --limit  seconds that any step may take at most
# --budget seconds for all steps together (default 470); a step past it is left out, and fails
# NCCL_GIN_PLUGIN in the environment adds the steps that need a network.
# Exit status: 0 when every step passed or was skipped with a reason, 3 when this machine has no GPU
# or a program is missing (nothing is written then), else 1.
set -u
cd "$(dirname "$0")/../.."
build=build bin= out=docs/results nccl= only=. cap=600 budget=470
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$2 ;;
    --bin) bin=$2 ;;
    --out) out=$2 ;;
    --nccl) nccl=$2 ;;
    --only) only=$2 ;;
    --limit) cap=$2 ;;
    --budget) budget=$2 ;;
    *) echo "run_all.sh: unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done
if ! nvidia-smi -L 2>/dev/null | grep -q GPU; then
  echo "run_all.sh: no GPU here (nvidia-smi lists none); nothing was run or written" >&2
  exit 3
fi

program() {
  if [ -n "$bin" ]; then
    echo "$bin/$1"
  else
    find "$build" -path "*CMakeFiles*" -prune -o -name "$1" -type f -perm -u+x -print | head -1
  fi
}
for name in engram nccl_conformance_test kernels_gpu_test nccl_selftest; do
  if ! [ -x "$(program $name)" ]; then
    echo "run_all.sh: no program $name in ${bin:-$build}; build with CUDA and NCCL first" >&2
    exit 3
  fi
done
logs=$out/gpu_logs
mkdir -p "$logs"
out=$(cd "$out" && pwd) logs=$(cd "$logs" && pwd)
[ -n "$nccl" ] && export ENGRAM_NCCL_LIBRARY=$nccl
# Multicast is left alone; ranks of one machine meet over the loopback interface.
export NCCL_NVLS_ENABLE=0 NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo}
plugin=${NCCL_GIN_PLUGIN:-}
unset NCCL_GIN_PLUGIN

rm -f "$logs/steps"
# step NAME SECONDS COMMAND...: one line on stdout, the rest in its log. Status 3 = skipped.
step() {
  local name=$1 limit=$2
  shift 2
  [[ $name =~ $only ]] || return 0
  [ "$limit" -gt "$cap" ] && limit=$cap
  local left=$((budget - SECONDS))
  [ "$limit" -gt "$left" ] && limit=$((left > 0 ? left : 1))
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
  local tests
  tests=$(grep -ohE '\[  PASSED  \] [0-9]+|OK, passed [0-9]+' "$logs/$name.log" | grep -oE '[0-9]+' |
    paste -sd ' ')
  local seconds
  seconds=$(awk "BEGIN{printf \"%.1f\", $end-$begin}")
  printf '%-34s %-10s rc %-3s %6s s  %s\n' "$name" "$state" "$rc" "$seconds" "$tests"
  grep -ohE '\{"(stream_fetch|versions)".*' "$logs/$name.log" | sed 's/^/    /'
  case $state in
    passed) ;;
    skipped) tail -n 1 "$logs/$name.log" | cut -c1-300 | sed 's/^/    /' ;;
    *) grep -vE '^\[[0-9]\] \[ +(RUN|OK)|^$' "$logs/$name.log" | tail -n 14 | cut -c1-400 |
      sed 's/^/    /' ;;
  esac
  echo "{\"step\":\"$name\",\"state\":\"$state\",\"status\":$rc,\"seconds\":$seconds,\"counts\":\"$tests\"}" >>"$logs/steps"
}

engram=$(program engram)
conformance=$(program nccl_conformance_test)
export RC_PARAMS=${RC_PARAMS:-max_success=12}
pair=scenarios/pair.toml
sanitizer=(compute-sanitizer --report-api-errors no --error-exitcode 9)
# Each GPU an NVLink domain of its own: every row of the peer goes through the network.
# A hardware queue a stream: on fewer, the plug-in's copies would queue behind kernels that wait.
network=(env NCCL_GIN_PLUGIN="$plugin" NCCL_NET=Socket CUDA_DEVICE_MAX_CONNECTIONS=32)
two_domains=("${network[@]}" NCCL_LSA_TEAM_SIZE=1)

step doctor 30 "$engram" doctor
for reuse in 0 1; do
  for way in "1" "2" "2 --processes"; do
    name=conformance_${way// --/_}_reuse$reuse
    # shellcheck disable=SC2086
    step "$name" 60 env NCCL_SYM_REUSE_SYSMEM_HANDLES=$reuse "$conformance" --ranks $way
  done
done
step run_threads 40 "$engram" run $pair --backend nccl --json "$out/run_threads.json"
step run_processes 40 "$engram" launch -n 2 -- "$engram" run $pair --backend nccl \
  --json "$out/run_processes.json"
if [ -n "$plugin" ]; then
  step network_doctor 30 "${two_domains[@]}" "$engram" doctor
  for reuse in 0 1; do
    step network_conformance_reuse$reuse 60 "${two_domains[@]}" \
      NCCL_SYM_REUSE_SYSMEM_HANDLES=$reuse "$conformance" --ranks 2 --processes --case-times
  done
  step network_one_domain 60 "${network[@]}" RC_PARAMS=max_success=100 \
    "$conformance" --ranks 2 --processes --case-times
  step network_run 40 "${two_domains[@]}" "$engram" launch -n 2 -- "$engram" run $pair \
    --backend nccl --set cluster.nodes=2 --set cluster.gpus_per_node=1 --json "$out/run_network.json"
  step network_bench 60 "${two_domains[@]}" "$engram" bench fetch --only stream --host-gib 0 \
    --json "$out/stream_network.json"
fi
step kernels 60 "$(program kernels_gpu_test)"
step selftest 60 "$(program nccl_selftest)" --ranks 2 --limit 40 ${nccl:+--nccl "$nccl"}
step bench 180 "$engram" bench fetch --json "$out/gather.json"
# A sanitizer's programs run beside each other: it is the start that takes them long.
for tool in memcheck racecheck; do
  for ranks in 1 2; do
    step ${tool}_$ranks 75 env RC_PARAMS=max_success=2 "${sanitizer[@]}" --tool $tool \
      "$conformance" --ranks $ranks --gtest_filter='*Delivers*' &
  done
  step ${tool}_kernels 75 env RC_PARAMS=max_success=5 "${sanitizer[@]}" --tool $tool \
    "$(program kernels_gpu_test)" --gtest_filter=-*Reaches* &
  wait
done


gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | sort | uniq -c |
  sed 's/^ *\([0-9]*\) \(.*\), \(.*\)/\1x \2, driver \3/' | paste -sd ';')
# The doctor's lines: "driver PATH for CUDA 13.0, ..." and "NCCL PATH 2.32.3, headers ...".
versions=$(sed -nE 's/^driver .* for (CUDA [0-9.]+),.*/\1/p; s/^NCCL +[^ ]+ ([0-9.]+),.*/NCCL \1/p' \
  "$logs/doctor.log" 2>/dev/null | paste -sd , | sed 's/,/, /g')
gpus="$gpus${versions:+, $versions}"
lines_of() { grep -oh "{\"$1\".*" "$logs"/*.log 2>/dev/null; }
{
  echo "{\"machine\":\"$gpus\",\"steps\":["
  paste -sd , "$logs/steps"
  echo "],\"seconds\":$SECONDS,\"stream_fetch\":[$(lines_of stream_fetch | paste -sd ,)],"
  echo "\"versions\":[$(lines_of versions | paste -sd ,)]}"
} >"$out/gpu_suite.json"
{
  echo "# GPU suite"
  echo
  echo "On $gpus."
  echo "Written by tools/gpu/run_all.sh in $SECONDS s, $RC_PARAMS a property (under a sanitizer 2 and"
  echo "5). What is said about it: gpu_suite_notes.md."
  echo
  echo "| step | state | s | tests and cases passed |"
  echo "|---|---|---|---|"
  sed -E 's/.*"step":"([^"]*)","state":"([^"]*)".*"seconds":([^,]*),"counts":"([^"]*)".*/| \1 | \2 | \3 | \4 |/' "$logs/steps"
  echo
  echo "The default fetch (12,288 rows of 256 B, half of them the peer's), issue and wait through"
  echo "nccl::StreamFetch, medians:"
  echo
  echo "| ranks | processes | network | queued us | in a graph us |"
  echo "|---|---|---|---|---|"
  lines_of stream_fetch |
    sed -E 's/.*"ranks": ([0-9]+), "processes": ([a-z]+),.*"network": ([a-z]+), "queued_us": ([0-9.]+), "graph_us": ([0-9.]+).*/| \1 | \2 | \3 | \4 | \5 |/'
  echo
  echo "Rows rewritten by their owner's GPU while they are read; torn: rows that a plain fetch of the"
  echo "same indices got in halves:"
  echo
  echo "| ranks | network | reads by versions | newer than the first | read again | torn without |"
  echo "|---|---|---|---|---|---|"
  lines_of versions |
    sed -E 's/.*"ranks": ([0-9]+), "network": ([a-z]+), "reads": ([0-9]+), "newer": ([0-9]+), "read_again": ([0-9]+), "torn_without_versions": ([0-9]+).*/| \1 | \2 | \3 | \4 | \5 | \6 |/'
} >"$out/gpu_suite.md"
if [ -s "$out/gather.json" ] && command -v python3 >/dev/null; then
  figures=("$out/gather.json")
  [ -s "$out/stream_network.json" ] && figures+=("$out/stream_network.json")
  python3 tools/gpu/bench_table.py --machine "an H200 machine, $gpus" \
    --command "tools/gpu/run_all.sh (engram bench fetch)" --notes docs/results/gather_notes.md \
    "${figures[@]}" >"$out/gather.md"
fi
! grep -qvE '"state":"(passed|skipped)"' "$logs/steps"
