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
  // Of latent attention: each head has rows that give keys, which are one tensor, transposed, and
  // rows that give values, which are another.
  latent_heads,
  // Of delta nets, whose value heads take the key heads in turn, as the family's `tiles` says.
  value_heads,    // the last rows are of value heads
  value_columns,  // the columns are
  joined_heads,   // of each key head: queries, keys and values; gates, which are another tensor
  // Of states.
  taps,          // of a convolution of one channel, ordered as value heads
  decay,         // logarithms of decays, ordered as value heads: -exp of each
  decay_column,  // the same, a row for each head
  column,        // a row for each head
  groups,        // a row for each group
};

// Names without .weight and .bias, which a tensor keeps; where the hub's name has neither, ours
// does. A hub's name with an ending has the whole of ours beside it.
struct NameRule {
  std::string_view hub, ours;
  Form form = Form::as_is;
  std::string_view second{};  // of forms that make two tensors
};

// What config.json calls a setting that other classes call otherwise.
struct SettingName {
  std::string_view from, to;
};

enum class KvHeads : std::uint8_t { alike, by_layer, one };

struct HubFamily {
  std::string_view class_name;          // "LlamaForCausalLM", of `architectures`
  std::string_view architecture;        // "llama", as in general.architecture
  std::string_view variant{};           // of a class with several architectures (class_variant)
  std::span<const NameRule> names{};    // of a layer's tensors, before those that all have
  std::span<const NameRule> parts{};    // likewise, which several classes have
  std::span<const NameRule> outside{};  // likewise, of the others
  std::span<const SettingName> settings{};
  // The kinds of layers that the class has, with spaces between them; none: all are alike.
  std::string_view layer_kinds{};
  // The hub's rows of queries and keys are for rotation by halves, the architecture's for pairs.
  bool reorders = false;
  bool adds_one = false;  // to the weights of norms
  bool tiles = false;     // the architecture's value heads take the key heads in turn
  bool rotates = true;
  KvHeads kv_heads = KvHeads::alike;
  std::string_view defaults = "{}";  // of config.json, as the class has them
  std::string_view activation = "silu";
};

// Null: none. Families of one class have the same settings and kinds of layers.
const HubFamily* find_hub_family(std::string_view class_name, std::string_view variant = {});
std::string supported_hub_classes();  // "LlamaForCausalLM, ..."

std::span<const NameRule> common_names();    // of a layer's tensors
std::span<const NameRule> common_outside();  // of the others

}  // namespace millrace::engine
