#pragma once
// Puts the load of engines and queues into words, for `status` and `top`. Thread safety: pure
// functions.
#include <cstdint>
#include <string>

#include "schemas/messages.hpp"

namespace millrace::client {

std::string grouped(std::uint64_t number);       // "1,234,567"
std::string short_number(std::uint64_t number);  // "999", "1.2k", "34.6k", "1.3M"
// "41 %"; empty where the whole is 0, because nothing is known of it.
std::string share_text(std::uint64_t part, std::uint64_t whole);

// "rows 48 of 64, 12 jobs wait"
std::string rows_text(const EngineInfo& engine);
// "312.5 tokens/s (prompts 250.0, answers 62.5)"
std::string speed_text(const EngineInfo& engine);
// "kv 27,648 of 65,536 tokens (42 %), 607 MiB of 1.4 GiB"; empty where the engine does not tell.
std::string kv_use_text(const EngineLoad& load);
// "prefix cache 12,288 tokens; 80 % of the tokens of prompts came from it"; empty likewise.
std::string prefix_text(const EngineLoad& load);
// "120 jobs queued, about 45,000 tokens; 64 leased, about 24,000 tokens; the oldest waits for 42 s"
std::string queue_text(const TenantQueue& queue);

}  // namespace millrace::client
