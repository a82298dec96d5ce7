#include "engine/core/hub/decode_integers.hpp"

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/load.hpp"
#include "engine/core/hub/packed_integers.hpp"

namespace millrace::engine {
namespace {

using Number = std::uint32_t;
using Method = IntegerForm::Method;

Result<Number> read_group(const Settings& settings) {
  MILLRACE_ASSIGN(const double size, settings.get_or<double>("group_size", -1.0));
  return size > 0 ? static_cast<Number>(size) : 0;
}

// The weights of the one group of configurations that compressed-tensors has here.
Result<Settings> packed_weights(const Settings& quantization, const std::string& source) {
  MILLRACE_ASSIGN(const Settings groups, quantization.object("config_groups"));
  const auto names = groups.keys();
  if (names.size() != 1) {
    return fail(Code::unsupported_quantization,
                source + ": compressed-tensors with " + std::to_string(names.size()) +
                    " config_groups is not supported, with one it is",
                "use another folder of the model");
  }
  MILLRACE_ASSIGN(const Settings group, groups.object(names[0]));
  return group.object("weights");
}

class Parts {
 public:
  Parts(const IntegerForm& form, const HubTensors& tensors, const std::string& stem,
        const std::string& source)
      : form_(form), tensors_(tensors), stem_(stem), source_(source) {}

  Result<Source> decode() {
    PackedMatrix matrix;
    MILLRACE_TRY(form_.method == Method::packed ? read_packed(matrix) : read_columns(matrix));
    const TensorType type = exact_type(matrix);
    const std::uint64_t columns = matrix.columns, rows = matrix.rows;
    return made_source(packed_rows(std::move(matrix), type), type, columns, rows);
  }

 private:
  std::unexpected<Error> damaged(const std::string& what) const {
    return fail(Code::folder_malformed,
                source_ + ": the quantized matrix '" + printable(stem_) + "' " + what,
                "the folder's files belong to different models: download it again");
  }
  const HubTensor* find(const std::string& ending) const {
    const auto found = tensors_.find(stem_ + ending);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  Result<const HubTensor*> words(const std::string& ending) const {
    const HubTensor* const found = find(ending);
    if (found == nullptr) return damaged("lacks its part " + ending);
    if (found->type != HubType::i32 || found->shape.size() != 2) {
      return damaged("has a part " + ending + " that is not I32 of two dimensions");
    }
    return found;
  }
  Number per_word() const { return 32 / form_.bits; }

  // gptq: words run along the columns, [columns / 8][rows]. awq: along the rows, [columns][rows /
  // 8], whose codes are in an order of their own. Both have scales [group][row].
  Status read_columns(PackedMatrix& out) {
    const bool awq = form_.method == Method::awq;
    MILLRACE_ASSIGN(const HubTensor* codes, words(".qweight"));
    out.columns = codes->shape[0] * (awq ? 1 : per_word());
    out.rows = codes->shape[1] * (awq ? per_word() : 1);
    out.codes.words = codes->data;
    out.codes.bits = form_.bits;
    out.codes.rows_per_word = awq ? per_word() : 1;
    out.codes.columns_per_word = awq ? 1 : per_word();
    out.codes.row_stride = 1;
    out.codes.column_stride = codes->shape[1];
    if (awq) out.codes.order = {0, 4, 1, 5, 2, 6, 3, 7};
    MILLRACE_TRY(read_groups(out));
    MILLRACE_TRY(read_scale_part(out, ".scales"));
    out.scale_row_stride = 1;
    out.scale_group_stride = out.rows;
    MILLRACE_ASSIGN(const HubTensor* zeros, words(".qzeros"));
    PackedCodes at = out.codes;
    at.words = zeros->data;
    at.rows_per_word = per_word();
    at.columns_per_word = 1;
    at.column_stride = (out.rows + per_word() - 1) / per_word();
    out.zero_added = form_.zero_added;
    return add_zeros(out, at, *zeros);
  }

  // Words run along the columns, [rows][columns / 8], scales are [row][group], and zero points, if
  // there are any, [rows / 8][group].
  Status read_packed(PackedMatrix& out) {
    MILLRACE_ASSIGN(const HubTensor* codes, words(".weight_packed"));
    const HubTensor* const shape = find(".weight_shape");
    const bool known = shape != nullptr && shape->elements() == 2 &&
                       (shape->type == HubType::i64 || shape->type == HubType::i32);
    if (!known) return damaged("lacks its part .weight_shape");
    const auto size = [&](std::size_t i) {
      return shape->type == HubType::i64
                 ? load<std::uint64_t>(shape->data.data() + i * 8)
                 : std::uint64_t{load<std::uint32_t>(shape->data.data() + i * 4)};
    };
    out.rows = size(0);
    out.columns = size(1);
    const std::uint64_t words_each = codes->shape[1];
    if (out.rows != codes->shape[0] || out.columns > words_each * per_word() ||
        out.columns + per_word() <= words_each * per_word()) {
      return damaged("has another size than its part .weight_shape says");
    }
    out.codes.words = codes->data;
    out.codes.bits = form_.bits;
    out.codes.columns_per_word = per_word();
    out.codes.row_stride = words_each;
    out.codes.column_stride = 1;
    MILLRACE_TRY(read_groups(out));
    MILLRACE_TRY(read_scale_part(out, ".weight_scale"));
    out.scale_row_stride = group_count(out);
    out.scale_group_stride = 1;
    if (find(".weight_zero_point") == nullptr) return {};
    MILLRACE_ASSIGN(const HubTensor* zeros, words(".weight_zero_point"));
    PackedCodes at = out.codes;
    at.words = zeros->data;
    at.rows_per_word = per_word();
    at.columns_per_word = 1;
    at.row_stride = group_count(out);
    return add_zeros(out, at, *zeros);
  }

  static std::uint64_t group_count(const PackedMatrix& matrix) {
    return (matrix.columns + matrix.group_columns - 1) / matrix.group_columns;
  }

  // The group of each column: as g_idx lists them, or equal runs.
  Status read_groups(PackedMatrix& out) {
    if (out.rows == 0 || out.columns == 0 || out.columns > (1u << 24)) {
      return damaged("has an impossible size");
    }
    out.group_columns = form_.group == 0 ? out.columns : form_.group;
    out.groups.resize(out.columns);
    for (std::uint64_t c = 0; c < out.columns; ++c) {
      out.groups[c] = static_cast<Number>(c / out.group_columns);
    }
    out.in_order = true;
    const bool packed = form_.method == Method::packed;
    const HubTensor* const order = find(packed ? ".weight_g_idx" : ".g_idx");
    if (order == nullptr || form_.method == Method::awq) return {};
    if (order->type != HubType::i32 || order->elements() != out.columns) {
      return damaged("has a part g_idx of another size");
    }
    for (std::uint64_t c = 0; c < out.columns; ++c) {
      const auto group = load<std::uint32_t>(order->data.data() + c * sizeof(std::uint32_t));
      if (group >= group_count(out)) return damaged("has a part g_idx that names no group");
      out.in_order = out.in_order && group == out.groups[c];
      out.groups[c] = group;
    }
    return {};
  }

  Status read_scale_part(PackedMatrix& out, const std::string& ending) {
    const HubTensor* const scales = find(ending);
    if (scales == nullptr) return damaged("lacks its part " + ending);
    MILLRACE_ASSIGN(out.scales, read_scales(*scales, stem_, source_));
    if (out.scales.size() == out.rows * group_count(out)) return {};
    return damaged("has " + std::to_string(out.scales.size()) + " scales, wanted " +
                   std::to_string(out.rows * group_count(out)));
  }

  Status add_zeros(PackedMatrix& out, const PackedCodes& at, const HubTensor& zeros) {
    const std::uint64_t words_needed = (out.rows + per_word() - 1) / per_word() * group_count(out);
    if (zeros.elements() != words_needed) return damaged("has zero points of another number");
    out.zeros = at;
    return {};
  }

  const IntegerForm& form_;
  const HubTensors& tensors_;
  const std::string& stem_;
  const std::string& source_;
};

}  // namespace

Result<IntegerForm> read_integer_form(const std::string& method, const Settings& quantization,
                                      const std::string& source) {
  IntegerForm out;
  Settings weights = quantization;
  if (method == "gptq") {
    out.method = Method::gptq;
    MILLRACE_ASSIGN(const auto format,
                    quantization.get_or<std::string>("checkpoint_format", "gptq"));
    out.zero_added = format == "gptq" ? 1 : 0;
  } else if (method == "awq") {
    out.method = Method::awq;
  } else if (method == "compressed-tensors") {
    MILLRACE_ASSIGN(const auto format, quantization.get<std::string>("format"));
    if (format != "pack-quantized") return out;
    out.method = Method::packed;
    MILLRACE_ASSIGN(weights, packed_weights(quantization, source));
  } else {
    return out;
  }
  MILLRACE_ASSIGN(out.bits, weights.get<Number>(weights.has("num_bits") ? "num_bits" : "bits"));
  MILLRACE_ASSIGN(out.group, read_group(weights));
  const bool known = out.bits == 4 || (out.bits == 8 && out.method != Method::awq);
  if (known) return out;
  return fail(
      Code::unsupported_quantization,
      source + ": " + method + " with " + std::to_string(out.bits) + " bits is not supported",
      "use a folder of 4 bits, or a GGUF file");
}

Result<Source> decode_integers(const IntegerForm& form, const HubTensors& tensors,
                               const std::string& stem, const std::string& source) {
  if (form.method == Method::none) {
    return fail(Code::unsupported_quantization,
                source + ": the tensor '" + printable(stem) +
                    "' is quantized, but config.json names no method for packed integers",
                "download the folder's config.json again");
  }
  return Parts(form, tensors, stem, source).decode();
}

}  // namespace millrace::engine
