#pragma once
// Writes a model anew with its tensors in other types.
//
//   MILLRACE_ASSIGN(const ConvertPlan plan, plan_conversion(file, type, {}));
//   MILLRACE_TRY(write_conversion(file, plan, env, path, {.threads = usable_cores()}));
//
// Metadata and tensors keep their order. `general.file_type` and `general.quantization_version` say
// what the new file is; the keys of a split model are left out, because the file is whole. The
// bytes depend on nothing but the model and the type. Thread safety: one call at a time for one
// path.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/core/convert/file_type.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/gguf/write.hpp"
#include "schemas/base/env.hpp"

namespace millrace::engine {

struct ConvertPlan {
  GgufLayout layout;
  std::vector<TensorType> types;  // of each tensor of the file
};

// Decides every tensor's type and place. Quantizing values that were quantized before loses more
// than either step alone, so it is refused unless the user allows it. Errors: conflict, naming the
// first such tensor; those of choose_types.
Result<ConvertPlan> plan_conversion(const GgufFile& file, const FileType& type,
                                    bool allow_requantize);

struct ConvertProgress {
  std::size_t tensor = 0;           // all tensors up to this one, by number from 0, are written
  std::uint64_t written_bytes = 0;  // of the new file
};

struct ConvertOptions {
  std::uint32_t threads = 1;
  std::function<void(const ConvertProgress&)> progress = {};  // after each tensor, in order
  std::function<bool()> interrupted = {};                     // asked between pieces of tensors
};

// A thread holds this many values of a tensor at once, or one row if that is longer: as floats, and
// encoded in at most as many bytes. So the memory taken is `threads` times some 2 MiB.
inline constexpr std::uint64_t convert_piece_elements = 1 << 18;

// Writes the file under the name PATH.new, syncs it and renames it to `path`, which it replaces.
// Whatever fails leaves no file. Errors: disk_full, saying the bytes needed; output_in_use, if
// another conversion writes this file; gguf_malformed, naming the tensor and row of a number that
// is not finite or too large for the new type; interrupted; io_error.
Status write_conversion(const GgufFile& file, const ConvertPlan& plan, Env& env,
                        const std::string& path, const ConvertOptions& options);

}  // namespace millrace::engine
