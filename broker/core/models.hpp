#pragma once
// The models that engines have ever served here. A job for any other model is refused
// (unknown_model), so that a misspelt name is noticed at once; a job for a model whose engines are
// merely away is queued. The names outlive a restart: they are entries of the reserved stream
// `$models` in the ledger.
// Thread safety: none.
#include <functional>
#include <set>
#include <string>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

// Streams whose names begin with this character belong to the broker; jobs may not name them.
inline constexpr char reserved_stream_prefix = '$';
inline constexpr const char* models_stream = "$models";

class Models {
 public:
  explicit Models(Outbox& out) : out_(out) {}

  void recover(std::function<void()> then);  // reads the names from the ledger
  bool known(const std::string& model) const { return model == "*" || served_.contains(model); }
  void serve(const std::string& model);  // call this when an engine with this model joins

 private:
  void read_from(std::uint64_t number, std::function<void()> then);

  Outbox& out_;
  std::set<std::string> served_;
  std::set<std::string> unkept_;  // those of them that are not in the ledger yet
};

}  // namespace millrace::broker
