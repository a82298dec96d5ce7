# What every target of ours shares: warnings, sanitizers, include root, ccache; and two short ways to declare a target.

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(millrace_options INTERFACE)
target_include_directories(millrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(millrace_options INTERFACE
  -Wall -Wextra -Wpedantic -Werror -Wconversion -Wno-sign-conversion -Wshadow -Wnon-virtual-dtor
  # The numeric contracts name each fused multiply-add; the compiler adds none of its own.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler need not collect garbage below 1 GiB: a tenth of the time of large headers.
  target_compile_options(millrace_options INTERFACE --param=ggc-min-heapsize=1048576)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees overlapping copies in "text" + std::string where there are none (its bug 105651).
  target_compile_options(millrace_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 sorts through a buffer that it has deprecated itself, and has std::expected only for a compiler that
  # says it knows as much of concepts as clang does without saying so.
  target_compile_options(millrace_options INTERFACE -Wno-deprecated-declarations
    -D__cpp_concepts=202002L -Wno-builtin-macro-redefined)
endif()
if(MILLRACE_SANITIZE)
  add_compile_options(-fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MILLRACE_SANITIZE})
  add_library(millrace_sanitizers OBJECT ${CMAKE_CURRENT_LIST_DIR}/sanitizers.cpp)
  target_link_libraries(millrace_sanitizers PUBLIC ${CMAKE_DL_LIBS})
endif()

# millrace_library(NAME SOURCES... ): a static library of ours. Link it with target_link_libraries.
function(millrace_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC millrace_options)
endfunction()

# millrace_program(NAME SOURCES...): an executable in build/bin.
function(millrace_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE millrace_options $<TARGET_NAME_IF_EXISTS:millrace_sanitizers>)
endfunction()

# millrace_test(NAME SOURCES s... LIBS l... [FILTER f] [LABELS l...] [CORE]): one GoogleTest program and the ctest entry
# that runs it, see millrace_run. CORE: the same objects are also linked into the one program of all tests of the
# engine's core (tests/core).
function(millrace_test name)
  cmake_parse_arguments(ARG "CORE" "FILTER" "SOURCES;LIBS;LABELS" ${ARGN})
  find_package(GTest REQUIRED)
  set(objects ${name})
  if(ARG_CORE)
    set(objects ${name}_objects)
    add_library(${objects} OBJECT ${ARG_SOURCES})
    set_property(GLOBAL APPEND PROPERTY MILLRACE_CORE_TESTS ${objects})
    add_executable(${name})
    target_link_libraries(${name} PRIVATE ${objects})
  else()
    add_executable(${name} ${ARG_SOURCES})
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE $<TARGET_NAME_IF_EXISTS:millrace_sanitizers>)
  target_link_libraries(${objects} PUBLIC millrace_options ${ARG_LIBS})
  target_link_libraries(${objects} PUBLIC GTest::gtest_main)
  # Half the time to compile; what is tested is compiled as it is shipped.
  target_compile_options(${objects} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${objects} PRIVATE MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    MILLRACE_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  millrace_run(${name} PROGRAM ${name} FILTER "${ARG_FILTER}" LABELS ${ARG_LABELS})
endfunction()

add_custom_target(thread_tests)  # the programs of entries with the label `threads`

# millrace_run(NAME PROGRAM p [FILTER f] [ENVIRONMENT e...] [LABELS l...]): a ctest entry that runs a GoogleTest program
# and writes its report where ops/test counts it. A filter that begins with DISABLED, or has it after a dot, runs
# disabled tests. Label an entry `long` to keep it behind `ops/test --long`, `serial` where it must not share the
# machine, `threads` where its own threads share data: those run under ThreadSanitizer.
function(millrace_run name)
  cmake_parse_arguments(ARG "" "PROGRAM;FILTER" "ENVIRONMENT;LABELS" ${ARGN})
  set(arguments)
  if(ARG_FILTER)
    list(APPEND arguments --gtest_filter=${ARG_FILTER})
  endif()
  if(ARG_FILTER MATCHES "(^|[.])DISABLED")
    list(APPEND arguments --gtest_also_run_disabled_tests)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM} ${arguments})
  set(environment GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/gtest/${name}.xml ${ARG_ENVIRONMENT})
  # The time limit ends nothing but what hangs: a machine ten times slower is far below it. Long tests have none.
  set(limit_s 10800)
  if("long" IN_LIST ARG_LABELS)
    set(limit_s 0)
  endif()
  set_tests_properties(${name} PROPERTIES
    TIMEOUT ${limit_s} LABELS "${ARG_LABELS}" ENVIRONMENT "${environment}")
  if("threads" IN_LIST ARG_LABELS)
    add_dependencies(thread_tests ${ARG_PROGRAM})
  endif()
  if("serial" IN_LIST ARG_LABELS)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
