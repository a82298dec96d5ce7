// Runs one defect, chosen by name, which the sanitizers must report.
#include <cstdio>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/core/device/device.hpp"

namespace {

void* volatile kept = nullptr;
volatile int number = std::numeric_limits<int>::max();
int shared = 0;

void leak() {
  kept = ::operator new(100);
  kept = nullptr;
}

int overrun() {
  const std::vector<int> values(3);
  return values.data()[number - number + 3];
}

int race() {
  std::thread other([] { shared = 1; });
  shared = 2;
  other.join();
  return shared;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view defect = count == 2 ? arguments[1] : "";
  if (defect == "leak") {
    leak();
  } else if (defect == "leak_beside_a_driver") {
    if (!millrace::engine::Device::open({})) return 2;
    leak();
    std::puts("leaked beside a driver");
  } else if (defect == "overrun") {
    return overrun();
  } else if (defect == "overflow") {
    return number + 1;
  } else if (defect == "race") {
    return race();
  } else {
    std::fprintf(stderr, "usage: defects leak|leak_beside_a_driver|overrun|overflow|race\n");
    return 2;
  }
  return 0;
}
