// Figures that scenarios and the README state are the model's: every "# Expect" line in the head of
// a scenario is run, and no other line of a head states a time or a rate that the scenario has not
// set itself.
//   # Expect --set 'background=[]': logical_gbps = 46, bound = line
// Keys are those of the result, with dots; status is the exit status. A number may be 2 % off, or
// half of its last digit.
#include <cmath>
#include <regex>

#include "program.hpp"

namespace engram::scenarios {
namespace {

struct Expected {
  std::string file, line, sets, figures;
};

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(ENGRAM_SOURCE) + "/scenarios")) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The comment before the first key.
std::vector<std::string> head_of(const std::filesystem::path& file) {
  std::vector<std::string> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line) && line.starts_with("#");) lines.push_back(line);
  return lines;
}

std::vector<Expected> all_expected() {
  static const std::regex form("# Expect(.*?): ([a-z_]+(\\.[a-z_]+)? = .*)");
  std::vector<Expected> all;
  for (const auto& file : scenario_files()) {
    for (const std::string& line : head_of(file)) {
      std::smatch parts;
      if (std::regex_match(line, parts, form)) {
        all.push_back({file.stem().string(), line, parts[1], parts[2]});
      } else if (line.starts_with("# Expect")) {
        ADD_FAILURE() << file << ": not understood: " << line;
      }
    }
  }
  return all;
}

/// Whether `value` is what `text` says: within 2 %, or half of the last digit that is written.
bool about(double value, const std::string& text) {
  const auto dot = text.find('.');
  const int decimals = dot == std::string::npos ? 0 : static_cast<int>(text.size() - dot - 1);
  const double written = std::stod(text);
  return std::abs(value - written) <=
         std::max(0.02 * std::abs(written), 0.5001 * std::pow(10.0, -decimals));
}

class Head : public testing::TestWithParam<Expected> {};

TEST_P(Head, StatesWhatTheModelGives) {
  const Expected& expected = GetParam();
  const Ended ended = engram("run " + scenario(expected.file) + expected.sets + " --json -");
  Json result = ended.json();
  ASSERT_FALSE(result.is_discarded()) << ended.err;
  result["status"] = ended.status;
  if (expected.figures.find("status") == std::string::npos) {
    EXPECT_EQ(ended.status, 0) << ended.err;
  }
  std::istringstream figures(expected.figures);
  for (std::string figure; std::getline(figures >> std::ws, figure, ',');) {
    const auto equals = figure.find(" = ");
    ASSERT_NE(equals, std::string::npos) << figure;
    std::string key = "/" + figure.substr(0, equals);
    const std::string text = figure.substr(equals + 3);
    std::replace(key.begin(), key.end(), '.', '/');
    const Json::json_pointer at(key);
    ASSERT_TRUE(result.contains(at)) << key;
    const Json& value = result.at(at);
    const bool right = value.is_number() ? about(value.get<double>(), text) : value == Json(text);
    EXPECT_TRUE(right) << "scenarios/" << expected.file << ".toml says \"" << expected.line
                       << "\"; the model gives " << key << " = " << value;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Head, testing::ValuesIn(all_expected()), [](const auto& of) {
  return of.param.file + "_" + std::to_string(of.index);
});

// A time or a rate in a head is either in an Expect line or follows from a value of the file.
TEST(Heads, StateNoOtherFigures) {
  static const std::regex figure("([0-9]+(\\.[0-9]+)?) (ns|us|ms|GB/s|M reads/s|M rows/s)");
  std::size_t checked = 0;
  for (const auto& file : scenario_files()) {
    std::string figures, body;
    std::istringstream text(read_file(file));
    for (std::string line; std::getline(text, line);) {
      (line.starts_with("# Expect") ? figures : body) += line + "\n";
    }
    for (const std::string& line : head_of(file)) {
      if (line.starts_with("# Expect")) continue;
      for (std::sregex_iterator it(line.begin(), line.end(), figure), end; it != end; ++it) {
        ++checked;
        const std::string number = (*it)[1], whole = (*it)[0];
        const bool expected = std::regex_search(figures, std::regex("= " + number + "(,|\n)"));
        const bool set = body.find("\"" + whole + "\"") != std::string::npos;
        // Of the machine, with its source in the profile, or of the fault plan's defaults.
        const bool known = number == "45" || number == "50" || whole == "100 us" ||
                           whole == "400 us" || whole == "150 us";
        EXPECT_TRUE(expected || set || known)
            << file << ": \"" << whole << "\" is in no Expect line and no value: " << line;
      }
    }
  }
  EXPECT_GE(checked, 5u);
}

// What the README shows of the first run is what it prints.
TEST(Readme, ShowsWhatTheQuickstartPrints) {
  const std::string readme = read_file(std::string(ENGRAM_SOURCE) + "/README.md");
  const auto begin = readme.find("```\nfetch: ");
  ASSERT_NE(begin, std::string::npos);
  const std::string block = readme.substr(begin + 4, readme.find("```", begin + 4) - begin - 4);
  const Ended ended = engram("run " + scenario("quickstart"));
  ASSERT_EQ(ended.status, 0) << ended.err;
  // Line by line in order; "..." stands for lines left out, bars are as long as they come.
  static const std::regex number("[0-9]+(\\.[0-9]+)?"), bar("#+"), gap(" +");
  std::istringstream shown(block), printed(ended.out);
  std::string line, now;
  while (std::getline(shown, line)) {
    if (line == "...") continue;
    const auto words = [](const std::string& text) {
      const std::string even = std::regex_replace(std::regex_replace(text, bar, "#"), gap, " ");
      return std::regex_replace(even, number, "N");
    };
    while (std::getline(printed, now) && words(now) != words(line)) {
    }
    ASSERT_EQ(words(now), words(line)) << ended.out;
    std::sregex_iterator a(line.begin(), line.end(), number), b(now.begin(), now.end(), number),
        end;
    for (; a != end && b != end; ++a, ++b) {
      EXPECT_TRUE(about(std::stod(b->str()), a->str()))
          << "README.md shows \"" << line << "\"; it prints \"" << now << "\"";
    }
  }
}

}  // namespace
}  // namespace engram::scenarios
