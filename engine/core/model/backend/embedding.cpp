// Rows of the embedding, from panels as panel_layout.hpp places their numbers.
#include <utility>

#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/backend/panel_layout.hpp"
#include "engine/core/model/program_text.hpp"

namespace millrace::engine {

Status Backend::prepare_embedding(const Projection& embedding) {
  Device& device = *target_.device;
  const PanelLayout layout = layout_of(embedding.runs[0].format, embedding.columns);
  std::vector<std::string> defines = layout.defines();
  defines.push_back(define("WIDTH", embedding.columns));
  defines.push_back(define("ROW_ITEMS", device.row_items()));
  MILLRACE_ASSIGN(const Program program, device.build({.name = "embed",
                                                       .sources = {"embed/embed.cl"},
                                                       .defines = std::move(defines)}));
  Kernel& kernel = embed_[{layout.format, embedding.columns}];
  MILLRACE_ASSIGN(kernel, device.kernel(program, "embed"));
  return {};
}

Status Backend::embed(const Projection& embedding, const StepTable& step, const Buffer& step_words,
                      const Buffer& device_ids, const EmbeddedRows& out) {
  Device& device = *target_.device;
  Kernel& kernel = embed_.at({embedding.runs[0].format, embedding.columns});
  for (const WeightRun& run : embedding.runs) {
    MILLRACE_TRY(device.launch(
        kernel, {.groups = {step.tokens}, .local = {device.row_items()}},
        {run.buffer, step_words, device_ids, out.rows, step.ids_at, step.slots_at, run.first_row,
         run.panels * panel_rows, target_.spec.vocabulary, out.stride, out.scale}));
  }
  return {};
}

}  // namespace millrace::engine
