#include "engine/core/gguf/split.hpp"

#include <utility>

namespace millrace::engine {
namespace {

std::string text_of(const Split& split) {
  return "part " + std::to_string(split.number) + " of " + std::to_string(split.count) +
         " of a split model";
}

std::string first_ending(const Split& split) {
  return SplitName{"", 1, split.count}.part(1);
}

}  // namespace

Result<Split> read_split(const GgufFile& file) {
  const Metadata& metadata = file.metadata();
  Split split;
  MILLRACE_ASSIGN(split.count, metadata.get_or<std::uint32_t>("split.count", 1));
  if (split.count <= 1) return Split{};
  MILLRACE_ASSIGN(const auto number, metadata.get<std::uint32_t>("split.no"));
  MILLRACE_ASSIGN(split.tensors, metadata.get<std::uint64_t>("split.tensors.count"));
  if (number >= split.count) {
    return fail(Code::gguf_malformed,
                file.source() + ": metadata key 'split.no' is " + std::to_string(number) +
                    ", but there are " + std::to_string(split.count) + " parts",
                "the file is damaged: download it again");
  }
  split.number = number + 1;
  return split;
}

std::unexpected<Error> refuse_alone(const std::string& source, const Split& split) {
  return fail(Code::gguf_unreadable, source + ": the file is " + text_of(split),
              "give the path of the first part, which ends in " + first_ending(split) +
                  ", and keep the others beside it");
}

Result<SplitName> name_of_first(const std::string& path, const Split& split) {
  auto name = split_name(path);
  if (split.number > 1) {
    if (!name || name->count != split.count) return refuse_alone(path, split);
    return fail(Code::gguf_unreadable, path + ": the file is " + text_of(split),
                "give the path of the first part, " + name->part(1));
  }
  if (name && name->number == 1 && name->count == split.count) return *std::move(name);
  return fail(
      Code::gguf_unreadable,
      path + ": the file is " + text_of(split) + ", whose name must end in " + first_ending(split),
      "give the parts the names that they were published with: the others are found by "
      "them");
}

Result<std::unique_ptr<Bytes>> map_part(const SplitName& name, std::uint32_t number) {
  auto bytes = map_file(name.part(number));
  if (bytes) return bytes;
  Error error = std::move(bytes).error();
  error.message += " (" + text_of({number, name.count, 0}) + ")";
  error.hint = "download all " + std::to_string(name.count) + " parts into one folder";
  return fail(std::move(error));
}

Error not_of_this_model(const std::string& source, const std::string& why) {
  return {Code::gguf_malformed, source + ": the part " + why,
          "the parts belong to different models: download all of them again from one place"};
}

Status check_part(const GgufFile& part, const Split& first, std::uint32_t number) {
  MILLRACE_ASSIGN(const Split split, read_split(part));
  if (split.count == 1) {
    return fail(not_of_this_model(part.source(),
                                  "is a whole file, not " + text_of({number, first.count, 0})));
  }
  if (split.number != number || split.count != first.count) {
    return fail(not_of_this_model(part.source(), "says that it is " + text_of(split) + ", not " +
                                                     text_of({number, first.count, 0})));
  }
  if (split.tensors == first.tensors) return {};
  return fail(not_of_this_model(
      part.source(), "belongs to a model of " + std::to_string(split.tensors) +
                         " tensors, the first part to one of " + std::to_string(first.tensors)));
}

Status check_tensor_count(const GgufFile& file, const Split& first) {
  if (file.tensors().size() == first.tensors) return {};
  return fail(Code::gguf_malformed,
              file.source() + ": the " + std::to_string(first.count) + " parts hold " +
                  std::to_string(file.tensors().size()) + " tensors together, not the " +
                  std::to_string(first.tensors) + " of 'split.tensors.count'",
              "download all parts again from one place");
}

}  // namespace millrace::engine
