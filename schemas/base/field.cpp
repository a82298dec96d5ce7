#include "schemas/base/field.hpp"

#include "schemas/base/number_text.hpp"

namespace millrace {
namespace {

std::string up_to(std::uint64_t most, const char* what) {
  return "up to " + std::to_string(most) + " " + what;
}

}  // namespace

std::string limits_text(const Range& range) {
  const std::string most = number_text(static_cast<float>(range.most));
  const std::string least = number_text(static_cast<float>(range.least));
  return range.above_least ? "above " + least + " and up to " + most : least + " to " + most;
}
std::string limits_text(const Count& count) {
  return std::to_string(count.least) + " to " + std::to_string(count.most);
}
std::string limits_text(UnixTime) {
  return "microseconds since 1970";
}
std::string limits_text(const Label& label) {
  return up_to(label.most_bytes, "bytes");
}
std::string limits_text(const Text& text) {
  return up_to(text.most_bytes, "bytes");
}
std::string limits_text(const Texts& texts) {
  return up_to(texts.most, "texts of up to ") + std::to_string(texts.most_bytes) + " bytes";
}
std::string limits_text(const Ids& ids) {
  return up_to(ids.most, "ids, each below the size of the vocabulary");
}
std::string limits_text(const IdLists& lists) {
  return up_to(lists.most, "sequences of 1 to ") + std::to_string(lists.most_ids) + " ids";
}
std::string limits_text(const Biases& biases) {
  const std::string value = number_text(static_cast<float>(biases.value));
  return up_to(biases.most, "ids, each with a number from -") + value + " to " + value;
}
std::string limits_text(const Dictionary& dictionary) {
  return up_to(dictionary.most, "entries of ") + std::to_string(dictionary.most_bytes) +
         " bytes in all";
}
std::string limits_text(const Parts& parts) {
  return up_to(parts.most, "parts");
}
std::string limits_text(Part) {
  return {};
}
std::string limits_text(const Labels& labels) {
  return up_to(labels.most, "labels of up to ") + std::to_string(labels.most_bytes) + " bytes";
}
std::string limits_text(const FlagOrTop& form) {
  return "true, false or 0 to " + std::to_string(form.most);
}

std::string limits_text(Word) {
  return {};
}

std::string limits_text(const Objects& form) {
  return "up to " + std::to_string(form.most) + " objects";
}

std::string limits_text(const Variables& form) {
  return "up to " + std::to_string(form.most) + " entries";
}

}  // namespace millrace
