// ncclRmaPlugin_v14: puts and gets for NCCL's own GIN proxy and host RMA, through NCCL_RMA_PLUGIN.
// NCCL's progress thread stops for good at the first error, and kernels then wait for ever: so
// nothing here fails for what an operation does wrong; last_error() tells of it instead.
#include <cstring>

#include "entry.hpp"

namespace engram::gin_plugin {
namespace {

abi::Status properties(int device, abi::NetProperties* properties) {
  describe_device(device, *properties);
  // NCCL's GIN proxy takes its own type from here.
  properties->device_type = abi::kDeviceGinProxy;
  properties->device_version = abi::kProxyVersion;
  return abi::Status::success;
}

abi::Status create_context(void* comm, abi::RmaConfig* config, void** rma_ctx) {
  auto* c = static_cast<Comm*>(comm);
  auto set = c->fabric->create_rma(config->num_contexts);
  if (!set) return report(c->plugin, set.error());
  *rma_ctx = new OpenContexts{c, *set};
  return abi::Status::success;
}

abi::Status register_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t, int,
                             std::uint64_t flags, void** region) {
  return plugin_register(comm, data, size, type, flags, region);
}

abi::Status start(OpenContexts& contexts, int context, const Operation& operation,
                  void* signal_region, std::uint64_t signal_offset, void** request) {
  auto made = contexts.comm->fabric->post(contexts.set, context, operation,
                                          static_cast<Region*>(signal_region), signal_offset);
  if (!made) return report(contexts.comm->plugin, made.error());
  *request = *made;
  return abi::Status::success;
}

/// `make(at, size)` gives the operation on a part. Operations hold 32-bit sizes, so a longer one
/// goes in pieces; the last one's request tells of all, since a context's operations end in order.
template <class Make>
abi::Status start_in_pieces(OpenContexts& contexts, int context, std::size_t size, Make make,
                            void* signal_region, std::uint64_t signal_offset, void** request) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  std::size_t at = 0;
  for (; size - at > kPiece; at += kPiece) {
    void* piece = nullptr;
    const abi::Status status = start(contexts, context, make(at, kPiece), nullptr, 0, &piece);
    if (status != abi::Status::success) return status;
    give_back(static_cast<RmaRequest*>(piece));
  }
  return start(contexts, context, make(at, size - at), signal_region, signal_offset, request);
}

/// A put's data part. NCCL's inline values lie in memory that only this process has and that it
/// uses again soon, so they are read now.
Operation put_operation(std::uint64_t src_offset, void* src_region, std::size_t size,
                        std::uint64_t dst_offset, void* dst_region, std::uint32_t rank) {
  Operation op;
  op.code = OpCode::write;
  op.peer = rank;
  op.size = static_cast<std::uint32_t>(size);
  if (size == 0) return op;
  const auto* src = static_cast<const Region*>(src_region);
  op.remote = id_of(static_cast<const Region*>(dst_region));
  op.remote_offset = dst_offset;
  if (is_plain_host(src) && size <= 8) {
    op.code = OpCode::write_inline;
    std::memcpy(&op.inline_value, data_of(src) + src_offset, size);
  } else {
    op.local = id_of(src);
    op.local_offset = src_offset;
  }
  return op;
}

abi::Status put(void* rma_ctx, int context, std::uint64_t src_offset, void* src_region,
                std::size_t size, std::uint64_t dst_offset, void* dst_region, std::uint32_t rank,
                void** request) {
  auto part = [&](std::size_t at, std::size_t bytes) {
    return put_operation(src_offset + at, src_region, bytes, dst_offset + at, dst_region, rank);
  };
  return start_in_pieces(*static_cast<OpenContexts*>(rma_ctx), context, size, part, nullptr, 0,
                         request);
}

abi::Status put_signal(void* rma_ctx, int context, std::uint64_t src_offset, void* src_region,
                       std::size_t size, std::uint64_t dst_offset, void* dst_region,
                       std::uint32_t rank, std::uint64_t signal_offset, void* signal_region,
                       std::uint64_t signal_value, std::uint32_t signal_op, bool, void** request) {
  auto part = [&](std::size_t at, std::size_t bytes) {
    Operation op =
        put_operation(src_offset + at, src_region, bytes, dst_offset + at, dst_region, rank);
    op.signal_value = signal_op == abi::kSignalIncrement ? 1 : signal_value;
    return op;
  };
  return start_in_pieces(*static_cast<OpenContexts*>(rma_ctx), context, size, part, signal_region,
                         signal_offset, request);
}

abi::Status get(void* rma_ctx, int context, std::uint64_t remote_offset, void* remote_region,
                std::size_t size, std::uint64_t local_offset, void* local_region,
                std::uint32_t rank, void** request) {
  auto part = [&](std::size_t at, std::size_t bytes) {
    Operation op;
    op.code = OpCode::read;
    op.peer = rank;
    op.size = static_cast<std::uint32_t>(bytes);
    op.remote = id_of(static_cast<const Region*>(remote_region));
    op.remote_offset = remote_offset + at;
    op.local = id_of(static_cast<const Region*>(local_region));
    op.local_offset = local_offset + at;
    return op;
  };
  return start_in_pieces(*static_cast<OpenContexts*>(rma_ctx), context, size, part, nullptr, 0,
                         request);
}

/// Done once every earlier operation of the context is: gets land before they are reported.
abi::Status flush(void* rma_ctx, int context, void*, std::uint32_t rank, void** request) {
  Operation op;
  op.code = OpCode::peer_flush;
  op.peer = rank;
  return start(*static_cast<OpenContexts*>(rma_ctx), context, op, nullptr, 0, request);
}

abi::Status test(void*, void* request, int* done) {
  auto* r = static_cast<RmaRequest*>(request);
  *done = r == nullptr || is_done(r) ? 1 : 0;
  if (r != nullptr && *done != 0) give_back(r);
  return abi::Status::success;
}

abi::Status progress(void*) { return abi::Status::success; }

}  // namespace
}  // namespace engram::gin_plugin

extern "C" __attribute__((visibility("default")))
const engram::gin_plugin::abi::RmaPlugin ncclRmaPlugin_v14 = {
    .name = "engram-rma",
    .init = engram::gin_plugin::plugin_init,
    .devices = engram::gin_plugin::plugin_devices,
    .properties = engram::gin_plugin::properties,
    .listen = engram::gin_plugin::plugin_listen,
    .connect = engram::gin_plugin::plugin_connect,
    .create_context = engram::gin_plugin::create_context,
    .register_region = engram::gin_plugin::plugin_register,
    .register_dma_buf = engram::gin_plugin::register_dma_buf,
    .deregister_region = engram::gin_plugin::plugin_deregister,
    .destroy_context = engram::gin_plugin::plugin_destroy_context,
    .close_comm = engram::gin_plugin::plugin_close_comm,
    .close_listener = engram::gin_plugin::plugin_close_listener,
    .put = engram::gin_plugin::put,
    .put_signal = engram::gin_plugin::put_signal,
    .get = engram::gin_plugin::get,
    .flush = engram::gin_plugin::flush,
    .test = engram::gin_plugin::test,
    .progress = engram::gin_plugin::progress,
    .last_error = engram::gin_plugin::plugin_last_error,
    .finalize = engram::gin_plugin::plugin_finalize,
};
