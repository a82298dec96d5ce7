#pragma once
// Transfers of the fake device's pages from and to a disk. They are done at once; a page's bytes
// are its tokens, in each cache group.
#include <algorithm>
#include <cstring>

#include "engine/core/prefix/page_transport.hpp"
#include "tests/unit/scheduler/fake_device.hpp"

namespace millrace::engine {

class FakeTransport final : public PageTransport {
 public:
  FakeDevice* device = nullptr;
  std::uint64_t writes = 0, fails_at = 0;
  std::size_t groups = 1;
  std::uint32_t reads = 0, under_way = 0, most_under_way = 0;

  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId> pages,
                                              std::span<char> into) override {
    ++reads;
    most_under_way = std::max(most_under_way, ++under_way);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const auto page = device->page(pages[i], i % groups);
      std::memcpy(&into[i * page.size_bytes()], page.data(), page.size_bytes());
    }
    return {};
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId> pages,
                                               std::span<const char> bytes) override {
    if (++writes == fails_at) return fail(Code::device_error, "no", "");
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (pages[i] == no_page) continue;
      const auto page = device->page(pages[i], i % groups);
      std::memcpy(page.data(), &bytes[i * page.size_bytes()], page.size_bytes());
    }
    return {};
  }
  Status wait(std::span<const DeviceEvent>) override {
    if (under_way > 0) --under_way;
    return {};
  }
};

}  // namespace millrace::engine
