// How keys and values lie in memory: one buffer a layer, pages of 16 positions.
//
//   page p, KV head g:  keys   [HEAD_DIM][16] half   position-fastest: a vector is 16 positions
//                       values [16][HEAD_DIM] half   channel-fastest:  a vector is 16 channels
//
// Halves are rounded to nearest even and kept within +-65504. Keys are stored after RoPE. A page's
// content depends on its tokens' history alone. A sequence's page table (uint page ids) gives page
// i for positions 16i .. 16i+15.
//
// Defines: HEAD_DIM (a multiple of 16), HEADS, KV_HEADS.
#define PAGE_TOKENS 16
#define SEGMENT_TOKENS 256
#define SIDE_HALVES (PAGE_TOKENS * HEAD_DIM)
#define HEAD_HALVES (2 * SIDE_HALVES)
#define PAGE_HALVES (KV_HEADS * HEAD_HALVES)
#define GROUP (HEADS / KV_HEADS)

static inline size_t mr_keys_at(uint page, uint kv_head) {
  return (size_t)page * PAGE_HALVES + kv_head * HEAD_HALVES;
}
static inline size_t mr_values_at(uint page, uint kv_head) {
  return mr_keys_at(page, kv_head) + SIDE_HALVES;
}
