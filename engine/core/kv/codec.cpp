#include "engine/core/kv/codec.hpp"

namespace millrace::engine {
namespace {

Result<KvCodec> parse_codec(std::string_view text) {
  if (text == "f16") return KvCodec::f16;
  return fail(Code::invalid_value, "unknown KV codec \"" + std::string(text) + "\"",
              "this version stores keys and values as \"f16\"");
}

}  // namespace

std::string_view codec_name(KvCodec codec) {
  switch (codec) {
    case KvCodec::f16:
      return "f16";
  }
  return "unknown";
}

std::string KvPolicy::name() const {
  return std::string(codec_name(key)) + "/" + std::string(codec_name(value));
}

Result<KvPolicy> parse_kv_policy(std::string_view text) {
  const auto slash = text.find('/');
  const std::string_view key = text.substr(0, slash);
  const std::string_view value = slash == std::string_view::npos ? key : text.substr(slash + 1);
  KvPolicy policy;
  MILLRACE_ASSIGN(policy.key, parse_codec(key));
  MILLRACE_ASSIGN(policy.value, parse_codec(value));
  return policy;
}

std::uint64_t codec_bytes(KvCodec codec, std::uint32_t tokens, std::uint32_t head_dim) {
  switch (codec) {
    case KvCodec::f16:
      return std::uint64_t{2} * tokens * head_dim;
  }
  return 0;
}

}  // namespace millrace::engine
