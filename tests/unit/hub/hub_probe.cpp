// Opens a model by its path and writes what it holds, for the Python tests of this folder.
//
//   hub_probe MODEL OUTPUT
//
// Prints {"keys": {...}, "tensors": [{"name", "type", "shape"}], "hash"}, of which the last is what
// the numeric fingerprint names the model by, and writes the tensors' numbers
// to OUTPUT, as fp32 one after the other. An
// error goes to standard error, and the program ends with 1.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/hub/open_model.hpp"
#include "engine/core/model/fingerprint.hpp"

namespace millrace::engine {
namespace {

using Json = nlohmann::json;

Json value_of(const Metadata& metadata, std::string_view key) {
  const Value& value = *metadata.raw(key);
  if (value.type == ValueType::boolean) return metadata.get<bool>(key).value();
  if (value.type == ValueType::string) return std::string(text_of(value.bytes));
  if (value.type != ValueType::array)
    return metadata.get<double>(key).value_or(0) != 0 || value.type == ValueType::f32
               ? Json(metadata.get<double>(key).value())
               : Json(metadata.get<std::int64_t>(key).value());
  if (value.element == ValueType::boolean) {
    Json out = Json::array();
    for (const std::byte each : value.bytes) out.push_back(each != std::byte{0});
    return out;
  }
  if (value.element == ValueType::string)
    return metadata.get<std::vector<std::string_view>>(key).value();
  if (value.element == ValueType::f32) return metadata.get<std::vector<float>>(key).value();
  return metadata.get<std::vector<std::int32_t>>(key).value();
}

Result<Json> describe(const GgufFile& file, std::ofstream& out) {
  Json result;
  for (const std::string_view key : file.metadata().keys()) {
    result["keys"][std::string(key)] = value_of(file.metadata(), key);
  }
  for (const Tensor& tensor : file.tensors()) {
    const std::vector<std::uint64_t> shape(tensor.shape.begin(),
                                           tensor.shape.begin() + tensor.rank);
    result["tensors"].push_back({{"name", std::string(tensor.name)},
                                 {"type", std::string(traits_of(tensor.type).name)},
                                 {"in_place", tensor.made == nullptr},
                                 {"shape", shape}});
    std::vector<float> values(tensor.elements());
    MILLRACE_TRY(dequantize_rows(tensor, 0, tensor.rows(), values));
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    // A row read alone is the row among others.
    std::vector<float> last(tensor.shape[0]);
    MILLRACE_TRY(dequantize_rows(tensor, tensor.rows() - 1, 1, last));
    if (std::memcmp(last.data(), values.data() + values.size() - last.size(), last.size() * 4) != 0)
      return fail(Code::internal, "a row differs when it is read alone");
  }
  return result;
}

Status run(const std::string& path, const std::string& output) {
  MILLRACE_ASSIGN(const GgufFile file, open_model(path));
  MILLRACE_TRY(read_spec(file));
  std::ofstream out(output, std::ios::binary);
  MILLRACE_ASSIGN(Json result, describe(file, out));
  result["hash"] = hash_model_file(file).hex();
  std::cout << result.dump() << '\n';
  return {};
}

}  // namespace
}  // namespace millrace::engine

int main(int count, char** arguments) {
  if (count != 3) return std::cerr << "usage: hub_probe MODEL OUTPUT\n", 2;
  const auto status = millrace::engine::run(arguments[1], arguments[2]);
  if (status) return 0;
  std::cerr << status.error().text() << '\n';
  return 1;
}
