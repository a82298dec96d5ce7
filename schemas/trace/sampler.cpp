#include "schemas/trace/sampler.hpp"

#include <charconv>
#include <cstdint>

namespace millrace::trace {

Result<Sampler> Sampler::named(std::string_view name, std::string_view argument) {
  constexpr std::string_view by_parent = "parentbased_";
  Sampler sampler;
  sampler.by_parent_ = name.starts_with(by_parent);
  const std::string_view rest = sampler.by_parent_ ? name.substr(by_parent.size()) : name;
  if (rest == "always_on") {
    sampler.ratio_ = 1;
  } else if (rest == "always_off") {
    sampler.ratio_ = 0;
  } else if (rest == "traceidratio") {
    sampler.ratio_ = 1;
    if (argument.empty()) return sampler;
    const char* const end = argument.data() + argument.size();
    const auto read =
        std::from_chars(argument.data(), argument.data() + argument.size(), sampler.ratio_);
    if (read.ec != std::errc() || read.ptr != end || !(sampler.ratio_ >= 0) || sampler.ratio_ > 1) {
      return fail(Code::usage,
                  "OTEL_TRACES_SAMPLER_ARG: " + std::string(argument) + " is no share of traces",
                  "give a number from 0 to 1, such as 0.25");
    }
  } else {
    return fail(Code::usage, "OTEL_TRACES_SAMPLER: there is no sampler " + std::string(name),
                "name always_on, always_off or traceidratio, or one of them after parentbased_");
  }
  return sampler;
}

bool Sampler::takes(const std::optional<Context>& parent, std::string_view trace) const {
  if (by_parent_ && parent) return parent->sampled;
  if (ratio_ <= 0) return false;
  if (ratio_ >= 1) return true;
  // The last 63 bits of the id, as other programs of OpenTelemetry compare them.
  std::uint64_t bits = 0;
  const std::string_view last = trace.substr(trace.size() < 16 ? 0 : trace.size() - 16);
  std::from_chars(last.data(), last.data() + last.size(), bits, 16);
  return (bits >> 1) < static_cast<std::uint64_t>(ratio_ * 0x1p63);
}

}  // namespace millrace::trace
