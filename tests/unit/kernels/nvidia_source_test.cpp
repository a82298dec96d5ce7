// Compiles the kernels of NVIDIA GPUs for such a GPU, with clang, on a machine that has none: the
// instructions must be there, and their operands must fit them.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/core/device/completed_text.hpp"
#include "engine/core/device/source_text.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/nvidia/expert_shapes.hpp"
#include "engine/core/model/backend/panel_layout.hpp"
#include "engine/core/model/forms.hpp"
#include "engine/core/model/kv_program.hpp"
#include "engine/core/model/program_text.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;
constexpr const char* compiler = "clang-19";

bool has_compiler() {
  return std::system((std::string(compiler) + " --version >/dev/null 2>&1").c_str()) == 0;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the assembler text of a program's last kernel, or what the compiler says.
std::string compile(const ProgramSpec& spec, const std::string& processor,
                    const std::string& kernel = "matmul") {
  const fs::path folder = fs::temp_directory_path() / ("nvidia-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  const fs::path source = folder / "program.cl", out = folder / "program.ptx";
  std::ofstream(source) << testing::must(program_text(spec));
  const std::string command = std::string(compiler) +
                              " -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -O2 -S "
                              "-target nvptx64-nvidia-nvcl -Xclang -target-cpu -Xclang " +
                              processor + " -Xclang -target-feature -Xclang +ptx80 -w -o " +
                              out.string() + " " + source.string() + " 2>" +
                              (folder / "errors").string();
  const bool done = std::system(command.c_str()) == 0;
  const std::string text = done ? read(out) : "error: " + read(folder / "errors");
  fs::remove_all(folder);
  // The functions that the kernel calls are inlined; the compiler leaves copies before it.
  const std::size_t entry = text.rfind(".entry " + kernel);
  return entry == text.npos ? text : text.substr(entry);
}

ProgramSpec program_for(TensorType type, bool wide) {
  const PanelLayout layout{format_of(type), 512, true};
  ProgramSpec spec{
      .name = "half_matmul", .sources = {"matmul/half_nvidia.cl"}, .defines = layout.defines()};
  for (const auto& [name, value] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"X_STRIDE", code_stride(layout.columns, CodeForm::halves)},
           {"MATRIX_UNIT", 1},
           {"GROUP_WARPS", wide ? 8 : 2},
           {"WARP_PANELS", wide ? 2 : 1},
           {"WARP_TILES", wide ? 8 : 1},
           {"STAGE_BLOCKS", wide ? 2 : 8},
           {"STAGES", 3},
           {"ROW_ITEMS", 32}}) {
    spec.defines.push_back(define(name, value));
  }
  return spec;
}

TEST(NvidiaSource, CompilesToMatrixInstructions) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.type == TensorType::f32) continue;
    for (const bool wide : {false, true}) {
      SCOPED_TRACE(std::string(type.name) + (wide ? ", wide" : ", narrow"));
      const std::string text = compile(program_for(type.type, wide), "sm_80");
      EXPECT_NE(text.find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), text.npos)
          << text.substr(0, 2000);
      EXPECT_NE(text.find("cp.async.cg.shared.global"), text.npos);
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  }
}

// With what kinds of attention add, and with queries that registers do not hold.
TEST(NvidiaSource, AttentionCompilesToMatrixInstructions) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  for (const std::uint64_t head_dim : {64u, 80u, 128u, 256u}) {
    for (const std::uint64_t shared : {0u, 1u}) {
      const std::uint64_t warps = 4;
      SCOPED_TRACE(std::to_string(head_dim) + " channels" + (shared != 0 ? ", shared rows" : ""));
      ProgramSpec spec{.name = "attention",
                       .sources = {"attention/nvidia.cl"},
                       .defines = {"SINKS=1", "SOFT_CAP=30.0f", "WINDOW=100"}};
      for (const auto& [name, value] :
           std::vector<std::pair<std::string, std::uint64_t>>{{"HEAD_DIM", head_dim},
                                                              {"HEADS", 24},
                                                              {"KV_HEADS", 3},
                                                              {"HEAD_SETS", 3},
                                                              {"GROUP_WARPS", warps},
                                                              {"SHARED_ROWS", shared},
                                                              {"RING", shared != 0 ? 3 : 2},
                                                              {"MATRIX_UNIT", 1},
                                                              {"ROW_ITEMS", 128}}) {
        spec.defines.push_back(define(name, value));
      }
      const std::string text = compile(spec, "sm_80", "attention");
      for (const char* instruction :
           {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "cp.async.cg.shared.global",
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "ex2.approx.ftz.f32"}) {
        EXPECT_NE(text.find(instruction), text.npos) << instruction << text.substr(0, 2000);
      }
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  }
}

// Codes are bytes of the integer instruction, with a sign or, of 8 bits, without, for a warp alone
// and for eight that share blocks.
TEST(NvidiaSource, AttentionOverCodesCompilesToIntegerInstructions) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  constexpr const char* bytes = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32";
  constexpr const char* codes = "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32";
  struct Case {
    std::string_view policy;
    const char *keys, *values;
  };
  for (const auto& [policy, keys, values] :
       {Case{"k4v3", bytes, bytes}, Case{"q8", codes, codes}, Case{"k8v4", codes, bytes},
        Case{"r3/r4", bytes, bytes}, Case{"q2g32/q4g128", bytes, bytes}}) {
    for (const std::uint64_t warps : {1u, 8u}) {
      const bool bulk = policy == "k4v3" || policy == "q8";
      SCOPED_TRACE(std::string(policy) + ", " + std::to_string(warps) + " warps");
      ProgramSpec spec{.name = "attention",
                       .sources = {"attention/nvidia_levels.cl"},
                       .defines = {"SINKS=1", "SOFT_CAP=30.0f", "WINDOW=100"}};
      for (const auto& [name, value] :
           std::vector<std::pair<std::string, std::uint64_t>>{{"HEAD_DIM", 128},
                                                              {"HEADS", 32},
                                                              {"KV_HEADS", 8},
                                                              {"HEAD_SETS", 8},
                                                              {"GROUP_WARPS", warps},
                                                              {"LEVELS", 1},
                                                              {"WARP_PARTS", warps > 1 ? 2 : 1},
                                                              {"BULK_COPIES", bulk ? 1 : 0},
                                                              {"RING", 1},
                                                              {"MATRIX_UNIT", 1},
                                                              {"ROW_ITEMS", 128}}) {
        spec.defines.push_back(define(name, value));
      }
      add_kv_defines(spec, testing::must(parse_kv_policy(policy)).codecs, 128, MathMode::fast);
      const std::string text = compile(spec, bulk ? "sm_90" : "sm_80", "attention");
      for (const char* instruction :
           {keys, values, "prmt.b32", "ex2.approx.ftz.f32",
            bulk ? "cp.async.bulk.shared::cluster.global" : "cp.async.cg.shared.global"}) {
        EXPECT_NE(text.find(instruction), text.npos) << instruction << text.substr(0, 2000);
      }
      EXPECT_EQ(text.find("f16.f16"), text.npos) << "products of halves";
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  }
}

// Its instructions are marked, because no compiler of OpenCL knows them.
TEST(NvidiaSource, MarksTheInstructionsOfFourWarps) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.type == TensorType::f32) continue;
    const PanelLayout layout{format_of(type.type), 512, true};
    const auto sizes = layout.unit_rows() ? std::vector<std::uint64_t>{8, 32, 64, 128, 256}
                                          : std::vector<std::uint64_t>{64, 128, 256};
    for (const std::uint64_t columns : sizes) {
      SCOPED_TRACE(std::string(type.name) + ", " + std::to_string(columns) + " columns");
      ProgramSpec spec{
          .name = "wide_matmul",
          .sources = {layout.unit_rows() ? "matmul/rows_wgmma.cl" : "matmul/half_wgmma.cl"},
          .defines = layout.defines()};
      for (const auto& [name, value] : std::vector<std::pair<std::string, std::uint64_t>>{
               {"X_STRIDE", code_stride(layout.columns, CodeForm::halves)},
               {"MATRIX_UNIT", 1},
               {"WARPGROUPS", 2},
               {"TILE_COLUMNS", columns},
               {"STAGES", 4},
               {"ROW_ITEMS", 32}}) {
        spec.defines.push_back(define(name, value));
      }
      const std::string text = compile(spec, "sm_90");
      const std::string instruction = std::string(completed_mark) +
                                      "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "
                                      "wgmma.mma_async.sync.aligned.m64n" +
                                      std::to_string(columns) + "k16.f32.f16.f16";
      EXPECT_NE(text.find(instruction), text.npos) << text.substr(0, 2000);
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  }
}

// The products of experts as nvidia_experts.cpp cuts them, in formats as they are stored.
TEST(NvidiaSource, ExpertsCompileToInstructionsOfOneAndOfFourWarps) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  const PanelFormat floats{
      .codes = Codes::bits4, .scale_bytes = 2, .scale_block = 32, .floats = true};
  for (const PanelFormat& format : {floats, format_of(TensorType::q4_k)}) {
    for (const ExpertShape& shape : expert_shapes()) {
      const std::uint32_t columns = shape.columns();
      SCOPED_TRACE((format.floats ? "MXFP4, " : "Q4_K, ") + std::to_string(columns) +
                   (shape.wide ? " columns, four warps" : " columns, one warp"));
      const PanelLayout layout{format, 768, true};
      ProgramSpec spec{.name = "experts",
                       .sources = {shape.wide ? "matmul/half_wgmma.cl" : "matmul/half_nvidia.cl"},
                       .defines = layout.defines()};
      std::vector<std::pair<std::string, std::uint64_t>> defines{
          {"X_STRIDE", code_stride(layout.columns, CodeForm::halves)},
          {"MATRIX_UNIT", 1},
          {"STAGE_BLOCKS", shape.wide ? 2 : shape.warp.stage_blocks},
          {"STAGES", 4},
          {"RAGGED", 1},
          {"EXPERTS", 128},
          {"GATE", 2},
          {"ROW_ITEMS", 32}};
      if (shape.wide) {
        defines.insert(defines.end(),
                       {{"WARPGROUPS", shape.four.warpgroups}, {"TILE_COLUMNS", columns}});
      } else {
        defines.insert(defines.end(), {{"GROUP_WARPS", shape.warp.warps},
                                       {"WARP_PANELS", shape.warp.panels},
                                       {"WARP_TILES", shape.warp.tiles}});
      }
      for (const auto& [name, value] : defines) spec.defines.push_back(define(name, value));
      const std::string text = compile(spec, shape.wide ? "sm_90" : "sm_80", "experts_matmul");
      const std::string instruction =
          shape.wide ? "wgmma.mma_async.sync.aligned.m64n" + std::to_string(columns) + "k16"
                     : "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
      EXPECT_NE(text.find(instruction), text.npos) << text.substr(0, 2000);
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  }
}

// A router's sums stay in registers, and its copies are the device's own.
TEST(NvidiaSource, ProductsOfFloatsKeepTheirSumsInRegisters) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  for (const std::uint64_t each : {1u, 4u}) {
    const PanelLayout layout{format_of(TensorType::f32), 2880, true};
    ProgramSpec spec{
        .name = "floats", .sources = {"matmul/exact_nvidia.cl"}, .defines = layout.defines()};
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::uint64_t>>{
             {"MATRIX_UNIT", 1}, {"COLUMNS_EACH", each}, {"ROW_ITEMS", 32}}) {
      spec.defines.push_back(define(name, value));
    }
    const std::string text = compile(spec, "sm_80");
    EXPECT_NE(text.find("cp.async.cg.shared.global"), text.npos) << text.substr(0, 2000);
    EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
  }
}

// Of matrices of bytes, by one warp and by four.
TEST(NvidiaSource, BytesCompileToIntegerInstructions) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  const PanelLayout layout{{.codes = Codes::bytes}, 4096, true};
  using Defines = std::vector<std::pair<std::string, std::uint64_t>>;
  const auto text_of = [&](const char* source, const Defines& defines, const char* processor) {
    ProgramSpec spec{.name = "int8", .sources = {source}, .defines = layout.defines()};
    for (const auto& [name, value] : defines) spec.defines.push_back(define(name, value));
    return compile(spec, processor);
  };
  for (const std::uint64_t tiles : {1u, 8u}) {
    const std::string text = text_of("matmul/int8_nvidia.cl",
                                     {{"MATRIX_UNIT", 1},
                                      {"GROUP_WARPS", 4},
                                      {"WARP_PANELS", 2},
                                      {"WARP_TILES", tiles},
                                      {"STAGES", 3}},
                                     "sm_80");
    EXPECT_NE(text.find("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), text.npos)
        << text.substr(0, 2000);
    EXPECT_NE(text.find("cp.async.cg.shared.global"), text.npos);
    EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
  }
  for (const std::uint64_t columns : {8u, 32u, 64u, 128u, 256u}) {
    const std::string text = text_of("matmul/rows_wgmma.cl",
                                     {{"X_STRIDE", code_stride(4096, CodeForm::bytes)},
                                      {"MATRIX_UNIT", 1},
                                      {"WARPGROUPS", 2},
                                      {"TILE_COLUMNS", columns},
                                      {"STAGES", 4}},
                                     "sm_90");
    const std::string instruction = std::string(completed_mark) +
                                    "{ .reg .pred adds; setp.eq.u32 adds, 0, 0; "
                                    "wgmma.mma_async.sync.aligned.m64n" +
                                    std::to_string(columns) + "k32.s32.s8.s8";
    EXPECT_NE(text.find(instruction), text.npos) << text.substr(0, 2000);
    EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
  }
}

// A row stays in registers, and comes and goes in whole vectors.
TEST(NvidiaSource, NormsAndBytesKeepTheirRowsInRegisters) {
  if (!has_compiler()) GTEST_SKIP() << "needs " << compiler << ", which ops/setup --tests installs";
  const auto check = [](const ProgramSpec& spec, const std::string& kernel,
                        const std::vector<std::string>& instructions) {
    for (const std::uint64_t vectors : {72u, 512u, 2048u}) {
      SCOPED_TRACE(std::to_string(vectors) + " vectors");
      ProgramSpec sized = spec;
      for (const auto& [name, value] : std::vector<std::pair<std::string, std::uint64_t>>{
               {"VECTORS", vectors}, {"ITEMS", 256}, {"MATRIX_UNIT", 1}}) {
        sized.defines.push_back(define(name, value));
      }
      const std::string text = compile(sized, "sm_80", kernel);
      for (const std::string& instruction : instructions) {
        EXPECT_NE(text.find(instruction), text.npos) << instruction << text.substr(0, 2000);
      }
      EXPECT_NE(text.find("shfl.sync.bfly.b32"), text.npos);
      EXPECT_EQ(text.find(".local"), text.npos) << "an array left the registers";
    }
  };
  const ProgramSpec norm{.name = "norm", .sources = {"norm/nvidia.cl"}, .defines = {}};
  check(norm, "rms_norm", {"ld.global.v4.f32", "st.global.v4.u32"});
  ProgramSpec with_bytes = norm;
  with_bytes.defines.emplace_back("NORM_BYTES=1");
  check(with_bytes, "rms_norm", {"ld.global.v4.f32", "st.global.v4.u32", "st.global.v2.u32"});
  ProgramSpec bytes{.name = "bytes", .sources = {"quantize/bytes.cl"}, .defines = {}};
  check(bytes, "quantize_bytes", {"ld.global.v4.f32", "st.global.v2.u32"});
  bytes.defines.emplace_back("FROM_HALVES=1");
  check(bytes, "quantize_bytes", {"ld.global.v4.u32", "st.global.v2.u32"});
}

}  // namespace
}  // namespace millrace::engine
