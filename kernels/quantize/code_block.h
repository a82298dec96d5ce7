#pragma once
// A block of codes, the form in which products of the fast mode read activations. C++ and OpenCL C
// both read this file. block.cl says how a block is made. Integer products read:
//
//   words 0..7           codes, four signed bytes a word, in the order of the channels
//   word  Q_SCALE        float s, the scale: a channel is s * code
//   word  Q_SUM          float t = s * (float)(sum of the 32 codes)
//   word  Q_OFFSET       int -8 * (sum of the 32 codes)
//   word  Q_OFFSET_HALF  int -8 * (sum of the codes 0..15)

#define Q_CHANNELS 32
#define Q_WORDS 12
#define Q_SCALE 8
#define Q_SUM 9
#define Q_OFFSET 10
#define Q_OFFSET_HALF 11

// A block of halves, the form in which the products of NVIDIA GPUs read activations: the halves of
// H_SCALE times the 32 channels, two a word, in the order of the channels.
#define H_WORDS 16
#define H_SCALE 0.0625f
#define H_UNIT 16.0f

#define Q_TOGETHER 32u  // blocks are quantized together, see block.cl
// The floats that a group of the cpu family keeps for 32 gates and 32 ups of so many columns.
#define STRIP_FLOATS (Q_TOGETHER * 64)
