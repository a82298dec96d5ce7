#pragma once
// Names what a job's prompt begins with, so that jobs that begin alike can go to the engine whose
// prefix tree holds this beginning (broker/ledger/claim_order.hpp). Engines see it as a number.
//
// It is a hash of the first prefix_bytes of the prompt: of its text, of its token ids with four
// bytes each, or of a chat's roles and texts, one message after the other. A shorter prompt has the
// number 0, which names nothing.
//
// Why 1 KiB: it is about 250 tokens of text. Where jobs have less than this in common, an engine
// saves no more than about one step by knowing it, too little to look for. Where it were longer,
// system prompts and few-shot examples of a page would not be found. What jobs have in common
// beyond it is not looked at: prompts that begin with the same page and go on with one of several
// long documents count as alike, and are handed out as if the documents did not matter.
// Thread safety: pure functions.
#include <cstddef>
#include <cstdint>

#include "schemas/job.hpp"

namespace millrace::broker {

inline constexpr std::size_t prefix_bytes = 1024;

// Below 2^53, so that every reader of JSON keeps it exactly.
std::uint64_t prefix_key(const Prompt& prompt);

}  // namespace millrace::broker
