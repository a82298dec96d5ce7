#include "engine/worker/prefix_place.hpp"

#include <string_view>

#include "engine/core/prefix/folder_store.hpp"
#ifdef MILLRACE_WITH_S3
#include "engine/worker/s3_store.hpp"
#endif

namespace millrace::worker {
namespace {

constexpr std::string_view shared = "shared:", s3 = "s3://";

Status set_bucket(const std::string& where, engine::EngineOptions& options) {
#ifdef MILLRACE_WITH_S3
  MILLRACE_ASSIGN(const S3Settings settings, s3_settings(where));
  options.prefix_store = [settings] { return s3_store(settings); };
  return {};
#else
  static_cast<void>(options);
  return fail(Code::usage, "--prefix-cache " + where + ": this build has no libcurl",
              "use millrace-engine, or shared:FOLDER");
#endif
}

}  // namespace

Status set_prefix_place(const std::string& where, engine::EngineOptions& options) {
  options.prefix_cache = where != "off";
  if (where == "off" || where == "memory") return {};
  if (where.starts_with(s3)) return set_bucket(where, options);
  if (where.starts_with(shared) && where.size() > shared.size()) {
    options.prefix_store = [folder = where.substr(shared.size())] {
      return std::make_unique<engine::FolderStore>(folder);
    };
    return {};
  }
  options.prefix_folder = where;
  if (where.find('/') != std::string::npos) return {};
  return fail(Code::usage, "--prefix-cache " + where + " is unknown",
              "give memory, off, a folder with a slash in its name, like ./prefixes, "
              "shared:FOLDER or s3://BUCKET/FOLDER");
}

}  // namespace millrace::worker
