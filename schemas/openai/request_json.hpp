#pragma once
// The mapping of a body to a job map, as JSON values; only sources include this header.
// Errors: invalid_value, invalid_token, missing_field. Each message begins with the name of the
// field. Thread safety: pure functions.
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "schemas/base/error.hpp"
#include "schemas/openai/endpoint.hpp"

namespace millrace::openai {

using json = nlohmann::ordered_json;  // a chat template sees the fields in their order

// "a string", "an array"
std::string type_of(const json& value);

// A null means "not given" in OpenAI's API and its many clients; in a job map the field is absent.
void drop_nulls(json& object);

// Packs token ids as the job map holds them: a `bin` of little-endian uint32.
Result<json> packed_token_ids(const json& ids, const std::string& name);

// Returns the job map of a body with one prompt, and nothing else of the body but `stream`, if that
// is not false. The caller gives the job its place in the queue.
Result<json> job_of_body(Endpoint endpoint, json body);

// Takes `echo` out of the body of a completion. Errors: invalid_value.
Result<bool> take_echo(json& body);
// Asks for what an answer that begins with its prompt needs: the logprobs of the prompt, where any
// are asked for. Without a text of its own it is a job that scores the prompt. Returns whether the
// answer has logprobs.
bool ask_for_echo(json& job);

// Returns the job's metadata, which becomes a map if it is absent. Errors: invalid_value where it
// is no map.
Result<json*> metadata_of(json& job);
// The bytes of its names and texts, which limits::metadata_bytes bounds.
std::size_t metadata_size(const json& metadata);
// Whether the chat template of this job shows tools to the model.
bool shows_tools(const json& job);
// The note of a job's tools (tool_note.hpp), {"get_weather": ["city"]}; `unnamed_tools` where it
// would be longer than `most_bytes`. Tools that are not of OpenAI's form have no part in it.
std::string tools_note(const json& tools, std::size_t most_bytes);
// Notes in the job's metadata what the answer's form depends on, and asks for tool calls to be set
// apart where the model is shown tools. Errors: those of metadata_of.
Status note_body(json& job, Endpoint endpoint);

}  // namespace millrace::openai
