#include "schemas/validate.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "schemas/base/utf8.hpp"
#include "schemas/reader.hpp"

namespace millrace {
namespace {

using msgpack_reader::Fault;
using msgpack_reader::Reader;
using msgpack_reader::Token;
using msgpack_reader::Type;

std::unexpected<Error> malformed(std::size_t offset, const char* what) {
  return fail(Code::malformed_frame, std::string(what) + " at offset " + std::to_string(offset),
              "send exactly one msgpack object made by a msgpack library");
}
std::unexpected<Error> over(std::size_t offset, const char* what, std::uint64_t limit) {
  return fail(Code::limit_exceeded, std::string(what) + " at offset " + std::to_string(offset) +
                                        "; the limit is " + std::to_string(limit));
}

std::uint32_t key_hash(std::string_view key) {
  std::uint32_t h = 2166136261u;  // FNV-1a
  for (const char c : key) h = (h ^ static_cast<unsigned char>(c)) * 16777619u;
  return h;
}

// Where messages hold bodies: items of a list, or in each item of a list the value of a key.
struct BodyPlace {
  std::string_view list, key;
};
constexpr std::array<BodyPlace, 4> body_places = {
    {{"jobs", ""}, {"leases", "body"}, {"entries", "body"}, {"ends", "result"}}};

// One open array or map. To find duplicate keys of a map it keeps their hashes, and their places in
// the frame to compare the bytes of keys with equal hashes.
struct Level {
  bool map = false;
  bool want_key = false;
  std::uint32_t remaining = 0;  // items, or pairs whose value is still to come
  std::uint32_t keys = 0;
  std::array<std::uint32_t, limits::map_keys> hashes;
  std::array<std::uint32_t, limits::map_keys> sizes;
  std::array<const char*, limits::map_keys> places;

  std::string_view key() const { return {places[keys - 1], sizes[keys - 1]}; }  // the last one
};

class Walk {
 public:
  Walk(std::string_view bytes, const Bounds& bounds) : reader_(bytes), bounds_(bounds) {}

  Status run() {
    do {
      const std::size_t start = reader_.offset();
      Token token;
      switch (reader_.next(token)) {
        case Fault::none:
          break;
        case Fault::truncated:
          return malformed(start, "the bytes end inside an object");
        case Fault::reserved:
          return malformed(start, "the reserved byte 0xC1");
      }
      if (++nodes_ > bounds_.nodes) return over(start, "too many objects", bounds_.nodes);
      MILLRACE_TRY(bounds_.bodies_apart && at_body() ? skip(token, start) : visit(token, start));
    } while (depth_ > 0);
    if (reader_.left() != 0) return malformed(reader_.offset(), "more bytes after the object,");
    return {};
  }

 private:
  Status visit(const Token& token, std::size_t start) {
    if (depth_ > 0 && levels_[depth_ - 1].want_key) return key(token, start);
    if (token.type == Type::extension) {
      return malformed(start, "an extension type, which no message uses,");
    }
    if (token.type == Type::string && !utf8_valid(token.bytes)) {
      return fail(Code::invalid_utf8, "a string is not UTF-8 at offset " + std::to_string(start),
                  "send raw bytes as bin, text as UTF-8");
    }
    if (token.type == Type::array || token.type == Type::map) return open(token, start);
    close();
    return {};
  }

  // Whether the value that follows is a body: envelope.body.jobs[i], envelope.body.ends[i].result.
  bool at_body() const {
    if (depth_ != 3 && depth_ != 4) return false;
    const Level &envelope = levels_[0], &message = levels_[1], &list = levels_[2];
    const Level& last = levels_[depth_ - 1];
    if (!envelope.map || !message.map || list.map || last.want_key || last.map != (depth_ == 4)) {
      return false;
    }
    const std::string_view key = last.map ? last.key() : "";
    return envelope.key() == "body" && std::ranges::any_of(body_places, [&](const BodyPlace& at) {
             return at.list == message.key() && at.key == key;
           });
  }

  // Moves to the end of a body without a look at its strings, keys and depth.
  Status skip(Token token, std::size_t start) {
    for (std::uint64_t pending = 1; pending > 0;) {
      const std::uint64_t inside = token.type == Type::map
                                       ? 2 * std::uint64_t{token.count}
                                       : (token.type == Type::array ? token.count : 0);
      pending += inside - 1;
      if (pending > reader_.left()) return malformed(start, "a job or result that is cut off");
      if (pending == 0) break;
      if (reader_.next(token) != Fault::none) {
        return malformed(reader_.offset(), "a job or result that is cut off or has the byte 0xC1,");
      }
      if (++nodes_ > bounds_.nodes) return over(start, "too many objects", bounds_.nodes);
    }
    close();
    return {};
  }

  Status key(const Token& token, std::size_t start) {
    if (token.type != Type::string) return malformed(start, "a map key that is not a string,");
    if (!utf8_valid(token.bytes)) {
      return fail(Code::invalid_utf8, "a map key is not UTF-8 at offset " + std::to_string(start));
    }
    Level& level = levels_[depth_ - 1];
    const std::uint32_t hash = key_hash(token.bytes);
    for (std::uint32_t i = 0; i < level.keys; ++i) {
      if (level.hashes[i] == hash &&
          std::string_view(level.places[i], level.sizes[i]) == token.bytes) {
        return malformed(start, "a map key given twice");
      }
    }
    level.hashes[level.keys] = hash;
    level.sizes[level.keys] = static_cast<std::uint32_t>(token.bytes.size());
    level.places[level.keys] = token.bytes.data();
    ++level.keys;
    level.want_key = false;
    return {};
  }

  Status open(const Token& token, std::size_t start) {
    const bool map = token.type == Type::map;
    const std::uint64_t least = std::uint64_t{token.count} * (map ? 2 : 1);
    if (least > reader_.left()) {
      return malformed(start, map ? "a map that announces more pairs than bytes are left"
                                  : "an array that announces more items than bytes are left");
    }
    if (map && token.count > limits::map_keys) {
      return over(start, "a map with too many keys", limits::map_keys);
    }
    if (depth_ == bounds_.depth)
      return over(start, "arrays and maps nested too deep", bounds_.depth);
    if (token.count == 0) {
      close();
      return {};
    }
    Level& level = levels_[depth_++];
    level.map = map;
    level.want_key = map;
    level.remaining = token.count;
    level.keys = 0;
    return {};
  }

  // A value has ended, and with it the arrays and maps whose last value it was.
  void close() {
    while (depth_ > 0) {
      Level& level = levels_[depth_ - 1];
      if (--level.remaining > 0) {
        level.want_key = level.map;
        return;
      }
      --depth_;
    }
  }

  Reader reader_;
  const Bounds& bounds_;
  std::uint32_t nodes_ = 0;
  std::uint32_t depth_ = 0;
  std::array<Level, limits::message_depth> levels_;
};

}  // namespace

Status validate(std::string_view bytes, const Bounds& bounds) {
  if (bytes.size() > bounds.bytes) {
    return fail(
        Code::too_large,
        std::to_string(bytes.size()) + " bytes; the limit is " + std::to_string(bounds.bytes),
        "send it in smaller parts");
  }
  if (bounds.depth > limits::message_depth) return fail(Code::internal, "depth bound too large");
  return Walk(bytes, bounds).run();
}

}  // namespace millrace
