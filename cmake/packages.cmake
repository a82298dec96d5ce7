# Debian packages, one for each component of install.cmake. `ops/package` builds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME millrace)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "Millrace <millrace@localhost>" CACHE STRING "who maintains the packages")
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
  WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL broker engine cli python)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
# Adds what Debian wants and `cmake --install` does not: files in /etc, a copyright file, compressed texts.
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/ops/debian/stage.cmake)
set(CPACK_MILLRACE_SOURCE ${PROJECT_SOURCE_DIR})

set(control ${PROJECT_SOURCE_DIR}/ops/debian)
# millrace_package(COMPONENT NAME SECTION TEXT [CONTROL files...] [DEPENDS d] [RECOMMENDS r] [SUGGESTS s]) describes one.
macro(millrace_package component name section text)
  cmake_parse_arguments(ARG "" "DEPENDS;RECOMMENDS;SUGGESTS" "CONTROL" ${ARGN})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${text}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARG_DEPENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_RECOMMENDS "${ARG_RECOMMENDS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SUGGESTS "${ARG_SUGGESTS}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA)
  foreach(file ${ARG_CONTROL})
    list(APPEND CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control}/${component}/${file})
  endforeach()
endmacro()

millrace_package(broker millrace-broker net
  "Durable broker for bulk text generation\nKeeps generation jobs on disk, hands them to engines and publishes\ntheir results, each exactly once. Runs as a service of systemd."
  DEPENDS "adduser" RECOMMENDS "millrace-cli" CONTROL conffiles postinst prerm postrm)
millrace_package(engine millrace-engine science
  "Engine that runs language models through OpenCL\nTakes jobs from a Millrace broker and computes them on a CPU or GPU.\nIn batches of any mixture, a job gets the same bits."
  DEPENDS "adduser, pocl-opencl-icd | opencl-icd" CONTROL conffiles postinst prerm postrm)
millrace_package(cli millrace-cli science
  "Command line of Millrace, for bulk text generation\nRuns a language model over a file of prompts, or submits jobs to a\nbroker and reads their results."
  RECOMMENDS "millrace-engine, millrace-broker")
millrace_package(python python3-millrace python
  "Python client of Millrace, for bulk text generation\nSubmits jobs to a Millrace broker, from programs with or without\nasyncio, and reads their results."
  DEPENDS "python3 (>= 3.9), python3-msgpack, python3-zmq" RECOMMENDS "python3-numpy"
  SUGGESTS "millrace-cli, python3-tqdm" CONTROL postinst prerm)
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SHLIBDEPS OFF)
include(CPack)
