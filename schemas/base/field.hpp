#pragma once
// The forms in the tables of fields (request_fields.hpp, schemas/job_fields.hpp): each says which
// values a field accepts. The same declaration serves the check of a value, the hint of an error,
// the JSON Schema and the documentation. Thread safety: plain values, pure functions.
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// A number in this range. Outside of it: invalid_value.
struct Range {
  double least = 0, most = 0;
  bool above_least = false;  // the least itself is not allowed
};

// A count of something that costs time or memory. Above the most: limit_exceeded; below the least:
// invalid_value.
struct Count {
  std::uint64_t most = 0;
  std::uint64_t least = 0;
};

struct UnixTime {};  // in microseconds, after 1970

// A label: text without control characters.
struct Label {
  std::uint64_t most_bytes = 0;
  bool required = false;         // must not be empty
  bool false_is_absent = false;  // false means absent: OpenAI's `stream: false` names no stream
};

struct Text {
  std::uint64_t most_bytes = 0;
  bool required = false;  // must not be empty
};

struct Texts {  // a list of texts, none of them empty
  std::uint64_t most = 0, most_bytes = 0;
  bool or_one = false;  // a single string counts as a list of one
};

// Token ids, as `bin` of uint32 or as an array.
struct Ids {
  std::uint64_t most = 0;
  bool each_once = false;
  bool none_is_wrong = false;  // an empty list is refused
};
struct IdLists {  // sequences of token ids, none of them empty
  std::uint64_t most = 0, most_ids = 0;
};

struct Biases {  // a number for each of some token ids
  std::uint64_t most = 0;
  double value = 0;  // the largest, of either sign
};

struct Dictionary {  // strings by name
  std::uint64_t most = 0, most_bytes = 0;
};

struct Parts {  // a list of maps, each with a table of its own
  std::uint64_t most = 0;
};
struct Part {};  // a map with a table of its own
struct Labels {  // a list of labels, none of them empty
  std::uint64_t most = 0, most_bytes = 0;
};

// JSON objects that the chat template sees.
struct Objects {
  std::uint64_t most = 0;
};
// A word of an enumeration, beside OpenAI's other values, which are known and not supported.
struct Word {};
// JSON values by name: variables of the chat template.
struct Variables {
  std::uint64_t most = 0;
};

// One of several fields that give the same value in different forms, here the prompt. T is the
// alternative of the variant that this field sets.
template <class T>
struct Alternative {
  std::uint64_t most = 0;  // of a chat: messages
};

// true or false: whether the result has logprobs of the sampled tokens. A number, as in OpenAI's
// completions: the same as true, and how many likeliest tokens get logprobs beside them.
struct FlagOrTop {
  std::uint64_t most = 0;
};

// The values of a known but unsupported field that change nothing. Null is always one of them.
enum Neutral : std::uint32_t {
  neutral_null = 0,
  neutral_false = 1,
  neutral_true = 2,
  neutral_zero = 4,
  neutral_one = 8,
  neutral_empty = 16,         // "", [] or {}
  neutral_any = 32,           // the field never changes the text
  neutral_none_or_auto = 64,  // "none" or "auto"
  neutral_text = 128,         // "text", ["text"] or {"type": "text"}
};

// The limits as text for people: "0 to 2", "1 to 128", "up to 64 texts of up to 1024 bytes". Empty
// where there are none.
std::string limits_text(const Range& range);
std::string limits_text(const Count& count);
std::string limits_text(UnixTime);
std::string limits_text(const Label& label);
std::string limits_text(const Text& text);
std::string limits_text(const Texts& texts);
std::string limits_text(const Ids& ids);
std::string limits_text(const IdLists& lists);
std::string limits_text(const Biases& biases);
std::string limits_text(const Dictionary& dictionary);
std::string limits_text(const Parts& parts);
std::string limits_text(Part);
std::string limits_text(const Labels& labels);
std::string limits_text(const FlagOrTop& form);
std::string limits_text(Word);
std::string limits_text(const Objects& form);
std::string limits_text(const Variables& form);
template <class T>
std::string limits_text(const Alternative<T>& form) {
  return form.most == 0 ? "" : "up to " + std::to_string(form.most) + " messages";
}

}  // namespace millrace
