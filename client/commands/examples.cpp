#include "client/commands/examples.hpp"

#include <string>
#include <string_view>

namespace millrace::client {
namespace {

struct Example {
  std::string_view title;
  std::string_view commands;  // one a line
};

constexpr Example examples[] = {
    {"Write a file of jobs, one a line, with Millrace's own fields or those of OpenAI's batches.",
     R"(printf '%s\n' \
  '{"custom_id": "a", "prompt": "The capital of France is", "max_tokens": 16}' \
  '{"custom_id": "b", "messages": [{"role": "user", "content": "Hi"}]}' > jobs.jsonl)"},
    {"Run a model over it. The same command goes on where it was interrupted.",
     "millrace run --model M.gguf --input jobs.jsonl --output results.jsonl"},
    {"Print the file in pretty form. Each line is a JSON object, which any tool reads.",
     "python3 -m json.tool --json-lines results.jsonl"},
    {"Let a broker and an engine run in the background, and submit to them from any shell.",
     R"(millrace-broker --ledger ledger > broker.log 2>&1 &
millrace-engine --model M.gguf > engine.log 2>&1 &
millrace submit jobs.jsonl --wait > answers.jsonl
millrace status)"},
    {"Run a file once more as another batch, with a stream of its own, and read it twice.",
     R"(millrace submit jobs.jsonl --batch second --stream mine --wait > mine.jsonl
millrace results mine > again.jsonl
millrace streams ls)"},
    {"See how far each file is, and which jobs failed and why.",
     R"(millrace batches ls
millrace jobs ls --state failed)"},
    {"See how long jobs took and how many tokens they had, and measure a load of another shape.",
     R"(millrace stats --by batch
millrace bench -n 4 --prompt-tokens 32 --answer-tokens 8)"},
    {"Copy the ledger while the broker works, and check the copy.",
     R"(millrace backup copy
millrace verify ledger/backups/copy)"},
    {"Stop the broker in order. What is queued stays on disk for its next start.",
     "millrace drain\nkill %2"},
    {"Let only those connect who have a key.",
     R"(millrace keys init keys
millrace keys new me.key --keys keys --name me --roles submit,read
millrace keys ls --keys keys)"},
    {"Count the tokens of a text, and compute how probable a text is.",
     R"(echo 'The sea is blue.' | millrace tokenize --model M.gguf
echo 'The sea is blue.' | millrace score --model M.gguf)"},
    {"Find out what a machine lacks, and what an error means.",
     "millrace doctor\nmillrace errors kv_exceeded"},
};

}  // namespace

std::string examples_text() {
  std::string out;
  for (const Example& example : examples) {
    if (!out.empty()) out += '\n';
    out += std::string(example.title) + "\n\n  ";
    for (const char byte : example.commands) {
      out += byte;
      if (byte == '\n') out += "  ";
    }
    out += '\n';
  }
  return out;
}

}  // namespace millrace::client
