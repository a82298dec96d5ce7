#include "engine/core/device/source_text.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using kernels::Source;
using testing::must;

const Source prelude{"common/prelude.cl", "#pragma once\nprelude\n"};

std::string joined(const std::vector<Source>& files, const ProgramSpec& spec) {
  std::vector<Source> all{prelude};
  all.insert(all.end(), files.begin(), files.end());
  return must(program_text(spec, all));
}

Error refusal(const std::vector<Source>& files, const ProgramSpec& spec) {
  std::vector<Source> all{prelude};
  all.insert(all.end(), files.begin(), files.end());
  const auto text = program_text(spec, all);
  EXPECT_FALSE(text.has_value());
  return text ? Error{} : text.error();
}

constexpr const char* begin = "#line 1 \"common/prelude.cl\"\n\nprelude\n";

TEST(SourceText, ImportsStandOnceBeforeAllThatNeedThem) {
  const std::vector<Source> files{
      {"a.cl", "#include \"b.cl\"\n#include \"c.cl\"\nK\n"},
      {"b.cl", "#pragma once\n// contract\n#include \"c.cl\"\nb\n"},
      {"c.cl", "#pragma once\n#include \"common/prelude.cl\"\nc\n"},
  };
  EXPECT_EQ(joined(files, {.name = "p", .sources = {"a.cl", "c.cl"}, .defines = {"K=3"}}),
            std::string("#undef K\n#define K 3\n") + begin +
                "#line 1 \"c.cl\"\n\n\nc\n"
                "#line 1 \"b.cl\"\n\n// contract\n\nb\n"
                "#line 1 \"a.cl\"\n\n\nK\n");
}

// What a template needs stands before the part, not between its lines, where a define or a
// condition would reach it.
TEST(SourceText, TemplatesStandInPlaceAndWhatTheyNeedDoesNot) {
  const std::vector<Source> files{
      {"user.cl",
       "#if X\n#define N 1\n#include \"t.cl\"\n#endif\n#define N 2\n#include \"t.cl\"\nu\n"},
      {"t.cl", "#include \"once.cl\"\nt\n"},
      {"once.cl", "#pragma once\no\n"},
  };
  EXPECT_EQ(joined(files, {.name = "p", .sources = {{"user.cl", {"N=7"}}}}),
            std::string(begin) +
                "#line 1 \"once.cl\"\n\no\n"
                "#undef N\n#define N 7\n"
                "#line 1 \"user.cl\"\n#if X\n#define N 1\n"
                "#line 1 \"t.cl\"\n\nt\n#line 4 \"user.cl\"\n"
                "#endif\n#define N 2\n"
                "#line 1 \"t.cl\"\n\nt\n#line 7 \"user.cl\"\nu\n");
}

TEST(SourceText, AProgramsOwnTextMayIncludeFiles) {
  const std::vector<Source> files{{"once.cl", "#pragma once\no"}};
  EXPECT_EQ(joined(files, {.name = "own", .text = "#include \"once.cl\"\nkernel\n"}),
            std::string(begin) + "#line 1 \"once.cl\"\n\no\n#line 1 \"own\"\n\nkernel\n");
}

TEST(SourceText, ACycleIsRefusedByName) {
  const std::vector<Source> files{
      {"a.cl", "#include \"b.cl\"\n"},
      {"b.cl", "#pragma once\n#include \"c.cl\"\n"},
      {"c.cl", "#include \"b.cl\"\n"},
      {"self.cl", "#include \"self.cl\"\n"},
  };
  const Error error = refusal(files, {.name = "p", .sources = {"a.cl"}});
  EXPECT_EQ(error.code, Code::internal);
  EXPECT_EQ(error.message, "kernel sources include each other: b.cl includes c.cl includes b.cl");
  EXPECT_NE(error.hint.find("a file of its own"), std::string::npos);
  EXPECT_EQ(refusal(files, {.name = "p", .sources = {"self.cl"}}).message,
            "kernel sources include each other: self.cl includes self.cl");
}

TEST(SourceText, AFileThatDoesNotExistIsRefusedWithThePlace) {
  const std::vector<Source> files{{"a.cl", "// contract\n#include \"kv/no.cl\"\n"}};
  EXPECT_EQ(refusal(files, {.name = "p", .sources = {"a.cl"}}).message,
            "a.cl:2: there is no kernel source \"kv/no.cl\"");
  EXPECT_EQ(refusal(files, {.name = "p", .sources = {"x.cl"}}).message,
            "p: there is no kernel source \"x.cl\"");
  EXPECT_EQ(refusal(files, {.name = "p", .text = "#include \"y.cl\"\n"}).message,
            "p:1: there is no kernel source \"y.cl\"");
}

TEST(SourceText, OnlyOneFormOfIncludeIsKnown) {
  for (const std::string line : {"#include <b.cl>", "#include \"b.cl\" // why", "#include b.cl",
                                 "#include \"\"", "#include"}) {
    const Error error =
        refusal({{"a.cl", "\n" + line + "\n"}, {"b.cl", ""}}, {.name = "p", .sources = {"a.cl"}});
    EXPECT_EQ(error.message, "a.cl:2: not an include of a kernel source: " + line);
  }
}

TEST(SourceText, DefinesThatComeTooLateAreRefused) {
  const std::vector<Source> files{{"a.cl", "#include \"b.cl\"\n"}, {"b.cl", "#pragma once\n"}};
  const Error error = refusal(files, {.name = "p", .sources = {"a.cl", {"b.cl", {"K=1"}}}});
  EXPECT_EQ(error.message, "program p has b.cl before the defines that are given with it");
}

// Comments, paths, parts of words and other defines do not mention a name.
TEST(SourceText, ADefineThatNoFileMentionsIsRefused) {
  const std::vector<Source> files{{"K/a.cl", "// K\nK_ROWS XK /* */ + k\n"},
                                  {"b.cl", "#ifndef K\n#define K 1\n#endif\n"}};
  const Error error = refusal(files, {.name = "p", .sources = {"K/a.cl"}, .defines = {"K=3"}});
  EXPECT_EQ(error.code, Code::internal);
  EXPECT_EQ(error.message, "program p gets K=3, but none of its files mentions K");
  EXPECT_EQ(error.hint, "correct the name, or do not give the define to this program");
  EXPECT_EQ(refusal(files, {.name = "p", .sources = {{"K/a.cl", {"K=4", "XK=1"}}}}).message,
            "program p gets K=4, but none of its files mentions K");
  EXPECT_EQ(refusal(files, {.name = "p", .defines = {"K"}, .text = "K_ROWS"}).message,
            "program p gets K, but none of its files mentions K");
  EXPECT_NE(joined(files, {.name = "p", .sources = {"K/a.cl", "b.cl"}, .defines = {"K=3"}}), "");
  EXPECT_NE(joined(files, {.name = "p", .defines = {"K=3"}, .text = "x[K]"}), "");
}

TEST(SourceText, EveryEmbeddedSourceFindsWhatItIncludes) {
  ASSERT_GT(kernels::sources().size(), 50U);
  for (const Source& source : kernels::sources()) {
    const auto text = program_text({.name = "alone", .sources = {std::string(source.path)}});
    EXPECT_TRUE(text.has_value()) << source.path << ": " << text.error().text();
  }
}

}  // namespace
}  // namespace millrace::engine
