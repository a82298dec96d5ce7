#pragma once
// Writes the parts of a result that all its forms share. Thread safety: as JsonWriter.
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "schemas/base/json_writer.hpp"
#include "schemas/job.hpp"

namespace millrace::openai {

// Returns the job's custom_id, or the id that its line gave instead; empty if it gave neither.
std::string label_of(const JobResult& result);
// Returns the broker's warnings (unknown fields) and the client's: a custom_id that was used
// before, another model than the job names.
std::vector<std::string> warnings_of(const JobResult& result);
// Adds those of another job of the same request, each warning once.
void add_warnings(std::vector<std::string>& to, const JobResult& result);
// Writes them as the member `millrace` of the open object of an answer; without warnings nothing.
void write_warnings(JsonWriter& json, std::span<const std::string> warnings);
// Returns why the job gave no result, or not the whole of it; nothing: it is completed.
std::optional<Error> error_of(const JobResult& result);

void add_usage(Usage& to, const Usage& more);
// Writes {prompt_tokens, completion_tokens, total_tokens} and OpenAI's details.
void write_usage(JsonWriter& json, const Usage& usage);
// Writes state, attempts, warnings, metadata and the queue's times as members of the open object.
void write_queue_fields(JsonWriter& json, const JobResult& result);
// Writes fingerprint, effective settings and the engine's times as members of the open object.
void write_engine_fields(JsonWriter& json, const GenerationResult& result);
// Writes stop_reason, which tokens were sampled for the choice and which parts they belong to, and
// the tool calls as they were written, likewise.
void write_token_parts(JsonWriter& json, const Choice& choice, const Tokens& sampled);

}  // namespace millrace::openai
