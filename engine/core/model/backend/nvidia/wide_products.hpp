#pragma once
// Products of many columns on NVIDIA GPUs of compute capability 9.0, by instructions of four warps
// (kernels/matmul/half_wgmma.cl, and rows_wgmma.cl for matrices of F16 and of bytes, which takes
// any number of columns). They have the bits of the others (products.cpp). Thread safety: the
// device's owner thread.
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>

#include "engine/core/model/backend/backend.hpp"

namespace millrace::engine {

// How such a product is cut.
struct WideShape {
  std::uint32_t warpgroups = 1;  // of 64 rows
  std::uint32_t columns = 64;    // of a tile
  std::uint32_t groups = 1;      // that share a multiprocessor
  // The time of a tile of a group that has a multiprocessor for itself, and where `groups` share
  // one. Only ratios count.
  std::uint32_t alone = 1, shared = 1;
  std::uint32_t copiers =
      4;  // warps that copy, of matrices whose rows stand as the unit reads them
  auto operator<=>(const WideShape&) const = default;
};

// The program of half_wgmma.cl for a shape, or with `rows` that of rows_wgmma.cl.
ProgramSpec wide_program(const Target& target, const PanelLayout& layout, const WideShape& shape,
                         bool rows);

class WideProducts {
 public:
  explicit WideProducts(const Target& target);

  // How many ways there are to cut products by a matrix of such a format
  // (KernelVariant::wide_shape).
  static std::uint32_t shapes(const PanelFormat& format);

  // Why they do not serve: the device lacks the instructions, or its driver gives another text than
  // was foreseen, which prepare() finds out. Empty if they do.
  const std::string& why_not() const { return why_not_; }
  // Says so in the log, too, when the driver's text does not build.
  void give_up(const Error& error);

  // Compiles the programs of a format, if they serve.
  Status prepare(const PanelLayout& layout);
  // The fewest columns of x that they take of such matrices, after prepare(); none if they do not
  // serve.
  std::optional<std::uint32_t> least_columns(const PanelFormat& format, std::uint32_t k) const;
  // The mode is that of the kernel (kernels/matmul/mode.h).
  Status launch(const ProductCall& call, const WeightRun& run, std::uint32_t mode);

 private:
  // Format, padded K, and the shape.
  using Key = std::tuple<PanelFormat, std::uint32_t, WideShape>;
  Status build(const PanelLayout& layout, const WideShape& shape);
  // Those that the variant leaves.
  std::span<const WideShape> shapes_for(const PanelFormat& format) const;
  const WideShape& shape_for(const PanelFormat& format, std::uint32_t panels,
                             std::uint32_t columns) const;

  const Target* target_;
  std::string why_not_;
  std::map<Key, Kernel> kernels_;
};

}  // namespace millrace::engine
