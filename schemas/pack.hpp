#pragma once
// Writes msgpack into a string, for all encoders. Thread safety: plain value.
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::wire {

class Packer {
 public:
  std::string take() && { return std::move(bytes_); }
  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }

  void map(std::size_t pairs);
  void array(std::size_t items);
  void nil();
  void value(bool v);
  void value(std::uint32_t v) { value(std::uint64_t{v}); }
  void value(std::uint64_t v);  // integers in their shortest form
  void value(std::int64_t v);
  void value(float v);  // always the float type, even for 1.0
  void value(double v);
  void value(std::string_view v);
  void value(const std::string& v) { value(std::string_view(v)); }
  void value(const char* v) { value(std::string_view(v)); }
  void raw(std::string_view bytes) { bytes_.append(bytes); }  // msgpack made elsewhere
  void binary(std::string_view v);
  void dictionary(const std::map<std::string, std::string>& v);
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

 private:
  template <class Bits>
  void big_endian(char head, Bits bits);
  std::string bytes_;
};

}  // namespace millrace::wire
