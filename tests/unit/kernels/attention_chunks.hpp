#pragma once
// Checks that attention gives the same bits when the tokens of a step come in several steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/unit/kernels/attention_fixture.hpp"

namespace millrace::engine {

// Returns a problem with `count` tokens of a row from its token `offset` on, alone in a step, with
// the pages as they are then.
inline Problem part_of(const Problem& whole, const PlanRow& row, std::uint32_t offset,
                       std::uint32_t count, std::vector<std::uint8_t> pages) {
  Problem out = whole;
  out.pages = std::move(pages);
  PlanRow part = row;
  part.first_position += offset;
  part.count = count;
  part.token_offset = 0;
  out.plan.rows = {part};
  out.plan.tokens.resize(count);
  const auto from =
      whole.qkv.begin() + std::ptrdiff_t{whole.qkv_stride()} * (row.token_offset + offset);
  out.qkv.assign(from, from + std::ptrdiff_t{whole.qkv_stride()} * count);
  return out;
}

// Checks that a step's rows, cut into chunks with a step each, give the bits of the whole step.
inline void expect_same_in_chunks(Runner& runner, const Problem& whole, const Results& want,
                                  std::uint32_t chunk) {
  const std::uint32_t stride = whole.out_stride();
  std::vector<std::uint8_t> pages = whole.pages;
  for (const PlanRow& row : whole.plan.rows) {
    for (std::uint32_t done = 0; done < row.count; done += chunk) {
      const std::uint32_t count = std::min(chunk, row.count - done);
      Results got = runner.run(part_of(whole, row, done, count, std::move(pages)));
      pages = std::move(got.pages);
      const std::size_t at = std::size_t{row.token_offset + done} * stride;
      ASSERT_TRUE(std::equal(got.out.begin(), got.out.end(), want.out.begin() + at))
          << "row of " << row.first_position << ", " << done << " in chunks of " << chunk;
    }
  }
  EXPECT_EQ(pages, want.pages);
}

}  // namespace millrace::engine
