// Thousands of random operations on small pools, like those of sequences that begin, wait, write,
// fork, are cancelled and end. Each result is compared with plain lists of whole paths. Pools of
// windowed groups are so small that windows move over evicted pages.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "engine/core/kv/prefix_tree.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 3, pool_pages = 40, space_count = 2, row_tokens = 6;

using Entry = PrefixTree::Entry;
using Known = std::vector<std::pair<std::uint32_t, Entry>>;  // a space and one of its entries

bool begins(const Tokens& with, const Tokens& tokens) {
  return with.size() <= tokens.size() && std::equal(with.begin(), with.end(), tokens.begin());
}

class World {
 public:
  World(std::uint32_t seed, const std::vector<PoolSize>& groups)
      : random_(seed), pools_(page_tokens, groups, row_tokens) {
    for (std::uint32_t i = 0; i < space_count; ++i)
      spaces_.push_back(tree_.open(std::to_string(i)));
  }

  void act() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return arrive();
      case 3:
      case 4:
      case 5:
        return write();
      case 6:
        return leave();
      default:
        return evict();
    }
  }

  void check() {
    const Known known = all();
    for (std::size_t group = 0; group < pools_.groups(); ++group) check(known, group);
    for (const auto& [space, entry] : known) {
      if (entry.path.size() == page_tokens) continue;
      const Entry* parent =
          find(known, space, {entry.path.begin(), entry.path.end() - page_tokens});
      ASSERT_NE(parent, nullptr);
      ASSERT_GE(parent->used, entry.used);
      ASSERT_TRUE(entry.promised || !parent->promised);
      ASSERT_GE(pools_[0].references(parent->page), pools_[0].references(entry.page));
    }
    ASSERT_EQ(tree_.size(), known.size());
  }

  // Every page is held by those who should hold it, and has the path of its entry.
  void check(const Known& known, std::size_t group) {
    const PagePool& pool = pools_[group];
    std::map<PageId, std::uint32_t> holders;
    for (const auto& [id, w] : writers_) {
      for (const PageId page : w.pages[group].pages()) ++holders[page];
    }
    std::uint32_t idle = 0;
    for (const auto& [space, entry] : known) {
      const PageId page = page_of(entry, group);
      if (page == no_page) continue;
      ++holders[page];
      idle += pool.references(page) == 1 ? 1 : 0;
      if (!entry.promised) {
        ASSERT_EQ(content_.at({group, page}), std::make_pair(space, entry.path));
      }
    }
    ASSERT_EQ(pool.idle(), idle);
    ASSERT_EQ(pool.used(), holders.size());
    for (const auto& [page, count] : holders) ASSERT_EQ(pool.references(page), count);
  }

  void end() {
    while (!writers_.empty()) leave();
    check();
    for (std::size_t group = pools_.groups(); group > 0; --group) {
      const PagePool& pool = pools_[group - 1];
      EXPECT_EQ(tree_.evict(group - 1, pool.total()), pool.total() - pool.available());
      EXPECT_EQ(pool.used(), 0u);
    }
    EXPECT_GT(shared, 50u);
    EXPECT_GT(waited, 5u);
    EXPECT_GT(evicted, 50u);
    EXPECT_EQ(shortened > 0, pools_.groups() > 1) << shortened;
  }

  std::uint64_t shared = 0, waited = 0, evicted = 0;
  std::uint64_t shortened = 0;  // hits that lacked pages of a window

 private:
  struct Writer {
    std::uint32_t space = 0;
    Tokens tokens;
    SequencePages pages;
    std::uint32_t written = 0;
    std::vector<PrefixTree::Node*> promised;
    std::uint32_t promised_at = 0, fulfilled = 0;
    std::uint32_t resumes_at() const {
      return std::min<std::uint32_t>(written, static_cast<std::uint32_t>(tokens.size()) - 1) /
             page_tokens * page_tokens;
    }
  };
  static PageId page_of(const Entry& entry, std::size_t group) {
    return group == 0 ? entry.page : entry.windowed[group - 1];
  }

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_()) % limit; }

  Known all() const {
    Known out;
    for (std::uint32_t s = 0; s < space_count; ++s) {
      for (const Entry& entry : tree_.entries(spaces_[s])) out.emplace_back(s, entry);
    }
    return out;
  }
  static const Entry* find(const Known& known, std::uint32_t space, const Tokens& path) {
    for (const auto& [s, entry] : known) {
      if (s == space && entry.path == path) return &entry;
    }
    return nullptr;
  }

  // Whether all groups have the pages that a token after the first `count` pages sees.
  bool is_known(const std::vector<const Entry*>& path, std::size_t count) const {
    for (std::size_t group = 1; group < pools_.groups(); ++group) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t last = (i + 1) * page_tokens - 1, next = count * page_tokens;
        const bool is_seen = next - last < pools_.window(group);
        if (is_seen && page_of(*path[i], group) == no_page) return false;
      }
    }
    return true;
  }

  // Checks the result of find() with the list of all paths.
  void expect(const PrefixTree::Match& match, const Known& known, std::uint32_t space,
              const Tokens& tokens) {
    std::map<std::size_t, const Entry*> by_length;
    for (const auto& [s, entry] : known) {
      if (s == space && begins(entry.path, tokens)) by_length[entry.path.size()] = &entry;
    }
    std::vector<const Entry*> path;
    std::uint32_t promised = 0;
    for (const auto& [length, entry] : by_length) {
      if (entry->promised) {
        ++promised;
      } else {
        path.push_back(entry);
      }
    }
    ASSERT_EQ(match.written, path.size());
    std::size_t count = path.size();
    while (!is_known(path, count)) --count;
    shortened += count < path.size() ? 1 : 0;
    ASSERT_EQ(match.pages.size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(match.pages[i], path[i]->page);
    ASSERT_EQ(match.windowed.size(), pools_.groups() - 1);
    for (std::size_t group = 1; group < pools_.groups(); ++group) {
      const auto& [first, pages] = match.windowed[group - 1];
      ASSERT_EQ(first + pages.size(), count);
      for (std::size_t i = 0; i < pages.size(); ++i) {
        ASSERT_EQ(pages[i], page_of(*path[first + i], group));
      }
    }
    ASSERT_EQ(match.promised > 0, promised > 0);
    ASSERT_LE(match.promised, promised);
    expect_shared(match, known, space, tokens, count * page_tokens);
  }

  void expect_shared(const PrefixTree::Match& match, const Known& known, std::uint32_t space,
                     const Tokens& tokens, std::size_t from) const {
    std::size_t fits = 0;
    for (const auto& [s, entry] : known) {
      if (s != space || entry.promised || entry.path.size() != from + page_tokens) continue;
      if (std::ranges::count(entry.windowed, no_page) > 0) continue;
      const auto end = std::ranges::mismatch(entry.path, tokens).in1 - entry.path.begin();
      fits = std::max(fits, std::max(from, static_cast<std::size_t>(end)) - from);
      if (match.shared_tokens == 0 || match.shared_pages[0] != entry.page) continue;
      for (std::size_t group = 1; group < pools_.groups(); ++group) {
        ASSERT_EQ(match.shared_pages[group], page_of(entry, group));
      }
    }
    ASSERT_EQ(match.shared_tokens, fits);
  }

  void arrive() {
    const std::uint32_t space = below(space_count);
    Tokens tokens;  // of two letters, so that many begin alike
    for (std::uint32_t i = 1 + below(20); i > 0; --i) tokens.push_back(below(8) == 0 ? 1 : 0);
    Writer w{space, tokens, SequencePages(pools_), 0, {}, 0, 0};
    if (below(8) > 0) {  // the others compute all of it, as a prompt to be scored
      const auto limit = tokens.size() - 1;
      const Tokens known_part(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(limit));
      const Known known = all();
      const auto match = tree_.find(spaces_[space], known_part);
      expect(match, known, space, known_part);
      if (match.promised > 0) {
        ++waited;
        return;
      }
      for (const PageId page : match.pages) w.pages[0].share(page);
      for (std::size_t group = 1; group < pools_.groups(); ++group) {
        w.pages[group].forget(match.windowed[group - 1].first);
        for (const PageId page : match.windowed[group - 1].pages) w.pages[group].share(page);
      }
      w.written = static_cast<std::uint32_t>(match.pages.size()) * page_tokens;
      shared += match.pages.size();
    }
    if (!cover(w, 0, static_cast<std::uint32_t>(tokens.size()))) return;
    w.promised = tree_.promise(spaces_[space], tokens, w.pages, ++writers_so_far_);
    w.promised_at = static_cast<std::uint32_t>(tokens.size() / page_tokens - w.promised.size());
    writers_.emplace(writers_so_far_, std::move(w));
  }

  // False: not enough pages are free or idle.
  bool cover(Writer& w, std::size_t group, std::uint32_t tokens) {
    const PagePool& pool = pools_[group];
    const std::uint32_t end = pool.pages_for(tokens);
    const std::uint32_t lacking = end - std::min(end, w.pages[group].end());
    if (lacking > pool.available() + pool.idle()) return false;
    if (lacking > pool.available()) evicted += tree_.evict(group, lacking - pool.available());
    EXPECT_TRUE(w.pages[group].cover(tokens)) << "an idle page could not be had";
    return true;
  }

  Writer* any() {
    if (writers_.empty()) return nullptr;
    return &std::next(writers_.begin(), below(static_cast<std::uint32_t>(writers_.size())))->second;
  }

  void write() {
    Writer* w = any();
    if (w == nullptr) return;
    const auto size = static_cast<std::uint32_t>(w->tokens.size());
    const std::uint32_t to = std::min(size, w->written + 1 + below(row_tokens));
    w->pages.forget_before(w->resumes_at());
    for (std::size_t group = 1; group < pools_.groups(); ++group) {
      if (!cover(*w, group, to)) return;
    }
    for (; w->written < to; ++w->written) {  // a page's content is the path to it
      if (w->written % page_tokens != page_tokens - 1) continue;
      for (std::size_t group = 0; group < pools_.groups(); ++group) {
        const PageId page = w->pages[group].at(w->written / page_tokens);
        const bool own = w->promised.empty() || group > 0;
        ASSERT_EQ(pools_[group].references(page), own ? 1u : pools_[group].references(page));
        content_[{group, page}] = {w->space,
                                   Tokens(w->tokens.begin(), w->tokens.begin() + w->written + 1)};
      }
    }
    while (w->fulfilled < w->promised.size() &&
           w->promised_at + w->fulfilled < w->written / page_tokens) {
      tree_.fulfil(*w->promised[w->fulfilled++], w->pages);
    }
    if (w->promised.empty()) {
      tree_.refill(spaces_[w->space], std::span(w->tokens).first(w->written), w->pages);
    }
  }

  void leave() {
    if (writers_.empty()) return;
    const auto at = std::next(writers_.begin(), below(static_cast<std::uint32_t>(writers_.size())));
    Writer& w = at->second;
    tree_.withdraw(std::span<PrefixTree::Node* const>(w.promised).subspan(w.fulfilled));
    w.tokens.resize(w.written);
    tree_.publish(spaces_[w.space], w.tokens, w.pages);
    writers_.erase(at);
  }

  void evict() {
    const std::uint32_t count = below(4);
    if (const std::size_t group = below(static_cast<std::uint32_t>(pools_.groups())); group > 0) {
      const std::uint32_t idle = pools_[group].idle(), nodes = tree_.size();
      ASSERT_EQ(tree_.evict(group, count), std::min(count, idle));
      ASSERT_EQ(pools_[group].idle(), idle - std::min(count, idle));
      ASSERT_EQ(tree_.size(), nodes);
      evicted += std::min(count, idle);
      return;
    }
    Known known = all();
    std::uint32_t gone = 0;
    for (; gone < count; ++gone) {  // the least recently used page that is idle and a leaf
      auto victim = known.end();
      for (auto at = known.begin(); at != known.end(); ++at) {
        const bool leaf = std::ranges::none_of(known, [&](const auto& other) {
          return other.first == at->first && other.second.path.size() > at->second.path.size() &&
                 begins(at->second.path, other.second.path);
        });
        if (!leaf || pools_[0].references(at->second.page) > 1) continue;
        if (victim == known.end() || at->second.used < victim->second.used) victim = at;
      }
      if (victim == known.end()) break;
      known.erase(victim);
    }
    ASSERT_EQ(tree_.evict(0, count), gone);
    evicted += gone;
    const Known after = all();
    ASSERT_EQ(after.size(), known.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_EQ(after[i].second.path, known[i].second.path);
    }
  }

  std::mt19937 random_;
  CachePools pools_;
  PrefixTree tree_{pools_};
  std::vector<PrefixTree::Space> spaces_;
  std::map<std::uint64_t, Writer> writers_;
  std::uint64_t writers_so_far_ = 0;
  std::map<std::pair<std::size_t, PageId>, std::pair<std::uint32_t, Tokens>> content_;  // by group
};

void run_lives(const std::vector<PoolSize>& groups) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    World world(seed, groups);
    for (int i = 0; i < 2000; ++i) {
      world.act();
      world.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
    world.end();
  }
}

TEST(PrefixTreeProperty, RandomLivesKeepEveryPromise) {
  run_lives({{pool_pages, 0}});
}

TEST(PrefixTreeProperty, RandomLivesWithWindowsKeepEveryPromise) {
  run_lives({{pool_pages, 0}, {14, 5}});
  run_lives({{pool_pages, 0}, {10, 1}, {18, 10}});
}

}  // namespace
}  // namespace millrace::engine
