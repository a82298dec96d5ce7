#pragma once
// A text that is sent in pieces, and may be told anew: another attempt at the job begins at its
// first byte, and the end tells the whole of it. What was sent already is not sent again.
// Thread safety: one thread.
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::openai {

class SentText {
 public:
  // The next pieces begin at the text's first byte again.
  void restart() { told_ = 0; }
  // Returns the part of the next piece that was not sent yet; it counts as sent. The piece may be
  // empty. After a piece that contradicts what was sent, nothing more is returned.
  std::string_view next(std::string_view piece);
  // The pieces since restart() are the whole text: whether that is what was sent.
  bool is_whole() const { return !differs_ && told_ == sent_.size(); }
  bool empty() const { return sent_.empty(); }

 private:
  std::string sent_;
  std::size_t told_ = 0;  // bytes of sent_ that the pieces since restart() have repeated
  bool differs_ = false;
};

}  // namespace millrace::openai
