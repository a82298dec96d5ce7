// Host and device agree on every struct that both read.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/sampler/state.h"
#include "kernels/sampler/task.h"
#include "kernels/step/records.h"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using kernels::ResultRecord;
using kernels::StateHeader;
using kernels::StateTable;
using kernels::TaskRecord;
using kernels::TileRecord;
using kernels::UnitRecord;
using testing::download;
using testing::must;
using testing::open_device;
using testing::upload;

struct Member {
  const char* name;
  std::size_t offset, size;
};

// Returns offsets and sizes of the members, then the size of the struct, as a kernel sees them.
std::vector<std::uint32_t> seen_by_kernel(const std::string& file, const std::string& type,
                                          const std::vector<Member>& members) {
  std::string text = "#include \"" + file + "\"\n" + "__kernel void see(__global uint* out) {\n  " +
                     type + " x;\n" +
                     "  const __private char* begin = (const __private char*)&x;\n";
  for (const Member& member : members) {
    const std::string field = "x." + std::string(member.name);
    text += "  *out++ = (uint)((const __private char*)&" + field + " - begin);\n";
    text += "  *out++ = sizeof " + field + ";\n";
  }
  text += "  *out = sizeof x;\n}\n";
  const auto device = open_device();
  const Program program = must(device->build({.name = "layout", .text = text}));
  Kernel kernel = must(device->kernel(program, "see"));
  const std::size_t words = members.size() * 2 + 1;
  const Buffer out = upload(*device, std::vector<std::uint32_t>(words));
  must(device->launch(kernel, {.groups = {1}, .local = {1}}, {out}));
  return download<std::uint32_t>(*device, out, words);
}

void expect_agreement(const std::string& file, const std::string& type,
                      const std::vector<Member>& members, std::size_t size) {
  const auto seen = seen_by_kernel(file, type, members);
  std::size_t end = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    EXPECT_EQ(member.offset, end) << "a member before " << type << "::" << member.name
                                  << " is not in the list, or there is a hole";
    end = member.offset + member.size;
    EXPECT_EQ(seen[2 * i], member.offset) << type << "::" << member.name;
    EXPECT_EQ(seen[2 * i + 1], member.size) << type << "::" << member.name;
  }
  EXPECT_EQ(end, size) << type << " has members that are not in the list";
  EXPECT_EQ(seen.back(), size) << type;
}

#define MEMBER(type, name)                          \
  Member {                                          \
#name, offsetof(type, name), sizeof(type::name) \
  }

TEST(SharedLayout, OfTasks) {
  expect_agreement("sampler/task.h", "TaskRecord",
                   {MEMBER(TaskRecord, seed),
                    MEMBER(TaskRecord, top_p),
                    MEMBER(TaskRecord, xtc_probability),
                    MEMBER(TaskRecord, flags),
                    MEMBER(TaskRecord, slot),
                    MEMBER(TaskRecord, target),
                    MEMBER(TaskRecord, position),
                    MEMBER(TaskRecord, sample),
                    MEMBER(TaskRecord, inverse_temperature),
                    MEMBER(TaskRecord, top_k),
                    MEMBER(TaskRecord, min_p),
                    MEMBER(TaskRecord, typical_p),
                    MEMBER(TaskRecord, xtc_threshold),
                    MEMBER(TaskRecord, banned),
                    MEMBER(TaskRecord, banned_count),
                    MEMBER(TaskRecord, top),
                    MEMBER(TaskRecord, top_at),
                    MEMBER(TaskRecord, listed),
                    MEMBER(TaskRecord, listed_count),
                    MEMBER(TaskRecord, listed_at),
                    MEMBER(TaskRecord, state)},
                   sizeof(TaskRecord));
}

TEST(SharedLayout, OfResults) {
  expect_agreement("sampler/task.h", "ResultRecord",
                   {MEMBER(ResultRecord, id), MEMBER(ResultRecord, flags),
                    MEMBER(ResultRecord, logprob), MEMBER(ResultRecord, stages)},
                   sizeof(ResultRecord));
}

TEST(SharedLayout, OfTheStepTable) {
  expect_agreement("step/records.h", "TileRecord",
                   {MEMBER(TileRecord, token), MEMBER(TileRecord, tokens)}, sizeof(TileRecord));
  expect_agreement(
      "step/records.h", "UnitRecord",
      {MEMBER(UnitRecord, token), MEMBER(UnitRecord, tokens), MEMBER(UnitRecord, first),
       MEMBER(UnitRecord, count), MEMBER(UnitRecord, partial), MEMBER(UnitRecord, counter),
       MEMBER(UnitRecord, parts), MEMBER(UnitRecord, unused)},
      sizeof(UnitRecord));
}

TEST(SharedLayout, OfStates) {
  expect_agreement("sampler/state.h", "StateTable",
                   {MEMBER(StateTable, first), MEMBER(StateTable, window),
                    MEMBER(StateTable, count), MEMBER(StateTable, pairs)},
                   sizeof(StateTable));
  expect_agreement("sampler/state.h", "StateHeader",
                   {MEMBER(StateHeader, count),
                    MEMBER(StateHeader, history),
                    MEMBER(StateHeader, bias_count),
                    MEMBER(StateHeader, bias),
                    MEMBER(StateHeader, repetition),
                    MEMBER(StateHeader, repetition_inverse),
                    MEMBER(StateHeader, repetition_table),
                    MEMBER(StateHeader, presence),
                    MEMBER(StateHeader, presence_table),
                    MEMBER(StateHeader, frequency),
                    MEMBER(StateHeader, frequency_table),
                    MEMBER(StateHeader, tables),
                    MEMBER(StateHeader, ngram),
                    MEMBER(StateHeader, allowed_count),
                    MEMBER(StateHeader, allowed),
                    MEMBER(StateHeader, bad_words_size),
                    MEMBER(StateHeader, bad_words),
                    MEMBER(StateHeader, dry_allowed),
                    MEMBER(StateHeader, dry_longest),
                    MEMBER(StateHeader, dry_window),
                    MEMBER(StateHeader, breaker_count),
                    MEMBER(StateHeader, breakers),
                    MEMBER(StateHeader, dry_penalties),
                    MEMBER(StateHeader, dry_repeats),
                    MEMBER(StateHeader, log),
                    MEMBER(StateHeader, table)},
                   sizeof(StateHeader));
}

}  // namespace
}  // namespace millrace::engine
