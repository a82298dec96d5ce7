#pragma once
// Joins a program's text from kernel sources and the files that they include; internal to this
// folder. OpenCL drivers get one text and know no include path.
//
//   #include "kv/layout.cl"   at the beginning of a line; the path is below kernels/
//
// A file with `#pragma once` is imported: it stands once in a program, before the part that needs
// it, and sees the program's defines alone. Another file is a template: each of its includes
// stands for its text, with the macros that are defined there. kernels/README.md says which kind
// is for what.
#include <span>
#include <string>

#include "engine/core/device/device.hpp"
#include "kernels/sources.hpp"

namespace millrace::engine {

// The text of `spec`, whose own text comes last and may include files, too. `sources` holds
// common/prelude.cl, which begins every program. Errors: internal, for a file that does not exist
// or includes itself through others, a line that looks like an include and is none, defines of a
// part that comes too late for them, and defines that no joined file mentions.
Result<std::string> program_text(const ProgramSpec& spec,
                                 std::span<const kernels::Source> sources = kernels::sources());

}  // namespace millrace::engine
