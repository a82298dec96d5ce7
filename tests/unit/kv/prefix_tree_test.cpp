#include "engine/core/kv/prefix_tree.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 4;

Tokens tokens_from(TokenId first, std::uint32_t count) {
  Tokens out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}
Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixTreeTest : public testing::Test {
 protected:
  // A sequence that computed its tokens, published them and ended.
  std::vector<PageId> leave(const Tokens& tokens, Keep keep = Keep::plain) {
    SequencePages table(pools_);
    EXPECT_TRUE(table[0].cover(tokens.size()));
    tree_.publish(space_, tokens, table);
    tree_.mark(space_, tokens, {static_cast<std::uint32_t>(tokens.size()), keep});
    return {table[0].pages().begin(), table[0].pages().end()};
  }
  std::size_t known(const Tokens& tokens) { return tree_.find(space_, tokens).pages.size(); }

  CachePools pools_{page_tokens, std::array{PoolSize{64}}, 64};
  PagePool& pool_ = pools_[0];
  PrefixTree tree_{pools_};
  PrefixTree::Space space_ = tree_.open("model, f16");
};

TEST_F(PrefixTreeTest, GivesWholePagesOfTheLongestKnownBeginning) {
  const Tokens a = tokens_from(0, 11);
  const auto pages = leave(a);
  EXPECT_EQ(tree_.size(), 2u);  // the third page is not whole, so the tree does not hold it
  EXPECT_EQ(pool_.used(), 2u);
  const auto match = tree_.find(space_, a);
  ASSERT_EQ(match.pages.size(), 2u);
  EXPECT_EQ(match.pages[0], pages[0]);
  EXPECT_EQ(match.pages[1], pages[1]);
  EXPECT_EQ(known(tokens_from(0, 7)), 1u);
  EXPECT_EQ(known(tokens_from(1, 7)), 0u);
  EXPECT_EQ(known({}), 0u);
}

TEST_F(PrefixTreeTest, HoldsABeginningWhoseWholePagesAreAllWritten) {
  leave(tokens_from(0, 8));
  EXPECT_TRUE(tree_.holds(space_, tokens_from(0, 4)));
  EXPECT_TRUE(tree_.holds(space_, tokens_from(0, 11))) << "its last page is not whole";
  EXPECT_FALSE(tree_.holds(space_, tokens_from(0, 12)));
  EXPECT_FALSE(tree_.holds(space_, tokens_from(0, 3))) << "it has no whole page";
  EXPECT_FALSE(tree_.holds(space_, tokens_from(1, 4)));
  SequencePages table(pools_);
  ASSERT_TRUE(table[0].cover(4));
  const auto promised = tree_.promise(space_, tokens_from(50, 4), table, 9);
  EXPECT_FALSE(tree_.holds(space_, tokens_from(50, 4))) << "it is promised only";
  tree_.withdraw(promised);
}

// An exact hit without its last token is such a fork, too: the rest is in a page to copy.
TEST_F(PrefixTreeTest, AForkInsideAPageNamesThePageAndHowMuchOfItFits) {
  const auto pages = leave(tokens_from(0, 8));
  leave(tokens_from(0, 4) + tokens_from(100, 4));
  auto match = tree_.find(space_, tokens_from(0, 7));
  EXPECT_EQ(match.pages.size(), 1u);
  EXPECT_EQ(match.shared_pages.front(), pages[1]);
  EXPECT_EQ(match.shared_tokens, 3u);
  match = tree_.find(space_, tokens_from(0, 6) + tokens_from(50, 9));
  EXPECT_EQ(match.shared_pages.front(), pages[1]);
  EXPECT_EQ(match.shared_tokens, 2u);
  EXPECT_EQ(tree_.find(space_, tokens_from(0, 4)).shared_tokens, 0u);
  EXPECT_EQ(tree_.find(space_, tokens_from(0, 4) + tokens_from(70, 4)).shared_tokens, 0u);
}

TEST_F(PrefixTreeTest, TheBestOfManyForksIsFound) {
  for (TokenId last = 0; last < 30; last += 2) leave({1, 2, last / 10, last % 10});
  const auto match = tree_.find(space_, Tokens{1, 2, 1, 5, 9});
  EXPECT_EQ(match.shared_tokens, 3u);
  EXPECT_EQ(tree_.find(space_, Tokens{1, 2, 1, 4, 9}).pages.size(), 1u);
}

// Tokens whose common hashes would be equal: equal sums, equal exclusive-ors, other orders, shifts
// by a word. Each path finds its own page and no other.
TEST_F(PrefixTreeTest, AHashCollisionServesNoWrongPage) {
  const std::vector<Tokens> alike = {{1, 2, 3, 4}, {4, 3, 2, 1},  {2, 1, 4, 3},  {0, 3, 2, 5},
                                     {1, 3, 2, 4}, {0, 0, 0, 10}, {10, 0, 0, 0}, {0, 0, 10, 0},
                                     {5, 5, 0, 0}, {0, 5, 5, 0}};
  std::map<Tokens, PageId> pages;
  for (const Tokens& first : alike) {
    for (const Tokens& second : alike) pages[first + second] = 0;
  }
  CachePools pools(page_tokens, std::array{PoolSize{200}}, 64);
  PrefixTree tree(pools);
  const auto space = tree.open("");
  for (auto& [path, page] : pages) {
    SequencePages table(pools);
    ASSERT_TRUE(table[0].cover(path.size()));
    tree.publish(space, path, table);
    page = table[0].pages()[1];
  }
  EXPECT_EQ(tree.size(), alike.size() * (alike.size() + 1));
  for (const auto& [path, page] : pages) EXPECT_EQ(tree.find(space, path).pages.at(1), page);
  EXPECT_TRUE(tree.find(space, Tokens{3, 2, 1, 4}).pages.empty());
}

TEST_F(PrefixTreeTest, SpacesNeverShareAndTheirPagesGoWithThem) {
  leave(tokens_from(0, 8));
  auto other = tree_.open("model, q8");
  EXPECT_TRUE(tree_.find(other, tokens_from(0, 8)).pages.empty());
  {
    SequencePages table(pools_);
    ASSERT_TRUE(table[0].cover(8));
    tree_.publish(other, tokens_from(0, 8), table);
  }
  EXPECT_EQ(tree_.open("model, q8"), other);
  EXPECT_EQ(pool_.used(), 4u);
  other.reset();
  EXPECT_EQ(pool_.used(), 2u);
  EXPECT_TRUE(tree_.find(tree_.open("model, q8"), tokens_from(0, 8)).pages.empty());
  EXPECT_EQ(known(tokens_from(0, 8)), 2u);
}

TEST_F(PrefixTreeTest, ReadsRefresh) {
  leave(tokens_from(0, 4));
  leave(tokens_from(10, 4));
  leave(tokens_from(20, 4));
  EXPECT_EQ(known(tokens_from(0, 4)), 1u);
  EXPECT_EQ(tree_.evict(0, 1), 1u);
  EXPECT_EQ(known(tokens_from(10, 4)), 0u);
  EXPECT_EQ(known(tokens_from(0, 4)), 1u);
  EXPECT_EQ(known(tokens_from(20, 4)), 1u);
}

TEST_F(PrefixTreeTest, EndsGoBeforeBeginnings) {
  leave(tokens_from(0, 16));
  EXPECT_EQ(tree_.evict(0, 3), 3u);
  EXPECT_EQ(known(tokens_from(0, 16)), 1u);
  EXPECT_EQ(tree_.evict(0, 3), 1u);
  EXPECT_EQ(tree_.evict(0, 1), 0u);  // an empty tree has no page to evict
  EXPECT_EQ(pool_.used(), 0u);
}

TEST_F(PrefixTreeTest, APageInUseIsNotEvicted) {
  const auto pages = leave(tokens_from(0, 8));
  leave(tokens_from(20, 4));
  SequencePages user(pools_);
  for (const PageId page : tree_.find(space_, tokens_from(0, 8)).pages) user[0].share(page);
  EXPECT_EQ(tree_.evict(0, 9), 1u);
  EXPECT_EQ(known(tokens_from(0, 8)), 2u);
  EXPECT_EQ(pool_.idle(), 0u);
  user.clear();
  EXPECT_EQ(pool_.idle(), 2u);
  EXPECT_EQ(tree_.evict(0, 9), 2u);
}

TEST_F(PrefixTreeTest, SystemPromptsStayLongerThanTurnsAndTurnsLongerThanAnswers) {
  leave(tokens_from(0, 4), Keep::system);
  leave(tokens_from(10, 4), Keep::user);
  leave(tokens_from(20, 4), Keep::assistant);
  leave(tokens_from(30, 4));
  const auto left = [&] {
    std::string out;
    for (const TokenId first : {0u, 10u, 20u, 30u}) {
      out += known(tokens_from(first, 4)) > 0 ? 'x' : '-';
    }
    return out;
  };
  std::vector<std::string> seen;
  while (tree_.evict(0, 1) == 1) seen.push_back(left());
  EXPECT_EQ(seen, (std::vector<std::string>{"xxx-", "xx--", "x---", "----"}));
}

TEST_F(PrefixTreeTest, NoKindFillsThePool) {
  for (TokenId i = 0; i < 9; ++i) leave(tokens_from(100 * i, 4), Keep::system);
  for (TokenId i = 10; i < 13; ++i) leave(tokens_from(100 * i, 4), Keep::user);
  for (TokenId i = 20; i < 23; ++i) leave(tokens_from(100 * i, 4), Keep::assistant);
  tree_.evict(0, 8);
  std::map<Keep, int> left;
  for (const auto& entry : tree_.entries(space_)) ++left[entry.keep];
  EXPECT_EQ(left[Keep::system], 3);
  EXPECT_EQ(left[Keep::user], 2);
  EXPECT_EQ(left[Keep::assistant], 2);
}

TEST_F(PrefixTreeTest, APromisedPageIsWaitedForAndThenRead) {
  const Tokens tokens = tokens_from(0, 13);
  SequencePages writer(pools_);
  ASSERT_TRUE(writer[0].cover(tokens.size()));
  const auto promised = tree_.promise(space_, tokens, writer, 7);
  ASSERT_EQ(promised.size(), 3u);
  auto match = tree_.find(space_, tokens_from(0, 9));
  EXPECT_TRUE(match.pages.empty());
  EXPECT_EQ(match.shared_tokens, 0u);
  EXPECT_EQ(match.promised, 2u);
  EXPECT_EQ(match.writer, 7u);
  tree_.fulfil(*promised[0], writer);
  match = tree_.find(space_, tokens);
  EXPECT_EQ(match.pages.size(), 1u);
  EXPECT_EQ(match.promised, 2u);
  tree_.withdraw(std::span(promised).subspan(1));
  match = tree_.find(space_, tokens);
  EXPECT_EQ(match.pages.size(), 1u);
  EXPECT_EQ(match.promised, 0u);
  EXPECT_EQ(tree_.size(), 1u);
}

TEST_F(PrefixTreeTest, WhoComputedAKnownPageAgainTakesTheKnownOne) {
  const auto pages = leave(tokens_from(0, 8));
  SequencePages table(pools_);
  ASSERT_TRUE(table[0].cover(12));
  EXPECT_TRUE(tree_.promise(space_, tokens_from(0, 12), table, 1).empty());
  tree_.publish(space_, tokens_from(0, 12), table);
  EXPECT_EQ(table[0].pages()[0], pages[0]);
  EXPECT_EQ(table[0].pages()[1], pages[1]);
  EXPECT_EQ(pool_.used(), 3u);
  table.clear();
  EXPECT_EQ(pool_.idle(), 3u);
}

}  // namespace
}  // namespace millrace::engine
