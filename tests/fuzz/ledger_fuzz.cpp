// Reads any bytes as damage to a sound ledger: each five of them are a place in its file, and what
// is put there. Verifying it and opening it may fail, but must end.
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "schemas/base/random_id.hpp"
#include "tests/fuzz/fuzz_file.hpp"
#include "tests/golden/ledgers/fill_ledger.hpp"

namespace {

namespace fs = std::filesystem;
using namespace millrace;
using namespace millrace::broker;

constexpr std::size_t bytes_a_damage = 5;

std::unique_ptr<Ledger> open(const fs::path& file) {
  SqliteLedgerOptions options;
  options.publish = [](const EndingJob&, const Outcome& outcome) {
    return Published{outcome.result, outcome.state};
  };
  options.ballast_bytes = 0;
  auto ledger = open_sqlite_ledger(file.string(), std::move(options));
  return ledger ? *std::move(ledger) : nullptr;
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("millrace-fuzz-" + random_id())) {
    fs::create_directory(path_);
    const auto ledger = open(file());
    require(ledger != nullptr && filled::fill(*ledger).has_value());
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string read() const {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& content) const {
    for (const char* more : {"-wal", "-shm"}) fs::remove(file().string() + more);
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << content;
  }
  fs::path file() const { return path_ / ledger_file; }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  static const std::string sound = folder.read();
  std::string damaged = sound;
  for (; size >= bytes_a_damage; data += bytes_a_damage, size -= bytes_a_damage) {
    const std::size_t place = (data[0] << 16 | data[1] << 8 | data[2]) % damaged.size();
    damaged[place] = static_cast<char>(data[3]);
    damaged[(place + 1) % damaged.size()] = static_cast<char>(data[4]);
  }
  folder.write(damaged);
  const auto report = verify_ledger(folder.path());
  require(report.has_value() || !report.error().text().empty());
  require(report.has_value() || damaged != sound);
  open(folder.file());
  return 0;
}
