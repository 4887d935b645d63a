// What the launch tests start: joins the job that its variables describe, then does as told.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "engram/rendezvous/rendezvous.hpp"

using namespace engram;

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const auto identity = rendezvous::identity_from([](std::string_view name) {
    const char* const text = std::getenv(std::string(name).c_str());
    return text ? std::optional<std::string>(text) : std::nullopt;
  });
  if (!identity) return std::fprintf(stderr, "%s\n", identity.error().message.c_str()), 2;
  auto ranks = rendezvous::Rendezvous::join(*identity, {});
  if (!ranks) return std::fprintf(stderr, "%s\n", ranks.error().message.c_str()), 1;
  const bool last = identity->rank.value + 1 == identity->num_ranks;
  // Not by return: the goodbye would let the others fail first, and the launcher end this rank.
  if (what == "status" && last) ::_exit(7);
  if (what == "kill" && last) ::raise(SIGKILL);
  if (what == "stubborn") {
    if (!last) ::signal(SIGTERM, SIG_IGN);
    if (!ranks->barrier()) return 1;
    if (last) return 5;
    for (;;) ::pause();
  }
  if (what == "sleep")
    for (;;) ::pause();
  const auto sum = ranks->allgather_value(identity->rank.value);
  if (!sum) {
    std::fprintf(stderr, "%s\n", sum.error().message.c_str());
    if (what == "kill") ::sleep(5);  // the launcher ends us: all lines before are still passed on
    return 1;
  }
  std::printf("%zu ranks\nno newline at the end", sum->size());
  return 0;
}
