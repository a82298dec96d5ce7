#include "engine/supervise/child_process.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

namespace millrace::supervise {
namespace {

constexpr auto reap_pause = std::chrono::milliseconds(20);
constexpr int exec_failed = 127;

std::unexpected<Error> system_failure(const std::string& what) {
  return fail(Code::io_error, what + ": " + std::generic_category().message(errno));
}

// Runs between fork and exec, so it makes only calls that are safe there.
[[noreturn]] void become(char* const* argv, int output, int report, pid_t parent) {
  ::setpgid(0, 0);  // the terminal's Ctrl-C reaches only the parent, which then stops the child
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) {
    ::_exit(exec_failed);
  }
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvp(argv[0], argv);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(report, &error, sizeof error);
  ::_exit(exec_failed);
}

}  // namespace

ChildProcess::~ChildProcess() {
  if (running()) {
    stop(0);
  }
  close_pipe();
}

void ChildProcess::close_pipe() {
  if (pipe_ >= 0) {
    ::close(pipe_);
    pipe_ = -1;
  }
}

Status ChildProcess::start(const std::string& program, const std::vector<std::string>& arguments) {
  close_pipe();
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  std::array<int, 2> output{};
  std::array<int, 2> report{};  // carries errno if exec fails; closes if it succeeds
  if (::pipe2(output.data(), O_CLOEXEC) != 0) {
    return system_failure("cannot make a pipe");
  }
  if (::pipe2(report.data(), O_CLOEXEC) != 0) {
    ::close(output[0]);
    ::close(output[1]);
    return system_failure("cannot make a pipe");
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) {
    become(argv.data(), output[1], report[1], parent);
  }
  ::close(output[1]);
  ::close(report[1]);
  int error = 0;
  ssize_t got = 0;
  if (child > 0) {
    do {
      got = ::read(report[0], &error, sizeof error);
    } while (got < 0 && errno == EINTR);
  }
  ::close(report[0]);
  pipe_ = output[0];
  if (child < 0) {
    return system_failure("cannot start " + program);
  }
  if (got > 0) {
    ::waitpid(child, nullptr, 0);
    return fail(error == ENOENT ? Code::not_found : Code::io_error,
                "cannot start " + program + ": " + std::generic_category().message(error),
                "name the engine program with --engine");
  }
  ::fcntl(pipe_, F_SETFL, O_NONBLOCK);
  pid_ = child;
  return {};
}

std::string ChildProcess::read_output() {
  std::string text;
  std::array<char, 4096> piece;
  while (pipe_ >= 0) {
    const ssize_t got = ::read(pipe_, piece.data(), piece.size());
    if (got <= 0) {
      break;
    }
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
  return text;
}

std::optional<ChildProcess::Ended> ChildProcess::reap() {
  if (!running()) {
    return std::nullopt;
  }
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) {
    return std::nullopt;
  }
  pid_ = -1;
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    return Ended{"exit status " + std::to_string(code), code, 0};
  }
  const int signal = WTERMSIG(status);
  return Ended{"signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")", -1, signal};
}

void ChildProcess::terminate() {
  if (running()) {
    ::kill(pid_, SIGTERM);
  }
}

void ChildProcess::kill() {
  if (running()) {
    ::kill(pid_, SIGKILL);
  }
}

void ChildProcess::stop(std::uint32_t wait_ms) {
  terminate();
  finish(wait_ms);
}

void ChildProcess::finish(std::uint32_t wait_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait_ms);
  while (running() && std::chrono::steady_clock::now() < end) {
    read_output();  // so that the child cannot block on a full pipe
    if (!reap()) {
      std::this_thread::sleep_for(reap_pause);
    }
  }
  if (running()) {
    kill();
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

std::string sibling_program(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const auto beside = self.parent_path() / name;
    if (std::filesystem::exists(beside, error)) {
      return beside.string();
    }
  }
  return name;
}

}  // namespace millrace::supervise
