#pragma once
// Makes one visitor for std::visit of several functions. Thread safety: a plain value.

namespace millrace::broker {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace millrace::broker
