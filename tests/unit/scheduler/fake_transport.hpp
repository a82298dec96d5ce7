#pragma once
// Transfers of the fake device's pages and states from and to a disk. They are done at once; a
// page's bytes are its tokens, in each cache group. A state's are the number of its tokens, and
// they.
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
  std::uint64_t state_writes = 0;
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
  Result<std::vector<DeviceEvent>> read_state(PageId state, std::span<char> into) override {
    ++reads;
    most_under_way = std::max(most_under_way, ++under_way);
    Tokens words = device->state(state);
    words.insert(words.begin(), static_cast<TokenId>(words.size()));
    words.resize(into.size() / sizeof(TokenId));
    std::memcpy(into.data(), words.data(), into.size());
    return {};
  }
  Result<std::vector<DeviceEvent>> write_state(PageId state, std::span<const char> bytes) override {
    if (++writes == fails_at) return fail(Code::device_error, "no", "");
    ++state_writes;
    Tokens words(bytes.size() / sizeof(TokenId));
    std::memcpy(words.data(), bytes.data(), bytes.size());
    device->state(state).assign(words.begin() + 1, words.begin() + 1 + words[0]);
    return {};
  }
  Status wait(std::span<const DeviceEvent>) override {
    if (under_way > 0) --under_way;
    return {};
  }
};

}  // namespace millrace::engine
