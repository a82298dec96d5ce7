#include "engine/core/hub/tensor_names.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {
namespace {

// What may stand before a text model's own names.
constexpr auto prefixes = std::to_array<std::string_view>(
    {"model.language_model.", "language_model.model.", "language_model.", "model."});
// Tensors that no text needs: of images, of drafts, of activations in few bits, and tables that
// follow from the configuration.
constexpr auto unused_parts = std::to_array<std::string_view>(
    {"vision_tower.", "multi_modal_projector.", "vision_model.", "visual.", "mtp_", "rotary_emb.",
     ".k_scale", ".v_scale", ".input_scale", "activation_scale", ".attention.masked_bias"});

struct Stem {
  std::optional<std::uint32_t> layer{};
  std::string name;    // without the layer, an expert's number and the ending; `*` for the number
  std::string ending;  // ".weight", ".bias" or nothing
  std::optional<std::uint32_t> expert{};
};

// Takes a number and a dot from the front of a text.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr == text.data() + text.size() || *parsed.ptr != '.') {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()) + 1);
  return number;
}

Stem stem_of(std::string_view name) {
  Stem out;
  for (const std::string_view prefix : prefixes) {
    if (!name.starts_with(prefix)) continue;
    name.remove_prefix(prefix.size());
    break;
  }
  for (const std::string_view ending : {".weight", ".bias"}) {
    if (!name.ends_with(ending)) continue;
    out.ending = ending;
    name.remove_suffix(ending.size());
    break;
  }
  if (constexpr std::string_view layers = "layers."; name.starts_with(layers)) {
    name.remove_prefix(layers.size());
    out.layer = take_number(name);
  }
  constexpr std::string_view experts = ".experts.";
  if (const auto at = name.find(experts); at != std::string_view::npos) {
    std::string_view rest = name.substr(at + experts.size());
    out.expert = take_number(rest);
    if (out.expert) {
      out.name = std::string(name.substr(0, at + experts.size())) + "*." + std::string(rest);
      return out;
    }
  }
  out.name = name;
  return out;
}

bool has_unused_part(std::string_view name) {
  return std::ranges::any_of(unused_parts, [&](std::string_view part) {
    return name.find(part) != std::string_view::npos;
  });
}

// A tensor in the making: units of sources, and the shape that they give.
struct Made {
  std::vector<UnitRange> ranges;
  std::vector<std::uint64_t> shape;  // innermost dimension first
  std::uint64_t units_per_row = 1;
  bool to_f32 = false;
  float added = 0.0f;
};

class Namer {
 public:
  Namer(const HubFamily& family, const NamedSizes& sizes, const std::string& source)
      : family_(family), sizes_(sizes), source_(source) {}

  Status add(const std::string& name, const Source& from) {
    if (has_unused_part(name)) return {};
    const Stem stem = stem_of(name);
    if (!stem.layer) return add_outside(name, stem, from);
    if (*stem.layer >= sizes_.layers) return {};  // a block that only drafts
    const NameRule* const rule = find_rule(stem.name);
    if (rule == nullptr) return unknown(name);
    if (family_.architecture == "cohere2" && stem.ending == ".bias") {
      MILLRACE_ASSIGN(const bool zeros, is_zero(from.tensor));
      return zeros ? Status() : unknown(name);
    }
    const bool turns = rule->form == Form::columns || rule->form == Form::interleaved;
    if (turns && from.tensor.made != nullptr && traits_of(from.tensor.type).block_elements == 1) {
      return damaged(name, "is quantized in a form that its class does not have");
    }
    const std::string prefix = "blk." + std::to_string(*stem.layer) + ".";
    const std::string ours = prefix + std::string(rule->ours) + stem.ending;
    const std::string second = prefix + std::string(rule->second) + stem.ending;
    switch (rule->form) {
      case Form::halves:
        return add_halves(name, from, ours, second);
      case Form::interleaved:
        return add_interleaved(name, from, ours, second);
      case Form::columns:
        return put(ours, whole(transposed(from)));
      case Form::expert:
        return add_expert(name, stem, from, ours);
      default:
        return put(ours, ordered(rule->form, whole(from)));
    }
  }

  Result<std::vector<ModelPieces::Piece>> finish() {
    MILLRACE_TRY(stack_experts());
    std::vector<ModelPieces::Piece> out;
    for (auto& [name, made] : made_) {
      ModelPieces::Piece piece{.name = name,
                               .type = made.ranges.front().from.tensor.type,
                               .shape = made.shape,
                               .data = {},
                               .rows = nullptr};
      const UnitRange& only = made.ranges.front();
      const bool in_place = made.ranges.size() == 1 && only.step == 1 && only.head_rows == 0 &&
                            only.from.tensor.made == nullptr &&
                            !(made.to_f32 && piece.type != TensorType::f32) && made.added == 0.0f;
      if (in_place) {
        piece.data = only.from.tensor.slice(only.first, only.count).data;
      } else {
        if (made.to_f32) piece.type = TensorType::f32;
        piece.rows = std::make_unique<GatheredRows>(std::move(made.ranges), made.units_per_row,
                                                    made.to_f32, made.added);
      }
      out.push_back(std::move(piece));
    }
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

  const NameRule* find_rule(std::string_view name) const {
    for (const auto& rules : {family_.names, common_names()}) {
      const auto found = std::ranges::find(rules, name, &NameRule::hub);
      if (found != rules.end()) return &*found;
    }
    return nullptr;
  }

  Status add_outside(const std::string& name, const Stem& stem, const Source& from) {
    if (name == "lm_head.weight" || stem.name == "lm_head") {
      return sizes_.tied ? Status() : put("output" + stem.ending, whole(from));
    }
    if (stem.name == "embed_tokens") return put("token_embd.weight", whole(from));
    if (stem.name == "norm") return put("output_norm.weight", ordered(Form::norm, whole(from)));
    return unknown(name);
  }

  static Result<bool> is_zero(const Tensor& vector) {
    std::vector<float> values(vector.elements());
    MILLRACE_TRY(dequantize_rows(vector, 0, vector.rows(), values));
    return std::ranges::all_of(values, [](float value) { return value == 0.0f; });
  }

  // All of a source. A vector's units are its values.
  static Made whole(const Source& from) {
    const Tensor& tensor = from.tensor;
    Made out;
    out.ranges = {{.from = from, .count = tensor.rows()}};
    out.shape.assign(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
    // A matrix of one row may be a vector in the hub's files.
    if (tensor.rank == 2 && tensor.shape[1] == 1) out.shape.pop_back();
    return out;
  }

  static Made as_units(const Source& from) {
    Made out = whole(from);
    UnitRange& all = out.ranges.front();
    Tensor& tensor = all.from.tensor;
    out.units_per_row = tensor.shape[0];
    all.count = tensor.elements();
    tensor.shape = {1, all.count, 1, 1};
    return out;
  }

  // Reorders a tensor that is one range.
  Made ordered(Form form, Made out) const {
    if (form == Form::norm && family_.adds_one) out.added = 1.0f;
    const bool reorders = family_.reorders && (form == Form::queries || form == Form::keys);
    if (!reorders) return out;
    if (out.shape.size() == 1) out = as_units(out.ranges.front().from);
    const std::uint64_t heads = form == Form::queries ? sizes_.heads : sizes_.kv_heads;
    UnitRange& all = out.ranges.front();
    if (heads > 0 && all.count % (2 * heads) == 0) all.head_rows = all.count / heads;
    return out;
  }

  static Source transposed(const Source& from) {
    const Tensor& tensor = from.tensor;
    if (traits_of(tensor.type).block_elements != 1) return from;
    Source out;
    out.owner = std::make_shared<TransposedRows>(tensor, tensor.shape[1]);
    out.tensor = tensor;
    std::swap(out.tensor.shape[0], out.tensor.shape[1]);
    out.tensor.data = {};
    out.tensor.made = out.owner.get();
    return out;
  }

  // The rows of each matrix: `count` from `first` on, `step` apart.
  static Made parts_of(const Source& from, std::uint64_t first, std::uint64_t count,
                       std::uint64_t step) {
    Made out;
    const Tensor& tensor = from.tensor;
    for (std::uint64_t matrix = 0; matrix < tensor.shape[2]; ++matrix) {
      out.ranges.push_back(
          {.from = from, .first = matrix * tensor.shape[1] + first, .count = count, .step = step});
    }
    out.shape = {tensor.shape[0], count, tensor.shape[2]};
    if (tensor.rank == 2) out.shape.pop_back();
    return out;
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
      Made made;
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

  Status add_expert(const std::string& name, const Stem& stem, const Source& from,
                    const std::string& ours) {
    auto& experts = experts_[ours];
    experts.resize(std::max<std::size_t>(experts.size(), sizes_.experts));
    if (*stem.expert >= experts.size()) {
      return damaged(name, "is of expert " + std::to_string(*stem.expert) + ", the model has " +
                               std::to_string(sizes_.experts));
    }
    experts[*stem.expert] = from;
    return {};
  }

  Status stack_experts() {
    for (const auto& [name, experts] : experts_) {
      Made made;
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

  // Vectors, biases and routers are kept as F32, as the converter does.
  Status put(const std::string& name, Made made) {
    made.to_f32 = made.shape.size() == 1 || name.ends_with(".bias") ||
                  name.find(".ffn_gate_inp") != std::string::npos;
    if (made_.emplace(name, std::move(made)).second) return {};
    return damaged(name, "is there twice");
  }

  const HubFamily& family_;
  const NamedSizes& sizes_;
  const std::string& source_;
  std::map<std::string, Made> made_;
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
