#include "client/lines/checkpoint.hpp"

#include <nlohmann/json.hpp>

#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {

Status save_checkpoint(Env& env, const std::string& path, const Checkpoint& checkpoint) {
  std::string text;
  JsonWriter(text)
      .begin_object()
      .field("epoch", checkpoint.epoch)
      .field("number", checkpoint.number)
      .field("output_bytes", checkpoint.output_bytes)
      .field("errors_bytes", checkpoint.errors_bytes)
      .end_object();
  text += '\n';
  return write_file_atomically(env, path, text);
}

Result<Checkpoint> load_checkpoint(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(const bool known, env.exists(path));
  if (!known) {
    return Checkpoint{};
  }
  MILLRACE_ASSIGN(const std::string text, read_file(env, path, limits::MiB));
  try {
    const auto value = nlohmann::json::parse(text);
    Checkpoint checkpoint;
    value.at("epoch").get_to(checkpoint.epoch);
    value.at("number").get_to(checkpoint.number);
    value.at("output_bytes").get_to(checkpoint.output_bytes);
    checkpoint.errors_bytes = value.value("errors_bytes", std::uint64_t{0});
    return checkpoint;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::ledger_corrupt, path + " cannot be read: " + error.what(),
                "remove that file: the run then writes the output again from the ledger");
  }
}

}  // namespace millrace::client
