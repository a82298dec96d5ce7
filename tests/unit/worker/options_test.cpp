#include "engine/worker/options.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "engine/core/prefix/segment_store.hpp"

namespace millrace::worker {
namespace {

TEST(Options, Defaults) {
  EngineFlags flags;
  flags.model = "m.gguf";
  const auto options = engine_options(flags);
  ASSERT_TRUE(options) << options.error().text();
  EXPECT_EQ(options->model_path, "m.gguf");
  EXPECT_EQ(options->cores, 0u);
  EXPECT_EQ(options->kv, "f16");
  EXPECT_EQ(options->kv_memory_bytes, 1ull << 30);
  EXPECT_TRUE(options->kv_memory_auto);
  EXPECT_EQ(options->step_tokens, 0u);
  flags.kv_memory = "2GiB";
  EXPECT_FALSE(engine_options(flags).value().kv_memory_auto);
  EXPECT_EQ(engine_options(flags).value().kv_memory_bytes, 2ull << 30);
  flags.max_batch = max_batch_most;
  EXPECT_TRUE(engine_options(flags));
  EXPECT_EQ(options->math, engine::MathMode::fast);
  flags.math = "exact";
  EXPECT_EQ(engine_options(flags).value().math, engine::MathMode::exact);
  EXPECT_TRUE(options->prefix_cache);
  EXPECT_EQ(options->prefix_folder, "");
  flags.prefix_cache = "./prefixes";
  flags.prefix_disk = "2GiB";
  EXPECT_EQ(engine_options(flags).value().prefix_folder, "./prefixes");
  EXPECT_EQ(engine_options(flags).value().prefix_disk_bytes, 2ull << 30);
  EXPECT_FALSE(engine_options(flags).value().prefix_store);
  flags.prefix_cache = "shared:./prefixes/";
  EXPECT_EQ(engine_options(flags).value().prefix_folder, "");
  EXPECT_EQ(engine_options(flags).value().prefix_store()->place(), "./prefixes");
  flags.prefix_cache = "off";
  EXPECT_FALSE(engine_options(flags).value().prefix_cache);
}

TEST(Options, WhatThisVersionLacksIsRefusedByName) {
  const auto refused = [](auto change) {
    EngineFlags flags;
    change(flags);
    const auto options = engine_options(flags);
    EXPECT_FALSE(options);
    return options ? Error{} : options.error();
  };
  auto e = refused([](EngineFlags& f) { f.kv_memory = "lots"; });
  EXPECT_NE(e.message.find("--kv-memory lots"), std::string::npos) << e.message;
  e = refused([](EngineFlags& f) { f.prefix_disk = "x"; });
  EXPECT_NE(e.message.find("--prefix-disk x"), std::string::npos) << e.message;
  e = refused([](EngineFlags& f) { f.kv = "q9"; });
  EXPECT_EQ(e.code, Code::usage);
  EXPECT_NE(e.message.find("--kv q9"), std::string::npos);
  EXPECT_NE(e.hint.find("k5v3"), std::string::npos);
  EXPECT_NE(e.hint.find("auto"), std::string::npos) << e.hint;
  e = refused([](EngineFlags& f) { f.kv_protect = "ends"; });
  EXPECT_NE(e.message.find("--kv-protect ends"), std::string::npos);
  e = refused([](EngineFlags& f) { f.kv = "q8~1,1", f.kv_protect = "first:2"; });
  EXPECT_NE(e.message.find("--kv-protect first:2"), std::string::npos);
  e = refused([](EngineFlags& f) { f.prefix_cache = "disk"; });
  EXPECT_EQ(e.code, Code::usage);
  EXPECT_NE(e.message.find("--prefix-cache disk"), std::string::npos);
  e = refused([](EngineFlags& f) { f.prefix_cache = "shared:"; });
  EXPECT_NE(e.hint.find("shared:FOLDER"), std::string::npos) << e.hint;
  e = refused([](EngineFlags& f) { f.prefix_disk = "all"; });
  EXPECT_NE(e.message.find("all"), std::string::npos);
  e = refused([](EngineFlags& f) { f.math = "sloppy"; });
  EXPECT_EQ(e.code, Code::usage);
  e = refused([](EngineFlags& f) { f.kv_memory = "much"; });
  EXPECT_EQ(e.code, Code::usage);
  e = refused([](EngineFlags& f) { f.cores = 1'000'000; });
  EXPECT_EQ(e.code, Code::usage);
  EXPECT_NE(e.message.find("--cores 1000000, but this process may use "), std::string::npos);
  e = refused([](EngineFlags& f) { f.max_batch = 0; });
  EXPECT_EQ(e.code, Code::usage);
  e = refused([](EngineFlags& f) { f.prefill_chunk = 0; });
  EXPECT_EQ(e.code, Code::usage);
  e = refused([](EngineFlags& f) { f.max_batch = 100'000; });
  EXPECT_EQ(e.code, Code::usage);
  e = refused([](EngineFlags& f) { f.step_tokens = 63; });
  EXPECT_EQ(e.code, Code::usage);
  EXPECT_FALSE(e.hint.empty());
}

TEST(Options, AModelsIdIsItsFilesNameUnlessAnotherIsGiven) {
  const auto id = [](const std::string& model, const std::string& name = "") {
    EngineFlags flags;
    flags.model = model;
    flags.model_name = name;
    const auto options = engine_options(flags);
    return options ? options->model_name : options.error().text();
  };
  EXPECT_EQ(id("m.gguf"), "m");
  EXPECT_EQ(id("/models/v0.2/SmolLM2-135M-Instruct.Q4_1.gguf"), "SmolLM2-135M-Instruct.Q4_1");
  EXPECT_EQ(id("/models/big.Q4_K_M-00001-of-00012.gguf"), "big.Q4_K_M");
  EXPECT_EQ(id("-00001-of-00012.gguf"), "-00001-of-00012");  // a name has at least one character
  EXPECT_EQ(id("models/SmolLM2.Q4_1"), "SmolLM2.Q4_1");      // that is no suffix
  EXPECT_EQ(id("m.gguf", "house/model: 1"), "house/model: 1");
  const std::string limit = std::to_string(limits::id_bytes);
  for (const char* model : {".gguf", "*.gguf", "two\nlines.gguf", "\xff.gguf"}) {
    EXPECT_NE(id(model).find("usage: the file's name "), std::string::npos) << id(model);
    EXPECT_NE(id(model).find("give --model-name 1 to " + limit), std::string::npos) << id(model);
    EXPECT_EQ(id(model, "given"), "given");
  }
  EXPECT_NE(id("m.gguf", "*").find("usage: --model-name * cannot"), std::string::npos);
  EXPECT_NE(id("m.gguf", std::string(limits::id_bytes + 1, 'x')).find("usage: --model-name xx"),
            std::string::npos);
}

TEST(Options, ProtectionIsPartOfThePolicy) {
  const auto kv = [](const char* policy, const char* protect) {
    EngineFlags flags;
    flags.kv = policy;
    if (protect != nullptr) flags.kv_protect = protect;
    const auto options = engine_options(flags);
    return options ? options->kv : options.error().text();
  };
  EXPECT_EQ(kv("k5v3", nullptr), "k5v3");
  EXPECT_EQ(kv("k5v3", "auto"), "k5v3");
  EXPECT_EQ(kv("k5v3", "none"), "k5v3+none");
  EXPECT_EQ(kv("k5v3", "first:2,last:1"), "k5v3~2,1");
  EXPECT_EQ(kv("k5v3+none", nullptr), "k5v3+none");
  EXPECT_EQ(kv("auto", "none,layer:3"), "auto+layer:3+none");
}

TEST(Options, APipelineIsOneEngine) {
  EngineFlags flags;
  using Layers = std::vector<std::uint32_t>;
  const auto read = [&](const char* list) {
    flags.pipeline = list;
    const auto options = engine_options(flags);
    EXPECT_TRUE(options) << options.error().text();
    return options ? std::pair(options->pipeline, options->pipeline_layers)
                   : std::pair(std::string(), Layers());
  };
  EXPECT_EQ(read("all"), std::pair(std::string("all"), Layers()));
  EXPECT_EQ(read("0,0:1"), std::pair(std::string("0,0:1"), Layers()));
  EXPECT_EQ(read("0=3,0:1=14,2=1"), std::pair(std::string("0,0:1,2"), Layers({3, 14, 1})));
  const auto refused = [&](const char* list) {
    flags.pipeline = list;
    return engine_options(flags).error().message;
  };
  for (const char* list : {"0=3,1=x", "0=0,1=4", "0=,1=4", "0=3.5,1=4"}) {
    EXPECT_NE(refused(list).find("names no number of layers"), std::string::npos) << list;
  }
  EXPECT_EQ(refused("0=3,1"), "--pipeline 0=3,1 gives not all devices their layers");
  EXPECT_EQ(refused(","), "--pipeline , has an entry without a device");
  EXPECT_EQ(refused("=5"), "--pipeline =5 has an entry without a device");
  flags.devices = "all";
  EXPECT_EQ(refused("0,1"), "--pipeline and --devices exclude each other");
}

TEST(Options, AChildGetsTheSameFlags) {
  EngineFlags flags, read;
  flags.device = "0:1";  // and the list of devices: the caller gives each child its own
  flags.devices = "all";
  flags.pipeline = "0:0=12,0:1=18";
  flags.model_name = "a name";
  flags.cores = 1;
  flags.kv_memory = "3GiB";
  flags.kv_center = "some.keys";
  flags.max_batch = 7;
  flags.step_tokens = 99;
  flags.prefill_chunk = 5;
  flags.math = "exact";
  flags.step_limit_s = 7;
  CLI::App app;
  add_engine_options(app, read);
  auto arguments = engine_arguments(flags);
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  app.parse(arguments);
  EXPECT_EQ(read.device + read.devices, "");
  EXPECT_EQ(read.pipeline, flags.pipeline);
  EXPECT_EQ(read.model_name, flags.model_name);
  EXPECT_EQ(read.cores, flags.cores);
  EXPECT_EQ(read.kv_memory, flags.kv_memory);
  EXPECT_EQ(read.kv_center, flags.kv_center);
  EXPECT_EQ(read.max_batch, flags.max_batch);
  EXPECT_EQ(read.step_tokens, flags.step_tokens);
  EXPECT_EQ(read.prefill_chunk, flags.prefill_chunk);
  EXPECT_EQ(read.math, flags.math);
  EXPECT_EQ(read.step_limit_s, flags.step_limit_s);
}

}  // namespace
}  // namespace millrace::worker
