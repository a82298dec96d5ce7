#pragma once
// How a class of models of a hub becomes an architecture of engine/core/families: what its tensors
// are called there and how their rows lie. To add one, add a row to hub_families.cpp; keys that
// only it has stand in model_keys.cpp. Thread safety: constants.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace::engine {

enum class Form : std::uint8_t {
  as_is,
  queries,  // rows rotate in pairs or in halves, as the family's `reorders` says
  keys,
  norm,    // 1 is added, if the family's `adds_one` says so
  expert,  // one matrix of many: the name has `*` for the expert's number
  halves,  // [.., gate and up, ..]: the first half of the rows is one tensor, the second another
  interleaved,  // the same, row by row; of float types, the file holds the columns
  columns,      // a file holds the columns, but of types in blocks
};

// Names without .weight and .bias, which a tensor keeps; where the hub's name has neither, ours
// does.
struct NameRule {
  std::string_view hub, ours;
  Form form = Form::as_is;
  std::string_view second{};  // of halves and interleaved
};

struct HubFamily {
  std::string_view class_name;        // "LlamaForCausalLM", of `architectures`
  std::string_view architecture;      // "llama", as in general.architecture
  std::span<const NameRule> names{};  // before those that all have
  // The hub's rows of queries and keys are for rotation by halves, the architecture's for pairs.
  bool reorders = false;
  bool adds_one = false;             // to the weights of norms
  std::string_view defaults = "{}";  // of config.json, as the class has them
  std::string_view activation = "silu";
};

const HubFamily* find_hub_family(std::string_view class_name);  // null: none
std::string supported_hub_classes();                            // "LlamaForCausalLM, ..."

std::span<const NameRule> common_names();  // of a layer's tensors

}  // namespace millrace::engine
