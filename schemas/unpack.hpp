#pragma once
// Reads values out of msgpack bytes that the validating visitor has passed: the decoders' shared
// half. Since the structure is known to be whole, what can still be wrong is a value's type or
// range. Thread safety: plain values.
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

// Where a value stands, built on the stack while decoding and turned into text only for an error.
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
void skip(Reader& in);                  // one value, whatever it holds
std::string_view slice(Reader& in);     // the bytes of one value, passed over
bool take_nil(Reader& in);              // true: there was a nil, now passed over
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
