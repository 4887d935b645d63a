#!/bin/sh
# Mixed gets and puts of random sizes, checked byte by byte, on 2 GPUs, in rounds.
# usage: sustained.sh GIN_PROBE LIBENGRAM_GIN [SECONDS [gpi|rma|tcp]]. Prints threads and open files
# of rank 0 after each round: they must not grow.
probe=$1 plugin=$2 seconds=${3:-240} way=${4:-gpi}
export NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_NVLS_ENABLE=0 NCCL_DEBUG=WARN
case $way in
  gpi) export NCCL_GIN_PLUGIN=$plugin ;;
  rma) export NCCL_RMA_PLUGIN=$plugin ;;
  tcp) export NCCL_GIN_PLUGIN=$plugin ENGRAM_GIN_TRANSPORT=tcp ;;
  *) echo "unknown way $way" >&2; exit 2 ;;
esac
round=60 seed=${SEED:-1}
while [ "$seconds" -gt 0 ]; do
  [ "$seconds" -lt $round ] && round=$seconds
  echo "seed $seed, $round s"
  timeout $((round + 60)) "$probe" --run mixed --seconds $round --seed "$seed" || exit 1
  seconds=$((seconds - round)) seed=$((seed + 1))
done
