#include "engine/core/hub/uniform_settings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/hub/model_keys.hpp"

namespace millrace::engine {
namespace {

using nlohmann::json;
using Number = std::uint32_t;
using Kinds = std::vector<std::string>;

constexpr std::string_view layer_types = "layer_types", layer_count = "num_hidden_layers";

// What kinds of layers are called elsewhere; letters are those of patterns.
constexpr struct {
  std::string_view from, to;
} other_kinds[] = {
    {"attention", "full_attention"},
    {"*", "full_attention"},
    {"mamba", "linear_attention"},
    {"mamba2", "linear_attention"},
    {"M", "linear_attention"},
    {"short_conv", "conv"},
    {"-", "mlp"},
    {"E", "moe"},
};

constexpr auto of_experts = std::to_array<std::string_view>(
    {"num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok",
     "moe_intermediate_size", "shared_expert_intermediate_size", "n_shared_experts", "n_group",
     "topk_group", "norm_topk_prob", "routed_scaling_factor", "scoring_func"});

bool is_of(std::string_view class_name, std::string_view beginning) {
  return class_name.starts_with(beginning);
}

class Uniform {
 public:
  Uniform(const HubFamily& family, const Settings& config) : family_(family), config_(config) {}

  Result<Settings> make() {
    for (const auto& [from, to] : family_.settings) {
      if (config_.has(from)) rename(from, to);
    }
    // The size of a head that follows from others.
    if (config_.is_text("mamba_d_head")) change({{"mamba_d_head", nullptr}});
    if (!family_.layer_kinds.empty()) MILLRACE_TRY(make_kinds());
    if (is_of(family_.class_name, "Mamba2")) {
      change({{"num_attention_heads", 0}, {"intermediate_size", 0}});
    }
    if (is_of(family_.class_name, "Lfm2")) MILLRACE_TRY(adjust_width());
    if (is_of(family_.class_name, "Gemma4")) MILLRACE_TRY(make_gemma4());
    MILLRACE_ASSIGN(const auto choice, config_.get_or<std::string>("topk_method", ""));
    if (choice == "greedy") change({{"n_group", nullptr}, {"topk_group", nullptr}});
    MILLRACE_ASSIGN(const bool has, has_experts());
    if (!has) {
      // The feed-forward beside the experts is all that is left of Granite's.
      if (is_of(family_.class_name, "GraniteMoeHybrid")) {
        rename("shared_expert_intermediate_size", "intermediate_size");
      }
      json none = json::object();
      for (const std::string_view name : of_experts) none[name] = nullptr;
      change(none);
    }
    return config_;
  }

 private:
  void change(const json& values) {
    // Text that was just written can be parsed.
    config_ = config_.with(Settings::parse(values.dump(), "").value());
  }
  void rename(std::string_view from, std::string_view to) {
    config_ = config_.with(config_.renamed(from, to));
    if (from != to) change({{from, nullptr}});
  }

  std::unexpected<Error> contradicts(const std::string& what) const {
    return fail(Code::folder_malformed, config_.source() + ": " + what,
                "the file is damaged: download it again");
  }

  // Kinds as config.json lists them, as letters of a text, or as the class implies them.
  Result<Kinds> listed_kinds() const {
    if (config_.is_text(layer_types)) {
      MILLRACE_ASSIGN(const auto letters, config_.get<std::string>(layer_types));
      Kinds out;
      for (const char letter : letters) out.emplace_back(1, letter);
      return out;
    }
    if (config_.has(layer_types)) return config_.get<Kinds>(layer_types);
    MILLRACE_ASSIGN(const auto count, config_.get<Number>(layer_count));
    if (count > most_layers) return contradicts("claims " + std::to_string(count) + " layers");
    Kinds out(count, "full_attention");
    if (config_.has("full_attn_idxs")) {
      MILLRACE_ASSIGN(const auto places, config_.get<std::vector<Number>>("full_attn_idxs"));
      for (Number i = 0; i < count; ++i) {
        if (std::ranges::find(places, i) == places.end()) out[i] = "conv";
      }
      return out;
    }
    const bool delta = config_.has("full_attention_interval");
    if (!delta && !is_of(family_.class_name, "Gemma4")) {
      return contradicts("the key 'layer_types' is absent");
    }
    constexpr Number gemma_interval = 6;
    MILLRACE_ASSIGN(const auto interval,
                    config_.get_or<Number>("full_attention_interval", gemma_interval));
    if (interval == 0) return contradicts("full_attention_interval = 0 cannot be");
    for (Number i = 0; i < count; ++i) {
      if ((i + 1) % interval != 0) out[i] = delta ? "linear_attention" : "sliding_attention";
    }
    return out;
  }

  bool has_kind(const std::string& kind) const {
    std::istringstream words{std::string(family_.layer_kinds)};
    return std::find(std::istream_iterator<std::string>(words), {}, kind) !=
           std::istream_iterator<std::string>();
  }

  Status make_kinds() {
    MILLRACE_ASSIGN(Kinds kinds, listed_kinds());
    // The class takes the last layer of Gemma 4 as a global one, whatever the file says.
    if (is_of(family_.class_name, "Gemma4") && !kinds.empty()) kinds.back() = "full_attention";
    for (std::string& kind : kinds) {
      for (const auto& [from, to] : other_kinds) {
        if (kind == from) kind = to;
      }
      if (!has_kind(kind)) {
        return refuse_setting(config_, "a layer of the kind '" + printable(kind) + "'");
      }
    }
    // Nemotron's classes count the layers by their kinds.
    if (!config_.has(layer_count)) change({{layer_count, kinds.size()}});
    MILLRACE_ASSIGN(const auto count, config_.get<Number>(layer_count));
    if (count != kinds.size()) {
      return contradicts("has " + std::to_string(kinds.size()) + " kinds of layers for " +
                         std::to_string(count) + " layers");
    }
    change({{layer_types, kinds}});
    return {};
  }

  // LFM2's classes lessen the width of a feed-forward, unless they are told not to.
  Status adjust_width() {
    MILLRACE_ASSIGN(const bool adjusts, config_.get_or<bool>("block_auto_adjust_ff_dim", false));
    if (!adjusts || is_of(family_.class_name, "Lfm2Moe")) return {};
    MILLRACE_ASSIGN(const double width, config_.get<double>("intermediate_size"));
    MILLRACE_ASSIGN(const double times, config_.get_or<double>("block_ffn_dim_multiplier", 1.0));
    MILLRACE_ASSIGN(const double step, config_.get<double>("block_multiple_of"));
    if (!(step >= 1.0 && width >= 1.0 && times > 0.0)) {
      return contradicts("block_multiple_of, block_ffn_dim_multiplier or intermediate_size is 0");
    }
    const double lessened = std::floor(times * std::floor(2.0 * width / 3.0));
    change({{"intermediate_size", step * std::ceil(lessened / step)}});
    return {};
  }

  // Newer files state the heads of global layers for each of them.
  Status make_gemma4() {
    MILLRACE_ASSIGN(const Kinds kinds, read_layer_kinds(family_, config_));
    MILLRACE_ASSIGN(const bool keys_are_values, config_.get_or<bool>("attention_k_eq_v", false));
    if (!keys_are_values) change({{"num_global_key_value_heads", nullptr}});
    if (!config_.has("per_layer_config")) return {};
    MILLRACE_ASSIGN(const Settings by_layer, config_.object("per_layer_config"));
    std::size_t described = 0;
    json heads = json::object();
    for (const std::string& key : by_layer.keys()) {
      std::size_t number = kinds.size();
      const auto parsed = std::from_chars(key.data(), key.data() + key.size(), number);
      const bool whole = parsed.ec == std::errc() && parsed.ptr == key.data() + key.size();
      if (!whole || number >= kinds.size() || kinds[number] != "full_attention") {
        return refuse_setting(config_, "per_layer_config of the layer " + printable(key) +
                                           ", which is no global one");
      }
      MILLRACE_ASSIGN(const Settings layer, by_layer.object(key));
      json here = json::object();
      for (const std::string& name : layer.keys()) {
        if (name != "head_dim" && name != "num_key_value_heads") {
          return refuse_setting(config_, "per_layer_config: " + printable(name));
        }
        MILLRACE_ASSIGN(const auto value, layer.get<Number>(name));
        here[name == "head_dim" ? "global_head_dim" : "num_global_key_value_heads"] = value;
      }
      if (described++ > 0 && here != heads) {
        return refuse_setting(config_, "per_layer_config with layers that differ");
      }
      heads = here;
    }
    const auto globals = std::ranges::count(kinds, "full_attention");
    if (described != static_cast<std::size_t>(globals)) {
      return refuse_setting(config_, "per_layer_config of only some global layers");
    }
    change(heads);
    return {};
  }

  Result<bool> has_experts() const {
    if (is_of(family_.class_name, "Gemma4")) {
      return config_.get_or<bool>("enable_moe_block", false);
    }
    if (is_of(family_.class_name, "NemotronH")) {
      MILLRACE_ASSIGN(const Kinds kinds, read_layer_kinds(family_, config_));
      return std::ranges::find(kinds, "moe") != kinds.end();
    }
    if (!is_of(family_.class_name, "GraniteMoeHybrid")) return true;
    MILLRACE_ASSIGN(const Number experts, read_expert_count(config_));
    return experts > 0;
  }

  static constexpr Number most_layers = 1024;
  const HubFamily& family_;
  Settings config_;
};

}  // namespace

Result<Settings> uniform_settings(const HubFamily& family, const Settings& config) {
  MILLRACE_ASSIGN(const Settings defaults, Settings::parse(family.defaults, config.source()));
  return Uniform(family, defaults.with(config)).make();
}

Result<std::string> class_variant(std::string_view class_name, const Settings& config) {
  if (is_of(class_name, "Mistral3For")) {
    MILLRACE_ASSIGN(const auto type, config.get_or<std::string>("model_type", ""));
    return std::string(type == "mistral4" ? type : "");
  }
  MILLRACE_ASSIGN(const auto experts, read_expert_count(config));
  std::string with = experts > 0 ? "experts" : "";
  if (is_of(class_name, "NemotronH")) return with;
  if (!is_of(class_name, "GraniteMoeHybrid")) return std::string();
  MILLRACE_ASSIGN(const auto kinds, config.get<Kinds>(layer_types));
  if (std::ranges::find(kinds, "linear_attention") != kinds.end()) return with;
  return with.empty() ? "attention" : "attention " + with;
}

Result<std::vector<std::string>> read_layer_kinds(const HubFamily& family, const Settings& config) {
  if (family.layer_kinds.empty()) return Kinds();
  return config.get<Kinds>(layer_types);
}

}  // namespace millrace::engine
