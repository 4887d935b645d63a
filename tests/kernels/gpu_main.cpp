// Runs the GPU tests where a GPU is; elsewhere says why not and ends with 3, which ctest counts as
// skipped. (A property cannot skip: RapidCheck makes its fixtures inside the run.)
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: needs a GPU: %s\n", cudaGetErrorString(found));
    return 3;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
