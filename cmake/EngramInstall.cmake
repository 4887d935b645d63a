# find_package(engram): the installed package. CUDA parts are not exported: they are built per site.
include(CMakePackageConfigHelpers)
set(engram_exported engram_core engram_host engram_loopback engram_model engram_rendezvous)
if(ENGRAM_HAVE_SIMGRID)
  list(APPEND engram_exported engram_sim engram_sim_backend)
endif()
install(TARGETS ${engram_exported} EXPORT engramTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT engramTargets NAMESPACE engram:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/engram)
configure_package_config_file(${CMAKE_CURRENT_SOURCE_DIR}/cmake/engramConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/engramConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/engram)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/engramConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/engramConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/engramConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/engram)
install(DIRECTORY scenarios/ DESTINATION ${CMAKE_INSTALL_DATADIR}/engram/scenarios)
