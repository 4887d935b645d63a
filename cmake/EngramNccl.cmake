# engram::nccl_headers: NCCL >= 2.30.4, from ENGRAM_NCCL_ROOT, the Python package nvidia-nccl-cu13,
# or the system. The target is not a system include: nvcc searches its own toolkit folder, which may
# hold an older NCCL, before -isystem folders.
if(NOT ENGRAM_NCCL_ROOT)
  find_program(ENGRAM_PYTHON NAMES python3)
  if(ENGRAM_PYTHON)
    execute_process(
      COMMAND ${ENGRAM_PYTHON} -c "import nvidia.nccl; print(list(nvidia.nccl.__path__)[0])"
      OUTPUT_VARIABLE engram_nccl_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
endif()
find_path(ENGRAM_NCCL_INCLUDE nccl_device/gin.h HINTS ${ENGRAM_NCCL_ROOT} ${engram_nccl_hint}
          PATH_SUFFIXES include)
find_library(ENGRAM_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${ENGRAM_NCCL_ROOT} ${engram_nccl_hint}
             PATH_SUFFIXES lib)
if(ENGRAM_NCCL_INCLUDE AND ENGRAM_NCCL_LIBRARY)
  file(STRINGS ${ENGRAM_NCCL_INCLUDE}/nccl.h engram_nccl_lines REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" engram_nccl_version "${engram_nccl_lines}")
  list(JOIN engram_nccl_version "." engram_nccl_version)
  if(engram_nccl_version VERSION_GREATER_EQUAL 2.30.4)
    set(ENGRAM_HAVE_NCCL ON)
    add_library(engram_nccl_headers INTERFACE)
    target_include_directories(engram_nccl_headers INTERFACE $<BUILD_INTERFACE:${ENGRAM_NCCL_INCLUDE}>)
    add_library(engram::nccl_headers ALIAS engram_nccl_headers)
    message(STATUS "engram: NCCL ${engram_nccl_version} at ${ENGRAM_NCCL_INCLUDE}")
  endif()
endif()
if(NOT ENGRAM_HAVE_NCCL)
  message(STATUS "engram: nccl backend OFF (needs NCCL >= 2.30.4: tools/install_packages.sh, or pip install nvidia-nccl-cu13, or set ENGRAM_NCCL_ROOT)")
endif()
