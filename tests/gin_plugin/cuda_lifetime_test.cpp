// What the CUDA side takes from the driver it gives back, on whatever thread it is closed: over a
// played driver that, as CUDA's, frees nothing for a thread without a context.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda_engine.hpp"

namespace engram::gin_plugin::testing {
namespace {

struct Driver {
  std::mutex mutex;
  std::map<std::string, std::set<std::uintptr_t>> alive;  ///< by kind
  std::uintptr_t last = 0x1000;
  int without_context = 0;  ///< calls that needed a context and had none

  template <class Handle>
  CUresult make(const char* kind, Handle* out) {
    const std::lock_guard lock(mutex);
    alive[kind].insert(last += 0x1000);
    *out = reinterpret_cast<Handle>(last);
    return CUDA_SUCCESS;
  }
  CUresult release(const char* kind, std::uintptr_t handle) {
    const std::lock_guard lock(mutex);
    return alive[kind].erase(handle) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  [[nodiscard]] std::string list() {
    std::string text;
    for (const auto& [kind, handles] : alive) {
      if (!handles.empty()) text += fmt::format("{} {}; ", handles.size(), kind);
    }
    return text;
  }
};
Driver& driver() {
  static Driver played;
  return played;
}
thread_local std::vector<CUcontext> stack;

/// The result of `work` where a context is current.
template <class Work>
CUresult current(const Work& work) {
  if (!stack.empty()) return work();
  const std::lock_guard lock(driver().mutex);
  ++driver().without_context;
  return CUDA_ERROR_INVALID_CONTEXT;
}
std::uintptr_t number(const void* handle) { return reinterpret_cast<std::uintptr_t>(handle); }

CudaApi played_api() {
  CudaApi api{};
  api.get_error_name = api.get_error_string = [](CUresult, const char** text) {
    *text = "played";
    return CUDA_SUCCESS;
  };
  api.ctx_get_current = [](CUcontext* context) {
    *context = stack.empty() ? nullptr : stack.back();
    return CUDA_SUCCESS;
  };
  api.ctx_set_current = [](CUcontext context) {
    stack.assign(1, context);
    return CUDA_SUCCESS;
  };
  api.ctx_get_device = [](CUdevice* device) {
    *device = 0;
    return CUDA_SUCCESS;
  };
  api.ctx_create = [](CUcontext* context, unsigned, CUdevice) {
    const CUresult made = driver().make("contexts", context);
    stack.push_back(*context);
    return made;
  };
  api.ctx_destroy = [](CUcontext c) { return driver().release("contexts", number(c)); };
  api.ctx_push_current = [](CUcontext context) {
    stack.push_back(context);
    return CUDA_SUCCESS;
  };
  api.ctx_pop_current = [](CUcontext* context) {
    *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  };
  api.module_load_data = [](CUmodule* module, const void*) {
    return current([&] { return driver().make("modules", module); });
  };
  api.module_unload = [](CUmodule m) {
    return current([&] { return driver().release("modules", number(m)); });
  };
  api.module_get_function = [](CUfunction*, CUmodule, const char*) { return CUDA_SUCCESS; };
  api.launch_kernel = [](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, CUstream, void**, void**) { return CUDA_SUCCESS; };
  api.stream_create = [](CUstream* stream, unsigned, int) {
    return current([&] { return driver().make("streams", stream); });
  };
  api.stream_destroy = [](CUstream s) {
    return current([&] { return driver().release("streams", number(s)); });
  };
  api.stream_synchronize = [](CUstream) { return CUDA_SUCCESS; };
  api.mem_host_alloc = [](void** data, std::size_t size, unsigned) {
    return current([&] {
      const std::lock_guard lock(driver().mutex);
      *data = std::aligned_alloc(64, (size + 63) / 64 * 64);
      driver().alive["pinned blocks"].insert(number(*data));
      return CUDA_SUCCESS;
    });
  };
  api.mem_free_host = [](void* data) {
    return current([&] {
      const CUresult released = driver().release("pinned blocks", number(data));
      std::free(data);
      return released;
    });
  };
  api.mem_host_register = [](void* data, std::size_t, unsigned) {
    return current([&] {
      const std::lock_guard lock(driver().mutex);
      driver().alive["registrations"].insert(number(data));
      return CUDA_SUCCESS;
    });
  };
  api.mem_host_unregister = [](void* data) {
    return current([&] { return driver().release("registrations", number(data)); });
  };
  api.mem_alloc = [](CUdeviceptr* data, std::size_t) {
    return current([&] {
      void* made = nullptr;
      const CUresult result = driver().make("device blocks", &made);
      *data = number(made);
      return result;
    });
  };
  api.mem_free = [](CUdeviceptr data) {
    return current([&] { return driver().release("device blocks", data); });
  };
  api.memset_d8_async = [](CUdeviceptr, unsigned char, std::size_t, CUstream) {
    return CUDA_SUCCESS;
  };
  return api;
}

/// Runs `work` on a thread of its own, with or without the application's context.
template <class Work>
void on_a_thread(bool with_context, const Work& work) {
  std::thread([&] {
    if (with_context) stack.assign(1, reinterpret_cast<CUcontext>(0xa0));
    work();
    EXPECT_EQ(stack.size(), with_context ? 1u : 0u) << "contexts are left as they were";
  }).join();
}

class Lifetime : public ::testing::TestWithParam<bool> {};

TEST_P(Lifetime, AllThatWasTakenIsGivenBack) {
  driver().alive.clear();
  driver().without_context = 0;
  std::unique_ptr<Device> device;
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<Block> blocks;
  std::function<void()> unpin;
  std::array<std::byte, 64> memory{};
  on_a_thread(true, [&] {
    auto made = make_cuda_device(std::make_shared<const CudaApi>(played_api()), {});
    ASSERT_TRUE(made.has_value()) << made.error().message;
    device = std::move(*made);
    for (const EngineUse use : {EngineUse::peers, EngineUse::peers, EngineUse::staging}) {
      auto engine = device->make_engine(use);
      ASSERT_TRUE(engine.has_value()) << engine.error().message;
      engines.push_back(std::move(*engine));
    }
    auto pinned = device->allocate_pinned(Bytes{100});
    auto plain = device->allocate(Bytes{100});
    auto pin = device->pin(memory);
    ASSERT_TRUE(pinned && plain && pin);
    blocks.push_back(std::move(*pinned));
    blocks.push_back(std::move(*plain));
    unpin = std::move(*pin);
  });
  EXPECT_EQ(driver().alive["contexts"].size(), 1u) << "engines share one";
  EXPECT_EQ(driver().alive["modules"].size(), 6u) << "each engine's, in both contexts";
  on_a_thread(GetParam(), [&] {
    unpin();
    blocks.clear();
    engines.clear();
    device.reset();
  });
  EXPECT_EQ(driver().list(), "");
  EXPECT_EQ(driver().without_context, 0);
}

INSTANTIATE_TEST_SUITE_P(ClosedOnAThread, Lifetime, ::testing::Bool(), [](const auto& with) {
  return std::string(with.param ? "with_the_context" : "without_a_context");
});

}  // namespace
}  // namespace engram::gin_plugin::testing
