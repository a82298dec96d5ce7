#pragma once
// The encoders of blocks, for encode.cpp: each reads the values of one block and decides codes,
// steps and halves. Thread safety: pure functions.
#include "engine/core/convert/pack.hpp"

namespace millrace::engine::encoders {

// One scale for 32 values: encode_range.cpp.
void q8_0(const float* values, CodedBlock& out);
void q4_0(const float* values, CodedBlock& out);
void q5_0(const float* values, CodedBlock& out);
void q4_1(const float* values, CodedBlock& out);
void q5_1(const float* values, CodedBlock& out);

// Super-blocks of 256 values, whose groups have steps: encode_k.cpp.
void q2_k(const float* values, CodedBlock& out);
void q3_k(const float* values, CodedBlock& out);
void q4_k(const float* values, CodedBlock& out);
void q5_k(const float* values, CodedBlock& out);
void q6_k(const float* values, CodedBlock& out);

// Codes that number levels: encode_levels.cpp.
void iq4_nl(const float* values, CodedBlock& out);
void iq4_xs(const float* values, CodedBlock& out);
void mxfp4(const float* values, CodedBlock& out);

}  // namespace millrace::engine::encoders
