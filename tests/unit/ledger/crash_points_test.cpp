// The power fails at every write and sync of a scripted run, and the ledger is opened again. Its
// state must be the one that the last acknowledged commit left, or the one of the commit under way,
// and nothing in between. The run has operations of every kind, checkpoints, truncations of the log
// and pages given back to the disk. The test must notice planted defects of durability.
//
// The run itself is never cut: at each call a second disk takes what this one would hold if the
// power failed then. In other runs one call fails and the disk works on: the ledger must end, and
// what it leaves must be such a state as well.
//
// MILLRACE_CRASH_SEEDS asks for more runs than one, MILLRACE_CRASH_SEED for one of them;
// MILLRACE_FAIL_EVERY=1 lets every call fail, not one in so many.
#include <map>
#include <set>

#include "tests/unit/ledger/scripted_run.hpp"

namespace millrace::broker::test {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

const std::map<Kept, const char*> kept_names{
    {Kept::nothing, "nothing"}, {Kept::everything, "everything"}, {Kept::some, "some"}};

// Looks at each call of a run.
class Crashes {
 public:
  explicit Crashes(ScriptedRun& run) : run_(run) {
    run.disk().before_each_call([this] { look(); });
  }
  ~Crashes() { run_.disk().before_each_call({}); }
  Crashes(const Crashes&) = delete;
  Crashes& operator=(const Crashes&) = delete;

  Status go() {
    MILLRACE_TRY(run_.go([this] { return !violations_.empty(); }));
    look();
    return {};
  }
  std::uint64_t inspected() const { return inspected_; }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  void look() {
    if (!violations_.empty()) return;
    const PowerCutDisk& disk = run_.disk();
    // Between two syncs a disk that keeps nothing holds the same.
    if (std::exchange(seen_syncs_, disk.syncs()) != disk.syncs()) inspect(Kept::nothing);
    inspect(disk.calls() % 3 == 0 ? Kept::everything : Kept::some);
  }
  void inspect(Kept kept) {
    ++inspected_;
    const std::uint64_t call = run_.disk().calls();
    left_.take(run_.disk(), call, kept);
    for (const std::string& what : Inspection(left_, run_.told(), run_.script()).run(call)) {
      violations_.push_back(numbered("crash at call ", call) +
                            numbered(", commit ", run_.commits()) + ", " + kept_names.at(kept) +
                            " kept: " + what);
    }
  }

  ScriptedRun& run_;
  PowerCutDisk left_;
  std::uint64_t inspected_ = 0, seen_syncs_ = UINT64_MAX;
  std::vector<std::string> violations_;
};

TEST(CrashPoints, LeaveTheStateOfACommit) {
  const std::uint64_t first = number_from("MILLRACE_CRASH_SEED", 1);
  const std::uint64_t count = number_from("MILLRACE_CRASH_SEEDS", 1);
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    ScriptedRun run(seed);
    Crashes crashes(run);
    const Status done = crashes.go();
    EXPECT_TRUE(done) << done.error().text();
    for (const std::string& violation : crashes.violations()) {
      ADD_FAILURE() << violation << "\nrepeat with MILLRACE_CRASH_SEED=" << seed;
    }
    std::printf("seed %llu: %llu calls, %llu states inspected\n",
                static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(run.disk().calls()),
                static_cast<unsigned long long>(crashes.inspected()));
    EXPECT_GT(crashes.inspected(), run.disk().calls());
  }
}

TEST(CrashPoints, TheRunHasAllThatWrites) {
  ScriptedRun run(1);
  ASSERT_TRUE(run.go());
  // A backup writes another file, and what brokers tell each other needs several of them.
  const std::set<std::size_t> write_nothing = {
      Operation(BackUp{}).index(), Operation(BeatBroker{}).index(), Operation(ReadNews{}).index()};
  for (std::size_t kind = 0; kind < std::variant_size_v<Operation>; ++kind) {
    if (write_nothing.contains(kind)) continue;
    EXPECT_TRUE(run.kinds().contains(kind))
        << "no operation of kind " << kind << " succeeds: RandomOperations must make some";
  }
  EXPECT_GT(run.disk().file("ledger").writes, 200u) << "checkpoints";
  EXPECT_GT(run.disk().file("ledger").cuts, 0u) << "pages given back to the disk";
  EXPECT_GT(run.disk().file("ledger-wal").cuts, 1u) << "truncations of the log";
}

// Answers at once and commits with the next call.
class HastyLedger final : public Ledger {
 public:
  explicit HastyLedger(std::unique_ptr<Ledger> real) : real_(std::move(real)) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    if (!waiting_.empty()) {
      if (auto late = real_->apply(waiting_, now_us); !late) return late;
    }
    waiting_.assign(operations.begin(), operations.end());
    return std::vector<Result<Reply>>(operations.size(), Reply{});
  }
  Status idle() override { return real_->idle(); }

 private:
  std::unique_ptr<Ledger> real_;
  std::vector<Operation> waiting_;
};

// Commits a batch in two parts.
class HalvingLedger final : public Ledger {
 public:
  explicit HalvingLedger(std::unique_ptr<Ledger> real) : real_(std::move(real)) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    const std::size_t half = operations.size() / 2;
    MILLRACE_ASSIGN(auto replies, real_->apply(operations.first(half), now_us));
    MILLRACE_ASSIGN(auto others, real_->apply(operations.subspan(half), now_us));
    std::move(others.begin(), others.end(), std::back_inserter(replies));
    return replies;
  }
  Status idle() override { return real_->idle(); }

 private:
  std::unique_ptr<Ledger> real_;
};

void expect_noticed(const char* defect, ScriptedRun run) {
  Crashes crashes(run);
  (void)crashes.go();
  ASSERT_FALSE(crashes.violations().empty()) << defect;
  std::printf("%s: %s\n", defect, crashes.violations().front().substr(0, 200).c_str());
}

TEST(CrashPoints, NoticePlantedDefects) {
  const auto wrap = [](auto* kind) {
    return [](std::unique_ptr<Ledger> real) -> std::unique_ptr<Ledger> {
      return std::make_unique<std::remove_pointer_t<decltype(kind)>>(std::move(real));
    };
  };
  expect_noticed("commits that are not synced", ScriptedRun(1, {"NORMAL"}));
  expect_noticed("checkpoints that are not synced", ScriptedRun(1, {"OFF"}));
  expect_noticed("an answer before its commit",
                 ScriptedRun(1, {}, wrap(static_cast<HastyLedger*>(nullptr))));
  expect_noticed("a batch in two commits",
                 ScriptedRun(1, {}, wrap(static_cast<HalvingLedger*>(nullptr))));
}

// One call fails, and the disk works on. After a failed sync the system holds what it could not
// write for written: the next sync succeeds and saves nothing.
class FailingCalls : public testing::Test {
 protected:
  // Returns whether the ledger has noticed.
  bool check(ScriptedRun& run, std::uint64_t call) {
    const Status ended = run.go();
    run.close();
    run.disk().restore(call, call % 2 == 0 ? Kept::everything : Kept::some);
    for (const std::string& what : Inspection(run.disk(), run.told(), run.script()).run(call)) {
      ADD_FAILURE() << what;
    }
    if (!ended) {
      EXPECT_EQ(code_name(ended.error().code), code_name(Code::io_error)) << ended.error().text();
    }
    return !ended;
  }
  const std::uint64_t every_ = number_from("MILLRACE_FAIL_EVERY", 31);
};

TEST_F(FailingCalls, OfWritesEndTheLedgerAndLeaveTheStateOfACommit) {
  std::uint64_t noticed = 0, calls = 0;
  for (std::uint64_t call = 1; !HasFailure(); call += every_) {
    SCOPED_TRACE(numbered("call ", call) + " fails");
    ScriptedRun run(1);
    run.disk().fail_at(call);
    const bool ended = check(run, call);
    if (!run.disk().has_failed()) break;
    ++calls;
    noticed += ended;
  }
  EXPECT_GE(noticed + 1, calls) << "only the last, when the file is closed, may go unnoticed";
  std::printf("%llu calls failed, %llu ended the ledger\n", static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(noticed));
}

TEST_F(FailingCalls, OfReadsEndTheLedgerAndLeaveTheStateOfACommit) {
  std::uint64_t noticed = 0, calls = 0;
  for (std::uint64_t call = 1; !HasFailure(); call += every_) {
    SCOPED_TRACE(numbered("read ", call) + " fails");
    ScriptedRun run(1);
    run.disk().fail_read_at(call);
    const bool ended = check(run, call);
    if (!run.disk().has_failed()) break;
    ++calls;
    noticed += ended;
  }
  EXPECT_EQ(noticed, calls);
  std::printf("%llu reads failed, %llu ended the ledger\n", static_cast<unsigned long long>(calls),
              static_cast<unsigned long long>(noticed));
}

// One bit of the file flips while nobody has it open. The ledger may refuse to open or to answer;
// what it serves are bodies that were stored, under their numbers.
class FlippedBits : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run_.go([this] { return run_.commits() >= ScriptedRun::steps; }));
    sound_ = read_all(run_.ledger());
    for (std::uint32_t n = 0; n < RandomOperations::jobs; ++n) {
      bodies_.insert(run_.script().body_of(n));
    }
    run_.close();
  }

  static std::vector<ReadStreamReply> read_all(Ledger& ledger) {
    std::vector<ReadStreamReply> out;
    for (const std::string& who : RandomOperations::tenants()) {
      for (const std::string& stream : RandomOperations::streams()) {
        ReadStream read = reading(stream);
        read.tenant = who;
        auto reply = ask_all(ledger, {read}).front();
        if (reply && std::get<ReadStreamReply>(*reply).trimmed) {
          read.from = std::get<ReadStreamReply>(*reply).first;
          reply = ask_all(ledger, {read}).front();
        }
        out.push_back(reply ? std::get<ReadStreamReply>(*reply) : ReadStreamReply{});
      }
    }
    return out;
  }

  void check_entries(Ledger& ledger) {
    const auto found = read_all(ledger);
    for (std::size_t i = 0; i < found.size(); ++i) {
      for (const Entry& entry : found[i].entries) {
        const auto same = std::ranges::find(sound_[i].entries, entry.number, &Entry::number);
        EXPECT_TRUE(same != sound_[i].entries.end() && same->body == entry.body)
            << "number " << entry.number << " has another body";
        ++served_;
      }
    }
  }
  void check_jobs(Ledger& ledger) {
    for (const std::string& who : RandomOperations::tenants()) {
      Claim claims{who, "engine", "model", 1'000, start_us + 1'000, ClaimFrom::jobs};
      claims.kv = {"f16/f16", "r5/r3"};
      const auto reply = ask_all(ledger, {claims}).front();
      if (!reply) continue;
      for (const ClaimedJob& job : std::get<ClaimReply>(*reply).jobs) {
        EXPECT_TRUE(bodies_.contains(job.body)) << job.job << " has a body that nobody submitted";
        ++served_;
      }
      reported_ += std::get<ClaimReply>(*reply).ended.size();
    }
  }

  ScriptedRun run_{3};
  std::vector<ReadStreamReply> sound_;
  std::set<Body> bodies_;
  std::uint64_t served_ = 0, reported_ = 0, unopened_ = 0;
};

TEST_F(FlippedBits, AreNeverServed) {
  PowerCutDisk disk;
  const ManualClock clock;
  std::mt19937_64 random(7);
  for (std::uint64_t i = 0; i < 300 && !HasFailure(); ++i) {
    SCOPED_TRACE(numbered("flip ", i));
    disk.take(run_.disk(), i, Kept::everything);
    auto& file = disk.file("ledger");
    char& byte = file.content.at(random() % file.content.size());
    byte = static_cast<char>(byte ^ (1 << random() % 8));
    file.durable = file.content;
    auto ledger = open_on(disk, clock);
    if (!ledger) {
      ++unopened_;
      EXPECT_FALSE(ledger.error().message.empty());
      continue;
    }
    check_entries(**ledger);
    check_jobs(**ledger);
  }
  std::printf("%llu bodies served, %llu jobs failed as damaged, %llu ledgers not opened\n",
              static_cast<unsigned long long>(served_), static_cast<unsigned long long>(reported_),
              static_cast<unsigned long long>(unopened_));
  EXPECT_GT(served_, 1'000u);
  EXPECT_GT(reported_, 0u);
}

}  // namespace
}  // namespace millrace::broker::test
