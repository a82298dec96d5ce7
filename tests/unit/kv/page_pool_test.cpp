#include "engine/core/kv/page_pool.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <utility>

#include "engine/core/kv/cache_pools.hpp"

namespace millrace::engine {
namespace {

TEST(PagePool, HandsOutEachPageOnceAndSaysWhenItIsEmpty) {
  PagePool pool(3, 16);
  std::set<PageId> seen;
  for (int i = 0; i < 3; ++i) {
    const auto page = pool.allocate();
    ASSERT_TRUE(page.has_value());
    EXPECT_TRUE(seen.insert(*page).second);
  }
  EXPECT_FALSE(pool.allocate().has_value());
  EXPECT_EQ(pool.used(), 3u);
  pool.release(*seen.begin());
  EXPECT_EQ(pool.allocate(), *seen.begin());
}

TEST(PagePool, CountsPagesForTokens) {
  const PagePool pool(1, 16);
  EXPECT_EQ(pool.pages_for(0), 0u);
  EXPECT_EQ(pool.pages_for(1), 1u);
  EXPECT_EQ(pool.pages_for(16), 1u);
  EXPECT_EQ(pool.pages_for(17), 2u);
}

TEST(PageTable, CoversAllOrNothing) {
  PagePool pool(4, 16);
  PageTable a(pool), b(pool);
  ASSERT_TRUE(a.cover(33));
  EXPECT_EQ(a.size(), 3u);
  EXPECT_FALSE(b.cover(17));
  EXPECT_EQ(b.size(), 0u);
  EXPECT_EQ(pool.available(), 1u);
  EXPECT_TRUE(a.cover(48));  // still three pages
  EXPECT_EQ(pool.available(), 1u);
}

TEST(PageTable, TruncateKeepsThePageOfTheLastPosition) {
  PagePool pool(4, 16);
  PageTable a(pool);
  ASSERT_TRUE(a.cover(64));
  a.truncate(17);
  EXPECT_EQ(a.size(), 2u);
  EXPECT_EQ(pool.available(), 2u);
  a.truncate(0);
  EXPECT_EQ(pool.available(), 4u);
}

TEST(PageTable, SharesPagesThatAreFreeWithTheirLastOwner) {
  PagePool pool(4, 16);
  PageTable a(pool);
  ASSERT_TRUE(a.cover(40));
  {
    PageTable b(pool);
    b.share(a.pages()[0]);
    b.share(a.pages()[1]);
    EXPECT_EQ(pool.references(a.pages()[0]), 2u);
    EXPECT_EQ(pool.references(a.pages()[2]), 1u);
    ASSERT_TRUE(b.cover(40));
    EXPECT_NE(b.pages()[2], a.pages()[2]);
    EXPECT_EQ(pool.used(), 4u);
    a.clear();
    EXPECT_EQ(pool.used(), 3u);
  }
  EXPECT_EQ(pool.used(), 0u);
}

TEST(PageTable, ReplacesAPageByOneOfTheSameContent) {
  PagePool pool(4, 16);
  PageTable a(pool), b(pool);
  ASSERT_TRUE(a.cover(32));
  ASSERT_TRUE(b.cover(32));
  b.replace(0, a.pages()[0]);
  EXPECT_EQ(b.pages()[0], a.pages()[0]);
  EXPECT_EQ(pool.used(), 3u);
  b.replace(0, a.pages()[0]);  // by itself
  EXPECT_EQ(pool.references(a.pages()[0]), 2u);
}

TEST(PagePool, APageThatOnlyTheTreeHoldsIsIdle) {
  PagePool pool(4, 16);
  PageTable a(pool);
  ASSERT_TRUE(a.cover(16));
  const PageId page = a.pages()[0];
  pool.keep(page);
  EXPECT_EQ(pool.idle(), 0u);
  a.clear();
  EXPECT_EQ(pool.idle(), 1u);
  EXPECT_EQ(pool.used(), 1u);
  a.share(page);
  EXPECT_EQ(pool.idle(), 0u);
  pool.drop(page);
  EXPECT_EQ(pool.used(), 1u);
  a.clear();
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.idle(), 0u);
}

TEST(PageTable, MovesWithoutLosingPages) {
  PagePool pool(4, 16);
  PageTable a(pool);
  ASSERT_TRUE(a.cover(32));
  PageTable b(std::move(a));
  EXPECT_EQ(b.size(), 2u);
  PageTable c(pool);
  ASSERT_TRUE(c.cover(16));
  c = std::move(b);
  EXPECT_EQ(c.size(), 2u);
  EXPECT_EQ(pool.used(), 2u);
}

TEST(CachePools, TellTheTokensAndBytesThatSequencesHold) {
  const std::array groups = {PoolSize{.pages = 10, .page_bytes = 100},
                             PoolSize{.pages = 6, .window = 32, .page_bytes = 7}};
  CachePools pools(16, groups, 16);
  EXPECT_EQ(pools.tokens(), 160u);
  EXPECT_EQ(pools.bytes(), 1'042u);
  EXPECT_EQ(pools.tokens_in_use() + pools.bytes_in_use(), 0u);
  const auto page = pools[0].allocate(), windowed = pools[1].allocate();
  ASSERT_TRUE(page && windowed);
  EXPECT_EQ(pools.tokens_in_use(), 16u) << "of the group that keeps all positions";
  EXPECT_EQ(pools.bytes_in_use(), 107u);
  pools[0].keep(*page);
  pools[0].release(*page);
  EXPECT_EQ(pools.tokens_in_use(), 0u) << "only the prefix tree holds it";
  EXPECT_EQ(pools.bytes_in_use(), 7u);
}

}  // namespace
}  // namespace millrace::engine
