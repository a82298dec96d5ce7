#include "engine/core/model/backend/cpu/layer_join.hpp"

#include <algorithm>

#include "engine/core/model/backend/cpu/layer_text.hpp"
#include "engine/core/model/experts.hpp"
#include "engine/core/model/recurrence.hpp"

namespace millrace::engine {
namespace {

std::string type_text(const WeightTensor& tensor) {
  return tensor.name + " is " + std::string(traits_of(tensor.type).name);
}

// Returns "blk.3" for "blk.3.attn_q.weight".
std::string layer_name(const WeightTensor& tensor) {
  return tensor.name.substr(0, tensor.name.find('.', tensor.name.find('.') + 1));
}

std::string no_whole_blocks(const char* what, std::uint32_t width) {
  return std::string(what) + " of " + std::to_string(width) + " channels are not a multiple of " +
         std::to_string(block_columns);
}

const Recurrence* recurrence_of(const LayerProgram& layer) {
  for (const LayerOp& operation : layer.operations) {
    if (const auto* recurrence = std::get_if<RecurrenceOp>(&operation)) {
      return recurrence->recurrence;
    }
  }
  return nullptr;
}

const ExpertsOp* experts_of(const LayerProgram& layer) {
  for (const LayerOp& operation : layer.operations) {
    if (const auto* experts = std::get_if<ExpertsOp>(&operation)) return experts;
  }
  return nullptr;
}

bool has_latents(const LayerProgram& layer) {
  return std::ranges::any_of(layer.operations, [](const LayerOp& operation) {
    return std::visit([]<class Op>(const Op&) { return !has_text<Op>; }, operation);
  });
}

// Layers and widths that the kernel of whole layers does not have.
std::string why_operations_in_parts(const LayerProgram& layer) {
  const AttentionSpec& attention = layer.spec->attention;
  const RecurrenceSpec& recurrence = layer.spec->recurrence;
  if (!layer.spec->feed_forward.exists() || !has_gate(layer.spec->feed_forward.gate)) {
    return "layers without a gated feed-forward run in parts";
  }
  if (!attention.exists() && !recurrence.exists()) return "a layer is a feed-forward alone";
  if (recurrence.exists() && recurrence.outputs() % block_columns != 0) {
    return no_whole_blocks("recurrences", recurrence.outputs());
  }
  const std::string name = layer_name(products_of(layer).front()->tensors[0]);
  if (attention.keys_are_values) return name + " has no matrix of values";
  if (layer.spec->feed_forward.has_both()) {
    return name + " has experts beside a dense feed-forward";
  }
  for (const LayerOp& operation : layer.operations) {
    const auto* gate = std::get_if<EmbeddingGateOp>(&operation);
    const std::uint32_t channels = gate != nullptr ? gate->matrix->rows : 0;
    if (channels % block_columns != 0) return no_whole_blocks("embeddings by layer", channels);
    if (channels > products_of(layer).front()->rows) {
      return name + " has embeddings that are wider than its queries, keys and values";
    }
  }
  return "";
}

std::string why_experts_in_parts(const LayerProgram& layer, const ExpertsOp& experts) {
  const ExpertWeights& weights = *experts.weights;
  const std::string name = layer_name(weights.router.tensors[0]);
  for (const ExpertMatrix* matrix : {&weights.gate_up, &weights.down}) {
    for (const WeightTensor& tensor : matrix->tensors) {
      if (!format_of(tensor.type).quantized()) {
        return type_text(tensor) + ", which is not quantized";
      }
    }
    if (matrix->runs.size() != 1) {
      return "the experts of " + name + " have matrices of several types or buffers";
    }
  }
  if (weights.router.runs.size() != 1) {
    return "the router of " + name + " has rows of several types or buffers";
  }
  if (layer.spec->placement == NormPlacement::after) {
    return "the experts of " + name + " read the residual stream itself";
  }
  const std::uint32_t width = experts.experts->spec().width;
  return width % block_columns == 0 ? "" : no_whole_blocks("experts", width);
}

}  // namespace

const LayerProgram* attending(std::span<const LayerProgram> layers) {
  const auto attends = [](const LayerProgram& each) { return each.spec->attention.exists(); };
  const auto found = std::ranges::find_if(layers, attends);
  return found == layers.end() ? nullptr : &*found;
}

const Recurrence* recurrence_of(std::span<const LayerProgram> layers) {
  for (const LayerProgram& layer : layers) {
    if (const Recurrence* const found = recurrence_of(layer); found != nullptr) return found;
  }
  return nullptr;
}

std::uint32_t dense_width(const FeedForwardSpec& spec) {
  return spec.experts ? spec.experts->shared_width : spec.width;
}

std::string why_in_parts(const Target& target, const LayerProgram& layer) {
  if (!target.device->has_addresses()) {
    return "whole layers need a CPU device that shares the host's memory";
  }
  if (has_latents(layer)) return "latent attention runs in parts";
  if (target.math != MathMode::fast) return "whole layers need --math fast";
  if (target.kinds.empty()) return "no layer of the model attends";
  if (std::string why = why_operations_in_parts(layer); !why.empty()) return why;
  if (const ExpertsOp* experts = experts_of(layer); experts != nullptr) {
    std::string why = why_experts_in_parts(layer, *experts);
    if (!why.empty()) return why;
  }
  for (const Projection* product : products_of(layer)) {
    for (const WeightTensor& tensor : product->tensors) {
      if (!format_of(tensor.type).quantized()) {
        return type_text(tensor) + ", which is not quantized";
      }
    }
  }
  for (const LayerOp& operation : layer.operations) {
    const auto* gated = std::get_if<GatedOp>(&operation);
    if (gated == nullptr || gated->matrix->runs.size() == 1) continue;
    const std::vector<WeightTensor>& tensors = gated->matrix->tensors;
    if (format_of(tensors[0].type) == format_of(tensors[1].type)) {
      return tensors[0].name + " and its neighbours exceed the device's largest buffer";
    }
    return type_text(tensors[1]) + ", " + type_text(tensors[0]);
  }
  const std::uint32_t head_dim = layer.spec->attention.head_dim;
  if (head_dim % block_columns != 0) return no_whole_blocks("heads", head_dim);
  const std::uint32_t ffn = dense_width(layer.spec->feed_forward);
  if (ffn % block_columns != 0) return no_whole_blocks("feed-forwards", ffn);
  return "";
}

std::string why_apart(std::span<const LayerProgram> run, const LayerProgram& layer) {
  const auto name_of = [](const LayerProgram& each) {
    return layer_name(products_of(each).front()->tensors[0]);
  };
  const std::string name = name_of(layer);
  const LayerProgram* const attends = attending(run);
  if (attends != nullptr && layer.spec->attention.exists()) {
    if (attends->kv.codecs != layer.kv.codecs) {
      return name + " stores its KV in " + layer.kv.codecs.name() + ", " + name_of(*attends) +
             " in " + attends->kv.codecs.name();
    }
    if (attends->kv.kind != layer.kv.kind) {
      return name + " has another attention than " + name_of(*attends);
    }
  }
  const Recurrence *recurred = recurrence_of(run), *recurs = recurrence_of(layer);
  if (recurred != nullptr && recurs != nullptr && recurred != recurs) {
    return name + " has another recurrence than the layers before it";
  }
  const LayerProgram& before = run.back();
  const std::string other = name_of(before);
  const FeedForwardSpec &before_ffn = before.spec->feed_forward, &ffn = layer.spec->feed_forward;
  if (before_ffn.width != ffn.width || before_ffn.gate != ffn.gate ||
      before_ffn.experts != ffn.experts) {
    return name + " has another feed-forward than " + other;
  }
  const ExpertsOp *had = experts_of(before), *has = experts_of(layer);
  if (has != nullptr &&
      had->weights->router.runs[0].format != has->weights->router.runs[0].format) {
    return name + " has a router of another type than " + other;
  }
  return "";
}

}  // namespace millrace::engine
