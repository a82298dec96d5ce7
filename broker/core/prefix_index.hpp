#pragma once
// Which beginnings of prompts the engines of one model hold, whichever of them: what claims need to
// leave a beginning to its holder. Thread safety: none; the lists that `all` gives never change.
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace millrace::broker {

class PrefixIndex {
 public:
  void add(std::uint64_t prefix);     // one more engine holds it
  void remove(std::uint64_t prefix);  // one fewer
  // All that are held, sorted. It is made anew only where a beginning came or went.
  std::shared_ptr<const std::vector<std::uint64_t>> all();

 private:
  std::map<std::uint64_t, std::uint32_t> engines_;  // how many hold it
  std::shared_ptr<const std::vector<std::uint64_t>> all_;
};

}  // namespace millrace::broker
