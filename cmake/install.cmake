# What `cmake --install` puts where, in four components, each of which is also a Debian package (packages.cmake): broker,
# engine, cli, python. Kernels and tables are inside of the programs, so that these need no file of the source tree.
include(GNUInstallDirs)
set(MILLRACE_PYTHON_DIR "lib/python3/dist-packages" CACHE STRING "where the component python puts its package")
set(MILLRACE_UNIT_DIR "lib/systemd/system" CACHE STRING "where systemd's units are put")
set(parts broker engine cli python)
set(program_of_broker millrace-broker)
set(program_of_engine millrace-engine)
set(program_of_cli millrace)

# The manual pages and the completion of shells are what the programs themselves print. A build with sanitizers, whose
# programs may not run here, is not installed.
set(texts ${PROJECT_BINARY_DIR}/texts)
set(all)
if(NOT MILLRACE_SANITIZE)
  set(all ALL)
endif()
add_custom_command(OUTPUT ${texts}/written
  COMMAND ${CMAKE_COMMAND} -D BIN=$<TARGET_FILE_DIR:millrace> -D OUT=${texts}
    -P ${CMAKE_CURRENT_LIST_DIR}/command_texts.cmake
  DEPENDS millrace millrace-broker millrace-engine ${CMAKE_CURRENT_LIST_DIR}/command_texts.cmake
  VERBATIM)
add_custom_target(command_texts ${all} DEPENDS ${texts}/written)
add_custom_target(installed_files DEPENDS command_texts millrace millrace-broker millrace-engine)

foreach(part broker engine cli)
  set(program ${program_of_${part}})
  set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc/millrace-${part})
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT ${part})
  install(DIRECTORY ${texts}/${program}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${part})
  install(FILES ${texts}/${program}/bash RENAME ${program}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT ${part})
  install(FILES ${texts}/${program}/zsh RENAME _${program}
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/vendor-completions COMPONENT ${part})
  install(FILES ${texts}/${program}/fish RENAME ${program}.fish
    DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/fish/vendor_completions.d COMPONENT ${part})
  install(FILES LICENSE CHANGELOG.md DESTINATION ${doc} COMPONENT ${part})
endforeach()
set(doc ${CMAKE_INSTALL_DATAROOTDIR}/doc)

install(FILES broker/THREAT_MODEL.md DESTINATION ${doc}/millrace-broker COMPONENT broker)
install(FILES ops/systemd/broker.toml DESTINATION ${doc}/millrace-broker/examples COMPONENT broker)
install(FILES ops/systemd/millrace-broker.service DESTINATION ${MILLRACE_UNIT_DIR} COMPONENT broker)

install(FILES ops/systemd/example.env DESTINATION ${doc}/millrace-engine/examples COMPONENT engine)
install(FILES ops/systemd/millrace-engine@.service DESTINATION ${MILLRACE_UNIT_DIR} COMPONENT engine)

install(FILES README.md ARCHITECTURE.md ops/INSTALL.md schemas/docs/messages.md
  DESTINATION ${doc}/millrace-cli COMPONENT cli)

# Python's own list of installed packages reads METADATA.
file(STRINGS client/python/pyproject.toml dependencies REGEX "^dependencies = ")
string(REGEX MATCHALL "\"[^\"]+\"" dependencies "${dependencies}")
set(python_metadata "Metadata-Version: 2.1\nName: millrace\nVersion: ${PROJECT_VERSION}\n")
foreach(dependency ${dependencies})
  string(REPLACE "\"" "" dependency ${dependency})
  string(APPEND python_metadata "Requires-Dist: ${dependency}\n")
endforeach()
file(CONFIGURE OUTPUT ${texts}/METADATA CONTENT "${python_metadata}" @ONLY)
install(FILES ${texts}/METADATA
  DESTINATION ${MILLRACE_PYTHON_DIR}/millrace-${PROJECT_VERSION}.dist-info COMPONENT python)
install(DIRECTORY client/python/src/millrace DESTINATION ${MILLRACE_PYTHON_DIR} COMPONENT python
  PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE CHANGELOG.md client/python/README.md DESTINATION ${doc}/python3-millrace COMPONENT python)
install(DIRECTORY client/python/examples DESTINATION ${doc}/python3-millrace COMPONENT python
  PATTERN __pycache__ EXCLUDE)
