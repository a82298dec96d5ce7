#pragma once
// For the codec alone: the values of fields that edit logits, in each form that producers write
// them. What can still be wrong is a type, a count or a range.
// Errors: invalid_value, limit_exceeded, by the field's path. Thread safety: none; a Reader has one
// owner.
#include <string>
#include <vector>

#include "schemas/unpack.hpp"

namespace millrace {

// An array of lists of token ids, each as read_token_ids takes it.
Status read_id_lists(wire::Reader& in, const wire::Path& path, std::uint32_t most,
                     std::vector<Tokens>& out);
Status read_strings(wire::Reader& in, const wire::Path& path, std::uint32_t most,
                    std::vector<std::string>& out);
// OpenAI's map from a token id, as text, to its bias; or an array of [id, bias], which may be
// longer than a map.
Status read_logit_bias(wire::Reader& in, const wire::Path& path, std::vector<LogitBias>& out);
Status read_scope(wire::Reader& in, const wire::Path& path, PenaltyScope& out);

}  // namespace millrace
