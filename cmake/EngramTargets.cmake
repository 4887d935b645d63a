# engram_module(NAME sources...): a library engram_NAME, alias engram::NAME, whose public headers
# are those under include/ and are compiled alone by all_verify_interface_header_sets.
# A designated initializer that leaves members at their defaults is no oversight.
add_library(engram_warnings INTERFACE)
target_compile_options(engram_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wno-sign-conversion;-Wno-restrict;-Wno-missing-field-initializers;-Werror=return-type>)
add_library(engram::warnings ALIAS engram_warnings)
set_property(GLOBAL PROPERTY ENGRAM_MODULES "")

function(engram_module name)
  add_library(engram_${name} STATIC)
  add_library(engram::${name} ALIAS engram_${name})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS include/*.hpp)
  target_sources(engram_${name} PRIVATE ${ARGN}
    PUBLIC FILE_SET HEADERS BASE_DIRS include FILES ${headers})
  target_include_directories(engram_${name} PRIVATE src)
  target_compile_features(engram_${name} PUBLIC cxx_std_20)
  target_link_libraries(engram_${name} PRIVATE $<BUILD_INTERFACE:engram::warnings>)
  set_target_properties(engram_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  set_property(GLOBAL APPEND PROPERTY ENGRAM_MODULES engram_${name})
endfunction()

# Constexpr functions are shared by host and device. fmt 9 takes nvcc for a compiler without
# constexpr, and its consteval does not pass nvcc's host pass.
set(ENGRAM_CUDA_FLAGS --expt-relaxed-constexpr -Xcompiler=-Wall -DFMT_CONSTEVAL=
    -DFMT_USE_CONSTEXPR=1 -diag-suppress=20208)
