#pragma once
// The parts of a split model: what each says of itself (split.no, split.count,
// split.tensors.count), its name (schemas/base/split_name.hpp), and the checks that parts belong
// together. Only file.cpp uses it. Thread safety: pure functions.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/split_name.hpp"

namespace millrace::engine {

struct Split {
  std::uint32_t number = 1, count = 1;  // this part, from 1, and how many there are
  std::uint64_t tensors = 0;            // of all parts
};

// Count 1: the file is whole. Errors: gguf_malformed.
Result<Split> read_split(const GgufFile& file);

// The error of a part whose others cannot be found, because only its bytes are given.
std::unexpected<Error> refuse_alone(const std::string& source, const Split& split);

// Returns the name of the first part at `path`. Errors: gguf_unreadable, if it is another part or
// its name is not that of a first part.
Result<SplitName> name_of_first(const std::string& path, const Split& split);

// Errors: gguf_unreadable, which says what part is missing.
Result<std::unique_ptr<Bytes>> map_part(const SplitName& name, std::uint32_t number);

// The error of a part that does not fit the first one.
Error not_of_this_model(const std::string& source, const std::string& why);

// Checks that `part` says of itself that it is part `number` of a model like that of `first`.
Status check_part(const GgufFile& part, const Split& first, std::uint32_t number);

// Checks the number of tensors of all parts together.
Status check_tensor_count(const GgufFile& file, const Split& first);

}  // namespace millrace::engine
