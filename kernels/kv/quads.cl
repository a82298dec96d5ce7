#pragma once
// The quads of keys and of values as bytes (quad.cl), where attention computes in integers.
#include "kv/codecs.cl"

#define KEYS 1
#include "kv/quad.cl"
#undef KEYS
#define KEYS 0
#include "kv/quad.cl"
#undef KEYS
