#pragma once
// A family: what distinguishes an architecture from others and its files leave out. read_spec()
// reads the keys that files do have for all families alike. The defaults are those of llama. To
// add a family, add a source to architectures/ and its name to table.cpp.
// Thread safety: immutable.
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "engine/core/families/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class Keys;

// Where a layer's norms are, and their names as in NormNames.
struct NormLayout {
  NormPlacement placement;
  std::string_view attention, attention_post, feed_forward, feed_forward_post;
  std::string_view dense_post{}, experts{}, experts_post{};  // of Family::experts_beside_dense
};
inline constexpr NormLayout norms_before{NormPlacement::before, "attn_norm", "", "ffn_norm", ""};
// The norm before the feed-forward has the name that other families give the one after attention.
inline constexpr NormLayout norms_before_renamed{NormPlacement::before, "attn_norm", "",
                                                 "post_attention_norm", ""};
inline constexpr NormLayout norms_after{NormPlacement::after, "post_attention_norm", "",
                                        "post_ffw_norm", ""};
inline constexpr NormLayout norms_around{NormPlacement::before_and_after, "attn_norm",
                                         "post_attention_norm", "ffn_norm", "post_ffw_norm"};
inline constexpr NormLayout norm_shared{NormPlacement::parallel, "attn_norm", "", "", ""};

// Which layers the key `attention.sliding_window` is about.
enum class WindowedLayers : std::uint8_t {
  unstated,  // only some, and no key says which: a window is refused
  all,
  pattern  // those of `attention.sliding_window_pattern`, or of Family::window_period
};

enum class RotatedLayers : std::uint8_t {
  all,
  not_each_fourth,  // layers 3, 7, 11 ... do not rotate
  windowed          // only layers with a window rotate
};

// Which layers have a recurrence, in place of attention unless it says otherwise.
enum class RecurrentLayers : std::uint8_t {
  none,
  by_key,            // those of `attention.recurrent_layers`, or all but each of
                     // `full_attention_interval` (without the key 4)
  without_kv_heads,  // those with 0 KV heads, in families of one sublayer those that also have no
                     // feed-forward
  all,               // and none attends
  beside_attention   // all, and all attend
};

enum class Mixture : std::uint8_t { never, optional, always };  // of experts

struct Family {
  std::string_view architecture;  // as in `general.architecture`
  NormLayout norms = norms_before;
  bool centered_norms = false;

  RopeKind rope = RopeKind::pairs;
  RotatedLayers rotated = RotatedLayers::all;
  bool yarn_rounds_range = true;
  bool rope_sections = false;  // files divide frequencies into sections, which are alike for text
  // Windowed layers rotate by `rope.freq_base_swa`; without the key by local_base, or, if that is
  // 0, as the others do. With local_is_plain they have neither scaling nor an amplitude.
  double local_base = 0.0;
  bool local_is_plain = false;

  HeadNorm head_norm = HeadNorm::none;
  bool head_norm_is_optional = false;  // only some of the family's models have it
  bool norm_after_rope = false;
  bool latent = false;  // multi-head latent attention
  bool sinks = false;   // all models have them; in other families, those whose files do
  WindowedLayers windowed = WindowedLayers::unstated;
  std::uint32_t window_period = 0;  // layer i has a window if i % period < period - 1
  std::uint32_t window = 0;         // of files without the key
  bool window_is_needed = false;    // every model of the family has one
  float score_soft_cap = 0.0f;      // of files without the key
  // Models of this many layers, Gemma's of 27B, have the scale 1 / sqrt(width / heads).
  std::uint32_t wide_scale_layers = 0;
  std::optional<float> score_scale{};  // in place of 1 / sqrt(head_dim)
  bool windowed_heads = false;  // the keys key_length_swa and value_length_swa, of windowed layers
  bool normed_values = false;
  bool values_may_be_keys = false;  // in layers whose file has no attn_v

  RecurrentLayers recurrent = RecurrentLayers::none;
  RecurrenceKind recurrence = RecurrenceKind::none;
  bool keys_in_turn = false, gates_by_key_head = false;  // of delta nets (recurrence_spec.hpp)
  bool output_gate = false;                              // of attention
  bool one_sublayer = false;  // a layer is attention, a recurrence or a feed-forward, on one norm

  Gate gate = Gate::silu;
  Mixture mixture = Mixture::never;
  Router router = Router::softmax;  // of files without the key
  bool weights_normalized = true;   // likewise
  bool selection_bias = false;      // all models have it; in other families, those whose files do
  bool shared_gate = false;
  bool experts_beside_dense = false;  // in the same layer, with a router norm and expert scales

  bool embedding_times_root_width = false;
  std::string_view output_norm = "output_norm";
  std::optional<float> logit_soft_cap{};  // of files without the key; none: the key is refused

  // Reads keys that only this family has. The specification is complete but for them.
  Status (*finish)(Keys& keys, ModelSpec& spec) = nullptr;
};

std::span<const Family* const> all_families();
const Family* find_family(std::string_view architecture);  // null: none

}  // namespace millrace::engine
