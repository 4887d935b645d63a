// The plug-ins in the place of a NIC: what they are and whether this NCCL can use them.
#include <dlfcn.h>

#include "engram/nccl/doctor.hpp"

namespace engram::nccl {
namespace {

/// The entry points that NCCL looks up, newest first; each table begins with its name.
struct EntryPoint {
  const char* symbol;
  const char* text;
};
constexpr EntryPoint kGinEntries[] = {{"ncclGinPlugin_v14", "GIN v14"},
                                      {"ncclGinPlugin_v13", "GIN v13"}};
constexpr EntryPoint kRmaEntries[] = {{"ncclRmaPlugin_v14", "RMA v14"},
                                      {"ncclRmaPlugin_v13", "RMA v13"}};

void find_entry(void* library, std::span<const EntryPoint> entries, PluginFacts& facts) {
  for (const EntryPoint& entry : entries) {
    const auto* table = static_cast<const char* const*>(::dlsym(library, entry.symbol));
    if (table == nullptr) continue;
    facts.entries.emplace_back(entry.text);
    if (facts.name.empty() && *table != nullptr) facts.name = *table;
    return;
  }
}

/// What Engram's own plugin says of itself.
void ask(void* library, PluginFacts& facts) {
  using About = void (*)(char*, std::size_t);
  const auto about = reinterpret_cast<About>(::dlsym(library, "engram_gin_about"));
  if (about == nullptr) return;
  char text[1024];
  about(text, sizeof text);
  const auto told = nlohmann::json::parse(text, nullptr, false);
  if (!told.is_object()) return;
  facts.version = told.value("version", "");
  facts.oldest_nccl = told.value("oldest_nccl", 0);
  facts.newest_nccl = told.value("newest_nccl", 0);
  facts.problem = told.value("problem", "");
}

}  // namespace

PluginFacts examine_plugin(const std::string& variable, const std::string& path, int nccl_version) {
  PluginFacts facts;
  facts.variable = variable;
  facts.path = path;
  if (path == "none") {
    facts.none = true;
    facts.remark = "NCCL is told to use no plug-in";
    return facts;
  }
  if (path.find('/') == std::string::npos) {
    facts.remark = "not a path: NCCL resolves it by itself, it was not looked at";
    return facts;
  }
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    facts.problem = why != nullptr ? why : "cannot be loaded";
    return facts;
  }
  find_entry(library, kGinEntries, facts);
  find_entry(library, kRmaEntries, facts);
  ask(library, facts);
  ::dlclose(library);
  const bool rma = variable == "NCCL_RMA_PLUGIN";
  const std::string_view wanted = rma ? "RMA" : "GIN";
  const bool has = std::any_of(facts.entries.begin(), facts.entries.end(),
                               [&](const std::string& e) { return e.starts_with(wanted); });
  if (facts.problem.empty() && !has) {
    facts.problem =
        fmt::format("it has no entry point nccl{}Plugin_v14 or _v13", rma ? "Rma" : "Gin");
  }
  if (facts.problem.empty() && nccl_version != 0 && nccl_version < facts.oldest_nccl) {
    facts.problem = fmt::format("NCCL {} is older than {}, the first with its interface",
                                version_text(nccl_version), version_text(facts.oldest_nccl));
  }
  if (facts.problem.empty() && facts.newest_nccl != 0 && nccl_version > facts.newest_nccl) {
    facts.remark = fmt::format("NCCL {} is newer than {}, the last it was checked against",
                               version_text(nccl_version), version_text(facts.newest_nccl));
  }
  return facts;
}

}  // namespace engram::nccl
