#include "engine/core/hub/safetensors.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/load.hpp"

namespace millrace::engine {
namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t most_dimensions = 8;

struct TypeRow {
  HubType type;
  std::string_view name;
  std::uint32_t bytes;
};
constexpr auto types = std::to_array<TypeRow>({{HubType::f64, "F64", 8},
                                               {HubType::f32, "F32", 4},
                                               {HubType::f16, "F16", 2},
                                               {HubType::bf16, "BF16", 2},
                                               {HubType::f8_e4m3, "F8_E4M3", 1},
                                               {HubType::f8_e5m2, "F8_E5M2", 1},
                                               {HubType::f8_e8m0, "F8_E8M0", 1},
                                               {HubType::i64, "I64", 8},
                                               {HubType::i32, "I32", 4},
                                               {HubType::i16, "I16", 2},
                                               {HubType::i8, "I8", 1},
                                               {HubType::u64, "U64", 8},
                                               {HubType::u32, "U32", 4},
                                               {HubType::u16, "U16", 2},
                                               {HubType::u8, "U8", 1},
                                               {HubType::boolean, "BOOL", 1}});

const TypeRow& row_of(HubType type) {
  return *std::ranges::find(types, type, &TypeRow::type);
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> bytes, const std::string& source)
      : bytes_(bytes), source_(source) {}

  Result<HubTensors> run() {
    MILLRACE_ASSIGN(const json header, parse_header());
    HubTensors out;
    for (const auto& item : header.items()) {
      if (item.key() == "__metadata__") continue;
      const std::string place = "tensor '" + printable(item.key()) + "' ";
      MILLRACE_ASSIGN(HubTensor tensor, parse_tensor(place, item.value()));
      out.emplace(item.key(), std::move(tensor));
    }
    MILLRACE_TRY(check_places(out));
    return out;
  }

 private:
  std::unexpected<Error> damaged(const std::string& what) const {
    return fail(Code::folder_malformed, source_ + ": " + what,
                "the file is damaged: download it again");
  }

  Result<json> parse_header() {
    if (bytes_.size() < sizeof(std::uint64_t)) return damaged("is shorter than a header's length");
    const auto length = load<std::uint64_t>(bytes_.data());
    const std::uint64_t left = bytes_.size() - sizeof length;
    if (length > longest_header || length > left) {
      return damaged("the header claims " + std::to_string(length) + " bytes, the file has " +
                     std::to_string(left) + " left");
    }
    std::set<std::string> seen;
    std::string twice;
    const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& value) {
      if (depth == 1 && event == json::parse_event_t::key) {
        auto name = value.get<std::string>();
        if (!seen.insert(name).second) twice = std::move(name);
      }
      return true;
    };
    json header = json::parse(text_of(bytes_.subspan(sizeof length, length)), watch, false);
    if (!header.is_object()) return damaged("the header is not a JSON object");
    if (!twice.empty()) return damaged("tensor '" + printable(twice) + "' appears twice");
    data_ = bytes_.subspan(sizeof length + length);
    return header;
  }

  Result<HubTensor> parse_tensor(const std::string& place, const json& entry) {
    HubTensor out;
    const auto is_list = [&](const char* key) {
      return entry.is_object() && entry.contains(key) && entry[key].is_array() &&
             std::ranges::all_of(entry[key],
                                 [](const json& each) { return each.is_number_unsigned(); });
    };
    if (!is_list("shape") || !is_list("data_offsets") || entry["data_offsets"].size() != 2 ||
        !entry.contains("dtype") || !entry["dtype"].is_string()) {
      return damaged(place + "lacks its dtype, shape or data_offsets");
    }
    const auto name = entry["dtype"].get<std::string>();
    const auto* const type = std::ranges::find(types, name, &TypeRow::name);
    if (type == types.end()) return damaged(place + "has the unknown dtype " + printable(name));
    out.type = type->type;
    out.shape = entry["shape"].get<std::vector<std::uint64_t>>();
    const auto first = entry["data_offsets"][0].get<std::uint64_t>();
    const auto end = entry["data_offsets"][1].get<std::uint64_t>();
    if (first > end || end > data_.size()) {
      return damaged(place + "lies at bytes " + std::to_string(first) + " to " +
                     std::to_string(end) + " of the data, which holds " +
                     std::to_string(data_.size()) +
                     ": the file is cut short or the place is wrong");
    }
    out.data = data_.subspan(first, end - first);
    std::uint64_t size = type->bytes;
    bool fits = out.shape.size() <= most_dimensions;
    for (const std::uint64_t each : out.shape) {
      fits = fits && (each == 0 || size <= bytes_.size() / each);
      size = fits ? size * each : 0;
    }
    if (!fits || size != out.data.size()) {
      return damaged(place + "has " + std::to_string(out.data.size()) +
                     " bytes, which its shape and dtype do not need");
    }
    return out;
  }

  // Tensors follow each other without gaps and fill the file.
  Status check_places(const HubTensors& tensors) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const auto& [name, tensor] : tensors) {
      const auto first = static_cast<std::uint64_t>(tensor.data.data() - data_.data());
      if (!tensor.data.empty()) places.emplace_back(first, first + tensor.data.size());
    }
    std::ranges::sort(places);
    std::uint64_t at = 0;
    for (const auto& [first, end] : places) {
      if (first != at) {
        return damaged("tensors overlap or leave a gap at byte " + std::to_string(at) +
                       " of the data");
      }
      at = end;
    }
    if (at == data_.size()) return {};
    return damaged("holds " + std::to_string(data_.size() - at) + " bytes after the last tensor");
  }

  std::span<const std::byte> bytes_, data_;
  const std::string& source_;
};

}  // namespace

std::string_view hub_type_name(HubType type) {
  return row_of(type).name;
}

std::uint32_t hub_type_bytes(HubType type) {
  return row_of(type).bytes;
}

std::uint64_t HubTensor::elements() const {
  return data.size() / hub_type_bytes(type);
}

Result<HubTensors> parse_safetensors(std::span<const std::byte> bytes, const std::string& source) {
  return HeaderReader(bytes, source).run();
}

}  // namespace millrace::engine
