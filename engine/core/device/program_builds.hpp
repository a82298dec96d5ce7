#pragma once
// Programs that are built before they are asked for, on threads of their own; internal to this
// folder. A driver builds a program on one core, and a model needs some twenty.
//
// Where helpers are allowed, a thread has its helper compile what is not in the cache, and then
// builds it from the cache (program_helper.hpp).
//
// The threads make only such calls as the standard allows beside others: each creates a program
// object, builds it and reads its binary. Everything else, kernels of these programs included, is
// the owner thread's. Thread safety: the device's owner thread; the context, the device and the
// cache must outlive it.
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/device/program_builder.hpp"

namespace millrace::engine {

class ProgramBuilds {
 public:
  // With fewer than two threads nothing is built ahead. `helper` is the path of a program, or
  // empty (helper_program.hpp).
  ProgramBuilds(const BuildTarget& target, std::uint32_t threads, std::string helper)
      : target_(target), threads_alone_(threads), helper_(std::move(helper)) {}
  ProgramBuilds(const ProgramBuilds&) = delete;
  ProgramBuilds& operator=(const ProgramBuilds&) = delete;
  // Waits for the programs that are being built and drops those that wait.
  ~ProgramBuilds();

  bool ahead() const { return threads_alone_ > 1; }
  // How many helpers there may be from now on.
  void allow_helpers(std::uint32_t count);
  // Begins to build a program, once for each text. Those that are built twice go first, because
  // they take longest. Errors: those of program_text; others come from take().
  Status begin(const ProgramSpec& spec);
  // The program, which is built here and now if no thread has begun it. Errors: build_program's.
  Result<Program> take(const ProgramSpec& spec);

  // How many programs take() gave, and how long it took.
  const ProgramTimes& times() const { return times_; }

 private:
  struct Build {
    ProgramSource source;
    bool begun = false, helped = false;
    std::optional<Result<BuiltProgram>> done{};
  };

  // What a thread does, the first of which may have helpers.
  void work(std::uint32_t number);
  Result<Program> give(const ProgramSpec& spec);
  Result<Program> count(const Result<BuiltProgram>& built, bool helped);

  const BuildTarget target_;
  const std::uint32_t threads_alone_;  // without helpers
  const std::string helper_;
  ProgramTimes times_;
  std::mutex mutex_;
  std::condition_variable built_;
  // By the hash of the text. They stay, so that a program that several ask for is built once.
  std::map<std::string, Build> builds_;
  std::deque<Build*> waiting_;
  bool stopping_ = false;
  std::uint32_t helpers_ = 0;
  std::uint32_t working_ = 0;          // threads
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace millrace::engine
