#pragma once
// The thread that uses a shared store for its engine, whose requests and answers it queues. Reads
// go first. A store that fails is left alone for a while: until a listing succeeds again, reads are
// answered without bytes and nothing is written. The log says when that begins and when it ends.
// Thread safety: `run` and `wait_for_listing` are the thread's and the owner's; the owner calls the
// rest.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/prefix/segment_index.hpp"
#include "engine/core/prefix/store_view.hpp"

namespace millrace::engine {

struct SharedTierOptions {
  PageKind kind;
  std::uint64_t bytes = 0;                // limit of all files in the store
  std::uint32_t refresh_ms = 10'000;      // between two listings, while somebody asks
  std::uint32_t pause_ms = 30'000;        // before a store that has failed is tried again
  std::uint32_t patience_ms = 10'000;     // without an answer, a read is given up
  std::uint32_t last_writes_ms = 20'000;  // for writes when the engine ends
  std::uint32_t touch_ms = 600'000;       // uses of a file are recorded no more often
};

class StoreThread {
 public:
  struct Loaded {
    std::vector<char> bytes;  // empty: it could not be read ...
    bool gone = false;        // ... because there is no such segment
  };
  struct Saved {
    SegmentIndex::Number number = 0;
    bool written = false;
    bool failed = false;  // others are likely to fail, too
  };
  struct Found {
    Segment segment;
  };
  struct Gone {
    std::string name;
  };
  struct Usable {
    bool usable = false;  // whether the store can be used from now on
  };
  using Answer = std::variant<Loaded, Saved, Found, Gone, Usable>;

  StoreThread(std::unique_ptr<SegmentStore> store, const SharedTierOptions& options);

  void run();  // returns once `stop` was called and what was saved is written

  void load(const Segment& segment, std::uint32_t skip, std::uint32_t count);
  // Segments `kept` are not removed for it.
  void save(SegmentIndex::Number number, const Segment& segment, std::vector<char> bytes,
            std::set<std::string> kept);
  void touch(std::string name);
  void want_listing();  // soon, unless there was one lately
  std::vector<Answer> take();
  std::uint64_t unwritten_bytes() const;
  // Waits until take() has something or no request is open.
  void wait(std::uint32_t ms);
  // Waits until what the store holds is known, or it has failed.
  void wait_for_listing(std::uint32_t ms);
  // Asks the thread to end and waits for that. False: it has not; the store hangs.
  bool stop(std::uint32_t ms);

 private:
  struct Load {
    Segment segment;
    std::uint32_t skip = 0, count = 0;
  };
  struct Save {
    SegmentIndex::Number number = 0;
    Segment segment;
    std::vector<char> bytes;
    std::set<std::string> kept;
  };
  struct Touch {
    std::string name;
  };
  bool work(std::unique_lock<std::mutex>& lock);
  Loaded carry_out(const Load& load);
  void carry_out(Save& save);
  void list(std::uint64_t coming, const std::set<std::string>& kept);
  void read_header();
  void failed(const Error& error);
  void answer(Answer answer);

  // The thread's own.
  std::unique_ptr<SegmentStore> store_;
  SharedTierOptions options_;
  StoreView view_;
  bool away_ = false, listed_ = false, write_failed_ = false;

  mutable std::mutex mutex_;  // for what follows
  std::condition_variable asked_, answered_;
  std::deque<Load> loads_;
  std::deque<std::variant<Save, Touch>> requests_;
  std::vector<Answer> answers_;
  std::uint64_t unwritten_bytes_ = 0;
  std::int64_t next_listing_us_ = 0;
  bool wanted_ = true;      // a listing
  bool under_way_ = false;  // the thread carries out a request
  bool known_ = false;      // the first listing is done, or has failed
  bool stopping_ = false, ended_ = false;
};

}  // namespace millrace::engine
