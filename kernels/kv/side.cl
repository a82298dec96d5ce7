// What codec.cl and quad.cl call the codec of their side. KEYS 1: that of keys; 0: that of values.
// The names of functions end in SIDE: MR_S(mr_pack) is mr_pack_key. layout.cl has the parameters.
#include "common/prelude.cl"
#include "kv/layout.cl"

#ifndef KEYS
#define KEYS 1
#endif
#define MR_S(name) MR_JOINED(name, SIDE)
#undef SIDE
#undef KIND
#undef BITS
#undef CODE_GROUP
#undef PARAMETERS
#undef INTEGERS
#undef CODEBOOK_LEVELS
#undef THRESHOLDS
#undef SIGNS
#undef LEVEL_BYTES
#if KEYS
#define SIDE key
#define KIND KEY_KIND
#define BITS KEY_BITS
#define CODE_GROUP KEY_GROUP
#define PARAMETERS KEY_PARAMETERS
#define INTEGERS KEY_INTEGERS
#define CODEBOOK_LEVELS KEY_LEVELS
#define THRESHOLDS KEY_THRESHOLDS
#define SIGNS KEY_SIGNS
#define LEVEL_BYTES KEY_LEVEL_BYTES
#else
#define SIDE value
#define KIND VALUE_KIND
#define BITS VALUE_BITS
#define CODE_GROUP VALUE_GROUP
#define PARAMETERS VALUE_PARAMETERS
#define INTEGERS VALUE_INTEGERS
#define CODEBOOK_LEVELS VALUE_LEVELS
#define THRESHOLDS VALUE_THRESHOLDS
#define SIGNS VALUE_SIGNS
#define LEVEL_BYTES VALUE_LEVEL_BYTES
#endif

// The bits of a code in the low and in the high plane (planes.cl), and the largest code.
#undef LOW
#undef HIGH
#if BITS == 8
#define LOW 8
#define HIGH 0
#elif BITS >= 4
#define LOW 4
#define HIGH (BITS - 4)
#else
#define LOW 2
#define HIGH (BITS - 2)
#endif
#define CODE_TOP ((1 << BITS) - 1)
