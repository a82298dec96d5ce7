#include "client/commands/serve_tokens.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/core/hub/open_model.hpp"
#include "http/problem.hpp"
#include "http/work_thread.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/utf8.hpp"
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

std::string text_of(const engine::Tokenizer& tokenizer, TokenId id) {
  return utf8_replace_invalid(tokenizer.token_bytes(id));
}

// llama-server's tokens with their pieces. A piece that is no text by itself, such as the half of a
// character, is an array of its bytes.
void write_pieces(JsonWriter& writer, const engine::Tokenizer& tokenizer, const Tokens& tokens) {
  writer.begin_array();
  for (const TokenId id : tokens) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    writer.begin_object().field("id", id).key("piece");
    if (utf8_valid(bytes)) {
      writer.value(bytes);
    } else {
      writer.begin_array();
      for (const char byte : bytes) writer.value(std::uint32_t{static_cast<std::uint8_t>(byte)});
      writer.end_array();
    }
    writer.end_object();
  }
  writer.end_array();
}

Result<std::string> tokenized(const ServedTexts& texts, const std::string& body) {
  const engine::Tokenizer& tokenizer = texts.tokenizer;
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
  MILLRACE_ASSIGN(const bool with_texts, flag(object, "return_token_strs", false));
  MILLRACE_ASSIGN(const bool with_pieces, flag(object, "with_pieces", false));
  const Tokens tokens = tokenizer.tokenize(text->get_ref<const std::string&>(), options);
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("count", std::uint64_t{tokens.size()});
  writer.field("max_model_len", texts.context_tokens).key("tokens");
  if (with_pieces) {
    write_pieces(writer, tokenizer, tokens);
  } else {
    openai::write_ids(writer, tokens);
  }
  if (with_texts) {
    writer.key("token_strs").begin_array();
    for (const TokenId id : tokens) writer.value(text_of(tokenizer, id));
    writer.end_array();
  }
  writer.end_object();
  return out;
}

Result<std::string> detokenized(const ServedTexts& texts, const std::string& body) {
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
      texts.tokenizer.detokenize(tokens, {.render_special = true, .drop_space_prefix = true}));
  std::string out;
  JsonWriter(out).begin_object().field("prompt", text).field("content", text).end_object();
  return out;
}

std::string tokenizer_info(const ServedTexts& texts) {
  const engine::Tokenizer& tokenizer = texts.tokenizer;
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("tokenizer_class", "gguf");
  const auto write = [&](const char* name, std::optional<TokenId> id) {
    writer.key(name);
    if (id) {
      writer.value(text_of(tokenizer, *id));
    } else {
      writer.null();
    }
  };
  write("bos_token", tokenizer.bos());
  write("eos_token", tokenizer.eos());
  writer.field("add_bos_token", tokenizer.adds_bos()).field("add_eos_token", tokenizer.adds_eos());
  writer.field("model_max_length", texts.context_tokens).key("chat_template");
  if (texts.chat_template.empty()) {
    writer.null();
  } else {
    writer.value(texts.chat_template);
  }
  writer.end_object();
  return out;
}

}  // namespace

Result<std::shared_ptr<const ServedTexts>> load_texts(const std::string& model_path) {
  MILLRACE_ASSIGN(const engine::GgufFile file, engine::open_model(model_path));
  const auto& metadata = file.metadata();
  MILLRACE_ASSIGN(auto tokenizer, engine::Tokenizer::load(metadata));
  MILLRACE_ASSIGN(const auto family, metadata.get<std::string_view>("general.architecture"));
  // What is wrong with these is the engine's to say.
  const auto chat = metadata.get_or<std::string_view>("tokenizer.chat_template", {}).value_or("");
  const auto context =
      metadata.get_or<std::uint64_t>(std::string(family) + ".context_length", 0).value_or(0);
  return std::make_shared<const ServedTexts>(
      ServedTexts{std::move(tokenizer), std::string(chat), context});
}

void add_token_routes(http::Routes& routes, std::shared_ptr<const ServedTexts> texts) {
  using Answer = Result<std::string> (*)(const ServedTexts&, const std::string&);
  // A long text takes seconds, in which the server's thread has others to serve.
  const auto thread = std::make_shared<http::WorkThread>(most_waiting);
  const auto add = [&](const char* path, Answer answer) {
    const auto handler = [texts, answer, thread](const std::shared_ptr<http::Exchange>& exchange) {
      const bool taken = thread->add([texts, answer, exchange] {
        if (exchange->gone()) return;
        auto body = answer(*texts, exchange->take_body());
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
  const auto info = std::make_shared<const std::string>(tokenizer_info(*texts));
  routes.add("GET", "/tokenizer_info", [info](const std::shared_ptr<http::Exchange>& exchange) {
    exchange->respond({.status = 200, .body = *info, .type = "application/json", .headers = {}});
  });
}

}  // namespace millrace::client
