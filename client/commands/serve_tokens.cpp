#include "client/commands/serve_tokens.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "http/problem.hpp"
#include "http/work_thread.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/openai/check_json.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

constexpr std::uint64_t body_bytes = limits::MiB;
constexpr std::size_t most_waiting = 16;  // requests, of so many bytes each

Result<json> object_of(const std::string& body) {
  MILLRACE_TRY(openai::check_json(body));
  json object = json::parse(body, nullptr, false);
  if (object.is_object()) return object;
  return fail(Code::invalid_json, "the body is no object", "write it like {\"prompt\": \"text\"}");
}

Result<bool> flag(const json& object, const char* name, bool fallback) {
  const auto at = object.find(name);
  if (at == object.end() || at->is_null()) return fallback;
  if (at->is_boolean()) return at->get<bool>();
  return fail(Code::invalid_value, std::string(name) + " is not true or false", "leave it out");
}

Result<std::string> tokenized(const engine::Tokenizer& tokenizer, const std::string& body) {
  MILLRACE_ASSIGN(const json object, object_of(body));
  const bool content = object.contains("content");
  const char* const name = content ? "content" : "prompt";
  const auto text = object.find(name);
  if (text == object.end() || !text->is_string()) {
    return fail(Code::missing_field, "prompt is absent, or no text",
                "give the text as `prompt` or `content`");
  }
  engine::TokenizeOptions options;
  MILLRACE_ASSIGN(options.add_special_tokens, content ? flag(object, "add_special", false)
                                                      : flag(object, "add_special_tokens", true));
  MILLRACE_ASSIGN(options.parse_special, flag(object, "parse_special", true));
  const Tokens tokens = tokenizer.tokenize(text->get_ref<const std::string&>(), options);
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("count", std::uint64_t{tokens.size()}).key("tokens");
  openai::write_ids(writer, tokens);
  writer.end_object();
  return out;
}

Result<std::string> detokenized(const engine::Tokenizer& tokenizer, const std::string& body) {
  MILLRACE_ASSIGN(const json object, object_of(body));
  const auto ids = object.find("tokens");
  Tokens tokens;
  bool sound = ids != object.end() && ids->is_array();
  for (std::size_t i = 0; sound && i < ids->size(); ++i) {
    sound = (*ids)[i].is_number_unsigned() && (*ids)[i].get<std::uint64_t>() <= UINT32_MAX;
    if (sound) tokens.push_back((*ids)[i].get<TokenId>());
  }
  if (!sound) {
    return fail(Code::invalid_value, "tokens is absent, or no array of token ids",
                "write it like {\"tokens\": [1, 2, 3]}");
  }
  MILLRACE_ASSIGN(
      const std::string text,
      tokenizer.detokenize(tokens, {.render_special = true, .drop_space_prefix = true}));
  std::string out;
  JsonWriter(out).begin_object().field("prompt", text).field("content", text).end_object();
  return out;
}

}  // namespace

void add_token_routes(http::Routes& routes, std::shared_ptr<const engine::Tokenizer> tokenizer) {
  using Answer = Result<std::string> (*)(const engine::Tokenizer&, const std::string&);
  // A long text takes seconds, in which the server's thread has others to serve.
  const auto thread = std::make_shared<http::WorkThread>(most_waiting);
  const auto add = [&](const char* path, Answer answer) {
    const auto handler = [tokenizer, answer,
                          thread](const std::shared_ptr<http::Exchange>& exchange) {
      const bool taken = thread->add([tokenizer, answer, exchange] {
        if (exchange->gone()) return;
        auto body = answer(*tokenizer, exchange->take_body());
        exchange->respond(body ? http::Response{.status = 200,
                                                .body = *std::move(body),
                                                .type = "application/json",
                                                .headers = {}}
                               : http::problem(body.error()));
      });
      if (taken) return;
      exchange->respond(http::problem(
          {Code::overloaded, "many texts wait for the tokenizer", "send it again later", 1'000},
          503));
    };
    routes.add("POST", path, handler, body_bytes);
  };
  add("/tokenize", tokenized);
  add("/detokenize", detokenized);
}

}  // namespace millrace::client
