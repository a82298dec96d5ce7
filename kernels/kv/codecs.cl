#pragma once
// The codecs of keys and of values (codec.cl), where they are packed.
#include "kv/layout.cl"

#define KEYS 1
#include "kv/codec.cl"
#undef KEYS
#define KEYS 0
#include "kv/codec.cl"
#undef KEYS
