#pragma once
// The models that engines have ever served here, by tenant. A job for any other model is refused
// (unknown_model), so that a misspelt name is noticed at once; a job for a model whose engines are
// merely away is queued. The names outlive a restart: they are entries of the reserved stream
// `$models` of the tenant that the engine worked for in the ledger; engines for every tenant have
// the tenant *.
// Thread safety: none.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "broker/core/outbox.hpp"

namespace millrace::broker {

// Streams whose names begin with this character belong to the broker; jobs may not name them.
inline constexpr char reserved_stream_prefix = '$';
inline constexpr const char* models_stream = "$models";

inline Error unknown_model(const std::string& model) {
  return {Code::unknown_model, "model: no engine has ever served \"" + model + "\" here",
          "check the name with `millrace status`, start an engine for it, or give \"*\""};
}

class Models {
 public:
  explicit Models(Outbox& out) : out_(out) {}

  // Reads the names of these tenants from the ledger.
  void recover(std::vector<std::string> tenants, std::function<void()> then);
  // Another broker has stored a name of this tenant.
  void refresh(const std::string& tenant) {
    read_from({tenant}, read_[tenant] + 1, [] {});
  }
  bool known(const std::string& tenant, const std::string& model) const {
    return model == "*" || served_.contains({tenant, model}) ||
           served_.contains({std::string(every_tenant), model});
  }
  // Call this when an engine with this model joins that works for this tenant.
  void serve(const std::string& tenant, const std::string& model);

 private:
  void read_from(std::vector<std::string> tenants, std::uint64_t number,
                 std::function<void()> then);

  Outbox& out_;
  std::set<std::pair<std::string, std::string>> served_;  // tenant and model
  std::map<std::string, std::uint64_t> read_;  // by tenant: the last number that was read
  std::set<std::pair<std::string, std::string>> unkept_;  // those that are not in the ledger yet
};

}  // namespace millrace::broker
