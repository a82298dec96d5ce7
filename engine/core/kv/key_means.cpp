#include "engine/core/kv/key_means.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored in the host's order");
constexpr std::uint32_t version = 2;
constexpr std::size_t magic_bytes = 8, fact_bytes = 3 * 8, hash_bytes = 16;
constexpr std::uint32_t most_layers = 1024;

// Up to the values.
std::size_t header_bytes(std::size_t layers) {
  return magic_bytes + 2 * 4 + layers * 2 * 4 + fact_bytes;
}
constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;

void append(std::string& to, const auto& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T take() {
    T value;
    std::copy_n(bytes_.begin(), sizeof value, reinterpret_cast<char*>(&value));
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  Hash128 take_hash() {
    const auto high = take<std::uint64_t>();
    return {high, take<std::uint64_t>()};
  }

 private:
  std::string_view bytes_;
};

std::unexpected<Error> refuse(const std::string& path, const std::string& what) {
  return fail(Code::invalid_value, path + " " + what,
              "create it again: millrace calibrate --model MODEL --text TEXT -o " + path);
}

// "30 layers of 3 KV heads of 64 channels"; runs of equal layers in order.
std::string text_of(const KvShape& shape) {
  std::string out;
  for (std::size_t i = 0; i < shape.layers.size();) {
    const KvHeads& heads = shape.layers[i];
    std::size_t end = i + 1;
    while (end < shape.layers.size() && shape.layers[end] == heads) ++end;
    out += (i == 0 ? "" : ", ") + std::to_string(end - i) + " layers of " +
           std::to_string(heads.kv_heads) + " KV heads of " + std::to_string(heads.head_dim) +
           " channels";
    i = end;
  }
  return out.empty() ? "no layers" : out;
}

std::string body_of(const KeyMeans& means) {
  std::string out(key_means_magic);
  append(out, version);
  append(out, means.shape.count());
  for (const KvHeads& heads : means.shape.layers) {
    append(out, heads.kv_heads);
    append(out, heads.head_dim);
  }
  append(out, means.tokens);
  append(out, means.model.high);
  append(out, means.model.low);
  const auto values = std::as_bytes(std::span(means.values));
  out.append(reinterpret_cast<const char*>(values.data()), values.size());
  return out;
}

}  // namespace

std::span<const float> KeyMeans::layer(std::uint32_t index) const {
  std::size_t begin = 0;
  for (std::uint32_t i = 0; i < index; ++i) begin += shape.layers[i].channels();
  return std::span(values).subspan(begin, shape.layers[index].channels());
}

std::string KeyMeans::digest() const {
  return hex(hash64(body_of(*this)));
}

Status KeyMeans::check(const Hash128& of_model, const KvShape& of_shape) const {
  MILLRACE_TRY(check_centering(of_shape));
  if (shape != of_shape) {
    return refuse(
        path, "has the mean keys of " + text_of(shape) + ", the model has " + text_of(of_shape));
  }
  if (of_model == model) return {};
  return refuse(path, "has the mean keys of another model file (hash " + model.hex() +
                          ", this one's is " + of_model.hex() + ")");
}

std::string encode_key_means(const KeyMeans& means) {
  std::string out = body_of(means);
  const Hash128 hash = hash128(out);
  append(out, hash.high);
  append(out, hash.low);
  return out;
}

Result<KeyMeans> decode_key_means(std::string_view bytes, const std::string& path) {
  if (!bytes.starts_with(key_means_magic)) {
    return fail(Code::invalid_value, path + " is not a file of mean keys",
                "give a file that millrace calibrate has written");
  }
  if (bytes.size() < header_bytes(0) + hash_bytes) return refuse(path, "is truncated");
  Reader header(bytes.substr(key_means_magic.size()));
  if (const auto found = header.take<std::uint32_t>(); found != version) {
    return refuse(path, "has version " + std::to_string(found) + ", this program reads version " +
                            std::to_string(version));
  }
  KeyMeans out{.path = path};
  const auto layers = header.take<std::uint32_t>();
  const std::size_t begin = header_bytes(layers);
  if (layers > most_layers || bytes.size() < begin + hash_bytes) {
    return refuse(path, "has " + std::to_string(bytes.size()) + " bytes, which are too few for " +
                            std::to_string(layers) + " layers");
  }
  const std::size_t values = bytes.size() - begin - hash_bytes;
  std::uint64_t channels = 0;
  for (std::uint32_t i = 0; i < layers; ++i) {
    const auto kv_heads = header.take<std::uint32_t>();
    const auto head_dim = header.take<std::uint32_t>();
    out.shape.layers.push_back({kv_heads, head_dim});
    // The counts are not checked yet: a product of two fits, and no sum goes on beyond the file.
    channels = std::min(channels, most_bytes) + std::uint64_t{kv_heads} * head_dim;
  }
  out.tokens = header.take<std::uint64_t>();
  out.model = header.take_hash();
  if (channels > values || channels * sizeof(float) != values) {
    return refuse(path, "has " + std::to_string(bytes.size()) +
                            " bytes, which is not the size for " + text_of(out.shape));
  }
  if (Reader(bytes.substr(begin + values)).take_hash() !=
      hash128(bytes.substr(0, begin + values))) {
    return refuse(path, "is damaged: its checksum does not match");
  }
  out.values.resize(values / sizeof(float));
  std::memcpy(out.values.data(), bytes.data() + begin, values);
  for (const float value : out.values) {
    if (!std::isfinite(value)) return refuse(path, "holds a mean that is not finite");
  }
  return out;
}

Result<KeyMeans> read_key_means(Env& env, const std::string& path) {
  auto bytes = read_file(env, path, most_bytes);
  Result<KeyMeans> means = bytes ? decode_key_means(*bytes, path) : fail(std::move(bytes).error());
  if (means) return means;
  Error error = std::move(means).error();
  error.message = "--kv-center " + error.message;
  if (error.hint.empty()) error.hint = "give a file that millrace calibrate has written";
  return fail(std::move(error));
}

}  // namespace millrace::engine
