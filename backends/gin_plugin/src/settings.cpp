#include "engram/gin_plugin/settings.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>

namespace engram::gin_plugin {
namespace {

Result<std::uint64_t> number(const char* name, const std::string& text, std::uint64_t least,
                             std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    return fail(ErrorCode::invalid_argument, name, "=", text, " must be a number from ", least,
                " to ", most);
  }
  return value;
}

}  // namespace

Result<Settings> read_settings(const std::function<std::optional<std::string>(const char*)>& get) {
  Settings settings;
  if (auto text = get("ENGRAM_GIN_TRANSPORT"); text && *text != "auto") {
    if (*text != "tcp") {
      return fail(ErrorCode::invalid_argument, "ENGRAM_GIN_TRANSPORT=", *text,
                  " must be auto or tcp");
    }
    settings.transport = Transport::tcp;
  }
  settings.secret = get("ENGRAM_GIN_SECRET").value_or("");
  settings.address = get("ENGRAM_GIN_ADDRESS").value_or("");

  Error first_error;
  auto read = [&](const char* name, std::uint64_t least, std::uint64_t most, auto set) {
    const auto text = get(name);
    if (!text) return;
    auto value = number(name, *text, least, most);
    if (value) {
      set(*value);
    } else if (first_error.message.empty()) {
      first_error = value.error();
    }
  };
  using std::chrono::milliseconds;
  read("ENGRAM_GIN_WORKERS", 0, 64,
       [&](std::uint64_t v) { settings.workers = static_cast<unsigned>(v); });
  read("ENGRAM_GIN_RING_DEPTH", 64, 1 << 20, [&](std::uint64_t v) {
    settings.ring_depth = static_cast<std::uint32_t>(std::bit_ceil(v));
  });
  read("ENGRAM_GIN_EXCHANGE_MS", 1, 3'600'000,
       [&](std::uint64_t v) { settings.exchange_limit = milliseconds(v); });
  read("ENGRAM_GIN_SPIN_MS", 0, 3'600'000,
       [&](std::uint64_t v) { settings.spin_time = milliseconds(v); });
  read("ENGRAM_GIN_KERNEL_COPIES", 1, 4096,
       [&](std::uint64_t v) { settings.engine.kernel_copies = v; });
  read("ENGRAM_GIN_SLOTS", 1, 64, [&](std::uint64_t v) { settings.engine.slots = v; });
  read("NCCL_SYM_REUSE_SYSMEM_HANDLES", 0, 1,
       [&](std::uint64_t v) { settings.reuse_host_mappings = v != 0; });
  // Fewer hardware queues than this and the application's streams share them: a plugin kernel then
  // queues behind one that waits for it. 8 is CUDA's own default.
  constexpr std::uint64_t kEnoughQueues = 8;
  read("CUDA_DEVICE_MAX_CONNECTIONS", 1, 4096,
       [&](std::uint64_t v) { settings.engine.kernels_allowed = v >= kEnoughQueues; });
  read("ENGRAM_GIN_COPY_ENGINE_BELOW", 0, 4096,
       [&](std::uint64_t v) { settings.engine.copy_engine_below = v; });
  if (auto text = get("ENGRAM_GIN_KERNELS")) {
    if (*text != "0" && *text != "1") {
      return fail(ErrorCode::invalid_argument, "ENGRAM_GIN_KERNELS=", *text, " must be 0 or 1");
    }
    settings.engine.kernels_allowed = *text == "1";
  }
  if (!first_error.message.empty()) return tl::unexpected(first_error);
  return settings;
}

std::optional<std::string> environment_variable(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return text;
}

}  // namespace engram::gin_plugin
