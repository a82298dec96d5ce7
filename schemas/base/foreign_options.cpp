#include "schemas/base/foreign_options.hpp"

#include <array>

namespace millrace {

std::span<const ForeignOption> foreign_options() {
  // vLLM's first, then llama.cpp's.
  static constexpr std::array<ForeignOption, 21> table{
      {{"host", "http"},
       {"port", "http"},
       {"input-file", "input"},
       {"output-file", "output"},
       {"served-model-name", "model-name"},
       {"max-num-seqs", "max-batch"},
       {"max-num-batched-tokens", "step-tokens"},
       {"kv-cache-dtype", "kv"},
       {"kv-cache-memory-bytes", "kv-memory"},
       {"enable-prefix-caching", "prefix-cache"},
       {"no-enable-prefix-caching", "prefix-cache"},
       {"pipeline-parallel-size", "pipeline"},
       {"data-parallel-size", "devices"},
       {"alias", "model-name"},
       {"parallel", "max-batch"},
       {"batch-size", "step-tokens"},
       {"cache-type-k", "kv"},
       {"cache-type-v", "kv"},
       {"threads", "cores"},
       {"n-predict", "max-tokens"},
       {"system-prompt", "system"}}};
  return table;
}

}  // namespace millrace
