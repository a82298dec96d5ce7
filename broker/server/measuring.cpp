#include "broker/server/measuring.hpp"

#include <filesystem>
#include <system_error>
#include <utility>

namespace millrace::broker {

void Measuring::want(Measured then) {
  const std::lock_guard lock(mutex_);
  wanting_.push_back(std::move(then));
}

std::optional<LedgerRequest> Measuring::begin() {
  if (survey_.running()) return {};
  {
    const std::lock_guard lock(mutex_);
    if (wanting_.empty()) return {};
    waiting_.swap(wanting_);
  }
  return survey_.begin();
}

std::optional<LedgerRequest> Measuring::completed(const Completed& completed,
                                                  const std::function<Measures()>& rest) {
  auto next = survey_.completed(completed);
  if (next) return next;
  Result<Measures> done = rest();
  if (auto held = survey_.take(); held) {
    done->held = *std::move(held);
  } else {
    done = fail(held.error());
  }
  std::vector<Measured> waiting;
  {
    const std::lock_guard lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const Measured& then : waiting) then(done);
  return {};
}

void Measuring::refuse(const Error& error) {
  std::vector<Measured> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(waiting_);
    for (Measured& then : std::exchange(wanting_, {})) all.push_back(std::move(then));
  }
  const Result<Measures> refused = fail(error);
  for (const Measured& then : all) then(refused);
}

std::optional<StoreMeasures> measure_store(const LedgerPlace& place, Env& env) {
  if (place.kind != LedgerPlace::Kind::sqlite) return {};
  const auto bytes = [&](const char* suffix) -> std::uint64_t {
    std::error_code absent;
    const auto size = std::filesystem::file_size(place.folder + "/" + ledger_file + suffix, absent);
    return absent ? 0 : size;
  };
  return StoreMeasures{bytes(""), bytes("-wal"), env.free_bytes(place.folder).value_or(0)};
}

}  // namespace millrace::broker
