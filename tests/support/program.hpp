// A run of the program that ENGRAM_BINARY names, as a shell would start it.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace engram {

struct Ended {
  int status = -1;  ///< of its exit; -1: a signal ended it
  std::string out, err;
  [[nodiscard]] nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, false); }
};

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// `before`, such as "NAME=value", stands in front of the program; what it prints goes through the
/// files `out` and `err`.
inline Ended run_program(const std::string& arguments, const std::string& out,
                         const std::string& err, const std::string& before = "") {
  const std::string command =
      before + " " + ENGRAM_BINARY + " " + arguments + " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(out), read_file(err)};
}

}  // namespace engram
