#pragma once
// Visitors of the field tables that write msgpack; private to the codec. A value with a table
// becomes a map; token ids and logprobs become `bin`; enumerations become words.
// Thread safety: plain values.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "schemas/base/changed_fields.hpp"
#include "schemas/describe.hpp"
#include "schemas/names.hpp"
#include "schemas/pack.hpp"

namespace millrace::wire {

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

std::size_t count_pairs(const auto& value);
void write_map(Packer& out, const auto& value);

// ---- JSON
inline void write_json(Packer& out, const Json& json);
inline void write_json(Packer& out, const JsonObject& object) {
  out.map(object.size());
  for (const auto& [name, value] : object) {
    out.value(name);
    write_json(out, value);
  }
}
inline void write_json(Packer& out, const JsonList& list) {
  out.array(list.size());
  for (const Json& value : list) write_json(out, value);
}
inline void write_json(Packer& out, const Json& json) {
  const auto write = [&](const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      out.nil();
    } else if constexpr (std::is_same_v<T, JsonList> || std::is_same_v<T, JsonObject>) {
      write_json(out, value);
    } else {
      out.value(value);
    }
  };
  std::visit(write, json.value);
}

// ---- one value
template <class T>
void write_value(Packer& out, const T& value) {
  if constexpr (std::is_same_v<T, Code>) {
    out.value(code_name(value));
  } else if constexpr (std::is_enum_v<T>) {
    out.value(to_name(value));
  } else if constexpr (requires { out.value(value); }) {
    out.value(value);
  } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
    out.dictionary(value);
  } else {
    write_map(out, value);
  }
}
inline void write_value(Packer& out, const Tokens& ids) {
  out.words(ids);
}
inline void write_value(Packer& out, const std::vector<float>& logprobs) {
  out.words(logprobs);
}
inline void write_value(Packer& out, const JsonList& list) {
  write_json(out, list);
}
inline void write_value(Packer& out, const JsonObject& object) {
  write_json(out, object);
}
inline void write_value(Packer& out, const LogitBias& bias) {
  out.array(2);
  out.value(bias.token);
  out.value(bias.bias);
}
template <class T>
void write_value(Packer& out, const std::vector<T>& list) {
  out.array(list.size());
  for (const T& item : list) write_value(out, item);
}
inline void write_value(Packer& out, const MarkerRequest& markers) {
  if (markers.known) return out.value(to_name(*markers.known));
  if (markers.list.empty()) return out.nil();  // by the kind of the prompt
  write_value(out, markers.list);
}
inline void write_value(Packer& out, const ChatMessage& message) {
  const bool parts = !message.parts.empty();
  out.map(1 + (parts || message.content ? 1 : 0) + message.more.size());
  out.value("role");
  out.value(message.role);
  if (parts) {
    out.value("content");
    out.array(message.parts.size());
    for (const std::string& text : message.parts) {
      write_json(out, JsonObject{{"type", {"text"}}, {"text", {text}}});
    }
  } else if (message.content) {
    out.value("content");
    out.value(*message.content);
  }
  for (const auto& [name, value] : message.more) {
    out.value(name);
    write_json(out, value);
  }
}

// ---- the fields of a table
struct FieldBytes {
  std::string_view name;
  std::string bytes;
};

// Whether a field has its default. Floats are compared as they are written: -0 is not 0.
template <class T>
bool same(const T& value, const T& standard) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(standard);
  } else if constexpr (IsOptional<T>::value) {
    return value && standard ? same(*value, *standard) : value.has_value() == standard.has_value();
  } else {
    return value == standard;
  }
}

// Writes the fields that differ from those of `standard`, those without a default, and those named
// in `given_names`.
class ChangedFields {
 public:
  ChangedFields(const FieldAddresses& standard, const std::vector<std::string>& given_names)
      : standard_(standard), given_names_(given_names) {}

  template <class T>
  void field(std::string_view name, const T& value, const auto&...) {
    if (same(value, next<T>()) && !given(name)) return;
    if constexpr (IsOptional<T>::value) {
      if (value) add(name, *value);
    } else {
      add(name, value);
    }
  }
  template <class T>
  void field(std::string_view name, const Prompt& prompt, const Alternative<T>&, const auto&) {
    next<Prompt>();
    if (const T* held = std::get_if<T>(&prompt)) add(name, *held);
  }
  void field(std::string_view name, const LogprobRequest& logprobs, const FlagOrTop&, const auto&) {
    if (logprobs.sampled != next<LogprobRequest>().sampled || given(name)) {
      add(name, logprobs.sampled);
    }
  }
  void beside(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
  }
  void alias(const auto&...) {}
  void known(const auto&...) {}

  std::vector<FieldBytes> list;  // in the table's order

 private:
  template <class T>
  const T& next() {
    return *static_cast<const T*>(standard_[index_++]);
  }
  bool given(std::string_view name) const {
    return std::ranges::find(given_names_, name) != given_names_.end();
  }
  void add(std::string_view name, const auto& value) {
    Packer bytes;
    write_value(bytes, value);
    list.push_back({name, std::move(bytes).take()});
  }

  const FieldAddresses& standard_;
  const std::vector<std::string>& given_names_;
  std::size_t index_ = 0;
};

// The fields of `value` that differ from those of a default-constructed T, and those named in
// `given_names`. `walk` passes the fields of either to a visitor.
template <class T, class Walk>
std::vector<FieldBytes> changed_fields(const T& value, Walk walk,
                                       const std::vector<std::string>& given_names = {}) {
  static const T standard{};
  static const FieldAddresses addresses = [&] {
    FieldAddresses of;
    walk(of, standard);
    return of;
  }();
  ChangedFields changed(addresses, given_names);
  walk(changed, value);
  return std::move(changed.list);
}
template <class T>
std::vector<FieldBytes> changed_fields(const T& value) {
  return changed_fields(value, [](auto& v, const T& of) { fields(v, of); });
}

inline std::string map_of(const std::vector<FieldBytes>& list) {
  Packer out;
  out.map(list.size());
  for (const FieldBytes& field : list) {
    out.value(field.name);
    out.raw(field.bytes);
  }
  return std::move(out).take();
}

// ---- a map with all its fields
class PairCounter {
 public:
  template <class T>
  void field(std::string_view, const T& value, const auto&...) {
    if constexpr (IsOptional<T>::value) {
      if (!value) return;
    }
    ++pairs;
  }
  void required(std::string_view name, const auto& value, const auto&...) { field(name, value); }
  void sparse(const auto& part) { pairs += changed_fields(part).size(); }
  void body(const auto&...) { ++pairs; }
  void optional_body(std::string_view, const Body& bytes, const auto&...) {
    if (!bytes.empty()) ++pairs;
  }
  void bodies(const auto&...) { ++pairs; }
  void alias(const auto&...) {}

  std::size_t pairs = 0;
};

class MapWriter {
 public:
  explicit MapWriter(Packer& out) : out_(out) {}

  template <class T>
  void field(std::string_view name, const T& value, const auto&...) {
    if constexpr (IsOptional<T>::value) {
      if (!value) return;
      out_.value(name);
      write_value(out_, *value);
    } else {
      out_.value(name);
      write_value(out_, value);
    }
  }
  void required(std::string_view name, const auto& value, const auto&...) { field(name, value); }
  void sparse(const auto& part) {
    for (const FieldBytes& field : changed_fields(part)) raw(field.name, field.bytes);
  }
  void body(std::string_view name, const Body& bytes, const auto&...) { raw(name, bytes); }
  void optional_body(std::string_view name, const Body& bytes, const auto&...) {
    if (!bytes.empty()) raw(name, bytes);
  }
  void bodies(std::string_view name, const std::vector<Body>& list, const auto&...) {
    out_.value(name);
    out_.array(list.size());
    for (const Body& bytes : list) out_.raw(bytes);
  }
  void alias(const auto&...) {}

 private:
  void raw(std::string_view name, std::string_view bytes) {
    out_.value(name);
    out_.raw(bytes);
  }
  Packer& out_;
};

inline std::size_t count_pairs(const auto& value) {
  PairCounter counter;
  fields(counter, value);
  return counter.pairs;
}

void write_map(Packer& out, const auto& value) {
  out.map(count_pairs(value));
  MapWriter writer(out);
  fields(writer, value);
}

}  // namespace millrace::wire
