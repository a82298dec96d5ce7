// Which tensor gets which type. A mix is a list of rules by a tensor's role and its place among the
// layers; the first that fits gives the type.
#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <span>

#include "engine/core/convert/file_type.hpp"
#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

// What a tensor's name says that it does. Values also stand for fused attention matrices, which
// hold them.
enum class Role : std::uint8_t { output, embedding, values, keys, attention_output, down, other };

enum class Where : std::uint8_t {
  all,
  first_two,  // of the tensors of this role
  first_four,
  first_sixteenth,  // of the layers
  first_eighth,
  spread,         // the first and the last eighth, and every third layer between them
  shared_values,  // if at least four query heads share a value head
};

struct Rule {
  Mix mix;
  Role role;
  Where where;
  TensorType type;
};

constexpr Rule kRules[] = {
    {Mix::q2_k, Role::values, Where::shared_values, TensorType::q4_k},
    {Mix::q2_k, Role::values, Where::all, TensorType::q3_k},
    {Mix::q2_k, Role::down, Where::all, TensorType::q3_k},
    {Mix::q2_k, Role::attention_output, Where::all, TensorType::q3_k},
    {Mix::q3_k_m, Role::values, Where::first_two, TensorType::q5_k},
    {Mix::q3_k_m, Role::values, Where::all, TensorType::q4_k},
    {Mix::q3_k_m, Role::down, Where::first_sixteenth, TensorType::q5_k},
    {Mix::q3_k_m, Role::down, Where::all, TensorType::q4_k},
    {Mix::q3_k_m, Role::attention_output, Where::all, TensorType::q4_k},
    {Mix::q3_k_l, Role::values, Where::all, TensorType::q5_k},
    {Mix::q3_k_l, Role::down, Where::all, TensorType::q5_k},
    {Mix::q3_k_l, Role::attention_output, Where::all, TensorType::q5_k},
    {Mix::q4_k_s, Role::values, Where::first_four, TensorType::q5_k},
    {Mix::q4_k_s, Role::down, Where::first_eighth, TensorType::q5_k},
    {Mix::q4_k_m, Role::values, Where::spread, TensorType::q6_k},
    {Mix::q4_k_m, Role::down, Where::spread, TensorType::q6_k},
    {Mix::q5_k_m, Role::values, Where::spread, TensorType::q6_k},
    {Mix::q5_k_m, Role::down, Where::spread, TensorType::q6_k},
    {Mix::iq4_nl, Role::values, Where::shared_values, TensorType::q5_k},
    {Mix::iq4_nl, Role::down, Where::first_eighth, TensorType::q5_k},
    {Mix::iq4_xs, Role::values, Where::shared_values, TensorType::q5_k},
    {Mix::iq4_xs, Role::down, Where::first_eighth, TensorType::q5_k},
};

// In models of eight experts, attention is so small beside them that these mixes spare it.
constexpr Mix kSpareAttentionOutput[] = {Mix::q2_k,   Mix::q3_k_s, Mix::q3_k_m, Mix::q4_k_s,
                                         Mix::q4_k_m, Mix::iq4_nl, Mix::iq4_xs};

// Where a row is not whole super-blocks: the type of smaller blocks with as many bits or more.
constexpr std::array<std::pair<TensorType, TensorType>, 6> kSmallerBlocks{{
    {TensorType::q2_k, TensorType::q4_0},
    {TensorType::q3_k, TensorType::q4_0},
    {TensorType::q4_k, TensorType::q5_0},
    {TensorType::q5_k, TensorType::q5_1},
    {TensorType::q6_k, TensorType::q8_0},
    {TensorType::iq4_xs, TensorType::iq4_nl},
}};

// Parts of names of tensors that are small and decide much: they are F32 in every file.
constexpr std::string_view kSmall[] = {
    "_norm.weight",  "ffn_gate_inp.weight",   "altup",      "ssm_conv1d",
    "position_embd", "shortconv.conv.weight", "token_types"};

// Parts of names of matrices that keep the type that they have.
constexpr std::string_view kKept[] = {"per_layer_model_proj", "laurel", "attn_rel_b",
                                      "indexer.k_proj", "indexer.q_proj"};

bool contains(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::output;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Role::embedding;
  for (const std::string_view part : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"})
    if (contains(name, part)) return Role::values;
  if (contains(name, "attn_k.weight")) return Role::keys;
  if (contains(name, "attn_output.weight")) return Role::attention_output;
  return contains(name, "ffn_down") ? Role::down : Role::other;
}

bool has_part(std::string_view name, std::span<const std::string_view> parts) {
  return std::ranges::any_of(parts, [name](auto part) { return contains(name, part); });
}

bool is_small(const Tensor& tensor) {
  const bool matrix = tensor.elements() > tensor.shape[0] && tensor.name.ends_with("weight");
  return !matrix || has_part(tensor.name, kSmall);
}

// The type of a tensor that is not to be made smaller; nothing for all others.
std::optional<TensorType> kept_type(const Tensor& tensor) {
  const bool halves = tensor.type == TensorType::f16 || tensor.type == TensorType::bf16;
  if (is_small(tensor)) return halves ? TensorType::f32 : tensor.type;
  if (has_part(tensor.name, kKept)) return tensor.type;
  return std::nullopt;
}

// The number of the layer, or -1 for tensors of none.
int layer_of(std::string_view name) {
  constexpr std::string_view start = "blk.";
  int layer = -1;
  if (name.starts_with(start))
    std::from_chars(name.data() + start.size(), name.data() + name.size(), layer);
  return layer;
}

struct Model {
  int layers = 0;
  std::uint64_t experts = 0, queries_per_value = 0;
  bool tied = true;           // the embeddings are also the output
  bool shared_large = false;  // a model of some 70B whose heads share values: small matrices
  int value_tensors = 0;
};

// A key that holds a number, or an array with one for each layer, of which the first counts.
Result<std::uint64_t> first_of(const Metadata& metadata, const std::string& key,
                               std::uint64_t fallback) {
  const Value* const value = metadata.raw(key);
  if (value == nullptr) return fallback;
  if (value->type != ValueType::array) return metadata.get<std::uint64_t>(key);
  MILLRACE_ASSIGN(const auto values, metadata.get<std::vector<std::uint32_t>>(key));
  return values.empty() ? fallback : values.front();
}

Result<Model> read_model(const GgufFile& file) {
  const Metadata& metadata = file.metadata();
  MILLRACE_ASSIGN(const auto architecture, metadata.get<std::string_view>("general.architecture"));
  const std::string prefix = std::string(architecture) + ".";
  MILLRACE_ASSIGN(const auto layers, metadata.get<std::uint32_t>(prefix + "block_count"));
  MILLRACE_ASSIGN(const auto heads, first_of(metadata, prefix + "attention.head_count", 0));
  MILLRACE_ASSIGN(const auto value_heads,
                  first_of(metadata, prefix + "attention.head_count_kv", heads));
  Model model;
  model.layers = static_cast<int>(layers);
  MILLRACE_ASSIGN(model.experts, first_of(metadata, prefix + "expert_count", 0));
  model.queries_per_value = value_heads == 0 ? 0 : heads / value_heads;
  model.tied = file.find_tensor("output.weight") == nullptr;
  model.shared_large = layers == 80 && ((architecture == "llama" && heads != value_heads) ||
                                        architecture == "qwen2");
  for (const Tensor& tensor : file.tensors())
    if (role_of(tensor.name) == Role::values) ++model.value_tensors;
  return model;
}

// The place of a tensor among those of its role or among the layers.
struct Place {
  int index = 0, count = 0;
};

bool is_there(Where where, Place place, const Model& model) {
  const int i = place.index, n = place.count;
  switch (where) {
    case Where::all:
      return true;
    case Where::first_two:
      return i < 2;
    case Where::first_four:
      return i < 4;
    case Where::first_sixteenth:
      return i < n / 16;
    case Where::first_eighth:
      return i < n / 8;
    case Where::spread:
      return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    case Where::shared_values:
      return model.queries_per_value >= 4;
  }
  return false;
}

class Choice {
 public:
  Choice(const Model& model, const FileType& type) : model_(model), type_(type) {}

  // Called for the tensors in the order of layers, because some rules count.
  TensorType of(const Tensor& tensor) {
    const Role role = role_of(tensor.name);
    TensorType type = type_.base;
    if (find_quant_traits(type) == nullptr) return type;
    if (role == Role::output || (model_.tied && role == Role::embedding))
      type = output_type(tensor);
    else if (type_.mix == Mix::mxfp4_moe)
      type = tensor.shape[2] > 1 ? TensorType::mxfp4 : TensorType::q8_0;
    else
      type = by_rules(role, tensor);
    return fitting(type, tensor.shape[0]);
  }

 private:
  // The logits depend on each of its rows, so it gets six bits at least.
  TensorType output_type(const Tensor& tensor) const {
    const bool whole = tensor.shape[0] % traits_of(type_.base).block_elements == 0;
    if (type_.mix == Mix::mxfp4_moe || type_.mix == Mix::q8_0 || !whole) return TensorType::q8_0;
    return TensorType::q6_k;
  }

  TensorType by_rules(Role role, const Tensor& tensor) {
    const TensorType type = by_table(role, place_of(role, tensor));
    if (role == Role::values && model_.experts == 8) return TensorType::q8_0;
    if (role == Role::keys && model_.experts == 8) return TensorType::q8_0;
    if (role == Role::values && model_.shared_large &&
        (type == TensorType::q3_k || type == TensorType::q4_k))
      return TensorType::q5_k;
    return type;
  }

  TensorType by_table(Role role, Place place) const {
    if (role == Role::attention_output && model_.experts == 8) {
      const bool spare = std::ranges::find(kSpareAttentionOutput, type_.mix) !=
                         std::ranges::end(kSpareAttentionOutput);
      return spare ? TensorType::q5_k : type_.base;
    }
    for (const Rule& rule : kRules)
      if (rule.mix == type_.mix && rule.role == role && is_there(rule.where, place, model_))
        return rule.type;
    return type_.base;
  }

  // Matrices of a role are counted, except those of experts, which may be several in a layer.
  Place place_of(Role role, const Tensor& tensor) {
    if (role == Role::values) return {values_++, model_.value_tensors};
    if (role != Role::down) return {};
    const int counted = downs_++;
    return {model_.experts > 1 ? layer_of(tensor.name) : counted, model_.layers};
  }

  static TensorType fitting(TensorType type, std::uint64_t columns) {
    const auto whole = [columns](TensorType of) {
      return columns % traits_of(of).block_elements == 0;
    };
    if (whole(type)) return type;
    for (const auto& [from, to] : kSmallerBlocks)
      if (from == type && whole(to)) return to;
    return TensorType::f16;
  }

  const Model& model_;
  const FileType& type_;
  int values_ = 0, downs_ = 0;
};

}  // namespace

Result<std::vector<TensorType>> choose_types(const GgufFile& file, const FileType& type) {
  MILLRACE_ASSIGN(const Model model, read_model(file));
  const auto tensors = file.tensors();
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::pair(layer_of(tensors[i].name), tensors[i].name);
  });
  std::vector<TensorType> types(tensors.size());
  Choice choice(model, type);
  for (const std::size_t i : order) {
    if (const auto kept = kept_type(tensors[i]))
      types[i] = *kept;
    else
      types[i] = choice.of(tensors[i]);
  }
  return types;
}

}  // namespace millrace::engine
