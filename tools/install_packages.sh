#!/bin/sh
# Installs what a bare Debian 12 lacks to build and test. CUDA is optional: where nvcc is found, the
# NCCL headers and library come from the Python package.
set -eu
sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
packages="g++ cmake ninja-build pkg-config ccache git python3 python3-pip
  libsimgrid-dev libboost-context-dev libboost-dev libcli11-dev libtomlplusplus-dev libexpected-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev libtinyxml2-dev libgtest-dev librapidcheck-dev
  libbenchmark-dev clang-format"
missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
  $sudo apt-get update -qq
  # shellcheck disable=SC2086
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing
fi
if command -v nvcc >/dev/null 2>&1 || [ -x /usr/local/cuda/bin/nvcc ]; then
  python3 -c 'import nvidia.nccl' 2>/dev/null ||
    python3 -m pip install -q --no-deps 'nvidia-nccl-cu13>=2.30.4' ||
    python3 -m pip install -q --no-deps --break-system-packages 'nvidia-nccl-cu13>=2.30.4' ||
    echo "NCCL's Python package could not be installed; the nccl backend stays off"
fi
