#include "client/lines/input_files.hpp"

#include <gtest/gtest.h>

#include <span>

#include "client/lines/line_reader.hpp"
#include "client/lines/twin_place.hpp"
#include "schemas/openai/notes.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

class InputFilesTest : public ::testing::Test {
 protected:
  std::unique_ptr<InputFiles> open(const std::vector<std::string>& contents) {
    std::vector<std::string> paths, names;
    for (const std::string& content : contents) {
      names.push_back(std::string(1, static_cast<char>('a' + paths.size())));
      paths.push_back(folder_.write(names.back(), content));
    }
    return std::move(*InputFiles::open(*env_, paths, names));
  }
  static std::string whole(InputFiles& files, std::size_t piece_bytes) {
    std::string all, piece(piece_bytes, '\0');
    while (const std::size_t got = files.read_at(all.size(), std::span(piece)).value()) {
      all += piece.substr(0, got);
    }
    return all;
  }

  TemporaryFolder folder_;
  std::unique_ptr<Env> env_ = posix_env();
};

TEST_F(InputFilesTest, OneFileKeepsItsBytes) {
  for (const std::string content : {"", "a",
                                    "\xEF\xBB\xBF"
                                    "a\n\nb"}) {
    const auto files = open({content});
    EXPECT_EQ(whole(*files, 3), content);
    EXPECT_EQ(files->size().value(), content.size());
    EXPECT_FALSE(files->several());
    EXPECT_EQ(files->place_text(7), "line 7");
  }
}

TEST_F(InputFilesTest, EachFileBeginsOnALineOfItsOwn) {
  const auto files = open({"1\n2", "",
                           "\xEF\xBB\xBF"
                           "3\n",
                           "\n4"});
  for (const std::size_t piece_bytes : {1U, 2U, 5U, 64U}) {
    EXPECT_EQ(whole(*files, piece_bytes), "1\n2\n3\n\n4");
  }
  EXPECT_EQ(files->size().value(), 8U);
}

TEST_F(InputFilesTest, ALineIsNamedByItsFile) {
  const auto files = open({"1\n2", "", "3\n", "\n4"});
  LineReader reader(*files);
  InputLine line;
  std::vector<std::string> places;
  while (reader.next(line).value()) {
    places.push_back(std::string(line.text) + ": " + files->place_text(line.number));
  }
  EXPECT_EQ(places,
            (std::vector<std::string>{"1: a line 1", "2: a line 2", "3: c line 1", "4: d line 2"}));
}

// The run checks its input's lines again, so what counts here is that all numbers stay.
TEST_F(InputFilesTest, AFileThatGrowsOrShrinksMovesNoOther) {
  const auto files = open({"1\n2", "3\n", "4"});
  folder_.write("a", "1\n2\nnew\n");
  EXPECT_EQ(whole(*files, 64), "1\n2\n3\n4");
  folder_.write("a", "1");
  EXPECT_EQ(whole(*files, 64), "1\n\n\n3\n4");
}

TEST_F(InputFilesTest, TheLineThatHadACustomIdFirstIsNamedWithItsFile) {
  const auto note = [](const InputFiles& files, const std::string& text) {
    JobResult result;
    result.metadata[std::string(openai::duplicate_key)] = text;
    place_twin(result, files);
    return result.metadata[std::string(openai::duplicate_key)];
  };
  const auto files = open({"1\n2", "1\n2\n"});
  EXPECT_EQ(note(*files, "1"), "1 of a");
  EXPECT_EQ(note(*files, "4"), "2 of b");
  EXPECT_EQ(note(*open({"1\n2\n"}), "2"), "2");
  // A line may bring such a note of its own.
  for (const char* text : {"", "x", "0", "-1", "2x", "99999999999999999999"}) {
    EXPECT_EQ(note(*files, text), text);
  }
  JobResult without;
  place_twin(without, *files);
  EXPECT_TRUE(without.metadata.empty());
}

}  // namespace
}  // namespace millrace::client
