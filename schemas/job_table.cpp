#include "schemas/job_table.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schemas/base/check_field.hpp"
#include "schemas/base/check_request.hpp"
#include "schemas/job_fields.hpp"

namespace millrace {
namespace {

// The limits of a field that has no form: those of its type.
std::string type_text(bool) {
  return "true or false";
}
std::string type_text(std::uint32_t) {
  return "0 to " + std::to_string(UINT32_MAX);
}
std::string type_text(std::uint64_t) {
  return "0 to " + std::to_string(UINT64_MAX);
}
template <class T>
std::string type_text(const std::optional<T>&) {
  return type_text(T{});
}
template <class E>
requires std::is_enum_v<E> std::string type_text(E) {
  return {};  // the documentation lists the words, and so does the error of a wrong one
}

class FieldCollector {
 public:
  void field(std::string_view name, const auto&, const auto& form, std::string_view about) {
    add_with(name, about, limits_text(form));
  }
  void field(std::string_view name, const auto& value, std::string_view about) {
    add_with(name, about, type_text(value));
  }
  void beside(std::string_view name, const auto& value, const auto&... rest) {
    field(name, value, rest...);
    list_.back().in_openai_bodies = false;
  }
  void alias(std::string_view name, const auto&, const auto& form, std::string_view main_name) {
    add({name, true, true, main_name,
         "another name of " + std::string(main_name) + ": " + limits_text(form)});
  }
  void known(std::string_view name, std::uint32_t, std::string_view accepted) {
    add({name, false, true, {}, std::string(accepted)});
  }
  std::vector<JobField> sorted() && {
    std::ranges::sort(list_, {}, &JobField::name);
    return std::move(list_);
  }

 private:
  void add(JobField field) { list_.push_back(std::move(field)); }
  void add_with(std::string_view name, std::string_view about, const std::string& limits) {
    add({name, true, true, {}, std::string(about) + (limits.empty() ? "" : "; " + limits)});
  }
  std::vector<JobField> list_;
};

const std::vector<JobField>& table() {
  static const std::vector<JobField> sorted = [] {
    FieldCollector collector;
    const Job job;
    fields(collector, job);
    return std::move(collector).sorted();
  }();
  return sorted;
}

}  // namespace

std::span<const JobField> job_fields() {
  return table();
}

const JobField* find_job_field(std::string_view name) {
  const auto at = std::ranges::lower_bound(table(), name, {}, &JobField::name);
  return at != table().end() && at->name == name ? &*at : nullptr;
}

Error with_hint(Error error) {
  if (!error.hint.empty()) return error;
  const std::string_view name =
      std::string_view(error.message)
          .substr(0, error.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"));
  if (const JobField* field = find_job_field(name); field != nullptr) error.hint = field->about;
  return error;
}

Status check_job(const Job& job) {
  FieldChecker checker;
  fields(checker, job);
  MILLRACE_TRY(std::move(checker).take());
  return check_request(job.request);
}

}  // namespace millrace
