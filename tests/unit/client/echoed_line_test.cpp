// Lines whose answers begin with their prompts: what their jobs ask for, and how the answer's
// writer finds the prompt again.
#include "client/lines/echoed_line.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/lines/parse_line.hpp"
#include "client/lines/result_line.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/notes.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::client {
namespace {

std::string line_of(const std::string& fields) {
  return R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":"m",)" +
         fields + "}}";
}

class EchoedLineTest : public ::testing::Test {
 protected:
  // The jobs of a file's lines.
  std::vector<Job> jobs_of(const std::string& text) {
    input_ = *env_->open(folder_.write("in", text), OpenMode::read);
    LineReader reader(*input_);
    InputLine line;
    std::vector<Job> jobs;
    while (reader.next(line).value()) {
      const ParsedLine parsed = parse_line(line, {.own_queue = true, .echo = true});
      EXPECT_FALSE(parsed.error) << parsed.error->text();
      jobs.push_back(decode_job(parsed.body)->job);
    }
    return jobs;
  }
  static JobResult result_of(const Job& job, const std::string& text) {
    JobResult result;
    result.job = "j";
    result.state = JobState::completed;
    result.metadata = job.metadata;
    result.result.emplace().choices.emplace_back().text = text;
    return result;
  }

  const TemporaryFolder folder_;
  const std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<File> input_;
};

TEST_F(EchoedLineTest, TheAnswerBeginsWithThePromptOfItsLine) {
  const std::vector<Job> jobs = jobs_of("\xEF\xBB\xBF" + line_of(R"("prompt":"one ","echo":true)") +
                                        "\r\n\n" + line_of(R"("prompt":"two ","echo":false)") +
                                        "\n" + line_of(R"("prompt":"three ","echo":true)"));
  ASSERT_EQ(jobs.size(), 3u);
  const std::vector<std::string> texts = {"one text", "text", "three text"};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    EXPECT_FALSE(jobs[i].request.logprobs.prompt);
    const JobResult result = result_of(jobs[i], "text");
    const auto request = echoed_request(*input_, result);
    ASSERT_TRUE(request) << request.error().text();
    EXPECT_EQ(request->has_value(), i != 1);
    const std::string line =
        result_line(result, i + 1, {.token_bytes = {}, .request = *request ? &**request : nullptr});
    EXPECT_TRUE(line.contains("\"text\":\"" + texts[i] + "\"")) << line;
    EXPECT_FALSE(line.contains(openai::echo_key)) << line;
  }
}

TEST_F(EchoedLineTest, TheJobAsksForWhatTheAnswerShows) {
  const std::vector<Job> jobs =
      jobs_of(line_of(R"("prompt":"p","echo":true,"logprobs":1)") + "\n" +
              line_of(R"("prompt":"p","echo":true,"logprobs":0,"max_tokens":0)"));
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_TRUE(jobs[0].request.logprobs.prompt);
  EXPECT_EQ(jobs[1].request.task, Task::score);
}

TEST_F(EchoedLineTest, ANoteThatIsNotOfTheFileMeansNothing) {
  jobs_of(line_of(R"("prompt":"p","echo":true)"));
  for (const char* const note :
       {"", "0", "0+", "+5", "0+5", "7+20", "0+99999", "0+99999999999999", "-1+5", "0+5x"}) {
    JobResult result;
    result.metadata[std::string(openai::echo_key)] = note;
    const auto request = echoed_request(*input_, result);
    ASSERT_TRUE(request) << note;
    EXPECT_FALSE(request->has_value()) << note;
  }
}

TEST_F(EchoedLineTest, OnlyWhoWritesItTakesEcho) {
  InputLine line;
  const auto error_of = [&](const std::string& text, bool echo) {
    line.text = text;
    line.bytes = text.size();
    return parse_line(line, {.echo = echo}).error;
  };
  const std::string echoing = line_of(R"("prompt":"p","echo":true)");
  EXPECT_EQ(error_of(echoing, false)->code, Code::unsupported_field);
  EXPECT_FALSE(error_of(echoing, true));
  EXPECT_EQ(error_of(line_of(R"("prompt":"p","echo":"yes")"), true)->code, Code::invalid_value);
  const std::string chat = R"({"url":"/v1/chat/completions","body":{"echo":true,"messages":[)"
                           R"({"role":"user","content":"hi"}]}})";
  EXPECT_EQ(error_of(chat, true)->code, Code::unsupported_field);
}

}  // namespace
}  // namespace millrace::client
