#pragma once
// The interface for copies of pages and states from and to the device. The copies are enqueued
// after all earlier commands and do not block. A packed page, and a state, is its layers one after
// the other. A page has an id in each cache group, or no_page where its part is not copied; a state
// is one page of the states' pool. Errors: device_error, out_of_memory. Thread safety: the device's
// owner thread.
#include <cstddef>
#include <span>
#include <vector>

#include "engine/core/device/handles.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class PageTransport {
 public:
  virtual ~PageTransport() = default;
  // The bytes must stay valid until `wait` has returned for the events.
  virtual Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId> pages,
                                                      std::span<char> into) = 0;
  virtual Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId> pages,
                                                       std::span<const char> bytes) = 0;
  virtual Result<std::vector<DeviceEvent>> read_state(PageId state, std::span<char> into) = 0;
  virtual Result<std::vector<DeviceEvent>> write_state(PageId state,
                                                       std::span<const char> bytes) = 0;
  virtual Status wait(std::span<const DeviceEvent> events) = 0;
};

}  // namespace millrace::engine
