#include "engine/worker/test_hooks.hpp"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "schemas/base/log.hpp"

namespace millrace::worker {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return {};
  log_warn("a test hook is set", {{"variable", name}, {"text", value}});
  return value;
}

}  // namespace

TestHooks TestHooks::from_environment() {
  TestHooks hooks;
  hooks.abort_on_ = variable("MILLRACE_TEST_ABORT_ON");
  hooks.hang_on_ = variable("MILLRACE_TEST_HANG_ON");
  return hooks;
}

bool TestHooks::matches(const std::string& text, const Task& task) {
  if (text.empty()) return false;
  const auto holds = [&](const std::string& s) { return s.find(text) != std::string::npos; };
  if (holds(task.custom_id)) return true;
  if (const auto* prompt = std::get_if<std::string>(&task.request.prompt)) return holds(*prompt);
  if (const auto* chat = std::get_if<Chat>(&task.request.prompt))
    for (const ChatMessage& message : *chat)
      if (holds(message.content.value_or(""))) return true;
  return false;
}

void TestHooks::hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace millrace::worker
