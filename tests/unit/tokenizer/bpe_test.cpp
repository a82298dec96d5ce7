#include "engine/core/tokenizer/bpe.hpp"

#include <algorithm>
#include <map>
#include <random>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::testing {
namespace {

using engine::Bpe;
using engine::BpeScratch;
using engine::Vocabulary;

// Returns a vocabulary with random merges over a few letters, so that ranks conflict and chains
// grow.
Vocabulary random_vocabulary(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  TestVocabulary test;
  std::vector<std::string> known{"a", "b", "c", "d"};
  for (int i = 0; i < 60; ++i) {
    const auto left = known[random() % known.size()], right = known[random() % known.size()];
    if (std::ranges::find(known, left + right) != known.end() || left.size() + right.size() > 12)
      continue;
    test.merge(left, right);
    known.push_back(left + right);
  }
  auto file = engine::GgufFile::parse(engine::bytes_of(test.builder().build()), "test.gguf");
  return Vocabulary::load(file->metadata(), engine::VocabularyForm::byte_level).value();
}

// Merges by the definition: joins the best-ranked pair, the leftmost first, until none is left.
Tokens by_definition(const Vocabulary& vocabulary, std::string_view word) {
  std::map<std::pair<TokenId, TokenId>, std::pair<std::size_t, TokenId>> ranks;
  for (std::size_t rank = 0; rank < vocabulary.merges().size(); ++rank) {
    const auto& merge = vocabulary.merges()[rank];
    ranks.try_emplace({merge.left, merge.right}, rank, merge.merged);
  }
  Tokens tokens;
  for (const char c : word)
    tokens.push_back(vocabulary.byte_token(static_cast<std::uint8_t>(c)).value());
  for (;;) {
    std::size_t best = 0;
    auto merge = ranks.end();
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = ranks.find({tokens[i], tokens[i + 1]});
      if (found == ranks.end()) continue;
      if (merge == ranks.end() || found->second.first < merge->second.first) {
        merge = found;
        best = i;
      }
    }
    if (merge == ranks.end()) return tokens;
    tokens[best] = merge->second.second;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, ShortAndLongWordsFollowTheDefinition) {
  BpeScratch scratch;
  std::mt19937_64 random(11);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto vocabulary = random_vocabulary(seed);
    const Bpe bpe(vocabulary);
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (auto left = 1 + random() % 120; left > 0; --left) word += "abcd"[random() % 4];
      Tokens tokens;
      bpe.encode(word, scratch, tokens);
      ASSERT_EQ(tokens, by_definition(vocabulary, word)) << word;
    }
  }
}

TEST(Bpe, AMegabyteOfOneWordEnds) {
  TestVocabulary test;
  std::string left = "a";
  for (int i = 0; i < 10; ++i) {
    test.merge(left, left);
    left += left;
  }
  auto tokenizer = load_good(test.builder());
  const std::string text(1 << 20, 'a');
  const auto tokens = tokenizer.tokenize(text, {});
  EXPECT_EQ(tokens, Tokens(1024, static_cast<TokenId>(256 + 9)));
}

TEST(Bpe, MergeTableFindsAllAndNothingElse) {
  std::vector<engine::MergePair> pairs;
  for (TokenId i = 0; i < 1000; ++i) pairs.push_back({i * 7 % 501, i, i + 1, i});
  pairs.push_back({0, 0, 99, 1000});  // a repeat: the first one wins
  const engine::MergeTable table(pairs);
  for (std::uint32_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(table.find(i * 7 % 501, i).rank, i);
    EXPECT_EQ(table.find(i * 7 % 501, i).merged, i + 1);
    EXPECT_EQ(table.find(i * 7 % 501, i + 1000).rank, ~0u);
  }
  EXPECT_EQ(engine::MergeTable({}).find(1, 2).rank, ~0u);
}

}  // namespace
}  // namespace millrace::testing
