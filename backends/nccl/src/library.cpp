#include "engram/nccl/library.hpp"

#include <dlfcn.h>

#include <utility>
#include <vector>

namespace engram::nccl {
namespace {

template <class Function>
void find(void* library, const char* name, Function& into, std::string& missing) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  if (into == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

struct Candidate {
  std::string name;
  int flags = RTLD_NOW | RTLD_LOCAL;
  bool only_choice = false;  ///< named by the caller, or in use in this process already
};

std::vector<Candidate> candidates(const LibraryOptions& options) {
  if (options.path) return {{*options.path, RTLD_NOW | RTLD_LOCAL, true}};
  return {{"libnccl.so.2", RTLD_NOW | RTLD_NOLOAD, true}, {"libnccl.so.2"}, {ENGRAM_NCCL_LIBRARY}};
}

struct Opened {
  void* handle = nullptr;
  std::string path;
  int version = 0;
};

/// Errors: unsupported; `not_found` where the candidate is simply absent.
Result<Opened> try_open(const Candidate& candidate, bool accept_newer) {
  Opened opened;
  opened.handle = ::dlopen(candidate.name.c_str(), candidate.flags);
  if (opened.handle == nullptr) {
    const char* const cause = ::dlerror();
    return fail(ErrorCode::not_found, cause != nullptr ? cause : candidate.name + " is not loaded");
  }
  std::string missing;
  decltype(&::ncclGetVersion) get_version = nullptr;
  find(opened.handle, "ncclGetVersion", get_version, missing);
  Dl_info info{};
  opened.path = candidate.name;
  if (get_version != nullptr && ::dladdr(reinterpret_cast<void*>(get_version), &info) != 0) {
    opened.path = info.dli_fname;
  }
  if (get_version == nullptr || get_version(&opened.version) != ncclSuccess) {
    ::dlclose(opened.handle);
    return fail(ErrorCode::unsupported, opened.path, " gives no NCCL version");
  }
  // The version before the entry points: an old library lacks some, and its version says why.
  const auto right = check_versions(kHeaderNcclVersion, opened.version, opened.path, accept_newer);
  if (right) return opened;
  ::dlclose(opened.handle);
  return tl::unexpected<Error>(right.error());
}

/// The first candidate that is of the right version; a system's old copy is passed over.
Result<Opened> open_first(const LibraryOptions& options) {
  std::string tried;
  for (const Candidate& candidate : candidates(options)) {
    auto opened = try_open(candidate, options.accept_newer);
    if (opened) return opened;
    if (candidate.only_choice && opened.error().code != ErrorCode::not_found) return opened;
    tried += (tried.empty() ? "" : "; ") + opened.error().message;
  }
  return fail(ErrorCode::unsupported, "no NCCL library: ", tried,
              "; pip install nvidia-nccl-cu13, or give the path of libnccl.so.2");
}

}  // namespace

std::string version_text(int version_code) {
  return fmt::format("{}.{}.{}", version_code / 10000, version_code / 100 % 100,
                     version_code % 100);
}

Result<void> check_versions(int header, int loaded, const std::string& path, bool accept_newer) {
  const std::string both = fmt::format("{} is NCCL {}, this program was built with {}", path,
                                       version_text(loaded), version_text(header));
  if (loaded < kLeastNcclVersion) {
    return fail(ErrorCode::unsupported, both, "; NCCL ", version_text(kLeastNcclVersion),
                " or newer is needed: pip install nvidia-nccl-cu13, and give its libnccl.so.2");
  }
  if (loaded == header) return {};
  if (loaded < header || loaded / 10000 != header / 10000) {
    return fail(ErrorCode::unsupported, both, "; give the path of an NCCL ", version_text(header),
                ", or build with the headers of ", version_text(loaded));
  }
  if (accept_newer) return {};
  return fail(ErrorCode::unsupported, both, "; give the path of an NCCL ", version_text(header),
              ", build with the headers of ", version_text(loaded),
              ", or allow a newer library: ENGRAM_NCCL_NEWER=on (LibraryOptions::accept_newer)");
}

std::string NcclLibrary::explain(ncclResult_t result, ncclComm_t comm) const {
  const char* const detail = get_last_error(comm);
  return fmt::format("NCCL: {}{}{}", get_error_string(result),
                     detail != nullptr && *detail != '\0' ? ": " : "",
                     detail != nullptr ? detail : "");
}

Result<std::shared_ptr<const NcclLibrary>> load_nccl(const LibraryOptions& options) {
  const auto opened = open_first(options);
  if (!opened) return tl::unexpected<Error>(opened.error());
  auto library = std::make_shared<NcclLibrary>();
  library->path = opened->path;
  library->version = opened->version;
  void* const handle = opened->handle;  // open for the life of the process
  std::string missing;
  find(handle, "ncclGetUniqueId", library->get_unique_id, missing);
  find(handle, "ncclCommInitRankConfig", library->comm_init_rank_config, missing);
  find(handle, "ncclCommDestroy", library->comm_destroy, missing);
  find(handle, "ncclCommAbort", library->comm_abort, missing);
  find(handle, "ncclCommCount", library->comm_count, missing);
  find(handle, "ncclCommUserRank", library->comm_user_rank, missing);
  find(handle, "ncclCommCuDevice", library->comm_cu_device, missing);
  find(handle, "ncclCommGetAsyncError", library->comm_get_async_error, missing);
  find(handle, "ncclCommQueryProperties", library->comm_query_properties, missing);
  find(handle, "ncclCommWindowRegister", library->comm_window_register, missing);
  find(handle, "ncclCommWindowDeregister", library->comm_window_deregister, missing);
  find(handle, "ncclDevCommCreate", library->dev_comm_create, missing);
  find(handle, "ncclDevCommDestroy", library->dev_comm_destroy, missing);
  find(handle, "ncclGetLsaDevicePointer", library->get_lsa_device_pointer, missing);
  find(handle, "ncclGetPeerDevicePointer", library->get_peer_device_pointer, missing);
  find(handle, "ncclTeamLsa", library->team_lsa, missing);
  find(handle, "ncclMemAlloc", library->mem_alloc, missing);
  find(handle, "ncclMemFree", library->mem_free, missing);
  find(handle, "ncclGetErrorString", library->get_error_string, missing);
  find(handle, "ncclGetLastError", library->get_last_error, missing);
  if (!missing.empty()) return fail(ErrorCode::unsupported, library->path, " lacks ", missing);
  return std::shared_ptr<const NcclLibrary>(std::move(library));
}

}  // namespace engram::nccl
