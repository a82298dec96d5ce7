#include "engine/core/hub/open_folder.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/metadata_writer.hpp"
#include "engine/core/hub/decode.hpp"
#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/model_keys.hpp"
#include "engine/core/hub/shards.hpp"
#include "engine/core/hub/tensor_names.hpp"
#include "engine/core/hub/tokenizer_keys.hpp"
#include "engine/core/hub/uniform_settings.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;
using Number = std::uint32_t;

struct Configuration {
  const HubFamily* family = nullptr;
  Settings settings;  // uniform, with the family's defaults, of the text model if there are others
};

Result<Configuration> read_configuration(const fs::path& folder) {
  const std::string path = (folder / "config.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return fail(Code::folder_unreadable, folder.string() + ": the folder has no config.json",
                "give the folder of a model of a hub, or the path of a .gguf file");
  }
  MILLRACE_ASSIGN(const Settings file, Settings::read(path));
  MILLRACE_ASSIGN(const auto classes, file.get<std::vector<std::string>>("architectures"));
  const std::string name = classes.empty() ? "" : classes[0];
  const HubFamily* family = find_hub_family(name);
  if (family == nullptr) {
    return fail(Code::unsupported_architecture,
                path + ": the class of models '" + printable(name) + "' is not supported",
                "this version reads folders of the classes " + supported_hub_classes());
  }
  MILLRACE_ASSIGN(const Settings text, file.object("text_config"));
  const Settings given = file.with(text).named(path);
  MILLRACE_ASSIGN(Settings settings, uniform_settings(*family, given));
  MILLRACE_ASSIGN(const auto variant, class_variant(name, settings));
  if (variant.empty()) return Configuration{family, settings};
  family = find_hub_family(name, variant);
  if (family == nullptr) {
    return fail(Code::internal, path + ": the variant '" + variant + "' of " + name + " is absent",
                "report this");
  }
  MILLRACE_ASSIGN(settings, uniform_settings(*family, given));
  return Configuration{family, settings};
}

Result<NamedSizes> read_named_sizes(const HubFamily& family, const Settings& config) {
  NamedSizes out;
  MILLRACE_ASSIGN(out.layers, config.get<Number>("num_hidden_layers"));
  MILLRACE_ASSIGN(out.heads, config.get<Number>("num_attention_heads"));
  MILLRACE_ASSIGN(out.kv_heads, config.get_or<Number>("num_key_value_heads", out.heads));
  MILLRACE_ASSIGN(out.experts, read_expert_count(config));
  constexpr Number most_experts = 1u << 16;
  if (out.experts > most_experts) {
    return fail(Code::folder_malformed,
                config.source() + ": claims " + std::to_string(out.experts) + " experts",
                "the file is damaged: download it again");
  }
  MILLRACE_ASSIGN(out.tied, config.get_or<bool>("tie_word_embeddings", false));
  MILLRACE_ASSIGN(out.groups, config.get_or<Number>("mamba_n_groups", 0));
  MILLRACE_ASSIGN(out.delta.key_heads, config.get_or<Number>("linear_num_key_heads", 0));
  MILLRACE_ASSIGN(out.delta.value_heads, config.get_or<Number>("linear_num_value_heads", 0));
  MILLRACE_ASSIGN(out.delta.key_dim, config.get_or<Number>("linear_key_head_dim", 0));
  MILLRACE_ASSIGN(out.delta.value_dim, config.get_or<Number>("linear_value_head_dim", 0));
  out.latent.heads = out.heads;
  MILLRACE_ASSIGN(out.latent.plain_dim, config.get_or<Number>("qk_nope_head_dim", 0));
  MILLRACE_ASSIGN(out.latent.value_dim, config.get_or<Number>("v_head_dim", 0));
  MILLRACE_ASSIGN(out.multipliers, read_multipliers(family, config));
  return out;
}

// Factors of frequencies, which a folder has as numbers and our files have as tensors.
ModelPieces::Piece factors_piece(const RopeFactors& factors, ModelPieces& pieces) {
  const auto bytes = std::as_bytes(std::span(factors.values));
  pieces.parts.push_back(bytes_of({bytes.begin(), bytes.end()}));
  return {.name = factors.name,
          .type = TensorType::f32,
          .shape = {factors.values.size()},
          .data = pieces.parts.back()->view(),
          .rows = nullptr};
}

// A model that says that it has an output matrix of its own must have it.
Status check_output(const Settings& config, const NamedSizes& sizes, const Sources& sources) {
  if (sizes.tied || !config.has("tie_word_embeddings")) return {};
  const auto is_output = [](const auto& each) { return each.first.ends_with("lm_head.weight"); };
  if (std::ranges::any_of(sources, is_output)) return {};
  return fail(
      Code::folder_malformed,
      config.source() + ": tie_word_embeddings is false, but the folder has no lm_head.weight",
      "the folder is incomplete: download it again");
}

void log_decoded(const std::string& folder, const std::string& method, const ModelPieces& pieces) {
  if (method.empty()) return;
  std::map<std::string, std::size_t> types;
  for (const ModelPieces::Piece& piece : pieces.tensors) {
    if (piece.shape.size() > 1) ++types[std::string(traits_of(piece.type).name)];
  }
  std::string text;
  for (const auto& [type, count] : types) {
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + type;
  }
  log_info("a quantized folder is read",
           {{"folder", folder}, {"method", method}, {"matrices", text}});
}

}  // namespace

Result<GgufFile> open_folder(const std::string& folder) {
  const fs::path base(folder);
  MILLRACE_ASSIGN(const Configuration configuration, read_configuration(base));
  const HubFamily& family = *configuration.family;
  const Settings& config = configuration.settings;
  MILLRACE_ASSIGN(const NamedSizes sizes, read_named_sizes(family, config));
  MILLRACE_ASSIGN(const Number head_dim, read_head_dim(config));

  MetadataWriter metadata;
  metadata.put("general.architecture", family.architecture);
  const fs::path name = base.has_filename() ? base.filename() : base.parent_path().filename();
  metadata.put("general.name", name.string());
  ModelKeys keys(metadata, family.architecture);
  MILLRACE_TRY(write_model_keys(family, config, keys));
  MILLRACE_ASSIGN(const auto factors, write_rope_keys(family, config, head_dim, keys));
  MILLRACE_TRY(write_tokenizer_keys(folder, config, metadata));

  MILLRACE_ASSIGN(Shards shards, open_shards(folder));
  MILLRACE_ASSIGN(const Decoded decoded, decode_tensors(shards.tensors, config, folder));
  MILLRACE_TRY(check_output(config, sizes, decoded.sources));
  ModelPieces pieces;
  pieces.source = folder;
  pieces.quantized_by = decoded.method;
  pieces.metadata = metadata.finish();
  pieces.parts = std::move(shards.files);
  MILLRACE_ASSIGN(pieces.tensors, name_tensors(family, sizes, decoded.sources, folder));
  for (const RopeFactors& each : factors) {
    pieces.tensors.push_back(factors_piece(each, pieces));
  }
  log_decoded(folder, decoded.method, pieces);
  return GgufFile::assemble(std::move(pieces));
}

}  // namespace millrace::engine
