#pragma once
// Writes msgpack into a string: the encoders' shared half. Included by .cpp files only, since it
// brings the msgpack library. Thread safety: plain values.
#include <bit>
#include <cstring>
#include <map>
#include <msgpack/pack.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::wire {

class Packer {
 public:
  std::string take() && { return std::move(buffer_.bytes); }

  void map(std::size_t pairs) { packer_.pack_map(static_cast<std::uint32_t>(pairs)); }
  void array(std::size_t items) { packer_.pack_array(static_cast<std::uint32_t>(items)); }
  void nil() { packer_.pack_nil(); }
  void value(bool v) { v ? packer_.pack_true() : packer_.pack_false(); }
  void value(std::uint32_t v) { packer_.pack_uint32(v); }
  void value(std::uint64_t v) { packer_.pack_uint64(v); }
  void value(std::int64_t v) { packer_.pack_int64(v); }
  // Always as the float type: the library would write 1.0 as the integer 1.
  void value(float v) { big_endian('\xCA', std::bit_cast<std::uint32_t>(v)); }
  void value(double v) { big_endian('\xCB', std::bit_cast<std::uint64_t>(v)); }
  void value(std::string_view v) {
    packer_.pack_str(static_cast<std::uint32_t>(v.size()));
    packer_.pack_str_body(v.data(), static_cast<std::uint32_t>(v.size()));
  }
  void value(const std::string& v) { value(std::string_view(v)); }
  void value(const char* v) { value(std::string_view(v)); }
  void raw(std::string_view bytes) { buffer_.bytes.append(bytes); }
  void binary(std::string_view v) {
    packer_.pack_bin(static_cast<std::uint32_t>(v.size()));
    packer_.pack_bin_body(v.data(), static_cast<std::uint32_t>(v.size()));
  }
  // 32-bit words, little-endian: token ids and logprobs.
  template <class Word>
  void words(const std::vector<Word>& v) {
    static_assert(sizeof(Word) == 4);
    if constexpr (std::endian::native == std::endian::little) {
      binary(std::string_view(reinterpret_cast<const char*>(v.data()), v.size() * 4));
    } else {
      std::string bytes;
      for (const Word w : v) {
        const auto bits = std::bit_cast<std::uint32_t>(w);
        for (int shift = 0; shift < 32; shift += 8)
          bytes.push_back(static_cast<char>(bits >> shift));
      }
      binary(bytes);
    }
  }
  void strings(const std::vector<std::string>& v) {
    array(v.size());
    for (const std::string& s : v) value(s);
  }
  void dictionary(const std::map<std::string, std::string>& v) {
    map(v.size());
    for (const auto& [key, text] : v) {
      value(key);
      value(text);
    }
  }

 private:
  struct Buffer {
    std::string bytes;
    void write(const char* data, std::size_t size) { bytes.append(data, size); }
  };
  template <class Bits>
  void big_endian(char head, Bits bits) {
    buffer_.bytes.push_back(head);
    for (int shift = 8 * static_cast<int>(sizeof bits) - 8; shift >= 0; shift -= 8) {
      buffer_.bytes.push_back(static_cast<char>(bits >> shift));
    }
  }
  Buffer buffer_;
  msgpack::packer<Buffer> packer_{buffer_};
};

}  // namespace millrace::wire
