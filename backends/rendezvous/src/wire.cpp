#include "wire.hpp"

#include <algorithm>

namespace engram::rendezvous {
namespace {

constexpr std::uint32_t kMagic = 0x56524745;  // "EGRV"
constexpr std::uint16_t kProtocol = 1;

}  // namespace

std::string_view name_of(FrameKind kind) {
  switch (kind) {
    case FrameKind::hello:
      return "hello";
    case FrameKind::welcome:
      return "welcome";
    case FrameKind::refused:
      return "refused";
    case FrameKind::allgather:
      return "allgather";
    case FrameKind::barrier:
      return "barrier";
    case FrameKind::broadcast:
      return "broadcast";
    case FrameKind::agree:
      return "agree";
    case FrameKind::result:
      return "result";
    case FrameKind::failure:
      return "failure";
    case FrameKind::poisoned:
      return "poisoned";
    case FrameKind::goodbye:
      return "goodbye";
  }
  return "unknown";
}

void Writer::number(std::uint64_t value, std::size_t num_bytes) {
  for (std::size_t i = 0; i < num_bytes; ++i) {
    out_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }
}
void Writer::bytes(std::span<const std::byte> data) {
  number(data.size(), 8);
  out_.insert(out_.end(), data.begin(), data.end());
}
void Writer::text(std::string_view data) { bytes(std::as_bytes(std::span(data))); }

Result<std::uint64_t> Reader::number(std::size_t num_bytes) {
  if (in_.size() < num_bytes) {
    return fail(ErrorCode::out_of_range, "a number of ", num_bytes, " bytes where ", in_.size(),
                " are left");
  }
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < num_bytes; ++i) {
    value |= static_cast<std::uint64_t>(in_[i]) << (8 * i);
  }
  in_ = in_.subspan(num_bytes);
  return value;
}

Result<std::span<const std::byte>> Reader::bytes() {
  const auto size = number(8);
  if (!size) return tl::unexpected<Error>(size.error());
  if (*size > in_.size()) {
    return fail(ErrorCode::out_of_range, "a block of ", *size, " bytes where ", in_.size(),
                " are left");
  }
  const auto block = in_.first(static_cast<std::size_t>(*size));
  in_ = in_.subspan(block.size());
  return block;
}

Result<std::string> Reader::text() {
  const auto block = bytes();
  if (!block) return tl::unexpected<Error>(block.error());
  return std::string(reinterpret_cast<const char*>(block->data()), block->size());
}

Body encode(FrameKind kind, std::uint64_t sequence, std::span<const std::byte> body) {
  Writer out;
  out.number(kMagic, 4);
  out.number(kProtocol, 2);
  out.number(static_cast<std::uint16_t>(kind), 2);
  out.number(sequence, 8);
  out.bytes(body);
  return out.take();
}

Result<Header> decode(std::span<const std::byte, kHeaderBytes> raw, Bytes max_body) {
  Reader in(raw);
  const std::uint64_t magic = *in.number(4);
  const std::uint64_t protocol = *in.number(2);
  const std::uint64_t kind = *in.number(2);
  Header header;
  header.sequence = *in.number(8);
  header.body_bytes = *in.number(8);
  if (magic != kMagic) {
    return fail(ErrorCode::invalid_argument, "not an engram rendezvous: first bytes ",
                fmt::format("{:#010x}", magic), ", expected ", fmt::format("{:#010x}", kMagic));
  }
  if (protocol != kProtocol) {
    return fail(ErrorCode::invalid_argument, "rendezvous protocol ", protocol, ", this build has ",
                kProtocol);
  }
  if (kind < 1 || kind > static_cast<std::uint16_t>(FrameKind::goodbye)) {
    return fail(ErrorCode::invalid_argument, "frame of unknown kind ", kind);
  }
  header.kind = static_cast<FrameKind>(kind);
  if (header.body_bytes > max_body.count) {
    return fail(ErrorCode::out_of_range, name_of(header.kind), " of ", header.body_bytes,
                " bytes, at most ", max_body.count);
  }
  return header;
}

Body encode_hello(const Hello& hello) {
  Writer out;
  out.number(hello.rank.value, 4);
  out.number(hello.num_ranks, 4);
  out.text(hello.job_id);
  out.text(hello.secret);
  out.text(hello.host);
  return out.take();
}

Result<Hello> decode_hello(std::span<const std::byte> body) {
  Reader in(body);
  const auto rank = in.number(4);
  const auto num_ranks = in.number(4);
  auto job_id = in.text();
  auto secret = in.text();
  auto host = in.text();
  if (!rank || !num_ranks || !job_id || !secret || !host || !in.at_end()) {
    return fail(ErrorCode::invalid_argument, "a hello of ", body.size(), " bytes that is broken");
  }
  return Hello{Rank{static_cast<std::uint32_t>(*rank)}, static_cast<std::uint32_t>(*num_ranks),
               std::move(*job_id), std::move(*secret), std::move(*host)};
}

Body encode_error(const Error& error) {
  Writer out;
  out.number(static_cast<std::uint64_t>(error.code), 4);
  out.text(std::string_view(error.message).substr(0, kMaxErrorText));
  return out.take();
}

Error decode_error(std::span<const std::byte> body) {
  Reader in(body);
  const auto code = in.number(4);
  auto text = in.text();
  if (!code || !text || *code > static_cast<std::uint64_t>(ErrorCode::internal)) {
    return Error{ErrorCode::internal, "rank 0 sent an error that cannot be read"};
  }
  return Error{static_cast<ErrorCode>(*code), std::move(*text)};
}

}  // namespace engram::rendezvous
