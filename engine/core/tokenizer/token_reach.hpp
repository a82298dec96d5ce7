#pragma once
// How much text a number of tokens can stand for, so that a text which is too long is found without
// making its tokens. Some vocabularies leave bytes out: a byte-level one those without a token, one
// without bytes whole runs of unknown characters, and Phi-3's white space. These bytes do not
// count. Thread safety: immutable.
#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/tokenizer/vocabulary.hpp"

namespace millrace::engine {

class TokenReach {
 public:
  // `drops_spaces`: white space may be left out.
  TokenReach(const Vocabulary& vocabulary, bool drops_spaces);

  // The most bytes of a text that one token stands for.
  std::uint64_t longest() const { return longest_; }
  // Whether tokens stand for all bytes of every text (of valid UTF-8).
  bool whole() const { return whole_; }
  // Returns how many bytes of a text surely need tokens, or, where that is more than `most`, some
  // number above it.
  std::uint64_t covered(std::string_view text, std::uint64_t most) const;

 private:
  void leave_out_spaces();

  std::uint64_t longest_ = 1;
  bool whole_ = false;
  std::array<bool, 256> counts_{};  // by byte
};

}  // namespace millrace::engine
