#pragma once
// Names the fields of a table whose values differ from those of a default-constructed object.
// Thread safety: pure functions.
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// The addresses of an object's fields, in the order of its table.
class FieldAddresses {
 public:
  void field(std::string_view, const auto& value, const auto&...) { list_.push_back(&value); }
  void beside(std::string_view name, const auto& value, const auto&...) { field(name, value); }
  void alias(const auto&...) {}
  void known(const auto&...) {}
  const void* operator[](std::size_t index) const { return list_[index]; }

 private:
  std::vector<const void*> list_;
};

// Compares each field with the one at the same place of `standard`, which has the same type.
class ChangedNames {
 public:
  explicit ChangedNames(const FieldAddresses& standard) : standard_(standard) {}
  template <class T>
  void field(std::string_view name, const T& value, const auto&...) {
    if (!(*static_cast<const T*>(standard_[index_++]) == value)) names.push_back(name);
  }
  void beside(std::string_view name, const auto& value, const auto&...) { field(name, value); }
  void alias(const auto&...) {}
  void known(const auto&...) {}
  std::vector<std::string_view> names;

 private:
  const FieldAddresses& standard_;
  std::size_t index_ = 0;
};

// `walk` passes the fields of an object to a visitor. The names come in the table's order.
template <class T, class Walk>
std::vector<std::string_view> changed_names(const T& value, Walk walk) {
  const T standard{};
  FieldAddresses addresses;
  walk(addresses, standard);
  ChangedNames changed(addresses);
  walk(changed, value);
  return std::move(changed.names);
}

}  // namespace millrace
