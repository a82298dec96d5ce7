#pragma once
// What may end a text or take it apart, checked by the wire and by the engine with the same words.
// Token ids are held against a vocabulary by the engine alone. Every error names the field as jobs
// spell it, the value and the range. Errors: invalid_value, limit_exceeded, invalid_utf8.
// Thread safety: pure.
#include "schemas/base/generation.hpp"

namespace millrace {

Status check_stops(const Stops& stops);
Status check_markers(const MarkerRequest& markers);
Status check_repetition(const RepetitionDetection& detection);

}  // namespace millrace
