#pragma once
// Reads values from msgpack bytes that the validating visitor has accepted, for all decoders. The
// structure is known to be complete, so only a value's type or range can still be wrong.
// Thread safety: plain values.
#include <bit>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/reader.hpp"

namespace millrace::wire {

using msgpack_reader::Fault;
using msgpack_reader::Reader;
using msgpack_reader::Token;
using msgpack_reader::Type;

// The path of a value. Decoders build it on the stack and turn it into text only for an error.
struct Path {
  const Path* up = nullptr;
  std::string_view name;
  std::int64_t index = -1;
  std::string text() const;  // "leases[3].body"
};

std::string_view describe_type(Type type);  // "a string"
std::unexpected<Error> wrong_type(const Path& path, std::string_view wanted, const Token& got);
std::unexpected<Error> wrong_value(const Path& path, const std::string& what,
                                   std::string hint = {});

Token next(Reader& in);
Token peek(const Reader& in);
Token whole(Token token);               // a float without a fraction as an integer: 8.0 is 8
void skip(Reader& in);                  // skips one value of any type
std::string_view slice(Reader& in);     // skips one value and returns its bytes
bool take_nil(Reader& in);              // skips a nil; false: there was none
std::string shown(std::string_view s);  // for messages: shortened, in quotes

Status read(Reader& in, const Path& path, bool& out);
Status read(Reader& in, const Path& path, std::uint32_t& out);
Status read(Reader& in, const Path& path, std::uint64_t& out);
Status read(Reader& in, const Path& path, std::int64_t& out);
Status read(Reader& in, const Path& path, float& out);
Status read(Reader& in, const Path& path, double& out);
Status read(Reader& in, const Path& path, std::string& out);
Status read(Reader& in, const Path& path, Tokens& out);              // bin of uint32
Status read(Reader& in, const Path& path, std::vector<float>& out);  // bin of float32
Status read(Reader& in, const Path& path, std::map<std::string, std::string>& out);

}  // namespace millrace::wire
