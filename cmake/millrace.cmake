# Sets what every target shares (warnings, sanitizers, include root, ccache) and defines the functions that declare
# targets.

find_program(CCACHE ccache)
if(CCACHE)
  # ccache does not cache files that use a precompiled header unless it may ignore __TIME__ and macros defined before it.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

add_library(millrace_options INTERFACE)
target_include_directories(millrace_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(millrace_options INTERFACE
  # Builds with sanitizers only warn: GCC sees errors in the code it adds, and in that of libraries it is added to.
  $<$<CONFIG:Release>:-Werror>
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  # The numeric contracts name each fused multiply-add; the compiler must not add any.
  -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Collecting garbage only above 1 GiB saves a tenth of the compile time of large headers.
  target_compile_options(millrace_options INTERFACE --param=ggc-min-heapsize=1048576)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping copies in "text" + std::string where there are none (GCC bug 105651).
  target_compile_options(millrace_options INTERFACE -Wno-restrict)
  if(MILLRACE_COVERAGE)
    # At -O1 it takes the destructor of a std::variant in an initializer list for one that frees a local object.
    target_compile_options(millrace_options INTERFACE -Wno-free-nonheap-object)
  endif()
  if(MILLRACE_PRECOMPILE)
    # It warns of such copies inside the library's own headers too where these are precompiled.
    target_compile_options(millrace_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12 sorts through a buffer that it has itself deprecated. It offers std::expected only to compilers that
  # report the concepts of C++20 as complete (__cpp_concepts 202002), which clang supports but does not report.
  target_compile_options(millrace_options INTERFACE -Wno-deprecated-declarations
    -D__cpp_concepts=202002L -Wno-builtin-macro-redefined)
endif()
if(CMAKE_UNITY_BUILD)
  # The local names of one source are global ones to the next, and its local types belong to no main file.
  target_compile_options(millrace_options INTERFACE -Wshadow=local -Wno-subobject-linkage)
else()
  target_compile_options(millrace_options INTERFACE -Wshadow)
endif()
if(MILLRACE_SANITIZE)
  add_compile_options(-fsanitize=${MILLRACE_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MILLRACE_SANITIZE})
  add_library(millrace_sanitizers OBJECT ${CMAKE_CURRENT_LIST_DIR}/sanitizers.cpp)
  target_link_libraries(millrace_sanitizers PUBLIC ${CMAKE_DL_LIBS})
endif()

# With MILLRACE_COVERAGE, the targets of folders that set MILLRACE_COUNTED count which of their lines run. At -O1 GCC
# inlines few functions before it counts. Threads count atomically: otherwise, they lose each other's counts, gcov
# reckons negative ones from them, and gcovr refuses the file.
set(counters -O1 --coverage -fprofile-abs-path -fprofile-update=atomic)
if(MILLRACE_COVERAGE)
  add_link_options(--coverage)
endif()

# With MILLRACE_PRECOMPILE, the compiler parses the headers of the standard library that most files include once instead
# of once a file; for programs also CLI11's, for tests GoogleTest's. Each file still includes what it needs: clang-tidy
# and the fuzz targets compile without.
set(precompiled_headers <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <span> <string>
  <string_view> <utility> <vector>)

# millrace_precompile(NAME HEADERS h... [LIBS l...] [OPTIONS o...]) precompiles headers for targets that call
# millrace_use_precompiled(TARGET NAME). Both targets need the same options, or GCC refuses the precompiled header. So
# NAME_counted is for targets with counters.
function(millrace_precompile name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS;OPTIONS" ${ARGN})
  add_library(${name} OBJECT ${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp)
  target_link_libraries(${name} PRIVATE millrace_options ${ARG_LIBS})
  target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  if(MILLRACE_COVERAGE AND NOT name MATCHES "_counted$")
    millrace_precompile(${name}_counted ${ARGN} OPTIONS ${ARG_OPTIONS} ${counters})
  endif()
endfunction()

# millrace_use_precompiled(TARGET NAME) has a target use the precompiled headers NAME, and count if its folder says so.
function(millrace_use_precompiled target name)
  if(MILLRACE_COUNTED)
    target_compile_options(${target} PRIVATE ${counters})
    string(APPEND name _counted)
  endif()
  if(MILLRACE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

if(MILLRACE_PRECOMPILE)
  if(CCACHE)
    target_compile_options(millrace_options INTERFACE -fpch-preprocess)  # ccache reads preprocessed files
  endif()
  millrace_precompile(precompiled_std HEADERS ${precompiled_headers})
  millrace_precompile(precompiled_program HEADERS ${precompiled_headers} <CLI/CLI.hpp>
    OPTIONS $<$<CONFIG:Release>:-O1>)
endif()

# millrace_alone(SOURCES...) has sources compiled alone in a unity build, because their local names collide with others'.
function(millrace_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# millrace_library(NAME SOURCES...) declares a static library. Link it with target_link_libraries.
function(millrace_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PUBLIC millrace_options)
  millrace_use_precompiled(${name} precompiled_std)
endfunction()

# millrace_program(NAME SOURCES...) declares an executable in build/bin. Its own sources read flags and print; the work
# is in libraries. So -O1 is enough for them, and they compile in three quarters of the time.
function(millrace_program name)
  add_executable(${name} ${ARGN})
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_link_libraries(${name} PRIVATE millrace_options $<TARGET_NAME_IF_EXISTS:millrace_sanitizers>)
  millrace_use_precompiled(${name} precompiled_program)
endfunction()

# millrace_test(NAME SOURCES s... LIBS l... [FILTER f] [LABELS l...] [CORE]) declares a GoogleTest program and the ctest
# entry that runs it (see millrace_run). With CORE, tests/core also links the same objects into one program with all tests
# of the engine's core.
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
  # -O1 halves the compile time of the tests. The libraries under test are compiled as they are shipped.
  target_compile_options(${objects} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(MILLRACE_PRECOMPILE AND NOT TARGET precompiled_test)
    millrace_precompile(precompiled_test HEADERS ${precompiled_headers} <cmath> <filesystem> <fstream> <set>
      <gtest/gtest.h> LIBS GTest::gtest OPTIONS $<$<CONFIG:Release>:-O1>)
  endif()
  millrace_use_precompiled(${objects} precompiled_test)
  target_compile_definitions(${objects} PRIVATE MILLRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    MILLRACE_BIN_DIR="${CMAKE_BINARY_DIR}/bin")
  millrace_run(${name} PROGRAM ${name} FILTER "${ARG_FILTER}" LABELS ${ARG_LABELS})
endfunction()

add_custom_target(thread_tests)  # builds the programs of entries with the label `threads`
add_custom_target(queue_tests)   # and of entries with the label `queue`
add_custom_target(queue_thread_tests)  # and of entries with the label `queue_threads`

# millrace_run(NAME PROGRAM p [FILTER f] [ENVIRONMENT e...] [LABELS l...]) adds a ctest entry that runs a GoogleTest
# program and writes its report where ops/test counts it. A filter that has DISABLED at its start or after a dot runs
# disabled tests. Labels: `long` limits an entry to `ops/test --long`; `serial` keeps other tests from running at the same
# time; `threads` marks a program whose own threads share data, which runs under ThreadSanitizer. Tests of the queue
# (tests/CMakeLists.txt) get the label `queue`, those with threads also `queue_threads`.
function(millrace_run name)
  cmake_parse_arguments(ARG "" "PROGRAM;FILTER" "ENVIRONMENT;LABELS" ${ARGN})
  set(arguments)
  if(ARG_FILTER)
    list(APPEND arguments --gtest_filter=${ARG_FILTER})
  endif()
  if(ARG_FILTER MATCHES "(^|[.])DISABLED")
    list(APPEND arguments --gtest_also_run_disabled_tests)
  endif()
  if(MILLRACE_QUEUE_TESTS)
    list(APPEND ARG_LABELS queue)
    if("threads" IN_LIST ARG_LABELS)
      list(APPEND ARG_LABELS queue_threads)
      add_dependencies(queue_thread_tests ${ARG_PROGRAM})
    endif()
    add_dependencies(queue_tests ${ARG_PROGRAM})
  endif()
  add_test(NAME ${name} COMMAND ${ARG_PROGRAM} ${arguments})
  set(environment GTEST_OUTPUT=xml:${CMAKE_BINARY_DIR}/reports/gtest/${name}.xml ${ARG_ENVIRONMENT})
  # The time limit is for tests that hang: a machine eight times slower stays below it. Under sanitizers a test may take
  # ten times as long. Long tests have none.
  set(limit_s 1800)
  if(MILLRACE_SANITIZE)
    set(limit_s 10800)
  endif()
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
