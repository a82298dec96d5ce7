#pragma once
// The flags `mode` of a matrix product, as host and device share them. C++ and OpenCL C both read
// this file.

#define MODE_ADDS 1u    // the product is added to what the output holds
#define MODE_BIASED 2u  // the bias is added to the product

// The matrix has gate and up in turns, 8 rows each (matmul/store_tiles.cl): their activation is
// stored in place of the product, as rows or, with MODE_CODES, as halves (quantize/code_block.h).
#define MODE_GATED 4u
#define MODE_CODES 8u
