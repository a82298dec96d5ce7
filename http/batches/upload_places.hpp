#pragma once
// How many uploads may be under way at once, in all and of one tenant: each has a file open.
// Errors: overloaded. Thread safety: any thread. It must outlive its places.
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::http {

class UploadPlaces {
 public:
  static constexpr std::size_t most = 256, most_of_tenant = 64;

  // An upload under way; it ends with this object.
  class Place {
   public:
    Place(UploadPlaces& places, std::string tenant) : places_(places), tenant_(std::move(tenant)) {}
    ~Place() { places_.leave(tenant_); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    UploadPlaces& places_;
    const std::string tenant_;
  };
  Result<std::unique_ptr<Place>> enter(const std::string& tenant);

 private:
  void leave(const std::string& tenant);

  std::mutex mutex_;
  std::size_t all_ = 0;
  std::map<std::string, std::size_t> of_tenant_;
};

}  // namespace millrace::http
