// The one attribute that C++ cannot say: "this function is compiled for the GPU as well".
#pragma once

#ifdef __CUDACC__
#define ENGRAM_HD __host__ __device__
#else
#define ENGRAM_HD
#endif
