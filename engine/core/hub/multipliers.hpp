#pragma once
// Falcon H1's factors of matrices, which its class applies to what goes in and what comes out, and
// which files of the architecture contain. Thread safety: pure functions.
#include <array>
#include <string>
#include <vector>

#include "engine/core/hub/hub_family.hpp"
#include "engine/core/hub/settings.hpp"

namespace millrace::engine {

// Rows of a tensor, and the factors by which they are multiplied, one after the other.
struct RowFactors {
  std::uint64_t rows = 0;  // 0: all
  std::array<float, 2> factors{1.0f, 1.0f};
};
struct Multiplier {
  std::string tensor;  // "attn_q.weight"
  std::vector<RowFactors> rows;
};

// None, for other classes. Errors: folder_malformed.
Result<std::vector<Multiplier>> read_multipliers(const HubFamily& family, const Settings& config);

}  // namespace millrace::engine
