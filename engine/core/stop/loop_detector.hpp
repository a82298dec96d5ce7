#pragma once
// Detects a text that loops: its last tokens are one pattern several times in a row. For each
// pattern size it counts how many tokens in a row equal the token that many places before, so a
// token costs one comparison for each size. Thread safety: one owner.
#include <cstdint>
#include <iosfwd>
#include <vector>

#include "schemas/base/generation.hpp"

namespace millrace::engine {

class LoopDetector {
 public:
  explicit LoopDetector(const RepetitionDetection& detection)
      : detection_(detection),
        last_(detection.max_pattern_size),
        equal_(detection.max_pattern_size > 0
                   ? detection.max_pattern_size - detection.min_pattern_size + 1
                   : 0) {}

  // Adds the next token. True: the tokens so far end in a loop.
  bool push(TokenId id) {
    bool loop = false;
    for (std::size_t i = 0; i < equal_.size(); ++i) {
      const std::uint64_t size = detection_.min_pattern_size + i;
      const bool same = count_ >= size && last_[(count_ - size) % last_.size()] == id;
      equal_[i] = same ? equal_[i] + 1 : 0;
      loop = loop || equal_[i] >= size * (detection_.min_count - 1);
    }
    if (!last_.empty()) last_[count_++ % last_.size()] = id;
    return loop;
  }
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  RepetitionDetection detection_;
  std::vector<TokenId> last_;         // ring of the last tokens
  std::vector<std::uint64_t> equal_;  // number of equal tokens, by pattern size
  std::uint64_t count_ = 0;
};

}  // namespace millrace::engine
