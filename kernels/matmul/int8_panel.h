#pragma once
// A panel of weights for products of math int8, as host and device share it. C++ and OpenCL C both
// read this file, after quantize/code_block.h.
//
// A panel has 16 rows. For each group of INT8_GROUP columns stand 128 signed bytes of each row, of
// which vector v of 16 columns is at v ^ (row % 8), as the matrix unit reads them from local
// memory; behind all groups a float for each row, its scale. Missing rows are zero; a last group
// that is not whole is filled up. The codes are those of the rotated row
// (engine/core/model/backend/ pack_int8.hpp).

#define INT8_PANEL_ROWS 16
#define INT8_STEP_BYTES (INT8_PANEL_ROWS * INT8_GROUP)  // the codes of a group
#define INT8_SCALES_AT(groups) ((groups)*INT8_STEP_BYTES)
#define INT8_PANEL_BYTES(groups) (INT8_SCALES_AT(groups) + 128)

// More columns of K than these might not fit the sums.
#define INT8_MOST_COLUMNS 133000

// A stage of int8_nvidia.cl in local memory, in vectors of 16 bytes: a group of panels, and of
// columns of x.
#define INT8_STAGE_VECTORS(panels, columns) ((panels) * (INT8_STEP_BYTES / 16) + (columns)*8)
