#pragma once
// Which models have ever been served here. A job for any other is refused (unknown_model), so that
// a misspelt name is told at once; a job for a model whose engines are merely away is queued. The
// names outlive a restart: they are kept in the ledger, in the reserved stream `$models`.
// Thread safety: none.
#include <functional>
#include <set>
#include <string>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

// Streams whose names begin so belong to the broker; jobs may not name them.
inline constexpr char reserved_stream_prefix = '$';
inline constexpr const char* models_stream = "$models";

class Models {
 public:
  explicit Models(Outbox& out) : out_(out) {}

  void recover(std::function<void()> then);  // reads the names kept
  bool known(const std::string& model) const { return model == "*" || served_.contains(model); }
  void serve(const std::string& model);  // an engine with this model joined

 private:
  void read_from(std::uint64_t number, std::function<void()> then);

  Outbox& out_;
  std::set<std::string> served_;
  std::set<std::string> unkept_;  // of these, those that could not be written yet
};

}  // namespace millrace::broker
