// Values to msgpack: messages and results. Every field is written, absent optional ones left out,
// so that a reader need not know the defaults. Jobs are encoded in job_encode.cpp.
#include <optional>
#include <type_traits>

#include "schemas/codec.hpp"
#include "schemas/describe.hpp"
#include "schemas/names.hpp"
#include "schemas/pack.hpp"

namespace millrace {
namespace {

using wire::Packer;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

// How many pairs the map of a message will have.
struct Counter {
  std::size_t pairs = 0;
  template <class T>
  void field(const char*, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (!value) return;
    }
    ++pairs;
  }
  void required(const char* name, const auto& value) { field(name, value); }
  void body(const char*, const Body&) { ++pairs; }
  void bodies(const char*, const std::vector<Body>&) { ++pairs; }
};

class Encoder {
 public:
  explicit Encoder(Packer& out) : out_(out) {}

  void map_of(const auto& message) {
    Counter counter;
    wire::describe(counter, message);
    out_.map(counter.pairs);
    wire::describe(*this, message);
  }

  template <class T>
  void field(const char* name, const T& value) {
    if constexpr (IsOptional<T>::value) {
      if (!value) return;
      out_.value(name);
      put(*value);
    } else {
      out_.value(name);
      put(value);
    }
  }
  void required(const char* name, const auto& value) { field(name, value); }
  void body(const char* name, const Body& bytes) {
    out_.value(name);
    out_.raw(bytes);
  }
  void bodies(const char* name, const std::vector<Body>& list) {
    out_.value(name);
    out_.array(list.size());
    for (const Body& bytes : list) out_.raw(bytes);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, Code>) {
      out_.value(code_name(value));
    } else if constexpr (std::is_enum_v<T>) {
      out_.value(wire::to_name(value));
    } else if constexpr (requires { out_.value(value); }) {
      out_.value(value);
    } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      out_.dictionary(value);
    } else {
      map_of(value);
    }
  }
  void put(const Tokens& ids) { out_.words(ids); }
  void put(const std::vector<float>& logprobs) { out_.words(logprobs); }
  template <class T>
  void put(const std::vector<T>& list) {
    out_.array(list.size());
    for (const T& item : list) put(item);
  }

  Packer& out_;
};

}  // namespace

std::string encode(const Envelope& envelope) {
  Packer out;
  out.map(4);
  out.value("v");
  out.value(protocol_version);
  out.value("kind");
  out.value(kind_name(envelope.message));
  out.value("id");
  out.value(envelope.id);
  out.value("body");
  Encoder encoder(out);
  std::visit([&](const auto& message) { encoder.map_of(message); }, envelope.message);
  return std::move(out).take();
}

std::string encode_result(const JobResult& result) {
  Packer out;
  Encoder(out).map_of(result);
  return std::move(out).take();
}

std::string_view kind_name(const Message& message) {
  return wire::kinds[message.index()];
}
std::span<const std::string_view> kind_names() {
  return wire::kinds;
}
std::string_view wire_name(JobState state) {
  return wire::to_name(state);
}
std::string_view wire_name(FinishReason reason) {
  return wire::to_name(reason);
}
std::string_view wire_name(Task task) {
  return wire::to_name(task);
}
std::string_view wire_name(LogprobMode mode) {
  return wire::to_name(mode);
}
std::string_view wire_name(PenaltyScope scope) {
  return wire::to_name(scope);
}
std::string_view wire_name(MarkedPart part) {
  return wire::to_name(part);
}
std::string_view wire_name(Role role) {
  return wire::to_name(role);
}

}  // namespace millrace
