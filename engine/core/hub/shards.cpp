#include "engine/core/hub/shards.hpp"

#include <filesystem>
#include <set>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

constexpr const char* whole_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::unexpected<Error> wrong_index(const std::string& path, const std::string& what) {
  return fail(Code::folder_malformed, path + ": " + what,
              "the index belongs to other shards: download the folder again");
}

std::unexpected<Error> without_weights(const fs::path& folder) {
  std::string others;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string ending = entry.path().extension().string();
    if (ending == ".bin" || ending == ".pt" || ending == ".pth" || ending == ".h5") {
      others = "; it has " + entry.path().filename().string() + ", which is not read";
    }
  }
  return fail(
      Code::folder_unreadable,
      folder.string() + ": the folder has neither " + whole_name + " nor " + index_name + others,
      "download the model's .safetensors files, too");
}

Status add_file(const fs::path& path, Shards& out) {
  auto bytes = map_file(path.string());
  if (!bytes) {
    return fail(Code::folder_unreadable, bytes.error().message,
                "a file of the model's weights is missing: download the folder again");
  }
  MILLRACE_ASSIGN(HubTensors tensors, parse_safetensors((*bytes)->view(), path.string()));
  for (auto& [name, tensor] : tensors) {
    if (!out.tensors.emplace(name, std::move(tensor)).second) {
      return fail(Code::folder_malformed,
                  path.string() + ": has the tensor '" + printable(name) + "' of another shard",
                  "the files belong to several models: download the folder again");
    }
  }
  out.files.push_back(*std::move(bytes));
  return {};
}

}  // namespace

Result<Shards> open_shards(const std::string& folder) {
  const fs::path base(folder), index_path = base / index_name;
  std::error_code ignored;
  Shards out;
  if (fs::exists(base / whole_name, ignored)) {
    MILLRACE_TRY(add_file(base / whole_name, out));
    return out;
  }
  if (!fs::exists(index_path, ignored)) return without_weights(base);
  MILLRACE_ASSIGN(const Settings index, Settings::read(index_path.string()));
  MILLRACE_ASSIGN(const Settings places, index.object("weight_map"));
  std::set<std::string> names;
  const auto tensors = places.keys();
  for (const std::string& tensor : tensors) {
    MILLRACE_ASSIGN(const std::string file, places.get<std::string>(tensor));
    if (fs::path(file).filename() != file) {
      return wrong_index(index_path.string(),
                         "names the file '" + printable(file) + "' outside the folder");
    }
    names.insert(file);
  }
  if (names.empty()) return wrong_index(index_path.string(), "names no tensors (weight_map)");
  for (const std::string& name : names) MILLRACE_TRY(add_file(base / name, out));
  for (const std::string& tensor : tensors) {
    if (out.tensors.contains(tensor)) continue;
    return wrong_index(index_path.string(),
                       "names the tensor '" + printable(tensor) + "', which no shard has");
  }
  return out;
}

}  // namespace millrace::engine
