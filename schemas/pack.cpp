#include "schemas/pack.hpp"

#include <msgpack/pack.hpp>

namespace millrace::wire {
namespace {

// The stream that msgpack's packer writes to.
struct Buffer {
  std::string& bytes;
  void write(const char* data, std::size_t size) { bytes.append(data, size); }
};

template <class Write>
void pack(std::string& bytes, Write write) {
  Buffer buffer{bytes};
  msgpack::packer<Buffer> packer(buffer);
  write(packer);
}

}  // namespace

void Packer::map(std::size_t pairs) {
  pack(bytes_, [&](auto& p) { p.pack_map(static_cast<std::uint32_t>(pairs)); });
}
void Packer::array(std::size_t items) {
  pack(bytes_, [&](auto& p) { p.pack_array(static_cast<std::uint32_t>(items)); });
}
void Packer::nil() {
  pack(bytes_, [](auto& p) { p.pack_nil(); });
}
void Packer::value(bool v) {
  pack(bytes_, [&](auto& p) { v ? p.pack_true() : p.pack_false(); });
}
void Packer::value(std::uint64_t v) {
  pack(bytes_, [&](auto& p) { p.pack_uint64(v); });
}
void Packer::value(std::int64_t v) {
  pack(bytes_, [&](auto& p) { p.pack_int64(v); });
}
// Written by hand, because the library writes a whole float as an integer.
void Packer::value(float v) {
  big_endian('\xCA', std::bit_cast<std::uint32_t>(v));
}
void Packer::value(double v) {
  big_endian('\xCB', std::bit_cast<std::uint64_t>(v));
}
void Packer::value(std::string_view v) {
  const auto size = static_cast<std::uint32_t>(v.size());
  pack(bytes_, [&](auto& p) { p.pack_str(size); });
  bytes_.append(v);
}
void Packer::binary(std::string_view v) {
  const auto size = static_cast<std::uint32_t>(v.size());
  pack(bytes_, [&](auto& p) { p.pack_bin(size); });
  bytes_.append(v);
}
void Packer::dictionary(const std::map<std::string, std::string>& v) {
  map(v.size());
  for (const auto& [key, text] : v) {
    value(key);
    value(text);
  }
}

template <class Bits>
void Packer::big_endian(char head, Bits bits) {
  bytes_.push_back(head);
  for (int shift = 8 * static_cast<int>(sizeof bits) - 8; shift >= 0; shift -= 8) {
    bytes_.push_back(static_cast<char>(bits >> shift));
  }
}

}  // namespace millrace::wire
