#pragma once
// The disk tier's way to the pages and states of a model, which must outlive it. Thread safety: the
// owner thread of the model's devices.
#include <span>
#include <utility>
#include <vector>

#include "engine/core/model/model.hpp"
#include "engine/core/prefix/page_transport.hpp"

namespace millrace::engine {

class DevicePages final : public PageTransport {
 public:
  explicit DevicePages(Model& model) : model_(&model) {}

  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId> pages,
                                              std::span<char> into) override {
    return model_->read_pages(pages, std::as_writable_bytes(into));
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId> pages,
                                               std::span<const char> bytes) override {
    return model_->write_pages(pages, std::as_bytes(bytes));
  }
  Result<std::vector<DeviceEvent>> read_state(PageId state, std::span<char> into) override {
    return model_->read_state(state, std::as_writable_bytes(into));
  }
  Result<std::vector<DeviceEvent>> write_state(PageId state, std::span<const char> bytes) override {
    return model_->write_state(state, std::as_bytes(bytes));
  }
  Status wait(std::span<const DeviceEvent> events) override {
    Status status;
    for (const DeviceEvent& event : events) {
      if (Status waited = model_->device(0).wait(event); !waited) status = std::move(waited);
    }
    return status;
  }

 private:
  Model* model_;
};

}  // namespace millrace::engine
