#pragma once
// Ends the reasoning of a sample after a number of tokens: it says which token must come next. The
// tokens between the markers count, those of all reasoning parts together; a part that opens after
// they are spent is closed at once.
//
//   open ──▶ count its tokens ──limit──▶ force the closing's tokens, one by one ──▶ answer
//
// What it says depends on the sample's tokens alone. It reads the text as it comes, and not as
// StopMachine settles it, because text that is held back for a stop string must not delay it.
// Thread safety: one owner.
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/stop/text_parts.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// The limit of a request and the tokens that end its reasoning, which its samples share. Once drawn
// in a reasoning part, the tokens of its closing must complete the marker's `close`.
struct ReasoningLimit {
  std::uint32_t tokens = 0;
  std::vector<Tokens> closings;  // by marker; empty where the marker is not one of reasoning
  Tokens message_closing;        // of a message that the header of a channel announced
};

class ReasoningBudget {
 public:
  // `limit` must outlive the object.
  ReasoningBudget(const ReasoningLimit& limit, std::shared_ptr<const PartRules> rules);

  // Adds the text that the sample's next token completes, drawn or forced.
  void push(std::string_view piece);
  // The token that must come next; nothing: it is drawn.
  std::optional<TokenId> forced() const;
  void dump(std::ostream& out) const;  // all of it, as text

 private:
  void decide();

  const ReasoningLimit* limit_;
  TextParts parts_;
  std::uint32_t count_ = 0;          // tokens of reasoning so far
  const Tokens* closing_ = nullptr;  // that is being forced
  std::size_t next_ = 0;             // index of its next token
};

}  // namespace millrace::engine
