#include "engram/core/row_version.hpp"

namespace engram::core {

Result<void> check_versions(const TableLayout& table, LayerIndex rows, LayerIndex versions) {
  if (rows.value >= table.num_layers() || versions.value >= table.num_layers() ||
      rows == versions) {
    return fail(ErrorCode::invalid_argument, "rows of layer ", rows.value,
                " with versions in layer ", versions.value, " of ", table.num_layers(), " layers");
  }
  const LayerPlace& data = table.place(rows);
  const LayerPlace& counts = table.place(versions);
  if (data.rows == counts.rows && counts.row_bytes == kVersionBytes.count) return {};
  return fail(ErrorCode::invalid_argument, "layer ", rows.value, " has ", data.rows,
              " rows, its versions in layer ", versions.value, " are ", counts.rows, " of ",
              counts.row_bytes, " bytes; as many of ", kVersionBytes.count, " are needed");
}

Result<void> update_own_row(Transport& transport, const TableLayout& table, LayerIndex rows,
                            LayerIndex versions, std::uint64_t row,
                            std::span<const std::byte> bytes, std::uint64_t version) {
  if (auto right = check_versions(table, rows, versions); !right) return right;
  const auto mine = table.rows_of(rows, transport.rank());
  const LayerPlace& data = table.place(rows);
  if (row < mine.first || row - mine.first >= mine.count || version % 2 != 0 ||
      bytes.size() != data.row_bytes) {
    return fail(ErrorCode::invalid_argument, "rank ", transport.rank().value, ": ", bytes.size(),
                " bytes for row ", row, " with version ", version, "; it owns rows ", mine.first,
                " to ", mine.first + mine.count, " of ", data.row_bytes,
                " bytes, and versions of whole rows are even");
  }
  const std::uint64_t local = row - mine.first;
  const auto write_version = [&](std::uint64_t value) {
    return transport.write_segment(
        Bytes{table.place(versions).base_offset + local * kVersionBytes.count},
        std::as_bytes(std::span(&value, 1)));
  };
  auto done = write_version(version - 1);
  if (done) {
    done = transport.write_segment(Bytes{data.base_offset + local * data.row_bytes}, bytes);
  }
  return done ? write_version(version) : done;
}

}  // namespace engram::core
