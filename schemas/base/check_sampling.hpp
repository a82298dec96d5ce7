#pragma once
// The ranges of everything that shapes a draw, checked by the wire and by the engine with the same
// words. Token ids are held against a vocabulary by the engine alone. Every error names the field
// as jobs spell it, the value and the range. Errors: invalid_value, limit_exceeded, invalid_utf8.
// Thread safety: pure.
#include <string_view>

#include "schemas/base/generation.hpp"

namespace millrace {

Status check_filters(
    const Sampling& sampling);  // typical_p and xtc; the others stay where they are
Status check_edits(const LogitEdits& edits);
Status check_listed(const Tokens& listed);  // of LogprobRequest

}  // namespace millrace
