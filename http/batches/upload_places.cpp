#include "http/batches/upload_places.hpp"

#include "schemas/base/limits.hpp"

namespace millrace::http {

Result<std::unique_ptr<UploadPlaces::Place>> UploadPlaces::enter(const std::string& tenant) {
  const std::scoped_lock lock(mutex_);
  const auto own = of_tenant_.find(tenant);
  const bool own_are_many = own != of_tenant_.end() && own->second >= most_of_tenant;
  if (own_are_many || all_ >= most) {
    return fail(Error{Code::overloaded,
                      own_are_many
                          ? std::to_string(most_of_tenant) + " of your uploads are under way"
                          : "the server takes no more uploads at once",
                      "upload it when another one has ended", limits::retry_room_ms});
  }
  ++all_;
  ++of_tenant_[tenant];
  return std::make_unique<Place>(*this, tenant);
}

void UploadPlaces::leave(const std::string& tenant) {
  const std::scoped_lock lock(mutex_);
  --all_;
  const auto own = of_tenant_.find(tenant);
  if (--own->second == 0) of_tenant_.erase(own);
}

}  // namespace millrace::http
