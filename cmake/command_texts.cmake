# Writes what the programs in BIN print of their command lines into OUT: for each program a folder with man/, bash, zsh
# and fish. Defaults that depend on the user are printed with the name of the variable that they come from.
set(ENV{XDG_RUNTIME_DIR} "\$XDG_RUNTIME_DIR")
foreach(program millrace millrace-broker millrace-engine)
  file(REMOVE_RECURSE ${OUT}/${program})
  file(MAKE_DIRECTORY ${OUT}/${program}/man)
  execute_process(COMMAND ${BIN}/${program} --write-manuals ${OUT}/${program}/man COMMAND_ERROR_IS_FATAL ANY)
  foreach(shell bash zsh fish)
    execute_process(COMMAND ${BIN}/${program} --print-completion ${shell} OUTPUT_FILE ${OUT}/${program}/${shell}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
file(TOUCH ${OUT}/written)
