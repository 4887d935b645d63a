#include "engram/nccl/library.hpp"

#include <dlfcn.h>

#include <utility>

namespace engram::nccl {
namespace {

template <class Function>
void find(void* library, const char* name, Function& into, std::string& missing) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  if (into == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
}

struct Opened {
  void* handle = nullptr;
  std::string tried;  ///< what failed, with causes
};

Opened open_first(const LibraryOptions& options) {
  Opened opened;
  const auto attempt = [&opened](const std::string& name, int flags) {
    if (opened.handle != nullptr || name.empty()) return;
    opened.handle = ::dlopen(name.c_str(), flags);
    if (opened.handle != nullptr) return;
    const char* const cause = ::dlerror();
    opened.tried += (opened.tried.empty() ? "" : "; ") +
                    std::string(cause != nullptr ? cause : (name + " is not loaded").c_str());
  };
  if (options.path) {
    attempt(*options.path, RTLD_NOW | RTLD_LOCAL);
    return opened;
  }
  attempt("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  attempt("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  attempt(ENGRAM_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return opened;
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
              ", or allow a newer library explicitly");
}

std::string NcclLibrary::explain(ncclResult_t result, ncclComm_t comm) const {
  const char* const detail = get_last_error(comm);
  return fmt::format("NCCL: {}{}{}", get_error_string(result),
                     detail != nullptr && *detail != '\0' ? ": " : "",
                     detail != nullptr ? detail : "");
}

Result<std::shared_ptr<const NcclLibrary>> load_nccl(const LibraryOptions& options) {
  const Opened opened = open_first(options);
  if (opened.handle == nullptr) {
    return fail(ErrorCode::unsupported, "no NCCL library: ", opened.tried,
                "; pip install nvidia-nccl-cu13, or give the path of libnccl.so.2");
  }
  auto library = std::make_shared<NcclLibrary>();
  void* const handle = opened.handle;
  std::string missing;
  decltype(&::ncclGetVersion) get_version = nullptr;
  find(handle, "ncclGetVersion", get_version, missing);
  Dl_info info{};
  if (get_version != nullptr && ::dladdr(reinterpret_cast<void*>(get_version), &info) != 0) {
    library->path = info.dli_fname;
  }
  if (get_version == nullptr || get_version(&library->version) != ncclSuccess) {
    return fail(ErrorCode::unsupported, library->path, " gives no NCCL version");
  }
  // The version first: an old library also lacks entry points, and its version is the better word.
  if (const auto right = check_versions(kHeaderNcclVersion, library->version, library->path,
                                        options.accept_newer);
      !right) {
    return tl::unexpected<Error>(right.error());
  }
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
