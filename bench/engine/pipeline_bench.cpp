// Compares a pipeline with one device: the same dummy model, the same rows, and the same bits.
//
//   pipeline_bench [--devices 0,1] [--shape 70b] [--type Q8_0] [--layers 40] [--rows 256]
//                  [--prompt 64] [--steps 24] [--whole yes]
//
// A pipeline of two divides a step into two parts. So --rows R are the rows of a part, and a step
// of the pipeline has 2 R; it also runs steps of R rows, in parts of half as many. One device runs
// half of the layers with R rows: if both devices always compute, a step of 2 R rows takes the
// pipeline twice as long. With --whole, one device also runs all layers, and the ids and logprobs
// that it draws must be the pipeline's, bit by bit. Prints one JSON object a line:
//
//   devices, layers, rows   what ran
//   ms                      the mean of a decode step; its rows have --prompt positions and more
//   enqueue_ms              of it, the host's time to enqueue it
//   share                   of a pipeline: the time in which the first side computes as many rows
//                           over this one
//   digest                  of the bits that were drawn
#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/engine/dummy_model.hpp"
#include "bench/must.hpp"
#include "engine/core/engine_devices.hpp"
#include "engine/core/gguf/tensor_type.hpp"
#include "engine/core/kv/page_pool.hpp"
#include "engine/core/model/model.hpp"
#include "engine/core/sampler/sampler.hpp"
#include "schemas/base/hash.hpp"

namespace {

using namespace millrace;
using namespace millrace::engine;
using bench::must;
using Clock = std::chrono::steady_clock;

struct Load {
  std::uint32_t rows = 256, prompt = 64, steps = 24;
  std::uint32_t pages_each() const { return (prompt + steps) / kv_page_tokens + 1; }
};
constexpr std::uint32_t warm_steps = 4, most_step_tokens = 4096;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// A model on some devices, and the loop of an engine: a step is enqueued before the one before it
// is waited for.
class Side {
 public:
  Side(const EngineOptions& on, const GgufFile& file, const bench::DummyShape& shape,
       const Load& most)
      : devices_(must(open_devices(on))) {
    ModelOptions options;
    const std::uint64_t token_bytes =
        std::uint64_t{4} * shape.layers * shape.kv_heads * shape.head_dim();
    options.kv_bytes = token_bytes * kv_page_tokens * most.rows * most.pages_each();
    options.step_tokens = std::max(most_step_tokens, most.rows);
    options.step_outputs = most.rows;
    options.stage_layers = on.pipeline_layers;
    model_ = must(Model::load(pointers(devices_), file, options));
    sampler_ = must(Sampler::create(*devices_.back(), shape.vocabulary, most.rows, most.rows));
    runner_ = must(make_runner(*model_, *sampler_));
  }

  struct Times {
    double step_ms = 0, enqueue_ms = 0;
  };
  Times run(const Load& load) {
    double sum_ms = 0;
    hash_ = Hasher128();
    std::deque<SampleBatch> batches;
    const std::uint32_t at_once = std::max(1u, most_step_tokens / load.prompt);
    for (std::uint32_t row = 0; row < load.rows; row += at_once) {
      const std::uint32_t end = std::min(load.rows, row + at_once);
      start(load, row, end, 0, batches.emplace_back());
      take(batches.front());
      batches.pop_front();
    }
    Clock::time_point from = Clock::now();
    for (std::uint32_t step = 1; step <= load.steps; ++step) {
      start(load, 0, load.rows, step, batches.emplace_back());
      if (step > warm_steps) sum_ms += enqueue_ms_;
      if (step == 1) continue;
      take(batches.front());
      batches.pop_front();
      if (step == warm_steps + 1) from = Clock::now();
    }
    take(batches.front());
    const double ms = milliseconds_since(from), steps = load.steps - warm_steps;
    return {ms / steps, sum_ms / steps};
  }
  std::string digest() const { return hash_.digest().hex(); }
  std::string layers() const { return layers_text(devices_, model_->info().stages); }

 private:
  // Step 0 computes prompts; the others the token that each row has drawn.
  void start(const Load& load, std::uint32_t first, std::uint32_t end, std::uint32_t step,
             SampleBatch& batch) {
    StepPlan plan;
    std::vector<SampleTask> tasks;
    for (std::uint32_t r = first; r < end; ++r) {
      PlanRow row;
      row.sequence = r + 1;
      row.slot = r;
      row.count = step == 0 ? load.prompt : 1;
      row.first_position = step == 0 ? 0 : load.prompt + step - 1;
      row.token_offset = static_cast<std::uint32_t>(plan.tokens.size());
      if (step > 0) row.device_slot = r;
      for (std::uint32_t i = 0; step == 0 && i < load.prompt; ++i) {
        plan.tokens.push_back(1000 + (r * 7919 + i * 104729) % (vocabulary() - 1000));
      }
      row.page_offset = static_cast<std::uint32_t>(plan.pages.size());
      row.page_count = load.pages_each();
      for (std::uint32_t i = 0; i < row.page_count; ++i) {
        plan.pages.push_back(r * row.page_count + i);
      }
      row.output_offset = static_cast<std::uint32_t>(plan.outputs.size());
      row.output_count = 1;
      plan.outputs.push_back({row.count - 1, OutputKind::logits});
      plan.rows.push_back(row);
      SampleTask& task = tasks.emplace_back();
      task.slot = r;
      task.sequence = ++sequences_;
      task.position = load.prompt + step;
      task.sampling.seed = r;
      task.sampling.temperature = 1;
      task.logprob = true;
    }
    const Clock::time_point from = Clock::now();
    must(runner_->forward(plan));
    must(runner_->sample(tasks, batch));
    enqueue_ms_ = milliseconds_since(from);
  }

  void take(SampleBatch& batch) {
    must(runner_->wait(batch));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Sampled row = batch.row(i);
      if (row.fault != SampleFault::none) bench::die("a row drew no id: a logit is not a number");
      const std::uint32_t words[] = {row.id, std::bit_cast<std::uint32_t>(row.logprob)};
      hash_.update(std::string_view(reinterpret_cast<const char*>(words), sizeof words));
    }
  }
  std::uint32_t vocabulary() const { return model_->info().vocabulary; }

  EngineDevices devices_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Sampler> sampler_;
  std::unique_ptr<StepRunner> runner_;
  std::uint64_t sequences_ = 0;
  double enqueue_ms_ = 0;  // of the last step
  Hasher128 hash_;
};

void print(const nlohmann::json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Compares a model over several devices with half of it on one");
  std::string shape_name = "70b", type_name = "Q8_0", whole = "yes", devices = "0,1";
  std::uint32_t layers = 40;
  Load load;
  EngineOptions options;
  app.add_option("--devices", devices, "as --pipeline of millrace-engine")->capture_default_str();
  app.add_option("--pipeline-layers", options.pipeline_layers, "layers of each")->delimiter(',');
  app.add_option("--shape", shape_name, "8b, 70b or tiny")->capture_default_str();
  app.add_option("--type", type_name, "Q8_0 or Q4_0")->capture_default_str();
  app.add_option("--layers", layers, "of the whole model; even")->capture_default_str();
  app.add_option("--rows", load.rows, "of a part of a step")->capture_default_str();
  app.add_option("--prompt", load.prompt, "tokens of each row's prompt")->capture_default_str();
  app.add_option("--steps", load.steps, "decode steps, more than 4")->capture_default_str();
  app.add_option("--whole", whole, "yes: also all layers on one device")->capture_default_str();
  app.add_option("--variant", options.kernel_variant, "kernels: generic, cpu or nvidia");
  app.add_option("--cores", options.cores, "cores for loading, or of a CPU device");
  CLI11_PARSE(app, argc, argv);
  if (load.steps <= warm_steps || load.prompt == 0 || layers % 2 != 0) {
    bench::die("give --steps above 4, a --prompt and an even number of --layers");
  }
  bench::DummyShape shape = must(bench::dummy_shape(shape_name));
  const TensorType type = type_name == "Q4_0" ? TensorType::q4_0 : TensorType::q8_0;
  Load twice = load;
  twice.rows *= 2;
  std::vector<Load> loads{load, twice};

  double half_ms = 0;
  {
    shape.layers = layers / 2;
    const GgufFile file = must(bench::dummy_model(shape, type));
    Side half(options, file, shape, load);
    const Side::Times times = half.run(load);
    half_ms = times.step_ms;
    print({{"devices", 1},
           {"layers", shape.layers},
           {"rows", load.rows},
           {"ms", half_ms},
           {"enqueue_ms", times.enqueue_ms}});
  }
  shape.layers = layers;
  const GgufFile file = must(bench::dummy_model(shape, type));
  std::vector<std::string> wanted;
  if (whole == "yes") {
    EngineOptions one = options;
    one.pipeline_layers.clear();
    Side all(one, file, shape, twice);
    for (const Load& each : loads) {
      const Side::Times times = all.run(each);
      wanted.push_back(all.digest());
      print({{"devices", 1},
             {"layers", layers},
             {"rows", each.rows},
             {"ms", times.step_ms},
             {"enqueue_ms", times.enqueue_ms},
             {"digest", all.digest()}});
    }
  }
  options.pipeline = devices;
  Side pipeline(options, file, shape, twice);
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const Side::Times times = pipeline.run(loads[i]);
    const double as_many_ms = half_ms * loads[i].rows / load.rows;
    print({{"devices", devices},
           {"layers", pipeline.layers()},
           {"rows", loads[i].rows},
           {"ms", times.step_ms},
           {"enqueue_ms", times.enqueue_ms},
           {"share", as_many_ms / times.step_ms},
           {"digest", pipeline.digest()}});
    if (!wanted.empty() && wanted[i] != pipeline.digest()) {
      bench::die("the pipeline drew other bits than one device");
    }
  }
  return 0;
}
