# Installs the build into a fresh folder, builds the example against it with the same generator, and
# checks what it prints.
file(REMOVE_RECURSE ${WORK})
foreach(step
    "${CMAKE_COMMAND};--install;${BUILD};--prefix;${WORK}/prefix"
    "${CMAKE_COMMAND};-G;${GENERATOR};-DCMAKE_MAKE_PROGRAM=${MAKE_PROGRAM};-S;${SOURCE};-B;${WORK}/build;-DCMAKE_PREFIX_PATH=${WORK}/prefix;-DCMAKE_CXX_FLAGS=${FLAGS}"
    "${CMAKE_COMMAND};--build;${WORK}/build")
  execute_process(COMMAND ${step} OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${step}\n${out}")
  endif()
endforeach()
execute_process(COMMAND ${WORK}/build/example OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0 OR NOT printed MATCHES "rank 0: 0 9 0" OR NOT printed MATCHES "rank 1: 0 9 0")
  message(FATAL_ERROR "the example printed: ${printed}")
endif()
