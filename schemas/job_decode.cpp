// Decodes a job: a visitor of the table of fields reads each field that the job's map holds.
// OpenAI's request bodies are jobs too. Their names are the same, and null means absent everywhere,
// because OpenAI's clients send it.
#include <algorithm>
#include <optional>

#include "schemas/base/check_field.hpp"
#include "schemas/base/check_request.hpp"
#include "schemas/codec.hpp"
#include "schemas/job_fields.hpp"
#include "schemas/job_table.hpp"
#include "schemas/job_values.hpp"
#include "schemas/validate.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Path;
using wire::peek;
using wire::Reader;
using wire::Token;
using wire::Type;

// Reads a map whose fields a table declares.
class MapReader {
 public:
  // Moves `in` from the map to its end. `path` must outlive this reader; it is null for a whole
  // job.
  MapReader(Reader& in, const Path* path, UnknownNames& unknown) : path_(path), unknown_(unknown) {
    const Token map = next(in);
    if (map.type != Type::map) {
      status_ = wire::wrong_type(path == nullptr ? Path{nullptr, "job"} : *path, "a map", map);
      return;
    }
    for (std::uint32_t i = 0; i < map.count; ++i) {
      const std::string_view key = next(in).bytes;
      given_.push_back({key, in, peek(in).type == Type::nil});
      wire::skip(in);
    }
  }

  template <class T, class... Rest>
  void field(std::string_view name, T& out, const Rest&... rest) {
    if (Given* given = take(name)) status_ = read(given->value, Path{path_, name}, out, rest...);
  }
  void beside(std::string_view name, auto& out, const auto&... rest) { field(name, out, rest...); }
  void required(std::string_view name, auto& out, const auto&... rest) {
    field(name, out, rest...);
    if (status_ && !holds(name)) {
      status_ = fail(Code::missing_field, Path{path_, name}.text() + " is absent");
    }
  }
  template <class T>
  void alias(std::string_view name, T& out, const auto& form, std::string_view main_name) {
    Given* given = take(name);
    if (given == nullptr) return;
    T value{};
    status_ = read(given->value, Path{path_, name}, value, form, name);
    if (status_ && holds(main_name) && value != out) {
      status_ = fail(Code::invalid_value,
                     Path{path_, name}.text() + ": differs from " + std::string(main_name),
                     "give one of them");
    }
    out = value;
  }
  void known(std::string_view name, std::uint32_t allowed, std::string_view accepted) {
    Given* given = take(name);
    if (given == nullptr || neutral(given->value, allowed)) return;
    status_ = unsupported(Path{path_, name}.text(), accepted);
  }

  // Whether there is a value; null is none.
  bool holds(std::string_view name) const {
    const auto at = std::ranges::find(given_, name, &Given::name);
    return at != given_.end() && !at->null;
  }
  // Returns the first error, or success. Adds names that no field has to `unknown`.
  Status finish() {
    for (const Given& given : given_) {
      if (!given.read) unknown_.push_back(wire::shown(Path{path_, given.name}.text()));
    }
    return std::move(status_);
  }

 private:
  struct Given {
    std::string_view name;
    Reader value;
    bool null = false, read = false;
  };
  Given* take(std::string_view name) {
    const auto at = std::ranges::find(given_, name, &Given::name);
    if (!status_ || at == given_.end()) return nullptr;
    at->read = true;
    return at->null ? nullptr : &*at;
  }

  // ---- values, by type and form
  template <class T>
  Status read(Reader& in, const Path& path, std::optional<T>& out, const auto&... rest) {
    return read(in, path, out.emplace(), rest...);
  }
  template <class T>
  Status read(Reader& in, const Path& path, T& out, const auto&...) {
    if constexpr (std::is_enum_v<T>) {
      return read_word(in, path, out);
    } else {
      return wire::read(in, path, out);
    }
  }
  Status read(Reader& in, const Path& path, std::string& out, const Label& form, const auto&) {
    return form.false_is_absent ? read_stream(in, path, out) : wire::read(in, path, out);
  }
  Status read(Reader& in, const Path& path, std::vector<std::string>& out, const Texts& form,
              const auto&) {
    return read_texts(in, path, form.or_one, out);
  }
  Status read(Reader& in, const Path& path, Tokens& out, const Ids& form, const auto&) {
    MILLRACE_TRY(read_token_ids(in, path, out));
    if (!form.none_is_wrong || !out.empty()) return {};
    return fail(Code::invalid_value, path.text() + " is empty", "give ids, or leave it out");
  }
  Status read(Reader& in, const Path& path, std::vector<Tokens>& out, const IdLists&, const auto&) {
    return read_id_lists(in, path, out);
  }
  Status read(Reader& in, const Path& path, std::vector<LogitBias>& out, const Biases&,
              const auto&) {
    return read_biases(in, path, out);
  }
  Status read(Reader& in, const Path& path, LogprobRequest& out, const FlagOrTop& form,
              const auto&) {
    if (peek(in).type == Type::boolean) return wire::read(in, path, out.sampled);
    std::uint32_t top = 0;
    if (wire::whole(peek(in)).type != Type::integer) {
      return wire::wrong_type(path, "true, false or a whole number", peek(in));
    }
    MILLRACE_TRY(wire::read(in, path, top));
    MILLRACE_TRY(check_value(path.text(), std::uint64_t{top}, Count{form.most}));
    out.sampled = true;
    if (holds("top_logprobs") && out.top != top) {
      return fail(Code::invalid_value, "top_logprobs: differs from the number given as logprobs",
                  "give one of them, or the same number twice");
    }
    out.top = top;
    return {};
  }
  Status read(Reader& in, const Path& path, MarkerRequest& out, const Parts&, const auto&) {
    const Token token = peek(in);
    if (token.type == Type::string) {
      const std::string_view word = next(in).bytes;
      out.known = wire::from_name<KnownMarkers>(word);
      if (out.known) return {};
      return wire::wrong_value(path, "unknown value " + wire::shown(word),
                               "use none, reasoning, auto, or an array of {part, open, close}");
    }
    if (token.type != Type::array) {
      return wire::wrong_type(path, "none, reasoning, auto or an array of markers", token);
    }
    next(in);
    if (token.count == 0) out.known = KnownMarkers::none;
    for (std::uint32_t i = 0; i < token.count; ++i) {
      MILLRACE_TRY(read_part(in, Path{&path, {}, i}, out.list.emplace_back()));
    }
    return {};
  }
  template <class T>
  Status read(Reader& in, const Path& path, T& out, const Part&, const auto&) {
    MILLRACE_TRY(read_part(in, path, out));
    // A part that is present must have its required fields: its defaults mean "off".
    FieldChecker checker(path.text() + ".");
    fields(checker, std::as_const(out));
    return std::move(checker).take();
  }
  Status read(Reader& in, const Path& path, JsonList& out, const Objects&, const auto&) {
    return read_json_as(in, path, out, "an array of objects");
  }
  Status read(Reader& in, const Path& path, JsonObject& out, const Variables&, const auto&) {
    return read_json_as(in, path, out, "a map");
  }
  template <class T>
  static Status read_json_as(Reader& in, const Path& path, T& out, std::string_view wanted) {
    Json json;
    const Token token = peek(in);
    MILLRACE_TRY(read_json(in, path, json));
    T* value = std::get_if<T>(&json.value);
    if (value == nullptr) return wire::wrong_type(path, wanted, token);
    out = std::move(*value);
    return {};
  }
  template <class T>
  Status read(Reader& in, const Path& path, T& out, const Word&, const auto&) {
    const Token token = peek(in);
    const auto value = token.type == Type::string ? wire::from_name<T>(token.bytes) : std::nullopt;
    if (!value) return unsupported(path.text(), "auto or none");
    wire::skip(in);
    out = *value;
    return {};
  }
  template <class T>
  Status read(Reader& in, const Path& path, Prompt& out, const Alternative<T>&, const auto&) {
    if (!prompt_field_.empty()) {
      return fail(Code::invalid_value, path.text() + ": given beside " + std::string(prompt_field_),
                  "give one of prompt, tokens and messages");
    }
    prompt_field_ = path.name;
    if constexpr (std::is_same_v<T, Tokens>) {
      return read_token_ids(in, path, out.emplace<Tokens>());
    } else if constexpr (std::is_same_v<T, Chat>) {
      return read_messages(in, path, out.emplace<Chat>());
    } else {
      return read_prompt(in, path, out);
    }
  }
  template <class T>
  Status read_part(Reader& in, const Path& path, T& out) {
    MapReader inner(in, &path, unknown_);
    fields(inner, out);
    return inner.finish();
  }

  const Path* path_;
  UnknownNames& unknown_;
  std::vector<Given> given_;
  std::string_view prompt_field_;
  Status status_;
};

// Collects the names of the fields of a table that the job's map holds, under their main names.
class GivenNames {
 public:
  explicit GivenNames(const MapReader& reader) : reader_(reader) {}
  void field(std::string_view name, const auto&...) {
    if (reader_.holds(name)) names.emplace_back(name);
  }
  void alias(std::string_view name, const auto&, const auto&, std::string_view main_name) {
    if (reader_.holds(name) && !reader_.holds(main_name)) names.emplace_back(main_name);
  }
  std::vector<std::string> names;

 private:
  const MapReader& reader_;
};

// Where a model's sampling fills the gaps, what the job gives counts even if it is a default.
void keep_given_sampling(const MapReader& reader, GenerationRequest& request) {
  if (request.sampling_source != SamplingSource::model) return;
  GivenNames given(reader);
  fields(given, std::as_const(request.sampling));
  fields(given, std::as_const(request.edits));
  request.given_sampling = std::move(given.names);
}

// The result repeats the warnings, so their number is bounded.
std::vector<std::string> warnings_about(const UnknownNames& unknown) {
  const std::size_t told = std::min<std::size_t>(unknown.size(), limits::job_warnings);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < told; ++i) {
    out.push_back("unknown field " + unknown[i] + " was left out");
  }
  if (told < unknown.size()) {
    out.push_back(std::to_string(unknown.size() - told) + " more unknown fields were left out");
  }
  return out;
}

Result<DecodedJob> read_job(std::string_view body) {
  UnknownNames unknown;
  Job job;
  Reader in(body);
  MapReader reader(in, nullptr, unknown);
  fields(reader, job);
  MILLRACE_TRY(reader.finish());
  keep_given_sampling(reader, job.request);
  if (!reader.holds("prompt") && !reader.holds("tokens") && !reader.holds("messages")) {
    return fail(Code::missing_field, "prompt: absent", "give one of prompt, tokens and messages");
  }
  // A value that is the default is a mistake, too, and only shows here.
  for (const char* field : {"parse_special", "add_special_tokens"}) {
    if (reader.holds(field)) MILLRACE_TRY(check_special_field(job.request, field));
  }
  if (job.strict && !unknown.empty()) {
    return fail(Code::unknown_field, "unknown field " + unknown.front() + " in a strict job",
                "correct its name, or leave it or `strict` out");
  }
  if (job.request.task == Task::score) job.request.logprobs.prompt = true;
  MILLRACE_TRY(check_job(job));
  return DecodedJob{std::move(job), warnings_about(unknown)};
}

}  // namespace

Result<DecodedJob> decode_job(std::string_view body) {
  MILLRACE_TRY(validate(body, job_bounds));
  auto decoded = read_job(body);
  if (!decoded) return fail(with_hint(std::move(decoded).error()));
  return decoded;
}

}  // namespace millrace
