#include "engine/core/hub/open_model.hpp"

namespace millrace::engine {

Result<GgufFile> open_model(const std::string& path) {
  return GgufFile::open(path);
}

}  // namespace millrace::engine
