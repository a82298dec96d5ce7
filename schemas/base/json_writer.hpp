#pragma once
// Writes JSON text into a string, in the order of the calls. A float gets the shortest digits that
// read back as the same bits; NaN and infinities become null, because JSON has neither.
// Thread safety: one thread.
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);  // damaged UTF-8 is replaced by U+FFFD
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint32_t number) { return value(std::uint64_t{number}); }
  JsonWriter& value(int number) { return value(std::int64_t{number}); }
  JsonWriter& value(double number);
  JsonWriter& value(float number);
  JsonWriter& value(bool truth);
  JsonWriter& null();
  JsonWriter& raw(std::string_view json);  // one value, already JSON

  template <class T>
  JsonWriter& field(std::string_view name, const T& v) {
    key(name);
    return value(v);
  }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();

  std::string& out_;
  bool need_comma_ = false;
};

}  // namespace millrace
