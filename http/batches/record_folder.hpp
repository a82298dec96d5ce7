#pragma once
// A folder of JSON records, FOLDER/ID.json. A record is replaced as a whole, so that a crash leaves
// the old one or the new one.
// Errors: those of Env. Thread safety: as its Env; one change of a record at a time.
#include <functional>
#include <string>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::http {

class RecordFolder {
 public:
  // `kind` is what a record is about, as the log says it: "a file".
  RecordFolder(Env& env, std::string folder, std::string kind)
      : env_(env), folder_(std::move(folder)), kind_(std::move(kind)) {}

  // Makes the folder where it is missing, and gives the text of each record to `take`. One that
  // cannot be read or taken stays, with a line in the log: the others are served. Returns the names
  // of the files that are no records, such as those whose writing was cut short.
  using Take = std::function<Status(const std::string& text)>;
  Result<std::vector<std::string>> load(const Take& take);

  Status save(const std::string& id, const std::string& text);
  Status remove(const std::string& id);
  Result<bool> has(const std::string& id) const;
  std::string path_of(const std::string& name) const {
    return folder_ + "/" + name;
  }  // of any file

 private:
  Env& env_;
  const std::string folder_, kind_;
};

}  // namespace millrace::http
