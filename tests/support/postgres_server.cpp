#include "tests/support/postgres_server.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "schemas/base/random_id.hpp"

namespace millrace::test {
namespace {

// Where syncs cost nothing, if there is such a place: these tests pull no plug.
std::filesystem::path place_for_server() {
  std::filesystem::path memory = "/dev/shm";
  std::error_code error;
  const auto space = std::filesystem::space(memory, error);
  constexpr std::uintmax_t enough = 512 << 20;
  if (!error && space.available >= enough && access(memory.c_str(), W_OK) == 0) return memory;
  return std::filesystem::temp_directory_path();
}

// The script ends the server when its input ends, which it does with this process.
class PostgresServer {
 public:
  PostgresServer() : folder_(place_for_server() / ("millrace-pg-" + random_id())) {
    std::array<int, 2> input{}, output{};
    if (pipe(input.data()) != 0 || pipe(output.data()) != 0) throw std::runtime_error("no pipe");
    child_ = fork();
    if (child_ == 0) {
      dup2(input[0], STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      for (const int file : {input[0], input[1], output[0], output[1]}) close(file);
      execl(MILLRACE_POSTGRES_SERVER, MILLRACE_POSTGRES_SERVER, folder_.c_str(), nullptr);
      _exit(127);
    }
    close(input[0]);
    close(output[1]);
    input_ = input[1];
    FILE* const said = fdopen(output[0], "r");
    std::array<char, 1024> line{};
    if (said == nullptr || fgets(line.data(), line.size(), said) == nullptr) {
      throw std::runtime_error("the PostgreSQL server of the tests did not start");
    }
    url_ = line.data();
    if (url_.ends_with('\n')) url_.pop_back();
    fclose(said);
  }
  ~PostgresServer() {
    close(input_);
    waitpid(child_, nullptr, 0);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  const std::string& url() const { return url_; }

 private:
  const std::filesystem::path folder_;
  pid_t child_ = 0;
  int input_ = -1;
  std::string url_;
};

}  // namespace

const std::string& postgres_url() {
  static const PostgresServer server;
  return server.url();
}

}  // namespace millrace::test
