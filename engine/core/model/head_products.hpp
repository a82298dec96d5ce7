#pragma once
// Products whose matrix each head has for itself, as multi-head latent attention has them
// (families/spec.hpp, LatentSpec): a backend multiplies them as if heads were experts that every
// token chose (kernels/latent/heads.cl). A row's result has the same bits whatever other tokens
// share the launch. Errors: kernel_build, device_error, out_of_memory. Thread safety: the device's
// owner thread.
#include <cstdint>
#include <map>
#include <memory>

#include "engine/core/device/device.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/expert_weights.hpp"
#include "engine/core/model/forms.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Rows of each head and token: those of head h and token t begin at float first + t * token_stride
// + h * head_stride.
struct HeadRows {
  const Buffer& buffer;
  std::uint32_t first = 0, token_stride = 0, head_stride = 0;
};

class HeadProducts {
 public:
  // For steps of up to so many tokens. The backend must outlive the products.
  HeadProducts(Backend& backend, std::uint32_t heads, std::uint32_t tokens);

  // Compiles what a matrix needs, and allocates room for its rows.
  Status prepare(const ExpertMatrix& matrix);
  // Writes each head's matrix * its row of `in`, matrix.columns and matrix.rows wide, multiples of
  // 16, to `out`.
  Status run(const ExpertMatrix& matrix, const HeadRows& in, const HeadRows& out,
             std::uint32_t tokens);
  // Copies `channels` of each head and token, a multiple of 16.
  Status copy(const HeadRows& from, const HeadRows& to, std::uint32_t channels,
              std::uint32_t tokens);

 private:
  Status prepare_kernels();
  Status list(std::uint32_t tokens);

  Backend* backend_;
  Device* device_;
  std::uint32_t heads_, most_tokens_;
  std::unique_ptr<ExpertProducts> products_;
  std::uint32_t listed_ = 0;  // the tokens that `runs_` and `slots_` are for
  Buffer runs_, slots_;
  // By the width of rows, so that what lies beyond it stays zero.
  struct Room {
    Activation in;
    Buffer out;
  };
  std::map<std::uint32_t, Room> rooms_;
  Kernel copy_, list_, quantize_;
};

}  // namespace millrace::engine
