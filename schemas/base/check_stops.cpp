#include "schemas/base/check_stops.hpp"

#include <string>

#include "schemas/base/check_fields.hpp"
#include "schemas/base/limits.hpp"

namespace millrace {
namespace {

Status check_between(const std::string& field, std::uint64_t value, std::uint64_t least,
                     std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return fail(value > most ? Code::limit_exceeded : Code::invalid_value,
              field + " is " + std::to_string(value),
              "give a number from " + std::to_string(least) + " to " + std::to_string(most));
}

// Of two markers of which one holds the other, the outer one could never be found.
Status check_apart(const std::vector<Marker>& list) {
  for (std::size_t a = 0; a < list.size(); ++a) {
    for (std::size_t b = 0; b < list.size(); ++b) {
      if (a == b || list[a].open.find(list[b].open) == std::string::npos) continue;
      return fail(Code::invalid_value,
                  item_name("markers", a) + ".open holds " + item_name("markers", b) + ".open, \"" +
                      list[b].open + "\"",
                  "give markers of which none holds another");
    }
  }
  return {};
}

}  // namespace

Status check_stops(const Stops& stops) {
  MILLRACE_TRY(check_texts("stop", stops.strings, limits::stop_strings, limits::stop_string_bytes));
  MILLRACE_TRY(check_size("stop_token_ids", stops.token_ids.size(), "ids", limits::stop_token_ids));
  return check_sequences("stop_token_sequences", stops.sequences, limits::stop_sequences,
                         limits::stop_sequence_tokens);
}

Status check_markers(const MarkerRequest& markers) {
  MILLRACE_TRY(check_size("markers", markers.list.size(), "markers", limits::markers));
  for (std::size_t i = 0; i < markers.list.size(); ++i) {
    const Marker& marker = markers.list[i];
    MILLRACE_TRY(check_text(item_name("markers", i) + ".open", marker.open, limits::marker_bytes,
                            "give the text that begins the part, like <think>"));
    if (marker.close.empty()) continue;
    MILLRACE_TRY(
        check_text(item_name("markers", i) + ".close", marker.close, limits::marker_bytes));
  }
  return check_apart(markers.list);
}

Status check_repetition(const RepetitionDetection& d) {
  if (d.max_pattern_size == 0) {
    if (d == RepetitionDetection{}) return {};
    return fail(Code::invalid_value, "repetition_detection.max_pattern_size is 0",
                "give a number from 1 to " + std::to_string(limits::repetition_pattern) +
                    ", or leave repetition_detection out");
  }
  MILLRACE_TRY(check_between("repetition_detection.max_pattern_size", d.max_pattern_size, 1,
                             limits::repetition_pattern));
  MILLRACE_TRY(check_between("repetition_detection.min_pattern_size", d.min_pattern_size, 1,
                             d.max_pattern_size));
  return check_between("repetition_detection.min_count", d.min_count, 2, limits::repetition_count);
}

}  // namespace millrace
