// The one place that reads the environment and asks what the terminal is.
#include <langinfo.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <string_view>

#include "engram/tools/cli.hpp"

namespace {

engram::tools::TextStyle style_of_terminal() {
  engram::tools::TextStyle style;
  if (isatty(STDOUT_FILENO) == 0) return style;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    style.width = std::min<std::uint32_t>(size.ws_col, 120);
  }
  std::setlocale(LC_CTYPE, "");
  style.utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  style.colour = true;
  return style;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace engram::tools;
  auto environment = read_environment([](const char* name) { return std::getenv(name); });
  if (!environment) {
    std::cerr << "engram: error: " << environment.error().message << '\n';
    return static_cast<int>(ExitStatus::bad_input);
  }
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    environment->host.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  Console console{std::cout, std::cerr, style_of_terminal(), isatty(STDERR_FILENO) != 0,
                  std::move(*environment)};
  try {
    return run_cli(argc, argv, console);
  } catch (const std::bad_alloc&) {
    std::cerr << "engram: error: out of memory: this scenario is too large for this machine\n";
    return static_cast<int>(ExitStatus::cannot);
  }
}
