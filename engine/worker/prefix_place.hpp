#pragma once
// The value of --prefix-cache: where an engine keeps beginnings of prompts. Errors: usage. Thread
// safety: as s3_settings.
#include <string>

#include "engine/core/engine.hpp"
#include "schemas/base/error.hpp"

namespace millrace::worker {

// "memory", "off", a folder with a slash in its name, "shared:FOLDER", or "s3://BUCKET/FOLDER".
// Nothing is opened yet.
Status set_prefix_place(const std::string& where, engine::EngineOptions& options);

}  // namespace millrace::worker
