#include "engine/core/device/program_builds.hpp"

#include <chrono>
#include <utility>

namespace millrace::engine {

ProgramBuilds::~ProgramBuilds() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
}

Status ProgramBuilds::begin(const ProgramSpec& spec) {
  MILLRACE_ASSIGN(ProgramSource source, program_source(target_, spec));
  const std::lock_guard lock(mutex_);
  const auto [found, added] = builds_.try_emplace(source.key.hex());
  if (!added) return {};
  Build& build = found->second;
  build.source = std::move(source);
  if (spec.completed) {
    waiting_.push_front(&build);
  } else {
    waiting_.push_back(&build);
  }
  if (working_ == most_threads_) return {};
  ++working_;
  threads_.emplace_back([this] { work(); });
  return {};
}

void ProgramBuilds::work() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !waiting_.empty()) {
    Build& build = *waiting_.front();
    waiting_.pop_front();
    if (std::exchange(build.begun, true)) continue;
    lock.unlock();
    auto done = build_program(target_, build.source);
    lock.lock();
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
    return count(build_program(target_, source));
  }
  Build& build = found->second;
  if (!std::exchange(build.begun, true)) {
    lock.unlock();
    auto done = build_program(target_, source);
    lock.lock();
    build.done = std::move(done);
  }
  built_.wait(lock, [&] { return build.done.has_value(); });
  return count(*build.done);
}

Result<Program> ProgramBuilds::count(const Result<BuiltProgram>& built) {
  if (!built) return std::unexpected(built.error());
  ++(built->cached ? times_.cached : times_.compiled);
  return built->program.share();
}

}  // namespace millrace::engine
