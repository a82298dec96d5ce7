// Reads any bytes as a model file: parses it, reads every view, dequantizes small tensors and packs
// them for the device. If the file has a tokenizer, tokenizes a text and turns it back.
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/model/backend/pack.hpp"
#include "engine/core/tokenizer/tokenizer.hpp"

namespace millrace::engine {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

// Packs the first panel and the last.
void pack(const Tensor& tensor) {
  const PanelLayout layout{format_of(tensor.type), static_cast<std::uint32_t>(tensor.shape[0])};
  const auto panels = static_cast<std::uint32_t>((tensor.rows() + panel_rows - 1) / panel_rows);
  std::vector<std::byte> panel(layout.panel_bytes());
  pack_panel(layout, tensor, 0, panel);
  pack_panel(layout, tensor, panels - 1, panel);
}

void read_tensors(const GgufFile& file) {
  for (const auto& tensor : file.tensors()) {
    require(tensor.row_bytes() * tensor.rows() == tensor.data.size());
    if (tensor.elements() > 1 << 16) continue;
    std::vector<float> out(tensor.elements());
    require(dequantize_rows(tensor, 0, tensor.rows(), out).has_value());
    const auto bad = find_row_not_finite(tensor, 0, tensor.rows());
    require(!bad || *bad < tensor.rows());
    pack(tensor);
  }
}

void read_metadata(const Metadata& metadata) {
  for (const auto key : metadata.keys()) {
    (void)metadata.get<std::vector<std::string_view>>(key);
    (void)metadata.get<std::vector<std::int32_t>>(key);
    (void)metadata.get<std::uint64_t>(key);
    (void)metadata.get<double>(key);
    (void)metadata.get<bool>(key);
  }
}

void use_tokenizer(const Metadata& metadata) {
  const auto tokenizer = Tokenizer::load(metadata);
  if (!tokenizer) return;
  const auto tokens = tokenizer->tokenize("It's <|x|> 42 \xff\n\n  caf\xc3\xa9",
                                          {.add_special_tokens = true, .parse_special = true});
  require(tokenizer->detokenize(tokens, {.render_special = true}).has_value());
}

}  // namespace
}  // namespace millrace::engine

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace millrace::engine;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const auto file = GgufFile::parse(bytes_of({bytes, bytes + size}), "input");
  if (!file) return 0;
  read_tensors(*file);
  read_metadata(file->metadata());
  use_tokenizer(file->metadata());
  return 0;
}
