#!/bin/sh
# Mixed operations of random sizes on 2 GPUs, checked byte by byte, and communicators made and
# destroyed: neither may leave more memory, GPU memory, open files or threads than it found.
# usage: sustained.sh GIN_PROBE LIBENGRAM_GIN [SECONDS [gpi|rma|tcp]]
# Prints one JSON object; exit status 0 = all right. SEED chooses other operations.
probe=$1 plugin=$2 seconds=${3:-240} way=${4:-gpi} seed=${SEED:-1}
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} NCCL_NET=Socket NCCL_NVLS_ENABLE=0 NCCL_DEBUG=WARN
case $way in
  gpi) export NCCL_GIN_PLUGIN=$plugin ;;
  rma) export NCCL_RMA_PLUGIN=$plugin ;;
  tcp) export NCCL_GIN_PLUGIN=$plugin ENGRAM_GIN_TRANSPORT=tcp ;;
  *) echo "unknown way $way" >&2; exit 2 ;;
esac
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout $((seconds + 120)) "$probe" --run mixed,churn --seconds "$seconds" --seed "$seed" \
  --rounds "${ROUNDS:-20}" >"$log" 2>&1
status=$?
mixed=$(grep '"test":"mixed"' "$log" | head -1)
churn=$(grep '"test":"churn"' "$log" | head -1)
verdict=false
if [ $status -eq 0 ] && [ -n "$mixed" ] && [ -n "$churn" ]; then verdict=true; fi
[ $verdict = true ] || grep -v '^{' "$log" | tail -20 >&2
echo "{\"way\":\"$way\",\"seed\":$seed,\"right\":$verdict,\"status\":$status," \
  "\"mixed\":${mixed:-null},\"churn\":${churn:-null}}"
[ $verdict = true ]
