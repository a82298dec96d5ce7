#pragma once
// A JSON value: what a job gives to the model's chat template beside texts, such as tools.
// Thread safety: plain values.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace millrace {

struct Json;
struct JsonMember;
using JsonList = std::vector<Json>;
using JsonObject = std::vector<JsonMember>;  // in the order given; no key twice

struct Json {
  // Null, a truth value, a number, a text, a list or an object.
  std::variant<std::monostate, bool, std::int64_t, double, std::string, JsonList, JsonObject> value;
  friend bool operator==(const Json& a, const Json& b);
};

// Clang refuses a std::pair here: Json is not complete where its own value is declared.
struct JsonMember {
  std::string name;
  Json value;
  bool operator==(const JsonMember& other) const = default;
};

inline bool operator==(const Json& a, const Json& b) {
  return a.value == b.value;
}

}  // namespace millrace
