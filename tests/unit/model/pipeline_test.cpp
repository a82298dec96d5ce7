// A model over several devices computes the bits that it computes on one, whatever its layers have
// and wherever they are cut; and what cannot be cut is refused with what to do.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/layer_ranges.hpp"
#include "engine/core/model/plan_parts.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_experts.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/model/recurrent_models.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::must;

ModelOptions options_for(const std::string& kv, bool whole) {
  return {
      .kv = kv, .kv_bytes = 4 << 20, .step_tokens = 96, .step_outputs = 96, .whole_layers = whole};
}

TinyModel five_layers(TensorType type) {
  TinyModel model{.layers = 5, .width = 128, .heads = 2, .kv_heads = 1, .biases = false};
  model.type = type;
  return model;
}

// Two prompts in pieces, then steps of both.
std::vector<ModelRunner::Logits> logits_of(ModelRunner& runner) {
  constexpr std::uint32_t lengths[] = {90, 33}, ends = 3;
  Random random(5);
  std::vector<Tokens> sequences;
  for (const std::uint32_t length : lengths) {
    Tokens tokens(length);
    for (TokenId& id : tokens) id = random.below(70);
    sequences.push_back(std::move(tokens));
  }
  runner.set_sequences(sequences, 8);
  runner.step({{0, 0, 40}});
  runner.step({{0, 40, lengths[0] - 40 - ends}, {1, 0, lengths[1] - ends}});
  for (std::uint32_t i = ends; i > 0; --i) {
    runner.step({{0, lengths[0] - i, 1}, {1, lengths[1] - i, 1}});
  }
  return {runner.logits(0), runner.logits(1)};
}

void expect_same_bits(const GgufFile& file, ModelOptions options) {
  ModelRunner one(file, options);
  const auto want = logits_of(one);
  const std::uint32_t layers = must(read_spec(file)).layer_count();
  std::vector<std::vector<std::uint32_t>> cuts{{}, {1, layers - 1}};
  if (layers > 2) cuts.insert(cuts.end(), {{layers - 1, 1}, {1, layers - 2, 1}});
  for (const std::vector<std::uint32_t>& cut : cuts) {
    options.stage_layers = cut;
    const std::uint32_t stages = cut.empty() ? 2 : static_cast<std::uint32_t>(cut.size());
    ModelRunner several(file, options, {}, {}, stages);
    EXPECT_EQ(several.model().info().fingerprint, one.model().info().fingerprint);
    EXPECT_EQ(several.model().info().program, one.model().info().program);
    EXPECT_EQ(several.model().info().page_count, one.model().info().page_count);
    EXPECT_EQ(several.model().info().stages.size(), stages);
    EXPECT_TRUE(logits_of(several) == want) << stages << " stages, " << options.kv;
  }
}

TEST(Pipeline, SeveralDevicesGiveTheBitsOfOne) {
  const GgufFile file = five_layers(TensorType::q4_1).file();
  expect_same_bits(file, options_for("f16", true));
  expect_same_bits(file, options_for("f16", false));
  expect_same_bits(file, options_for("k8v4", true));
}

TEST(Pipeline, WindowsAndATiedOutputAreCutToo) {
  TinyModel model = five_layers(TensorType::q4_1);
  model.architecture = "gemma2";
  model.layer_tensors = {{"post_attention_norm", {model.width}}, {"post_ffw_norm", {model.width}}};
  model.attention.window = 37;
  model.tied = true;
  expect_same_bits(model.file(), options_for("f16", true));
}

TEST(Pipeline, ExpertsAndStatesStayOnTheirLayersDevice) {
  TinyModel experts = five_layers(TensorType::q4_1);
  testing::give_experts(experts);
  expect_same_bits(experts.file(), options_for("f16", true));
  ModelOptions options = options_for("f16", true);
  options.kv_bytes = 16 << 20;
  expect_same_bits(delta_net(64).file(), options);
  expect_same_bits(mamba(512, true).file(), options);
}

TEST(Pipeline, ThePagesOfAllDevicesMakeAPage) {
  const GgufFile file = five_layers(TensorType::f32).file();
  ModelOptions options = options_for("f16", true);
  const auto pages_of = [&](std::uint32_t stages) {
    ModelRunner runner(file, options, {}, {}, stages);
    logits_of(runner);
    Model& model = runner.model();
    const std::vector<PageId> pages{3, 4, 9};
    std::vector<std::byte> bytes(pages.size() * model.info().page_bytes);
    for (const DeviceEvent& event : must(model.read_pages(pages, bytes))) {
      must(runner.device().wait(event));
    }
    // What is written to other pages, or copied, is read again.
    const std::vector<PageId> others{20, 21, 22};
    for (const DeviceEvent& event : must(model.write_pages(others, bytes))) {
      must(runner.device().wait(event));
    }
    must(model.copy_page({.from = 21, .to = 5}));
    std::vector<std::byte> again(bytes.size());
    const std::vector<PageId> read{20, 5, 22};
    for (const DeviceEvent& event : must(model.read_pages(read, again))) {
      must(runner.device().wait(event));
    }
    EXPECT_TRUE(again == bytes);
    return bytes;
  };
  EXPECT_TRUE(pages_of(1) == pages_of(3));
}

TEST(Pipeline, RangesHaveAboutAsManyBytes) {
  const auto ranges = [](std::vector<std::uint64_t> bytes, std::uint32_t stages) {
    std::vector<std::uint32_t> counts;
    for (const LayerRange& range : even_ranges(bytes, stages)) counts.push_back(range.count());
    return counts;
  };
  using Counts = std::vector<std::uint32_t>;
  EXPECT_EQ(ranges({1, 1, 1, 1}, 2), (Counts{2, 2}));
  EXPECT_EQ(ranges({1, 1, 1, 1, 1, 1, 1, 3}, 2), (Counts{5, 3}));
  EXPECT_EQ(ranges({9, 1, 1, 1}, 3), (Counts{1, 2, 1}));
  EXPECT_EQ(ranges({1, 1, 1, 9}, 3), (Counts{2, 1, 1}));
  EXPECT_EQ(ranges({5, 5, 5}, 3), (Counts{1, 1, 1}));
}

TEST(Pipeline, WhatCannotBeCutIsRefused) {
  const GgufFile file = five_layers(TensorType::f32).file();
  const ModelSpec spec = must(read_spec(file));
  const auto refused = [&](const ModelSpec& of, std::uint32_t stages,
                           std::vector<std::uint32_t> counts, Code code, const std::string& what) {
    const auto made = layer_ranges(file, of, stages, counts);
    ASSERT_FALSE(made) << what;
    EXPECT_EQ(made.error().code, code);
    EXPECT_NE(made.error().message.find(what), std::string::npos) << made.error().text();
    EXPECT_FALSE(made.error().hint.empty());
  };
  refused(spec, 6, {}, Code::invalid_value, "6 devices, the model has 5 layers");
  refused(spec, 2, {5}, Code::invalid_value, "has 1 numbers of layers for 2 devices");
  refused(spec, 2, {2, 2}, Code::invalid_value, "names 4 layers, the model has 5");
  refused(spec, 2, {4, 2}, Code::invalid_value, "2 layers where 1 are left");
  refused(spec, 2, {5, 0}, Code::invalid_value, "0 layers where 0 are left");
  ModelSpec shared = spec;
  shared.layers[4].attention.cache_of = 1;
  refused(shared, 2, {}, Code::unsupported_architecture, "keys and values of layer 1");
  ModelSpec embeddings = spec;
  embeddings.layer_embedding = 16;
  refused(embeddings, 2, {}, Code::unsupported_architecture, "runs on one device alone");
  EXPECT_TRUE(layer_ranges(file, embeddings, 1, {}));
}

// A row of a plan as the scheduler makes it; those that draw have one output.
void add_row(StepPlan& plan, std::uint32_t slot, std::uint32_t count, bool draws, bool on_device) {
  PlanRow row;
  row.sequence = 100 + slot;
  row.count = count;
  row.slot = slot;
  if (on_device) row.device_slot = slot;
  row.output_offset = static_cast<std::uint32_t>(plan.outputs.size());
  row.output_count = draws ? 1 : 0;
  if (draws) plan.outputs.push_back({count - 1, OutputKind::logits});
  plan.rows.push_back(row);
}

TEST(Pipeline, AStepIsDividedSoThatRowsWaitForTheirOwnPartAlone) {
  StepPlan plan;
  for (std::uint32_t slot = 0; slot < 6; ++slot) add_row(plan, slot, 1, true, slot != 3);
  add_row(plan, 6, 40, false, false);
  add_row(plan, 8, 30, false, false);
  add_row(plan, 10, 20, true, false);
  for (std::uint32_t i = 0; i < 2 * plan.rows.size(); ++i) plan.windowed.push_back({i, 0, 1});
  plan.tokens = {7, 8, 9};
  std::vector<PlanPart> parts(2);
  divide(plan, parts);
  divide(plan, parts);  // parts are used again
  std::vector<std::uint32_t> outputs(plan.outputs.size());
  std::uint32_t tokens[2] = {};
  for (std::size_t part = 0; part < 2; ++part) {
    const StepPlan& of = parts[part].plan;
    EXPECT_EQ(of.tokens, plan.tokens);
    ASSERT_EQ(of.outputs.size(), parts[part].outputs.size());
    ASSERT_EQ(of.windowed.size(), 2 * of.rows.size());
    for (std::size_t r = 0; r < of.rows.size(); ++r) {
      const PlanRow& row = of.rows[r];
      tokens[part] += row.count;
      if (row.output_count > 0) {  // a row that draws is where the next step looks for its id
        EXPECT_EQ(row.slot % 2, part);
      }
      const auto original = std::ranges::find(plan.rows, row.sequence, &PlanRow::sequence);
      const auto place = static_cast<std::uint32_t>(original - plan.rows.begin());
      EXPECT_EQ(of.windowed[2 * r].offset, 2 * place);
      EXPECT_EQ(of.windowed[2 * r + 1].offset, 2 * place + 1);
      for (std::uint32_t i = 0; i < row.output_count; ++i) {
        const std::uint32_t of_plan = parts[part].outputs[row.output_offset + i];
        EXPECT_EQ(of_plan, original->output_offset + i);
        ++outputs[of_plan];
      }
    }
  }
  EXPECT_EQ(outputs, std::vector<std::uint32_t>(plan.outputs.size(), 1));
  // Slots 0, 2, 4 and 10 against 1, 3 and 5; the chunks go where fewer tokens are.
  EXPECT_EQ(tokens[0], 23u + 30u);
  EXPECT_EQ(tokens[1], 3u + 40u);
}

TEST(Pipeline, UnlikeDevicesAreRefused) {
  const auto one = testing::open_device();
  const auto other = testing::open_device({.max_allocation_bytes = 1 << 20});
  Device* const devices[] = {one.get(), other.get()};
  const GgufFile file = five_layers(TensorType::f32).file();
  const auto made = Model::load(devices, file, options_for("f16", true));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::invalid_value);
  EXPECT_NE(made.error().message.find("not of one kind"), std::string::npos);
}

}  // namespace
}  // namespace millrace::engine
