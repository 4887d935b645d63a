// Two ranks write a table of 10 rows; each fetches three of them and prints the first byte.
#include <chrono>
#include <cstdio>
#include <vector>

#include "engram/core/engram_table.hpp"
#include "engram/loopback/loopback.hpp"

using namespace engram;

Result<void> program(core::Transport& transport) {
  const Nanos limit = std::chrono::seconds{10};
  auto layout = core::TableLayout::create({{10, Bytes{64}}}, transport.grid().num_ranks());
  if (!layout) return tl::unexpected(layout.error());
  core::EngramOptions options;
  options.largest = {1, 1, 3};  // 1 layer, 1 token, 3 rows a token
  auto table = core::EngramTable::create(transport, *layout, options);
  if (!table) return tl::unexpected(table.error());

  const auto mine = layout->rows_of(LayerIndex{0}, transport.rank());
  std::vector<std::byte> rows(mine.count * 64);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = std::byte(mine.first + i / 64);
  if (auto written = table->write(LayerIndex{0}, rows, limit); !written) return written;

  const std::vector<std::int64_t> indices{0, 9, -1};
  auto fetch = table->fetch(options.largest, indices);
  if (!fetch) return tl::unexpected(fetch.error());
  if (auto done = table->wait(*fetch, LayerIndex{0}, limit); !done) return done;
  std::vector<std::byte> got(3 * 64);
  if (auto read = table->read(*fetch, LayerIndex{0}, got); !read) return read;
  std::printf("rank %u: %d %d %d\n", transport.rank().value, int(got[0]), int(got[64]),
              int(got[128]));
  return table->finish(std::move(*fetch), limit);
}

int main() {
  loopback::LoopbackOptions options;
  options.grid = *core::RankGrid::create(2, 1, core::Mode::direct);
  const auto ran = loopback::make_loopback(options)->run(program);
  if (!ran) std::fprintf(stderr, "%s\n", ran.error().message.c_str());
  return ran ? 0 : 1;
}
