# CPack runs this between installing the components into CPACK_TEMPORARY_DIRECTORY and making packages of them. It adds
# what Debian wants beyond `cmake --install`: settings in /etc, copyright files, compressed manuals and changelogs.
set(stage ${CPACK_TEMPORARY_DIRECTORY})
set(settings ${CPACK_MILLRACE_SOURCE}/ops/systemd)
file(COPY ${settings}/broker.toml DESTINATION ${stage}/broker/etc/millrace)
file(COPY ${settings}/example.env DESTINATION ${stage}/engine/etc/millrace/engines)

file(GLOB documents ${stage}/*/usr/share/doc/*)
foreach(folder ${documents})
  file(READ ${CPACK_MILLRACE_SOURCE}/ops/debian/copyright about)
  file(WRITE ${folder}/copyright "${about}")
  file(REMOVE ${folder}/LICENSE)
  file(RENAME ${folder}/CHANGELOG.md ${folder}/changelog)
endforeach()
file(GLOB texts ${stage}/*/usr/share/doc/*/changelog ${stage}/*/usr/share/man/man1/*.1)
execute_process(COMMAND gzip -9n ${texts} COMMAND_ERROR_IS_FATAL ANY)
