#include "engine/core/gguf/parse.hpp"

#include <algorithm>
#include <bit>

namespace millrace::engine {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr std::uint32_t kOldest = 2, kNewest = 3;
constexpr std::uint32_t kDefaultAlignment = 32, kLargestAlignment = 1 << 20;

// These limits are far above every real file; a greater count means damage or malice.
constexpr std::uint64_t kMostPairs = 1 << 16, kMostTensors = 1 << 20;
constexpr std::uint64_t kLongestKey = 65535, kLongestName = 255;
constexpr std::uint64_t kMostElements = 1 << 26;  // in one metadata array
constexpr std::uint64_t kPairBytes = 13;          // least size of a pair: length, type, a byte
constexpr std::uint64_t kTensorBytes = 32;        // least size of a tensor's entry

Error in_place(Error error, const std::string& place) {
  error.message = place + " " + error.message;
  return error;
}

Status check_key(std::string_view key, std::uint64_t offset) {
  if (key.empty()) return malformed(offset, "the key is empty");
  const auto bad =
      std::find_if(key.begin(), key.end(), [](char c) { return c < 0x21 || c > 0x7e; });
  if (bad != key.end())
    return malformed(offset,
                     "the key '" + printable(key) + "' holds a byte that is not ASCII text");
  return {};
}

}  // namespace

GgufParser::GgufParser(std::unique_ptr<Bytes> bytes, std::string source) : cursor_({}) {
  file_.parts_.push_back(std::move(bytes));
  file_.metadata_.source_ = source;
  file_.source_ = std::move(source);
  cursor_ = Cursor(view());
}

Result<GgufFile> GgufParser::run() {
  if (auto status = parse_all(); !status)
    return fail(in_place(std::move(status).error(), file_.source_ + ":"));
  return std::move(file_);
}

Status GgufParser::parse_all() {
  MILLRACE_TRY(parse_header());
  MILLRACE_TRY(parse_metadata());
  MILLRACE_TRY(parse_alignment());
  MILLRACE_TRY(parse_tensors());
  MILLRACE_TRY(place_tensors());
  return check_overlap();
}

Status GgufParser::parse_header() {
  MILLRACE_ASSIGN(const auto magic, cursor_.read<std::uint32_t>("the magic"));
  if (magic != kMagic) return malformed(0, "the file does not begin with 'GGUF'");
  MILLRACE_ASSIGN(file_.version_, cursor_.read<std::uint32_t>("the version"));
  if ((file_.version_ & 0xffff) == 0 && file_.version_ != 0)
    return fail(Code::gguf_version, "at byte 4: the file is big-endian",
                "convert it to little-endian (gguf-convert-endian of the PyPI package gguf)");
  if (file_.version_ < kOldest || file_.version_ > kNewest)
    return fail(Code::gguf_version,
                "at byte 4: GGUF version " + std::to_string(file_.version_) +
                    " is not supported, versions 2 and 3 are",
                file_.version_ < kOldest ? "convert the model again" : "use a newer Millrace");
  const auto counts = cursor_.position();
  MILLRACE_ASSIGN(tensor_count_, cursor_.read<std::uint64_t>("the tensor count"));
  MILLRACE_ASSIGN(pair_count_, cursor_.read<std::uint64_t>("the metadata count"));
  if (tensor_count_ > std::min(kMostTensors, cursor_.left() / kTensorBytes))
    return malformed(counts, "the header claims " + std::to_string(tensor_count_) +
                                 " tensors, more than the file can hold");
  if (pair_count_ > std::min(kMostPairs, cursor_.left() / kPairBytes))
    return malformed(counts + 8, "the header claims " + std::to_string(pair_count_) +
                                     " metadata pairs, more than the file can hold");
  return {};
}

Status GgufParser::parse_metadata() {
  for (std::uint64_t i = 0; i < pair_count_; ++i) MILLRACE_TRY(parse_pair(i));
  return {};
}

Status GgufParser::parse_pair(std::uint64_t number) {
  const auto start = cursor_.position();
  auto key = cursor_.string(kLongestKey, "the key");
  auto checked = key ? check_key(*key, start) : Status(std::unexpected(key.error()));
  if (!checked)
    return fail(in_place(std::move(checked).error(), "metadata pair " + std::to_string(number)));
  const auto place = "metadata key '" + printable(*key) + "'";
  auto value = parse_value();
  if (!value) return fail(in_place(std::move(value).error(), place));
  if (!file_.metadata_.values_.emplace(*key, *value).second)
    return fail(in_place(malformed(start, "appears twice in the file").error(), place));
  file_.metadata_.keys_.push_back(*key);
  return {};
}

Result<Value> GgufParser::parse_value() {
  const auto start = cursor_.position();
  Value value;
  MILLRACE_ASSIGN(const auto type, cursor_.read<std::uint32_t>("the value's type"));
  if (type > static_cast<std::uint32_t>(ValueType::f64))
    return malformed(start, "value type " + std::to_string(type) + " does not exist");
  value.type = static_cast<ValueType>(type);
  value.offset = cursor_.position();
  if (value.type == ValueType::array) {
    MILLRACE_TRY(parse_array(value));
  } else if (value.type == ValueType::string) {
    MILLRACE_ASSIGN(const auto length, cursor_.read<std::uint64_t>("the string's length"));
    MILLRACE_ASSIGN(value.bytes, cursor_.take(length, "the string"));
  } else {
    MILLRACE_ASSIGN(value.bytes, cursor_.take(scalar_bytes(value.type), "the value"));
  }
  MILLRACE_TRY(check_elements(value, value.offset));
  return value;
}

Status GgufParser::parse_array(Value& value) {
  const auto start = cursor_.position();
  MILLRACE_ASSIGN(const auto element, cursor_.read<std::uint32_t>("the array's element type"));
  if (element > static_cast<std::uint32_t>(ValueType::f64))
    return malformed(start, "element type " + std::to_string(element) + " does not exist");
  value.element = static_cast<ValueType>(element);
  if (value.element == ValueType::array)
    return malformed(start, "arrays of arrays are not supported");
  MILLRACE_ASSIGN(value.count, cursor_.read<std::uint64_t>("the array's length"));
  const bool strings = value.element == ValueType::string;
  const std::uint64_t least = strings ? sizeof(std::uint64_t) : scalar_bytes(value.element);
  if (value.count > std::min(kMostElements, cursor_.left() / least))
    return malformed(start + 4, "the array claims " + std::to_string(value.count) +
                                    " elements, more than the file can hold");
  const auto begin = cursor_.position();
  if (!strings) {
    MILLRACE_ASSIGN(value.bytes, cursor_.take(value.count * least, "the array"));
    return {};
  }
  for (std::uint64_t i = 0; i < value.count; ++i) {
    const auto at = cursor_.position();
    MILLRACE_ASSIGN(const auto length, cursor_.read<std::uint64_t>("a string's length"));
    if (length > cursor_.left())
      return malformed(at, "string " + std::to_string(i) + " of the array claims " +
                               std::to_string(length) + " bytes, the file has " +
                               std::to_string(cursor_.left()) + " left");
    MILLRACE_TRY(cursor_.take(length, "a string of the array"));
  }
  value.bytes = view().subspan(begin, cursor_.position() - begin);
  return {};
}

// A bool is a byte of 0 or 1; any other byte means damage and must not be read as true.
Status GgufParser::check_elements(const Value& value, std::uint64_t start) {
  const auto type = value.type == ValueType::array ? value.element : value.type;
  if (type != ValueType::boolean) return {};
  for (const auto byte : value.bytes)
    if (std::to_integer<unsigned>(byte) > 1)
      return malformed(start, "a bool holds " + std::to_string(std::to_integer<unsigned>(byte)));
  return {};
}

Status GgufParser::parse_alignment() {
  file_.alignment_ = kDefaultAlignment;
  const Value* value = file_.metadata_.raw("general.alignment");
  if (value == nullptr) return {};
  if (value->type != ValueType::u32)
    return malformed(value->offset, "metadata key 'general.alignment' is " +
                                        std::string(value_type_name(value->type)) + ", wanted u32");
  std::memcpy(&file_.alignment_, value->bytes.data(), sizeof file_.alignment_);
  if (!std::has_single_bit(file_.alignment_) || file_.alignment_ < 8 ||
      file_.alignment_ > kLargestAlignment)
    return malformed(value->offset, "metadata key 'general.alignment' is " +
                                        std::to_string(file_.alignment_) +
                                        ", wanted a power of two from 8 to 1048576");
  return {};
}

Status GgufParser::parse_tensors() {
  for (std::uint64_t i = 0; i < tensor_count_; ++i) {
    Tensor tensor;
    const auto start = cursor_.position();
    auto name = cursor_.string(kLongestName, "the tensor's name");
    if (!name) return fail(in_place(std::move(name).error(), "tensor number " + std::to_string(i)));
    tensor.name = *name;
    const auto place = "tensor '" + printable(*name) + "'";
    if (name->empty()) return fail(in_place(malformed(start, "the name is empty").error(), place));
    if (auto status = parse_tensor(tensor); !status)
      return fail(in_place(std::move(status).error(), place));
    if (!file_.tensor_index_.emplace(*name, i).second)
      return fail(in_place(malformed(start, "appears twice in the file").error(), place));
    file_.tensors_.push_back(tensor);
  }
  return {};
}

Status GgufParser::parse_tensor(Tensor& tensor) {
  const auto start = cursor_.position();
  MILLRACE_ASSIGN(tensor.rank, cursor_.read<std::uint32_t>("the number of dimensions"));
  if (tensor.rank < 1 || tensor.rank > tensor.shape.size())
    return malformed(start, "has " + std::to_string(tensor.rank) + " dimensions, wanted 1 to 4");
  for (std::uint32_t i = 0; i < tensor.rank; ++i) {
    MILLRACE_ASSIGN(tensor.shape[i], cursor_.read<std::uint64_t>("a dimension"));
    if (tensor.shape[i] == 0)
      return malformed(start + 4 + 8 * i, "dimension " + std::to_string(i) + " is zero");
  }
  MILLRACE_ASSIGN(const auto size, parse_tensor_bytes(tensor));
  const auto at = cursor_.position();
  MILLRACE_ASSIGN(tensor.offset, cursor_.read<std::uint64_t>("the data's offset"));
  if (tensor.offset % file_.alignment_ != 0)
    return malformed(at, "data offset " + std::to_string(tensor.offset) +
                             " is not a multiple of the alignment " +
                             std::to_string(file_.alignment_));
  // For now only the length is right: the data section begins after the last entry.
  tensor.data = view().first(size);
  return {};
}

// Reads the type and returns the tensor's size in bytes, which is at most the file's.
Result<std::uint64_t> GgufParser::parse_tensor_bytes(Tensor& tensor) {
  const auto start = cursor_.position();
  MILLRACE_ASSIGN(const auto number, cursor_.read<std::uint32_t>("the tensor's type"));
  const auto* traits = find_tensor_type(number);
  if (traits == nullptr)
    return fail(Code::unsupported_tensor_type,
                "at byte " + std::to_string(start) + ": has the type " + tensor_type_name(number) +
                    ", which this version cannot read",
                "use a file of the types " + supported_tensor_types());
  tensor.type = traits->type;
  if (tensor.shape[0] % traits->block_elements != 0)
    return malformed(start, "the innermost dimension " + std::to_string(tensor.shape[0]) +
                                " is not a multiple of " + std::string(traits->name) +
                                "'s block of " + std::to_string(traits->block_elements));
  const auto most = static_cast<std::uint64_t>(view().size());
  std::uint64_t size = tensor.shape[0] / traits->block_elements;
  bool fits = size <= most / traits->block_bytes;
  size *= traits->block_bytes;
  for (std::uint32_t i = 1; i < tensor.rank && fits; ++i) {
    fits = tensor.shape[i] <= most / size;
    size *= tensor.shape[i];
  }
  if (!fits) return malformed(start, "the dimensions need more bytes than the file has");
  return size;
}

Status GgufParser::place_tensors() {
  const auto all = view();
  const std::uint64_t mask = file_.alignment_ - 1;
  const std::uint64_t begin = (cursor_.position() + mask) & ~mask;
  for (auto& tensor : file_.tensors_) {
    const std::uint64_t room = begin <= all.size() ? all.size() - begin : 0;
    if (tensor.offset > room || tensor.data.size() > room - tensor.offset)
      return fail(in_place(
          malformed(cursor_.position(), "needs " + std::to_string(tensor.data.size()) +
                                            " bytes at offset " + std::to_string(tensor.offset) +
                                            " of the data, which holds " + std::to_string(room) +
                                            ": the file is cut short or the offset is wrong")
              .error(),
          "tensor '" + printable(tensor.name) + "'"));
    tensor.offset += begin;
    tensor.data = all.subspan(tensor.offset, tensor.data.size());
  }
  return {};
}

Status GgufParser::check_overlap() const {
  std::vector<const Tensor*> order;
  order.reserve(file_.tensors_.size());
  for (const auto& tensor : file_.tensors_) order.push_back(&tensor);
  std::ranges::sort(order, {}, &Tensor::offset);
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor& before = *order[i - 1];
    if (before.offset + before.data.size() > order[i]->offset)
      return fail(in_place(
          malformed(order[i]->offset, "overlaps tensor '" + printable(before.name) + "'").error(),
          "tensor '" + printable(order[i]->name) + "'"));
  }
  return {};
}

}  // namespace millrace::engine
