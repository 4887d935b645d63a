#include "engram/tools/run_result.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace engram::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Six significant digits more than any measurement has, and the same text on every machine.
double rounded(double value, double steps = 1e6) { return std::round(value * steps) / steps; }

Json times(const std::vector<NamedTime>& named) {
  Json json = Json::object();
  for (const auto& [name, time] : named) json[name] = microseconds(time);
  return json;
}

Json path(const PathUse& use) { return {{"requests", use.requests}, {"bytes", use.payload.count}}; }

}  // namespace

Json to_json(const RunResult& r) {
  Json json;
  json["operation"] = r.operation;
  json["backend"] = r.backend;
  json["profile"] = r.profile;
  json["fidelity"] = r.fidelity;
  json["fidelity_reason"] = r.fidelity_reason;
  json["ranks"] = r.ranks;
  json["seed"] = r.seed;
  json["version"] = r.version;
  json["verified"] = r.verified ? Json(*r.verified) : Json(nullptr);
  json["failure"] = r.failure.empty() ? Json(nullptr) : Json(r.failure);
  if (r.failed_at) json["failed_at_us"] = microseconds(*r.failed_at);
  json["repeats"] = r.repeats;
  // What no repeat came to the end of is unknown, not zero.
  const auto known = [&](Json value) { return r.repeats > 0 ? std::move(value) : Json(nullptr); };
  json["time_us"] = {{"median", known(microseconds(r.time.median))},
                     {"min", known(microseconds(r.time.min))},
                     {"max", known(microseconds(r.time.max))}};
  json["issue_us"] = known(microseconds(r.issue));
  json["wait_us"] = known(microseconds(r.wait));
  json["requests"] = r.requests;
  json["doorbells"] = r.doorbells;
  json["payload_bytes"] = r.payload.count;
  json["wire_bytes"] = r.wire.count;
  json["logical_gbps"] = known(rounded(r.logical_rate.value / 1e9));
  json["wire_gbps"] = known(rounded(r.wire_rate.value / 1e9));
  json["mpps"] = known(rounded(r.message_rate.value / 1e6));
  json["stages_us"] = times(r.stages);
  json["sms"] = r.sms;
  json["qps"] = r.qps;
  json["paths"] = {{"local", path(r.paths.local)},
                   {"nvlink", path(r.paths.nvlink)},
                   {"host", path(r.paths.host)},
                   {"rdma", path(r.paths.rdma)}};
  json["bound"] = r.bound;
  json["floors_us"] = times(r.floors);
  json["links"] = Json::array();
  for (const auto& link : r.links) {
    json["links"].push_back(
        {{"name", link.name}, {"busy", rounded(link.busy)}, {"bytes", link.carried.count}});
  }
  json["congestion_control"] = nullptr;
  if (r.congestion) {
    json["congestion_control"] = {{"scheme", r.congestion->scheme},
                                  {"packets_marked", r.congestion->marked},
                                  {"rate_cuts", r.congestion->cuts},
                                  {"longest_queue_bytes", r.congestion->longest_queue.count},
                                  {"slowest_gbps", rounded(r.congestion->slowest.value / 1e9)}};
  }
  json["warnings"] = r.warnings;
  json["faults"] = r.faults;
  return json;
}

std::string to_json_text(const RunResult& result) { return to_json(result).dump(2) + "\n"; }

}  // namespace engram::tools
