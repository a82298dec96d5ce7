#pragma once
// Copies of packed codes and their parameters from pages to local memory, for attention on the
// matrix unit (level_blocks.cl). They stand there as in a page (kv/planes.cl), the
// parameters behind the codes.
#include "attention/blocks.cl"
#include "attention/work.h"
#include "common/prelude.cl"
#include "kv/layout.cl"
#include "matmul/mma.cl"

#if LEVELS
#define KEY_BLOCK_VECTORS MATRIX_CODES(KEY_BLOCK, HEAD_DIM, KEY_BITS, KEY_PARAMETERS)
#define VALUE_BLOCK_VECTORS MATRIX_CODES(KEY_BLOCK, HEAD_DIM, VALUE_BITS, VALUE_PARAMETERS)
// Of a page, in vectors: codes, and both.
#define KEY_CODES (HEAD_DIM * KEY_BITS / 8)
#define VALUE_CODES (HEAD_DIM * VALUE_BITS / 8)
#define KEY_STORED (KEY_CODES + 2 * KEY_PARAMETERS)
#define VALUE_STORED (VALUE_CODES + 2 * VALUE_PARAMETERS)

// Begin to copy the keys or the values of a block.
MR_GROUP_INLINE void mr_copy_codes(__local uint4* to, const Source* source, uint block,
                                   uint codes_at, uint codes, uint parameters_at, uint parameters,
                                   uint item) {
  MR_UNIT_EACH(page, BLOCK_PAGES) {
    int exists;
    const uint number = block * BLOCK_PAGES + page;
    __global const uint4* from = mr_page(source, number, codes_at, &exists);
    MR_UNROLLED for (uint i = item; i < codes; i += GROUP_ITEMS) {
      mr_copy16_if(exists, to + i, from + i);
    }
    if (item < parameters) {
      mr_copy16_if(exists, to + codes + item,
                   mr_page(source, number, parameters_at, &exists) + item);
    }
    to += codes + parameters;
  }
}
MR_GROUP_INLINE void mr_copy_keys(__local uint4* to, const Source* source, uint block, uint item) {
  mr_copy_codes(to, source, block, source->keys_at, KEY_CODES, source->key_parameters_at,
                2 * KEY_PARAMETERS, item);
}
MR_GROUP_INLINE void mr_copy_values(__local uint4* to, const Source* source, uint block,
                                    uint item) {
  mr_copy_codes(to, source, block, source->values_at, VALUE_CODES, source->value_parameters_at,
                2 * VALUE_PARAMETERS, item);
}
#endif
