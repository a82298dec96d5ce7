#include "engine/core/families/keys.hpp"

#include "engine/core/families/family.hpp"

namespace millrace::engine {

std::unexpected<Error> unsupported(const GgufFile& file, const std::string& what) {
  std::string names;
  for (const Family* family : all_families()) {
    names += (names.empty() ? "" : ", ") + std::string(family->architecture);
  }
  return fail(Code::unsupported_architecture, file.source() + ": " + what,
              "this version runs models of the architectures " + names);
}

std::unexpected<Error> damaged(const GgufFile& file, const std::string& what) {
  return fail(Code::gguf_malformed, file.source() + ": " + what,
              "the file is damaged: download or convert it again");
}

Result<std::vector<std::uint32_t>> Keys::by_block(std::string_view name, std::uint32_t blocks,
                                                  std::optional<std::uint32_t> fallback) {
  const Value* const value = file_.metadata().raw(ask(name));
  if (value == nullptr && fallback) return std::vector<std::uint32_t>(blocks, *fallback);
  if (value == nullptr || value->type != ValueType::array) {
    MILLRACE_ASSIGN(const auto number, get<std::uint32_t>(name));
    return std::vector<std::uint32_t>(blocks, number);
  }
  MILLRACE_ASSIGN(auto numbers, get<std::vector<std::uint32_t>>(name));
  if (numbers.size() == blocks) return numbers;
  return damaged(file_, full(name) + " holds " + std::to_string(numbers.size()) + " values for " +
                            std::to_string(blocks) + " blocks");
}

Result<std::vector<bool>> Keys::flags(std::string_view name, std::uint32_t blocks) {
  const Value* const value = file_.metadata().raw(ask(name));
  if (value == nullptr || value->type != ValueType::array || value->element != ValueType::boolean ||
      value->count != blocks) {
    return damaged(file_, full(name) + " must be an array of " + std::to_string(blocks) + " bools");
  }
  std::vector<bool> flags;
  for (const std::byte flag : value->bytes) flags.push_back(flag != std::byte{0});
  return flags;
}

Result<float> Keys::factor(std::string_view name, float fallback) {
  MILLRACE_ASSIGN(const float value, get_or<float>(name, 0.0f));
  if (value == 0.0f) return fallback;
  if (value >= 1e-6f && value <= 1e6f) return value;
  return damaged(file_, full(name) + " = " + std::to_string(value) + " is outside 1e-6 to 1e6");
}

Status Keys::refuse_unless_neutral(std::string_view name, float neutral) {
  if (asked_.contains(full(name))) return {};
  MILLRACE_ASSIGN(const float value, get_or<float>(name, 0.0f));
  if (value == 0.0f || value == neutral) return {};
  return unsupported(file_, full(name) + " = " + std::to_string(value) + " is not supported");
}

Status Keys::refuse_unread() const {
  for (const std::string_view key : file_.metadata().keys()) {
    if (!key.starts_with(prefix_) || asked_.contains(key)) continue;
    return unsupported(file_, "metadata key \"" + std::string(key) +
                                  "\" is not known; it may change what the model computes");
  }
  return {};
}

}  // namespace millrace::engine
