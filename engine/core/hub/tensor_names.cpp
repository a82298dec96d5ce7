#include "engine/core/hub/tensor_names.hpp"

#include <algorithm>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/hub/hub_name.hpp"

namespace millrace::engine {
namespace {

// Forms for which the values of a matrix must lie one by one.
bool moves_values(Form form) {
  return form == Form::latent_heads || form == Form::taps || form == Form::decay ||
         form == Form::decay_column || form == Form::column || form == Form::groups;
}

class Namer {
 public:
  Namer(const HubFamily& family, const NamedSizes& sizes, const std::string& source)
      : family_(family), sizes_(sizes), source_(source) {}

  Status add(const std::string& name, const Source& from) {
    if (is_unused(name)) return {};
    added_ = name;
    const HubName parts = split_hub_name(name);
    if (parts.layer && *parts.layer >= sizes_.layers) return {};  // a block that only drafts
    const NameRule* const rule = find_rule(parts);
    if (rule == nullptr) return unknown(name);
    if (family_.architecture == "cohere2" && parts.ending == ".bias") {
      MILLRACE_ASSIGN(const bool zeros, is_zero(from.tensor));
      return zeros ? Status() : unknown(name);
    }
    const bool turns = rule->form == Form::columns || rule->form == Form::interleaved;
    if (turns && from.tensor.made != nullptr && !has_blocks(from.tensor)) {
      return damaged(name, "is quantized in a form that its class does not have");
    }
    if (moves_values(rule->form) && has_blocks(from.tensor)) return quantized(name);
    const std::string prefix = parts.layer ? "blk." + std::to_string(*parts.layer) + "." : "";
    // A rule of a whole name has the whole of ours.
    const std::string ending = rule->hub.size() > parts.stem.size() ? "" : parts.ending;
    const std::string ours = prefix + std::string(rule->ours) + ending;
    const std::string second = prefix + std::string(rule->second) + ending;
    if (!parts.layer) return add_outside(ours, rule->form, from);
    return add_to_layer(name, parts, *rule, from, ours, second);
  }

  Result<std::vector<ModelPieces::Piece>> finish() {
    MILLRACE_TRY(stack_experts());
    std::vector<ModelPieces::Piece> out;
    for (auto& [name, made] : made_) out.push_back(finish_tensor(name, made));
    return out;
  }

 private:
  Status unknown(const std::string& name) const {
    return fail(Code::unsupported_architecture,
                source_ + ": the tensor '" + printable(name) + "' belongs to no " +
                    std::string(family_.class_name),
                "it may change what the model computes; use a GGUF file of the model, if there is "
                "one");
  }
  Status damaged(const std::string& name, const std::string& what) const {
    return fail(Code::folder_malformed, source_ + ": the tensor '" + printable(name) + "' " + what,
                "the folder's files belong to different models: download it again");
  }
  Status does_not_fit(const std::string& name) const {
    return damaged(name, "has a shape that does not fit the sizes in config.json");
  }
  Status quantized(const std::string& name) const {
    return fail(Code::unsupported_quantization,
                source_ + ": the tensor '" + printable(name) +
                    "' is quantized, but the architecture needs its values in another order or "
                    "multiplied, which its blocks do not allow",
                "use a folder in which it is not quantized or in fp8, or a GGUF file");
  }

  Status biased(const std::string& name) const {
    return fail(Code::unsupported_architecture,
                source_ + ": the tensor '" + printable(name) + "' is a bias of a product that " +
                    std::string(family_.class_name) + " multiplies, which is not supported",
                "use another model");
  }

  const NameRule* find_rule(const HubName& name) const {
    const std::string whole_name = name.stem + name.ending;
    const auto fits = [&](const NameRule& rule) {
      return rule.hub == name.stem || rule.hub == whole_name;
    };
    using Rules = std::span<const NameRule>;
    using Lists = std::span<const Rules>;
    const Rules of_layer[] = {family_.names, family_.parts, common_names()};
    const Rules of_others[] = {family_.outside, common_outside()};
    for (const Rules& rules : name.layer ? Lists(of_layer) : Lists(of_others)) {
      const auto found = std::ranges::find_if(rules, fits);
      if (found != rules.end()) return &*found;
    }
    return nullptr;
  }

  Status add_outside(const std::string& ours, Form form, const Source& from) {
    if (ours.starts_with("output.") && sizes_.tied) return {};
    // A tied matrix has factors of its own as an output.
    if (ours == "token_embd.weight" && sizes_.tied && !sizes_.multipliers.empty()) {
      MILLRACE_TRY(put("output.weight", whole(from)));
    }
    return put(ours, ordered(form, whole(from)));
  }

  Status add_to_layer(const std::string& name, const HubName& parts, const NameRule& rule,
                      const Source& from, const std::string& ours, const std::string& second) {
    switch (rule.form) {
      case Form::halves:
        return add_halves(name, from, ours, second);
      case Form::interleaved:
        return add_interleaved(name, from, ours, second);
      case Form::columns:
        return put(ours, whole(transposed(from)));
      case Form::expert:
        return add_expert(name, parts, from, ours);
      case Form::latent_heads:
        return add_two(name, split_latent_heads(from, sizes_.latent), ours, second);
      case Form::joined_heads:
        return add_two(name, split_joined_heads(from, sizes_.delta), ours, second);
      case Form::value_columns:
        return add_value_columns(name, from, ours);
      case Form::as_is:
      case Form::queries:
      case Form::keys:
      case Form::norm:
        return put(ours, ordered(rule.form, whole(from)));
      default:
        return add_of_state(name, rule.form, from, ours);
    }
  }

  static Result<bool> is_zero(const Tensor& vector) {
    std::vector<float> values(vector.elements());
    MILLRACE_TRY(dequantize_rows(vector, 0, vector.rows(), values));
    return std::ranges::all_of(values, [](float value) { return value == 0.0f; });
  }

  // Reorders a tensor that is one range.
  MadeTensor ordered(Form form, MadeTensor out) const {
    if (form == Form::norm && family_.adds_one) out.change.added = 1.0f;
    const bool reorders = family_.reorders && (form == Form::queries || form == Form::keys);
    if (!reorders) return out;
    if (out.shape.size() == 1) out = as_units(out.ranges.front().from);
    const std::uint64_t heads = form == Form::queries ? sizes_.heads : sizes_.kv_heads;
    UnitRange& all = out.ranges.front();
    if (heads > 0 && all.count % (2 * heads) == 0) all.head_rows = all.count / heads;
    return out;
  }

  Status add_two(const std::string& name, std::optional<TwoTensors> both, const std::string& ours,
                 const std::string& second) {
    if (!both) return does_not_fit(name);
    MILLRACE_TRY(put(ours, std::move(both->first)));
    return put(second, std::move(both->second));
  }

  Status add_value_columns(const std::string& name, const Source& from, const std::string& ours) {
    if (!family_.tiles) return put(ours, whole(from));
    const std::uint64_t block = traits_of(from.tensor.type).block_elements;
    if (sizes_.delta.value_dim % block != 0) return quantized(name);
    const auto tiled = tile_value_columns(from, sizes_.delta);
    return tiled ? put(ours, whole(*tiled)) : does_not_fit(name);
  }

  // Tensors of recurrences, which have a value or a row for each head, channel or group.
  Status add_of_state(const std::string& name, Form form, const Source& from,
                      const std::string& ours) {
    const Tensor& tensor = from.tensor;
    const std::uint64_t count = tensor.elements();
    Source source = from;
    std::optional<Source> other;
    if (form == Form::taps && tensor.rank == 3) {
      other = reshaped(from, {tensor.shape[0], tensor.shape[2]});
      if (tensor.shape[1] != 1 || !other) return does_not_fit(name);
    } else if (form == Form::column || form == Form::decay_column) {
      other = reshaped(from, {1, count});
      if (!other) return does_not_fit(name);
    } else if (form == Form::groups) {
      if (sizes_.groups == 0 || count % sizes_.groups != 0) return does_not_fit(name);
      other = reshaped(from, {count / sizes_.groups, sizes_.groups});
      if (!other) return does_not_fit(name);
    }
    if (other) source = *other;
    MadeTensor made = tensor.rank == 1 && !other ? as_units(source) : whole(source);
    const bool by_head = form == Form::taps || form == Form::decay || form == Form::value_heads;
    if (family_.tiles && by_head) {
      auto tiled = tile_value_heads(std::move(made), sizes_.delta);
      if (!tiled) return does_not_fit(name);
      made = std::move(*tiled);
    }
    made.change.is_decay = form == Form::decay || form == Form::decay_column;
    return put(ours, std::move(made));
  }

  Status add_halves(const std::string& name, const Source& from, const std::string& ours,
                    const std::string& second) {
    const std::uint64_t half = from.tensor.shape[1] / 2;
    if (from.tensor.shape[1] % 2 != 0) return damaged(name, "has an odd number of rows");
    MILLRACE_TRY(put(ours, parts_of(from, 0, half, 1)));
    return put(second, parts_of(from, half, half, 1));
  }

  Status add_interleaved(const std::string& name, const Source& given, const std::string& ours,
                         const std::string& second) {
    const bool is_bias = ours.ends_with(".bias");
    const Source from = is_bias ? given : transposed(given);
    if (from.tensor.shape[is_bias ? 0 : 1] % 2 != 0)
      return damaged(name, "has an odd number of rows");
    for (std::uint64_t i = 0; i < 2; ++i) {
      MadeTensor made;
      if (is_bias) {
        made = as_units(from);
        UnitRange& all = made.ranges.front();
        all.first = i;
        all.step = 2;
        all.count /= 2;
        made.units_per_row /= 2;
        made.shape[0] /= 2;
      } else {
        made = parts_of(from, i, from.tensor.shape[1] / 2, 2);
      }
      MILLRACE_TRY(put(i == 0 ? ours : second, std::move(made)));
    }
    return {};
  }

  Status add_expert(const std::string& name, const HubName& parts, const Source& from,
                    const std::string& ours) {
    auto& experts = experts_[ours];
    experts.resize(std::max<std::size_t>(experts.size(), sizes_.experts));
    if (*parts.expert >= experts.size()) {
      return damaged(name, "is of expert " + std::to_string(*parts.expert) + ", the model has " +
                               std::to_string(sizes_.experts));
    }
    experts[*parts.expert] = from;
    return {};
  }

  Status stack_experts() {
    for (const auto& [name, experts] : experts_) {
      MadeTensor made;
      for (std::size_t i = 0; i < experts.size(); ++i) {
        const Tensor& tensor = experts[i].tensor;
        const Tensor& first = experts[0].tensor;
        if (tensor.rank == 0) return damaged(name, "lacks expert " + std::to_string(i));
        if (tensor.shape != first.shape || tensor.type != first.type) {
          return damaged(name, "has experts of different shapes or types");
        }
        made.ranges.push_back({.from = experts[i], .count = tensor.rows()});
      }
      const Tensor& first = experts[0].tensor;
      made.shape = {first.shape[0]};
      if (first.rank > 1) made.shape.push_back(first.shape[1]);
      made.shape.push_back(experts.size());
      MILLRACE_TRY(put(name, std::move(made)));
    }
    return {};
  }

  // Multiplies the rows of a tensor that the class multiplies what goes in or comes out of. Which
  // of its factors a bias has depends on the place of each, so biases are refused.
  Status multiply(const std::string& name, MadeTensor& made) const {
    constexpr std::string_view bias = ".bias", weight = ".weight";
    std::string of_bias;  // the matrix that a bias belongs to
    if (name.ends_with(bias)) {
      of_bias = name.substr(0, name.size() - bias.size()) + std::string(weight);
    }
    for (const Multiplier& each : sizes_.multipliers) {
      if (of_bias.ends_with("." + each.tensor)) return biased(added_);
      if (name != each.tensor && !name.ends_with("." + each.tensor)) continue;
      const UnitRange all = made.ranges.front();
      std::uint64_t first = 0;
      std::vector<UnitRange> ranges;
      for (const RowFactors& rows : each.rows) {
        UnitRange range = all;
        range.first = first;
        if (rows.rows > 0) range.count = rows.rows;
        range.factors = rows.factors;
        first += range.count;
        if (range.is_scaled() && has_blocks(all.from.tensor)) return quantized(added_);
        ranges.push_back(std::move(range));
      }
      if (first != all.count) return does_not_fit(added_);
      made.ranges = std::move(ranges);
    }
    return {};
  }

  // Vectors, biases, norms, routers, taps and what is no weight are kept as F32, as the converter
  // does.
  Status put(const std::string& name, MadeTensor made) {
    MILLRACE_TRY(multiply(name, made));
    const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
    made.change.to_f32 = made.shape.size() == 1 || !name.ends_with(".weight") ||
                         name.ends_with("_norm.weight") || has(".ffn_gate_inp") ||
                         has(".ssm_conv1d") || has(".shortconv.conv.");
    if (made_.emplace(name, std::move(made)).second) return {};
    return damaged(name, "is there twice");
  }

  const HubFamily& family_;
  const NamedSizes& sizes_;
  const std::string& source_;
  std::string added_;  // the hub's name of the last tensor
  std::map<std::string, MadeTensor> made_;
  std::map<std::string, std::vector<Source>> experts_;
};

}  // namespace

Result<std::vector<ModelPieces::Piece>> name_tensors(const HubFamily& family,
                                                     const NamedSizes& sizes,
                                                     const Sources& sources,
                                                     const std::string& source) {
  Namer namer(family, sizes, source);
  for (const auto& [name, from] : sources) MILLRACE_TRY(namer.add(name, from));
  return namer.finish();
}

}  // namespace millrace::engine
