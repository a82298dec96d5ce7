#pragma once
// The sizes of a stage in local memory (half_nvidia.cl, half_wgmma.cl), in vectors of 16 bytes, as
// host and device share them. C++ and OpenCL C both read this file.
//
// A panel has the codes of its blocks, `words` of 16 rows each, or their halves; then their scales;
// then the halves that steps multiply.

#define STAGE_BLOCK_VECTORS(quantized, words) ((quantized) ? 4 * (words) : 64)
#define STAGE_STEP_VECTORS(has_steps, affine) ((has_steps) ? ((affine) ? 4 : 2) : 0)
#define STAGE_PANEL(blocks, codes, scales, steps) ((blocks) * ((codes) + (scales)) + (steps))
#define STAGE_X(blocks, columns) ((blocks) * (columns)*4)

// The local memory of half_wgmma.cl in bytes: stages of x, of panels, and two barriers for each.
#define WGMMA_BYTES(stages, columns, panels, panel_stage) \
  ((stages) * ((columns)*128 + (panels) * (panel_stage)*16 + 16))
// Those of rows_wgmma.cl: stages of x and of rows, and two barriers for each.
#define ROWS_WGMMA_BYTES(stages, columns, warpgroups) \
  ((stages) * ((columns)*128 + (warpgroups)*8192 + 16))
// Besides, of bytes, the scales of a tile's columns, in slots: as many as that none is filled again
// before the sums of its tile are stored.
#define ROWS_WGMMA_SCALES(columns) (((columns) + 63) / 64 * 256)
#define ROWS_WGMMA_SLOTS(steps, stages) (((stages) + (steps)-1) / (steps) + 1)
