#include "engine/core/hub/open_model.hpp"

#include <algorithm>
#include <filesystem>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/hub/open_folder.hpp"

namespace millrace::engine {
namespace {

// Whether a path that does not exist reads like a model's name on a hub: owner/model.
bool is_hub_name(const std::string& path) {
  const auto slash = path.find('/');
  const auto plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  };
  return slash != std::string::npos && slash > 0 && slash + 1 < path.size() &&
         std::ranges::count(path, '/') == 1 && path[0] != '.' && !path.ends_with(".gguf") &&
         std::ranges::all_of(path, plain);
}

}  // namespace

Result<GgufFile> open_model(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_folder(path);
  if (path.starts_with("https://") || path.starts_with("http://"))
    return fail(Code::folder_unreadable, path + ": is a URL, and models are read from files here",
                "download the .gguf file, or all files of the model's page into a folder, and give "
                "its path");
  if (std::filesystem::exists(path, ignored) || !is_hub_name(path)) return GgufFile::open(path);
  return fail(Code::folder_unreadable,
              path + ": is no file or folder here, and models on a hub cannot be reached from here",
              "download config.json, generation_config.json, tokenizer.json, "
              "tokenizer_config.json, chat_template.jinja and all .safetensors files of " +
                  path + " into a folder (hf download " + path +
                  " --local-dir FOLDER) and give its path: --model FOLDER");
}

}  // namespace millrace::engine
