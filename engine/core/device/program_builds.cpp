#include "engine/core/device/program_builds.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "engine/core/device/program_helper.hpp"

namespace millrace::engine {

ProgramBuilds::~ProgramBuilds() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

void ProgramBuilds::allow_helpers(std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  helpers_ = helper_.empty() || !target_.cache->on() ? 0 : count;
}

Status ProgramBuilds::begin(const ProgramSpec& spec) {
  MILLRACE_ASSIGN(ProgramSource source, program_source(target_, spec));
  const std::lock_guard lock(mutex_);
  const auto [found, added] = builds_.try_emplace(source.key.hex());
  if (!added) return {};
  Build& build = found->second;
  build.source = std::move(source);
  const auto cost = [](const Build* of) {
    return std::pair(of->source.spec.completed, of->source.text.size());
  };
  waiting_.insert(std::ranges::upper_bound(waiting_, cost(&build), std::greater(), cost), &build);
  if (working_ == std::max(threads_alone_, helpers_)) return {};
  threads_.emplace_back([this, number = working_++] { work(number); });
  return {};
}

void ProgramBuilds::work(std::uint32_t number) {
  std::unique_ptr<ProgramHelper> helper;
  bool may_help = true;
  std::unique_lock lock(mutex_);
  while (!stopping_ && !waiting_.empty()) {
    Build& build = *waiting_.front();
    waiting_.pop_front();
    if (std::exchange(build.begun, true)) continue;
    may_help = may_help && number < helpers_;
    lock.unlock();
    bool helped = false;
    if (may_help && !target_.cache->holds(build.source.key, build.source.spec.name)) {
      if (!helper) helper = ProgramHelper::start(helper_, target_);
      helped = helper && helper->build(build.source);
      may_help = helper && !helper->lost();
    }
    auto done = build_program(target_, build.source);
    lock.lock();
    build.helped = helped;
    build.done = std::move(done);
    built_.notify_all();
  }
  --working_;
}

Result<Program> ProgramBuilds::take(const ProgramSpec& spec) {
  const auto start = std::chrono::steady_clock::now();
  auto program = give(spec);
  times_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return program;
}

Result<Program> ProgramBuilds::give(const ProgramSpec& spec) {
  MILLRACE_ASSIGN(const ProgramSource source, program_source(target_, spec));
  std::unique_lock lock(mutex_);
  const auto found = builds_.find(source.key.hex());
  if (found == builds_.end()) {
    lock.unlock();
    return count(build_program(target_, source), false);
  }
  Build& build = found->second;
  if (!std::exchange(build.begun, true)) {
    lock.unlock();
    auto done = build_program(target_, source);
    lock.lock();
    build.done = std::move(done);
  }
  built_.wait(lock, [&] { return build.done.has_value(); });
  return count(*build.done, build.helped);
}

Result<Program> ProgramBuilds::count(const Result<BuiltProgram>& built, bool helped) {
  if (!built) return std::unexpected(built.error());
  ++(built->cached && !helped ? times_.cached : times_.compiled);
  times_.by_helpers += helped ? 1 : 0;
  return built->program.share();
}

}  // namespace millrace::engine
