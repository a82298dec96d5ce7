#pragma once
// The working memory of attention on CPUs (tiles.cl) and the groups of the generic family, as host
// and device share them. C++ and OpenCL C both read this file.

// Words of `work`, zero before and after each launch.
#define WORK_NEXT 0  // the next unit, times KV heads
#define WORK_DONE 1  // groups that are done
#define WORK_CUTS 2  // for each cut tile and KV head, units that are done

// Vectors of 16 floats that a segment's result takes for so many queries of so many channels: m and
// l of each row, which fill whole vectors, then its sums.
#define RECORD_VECTORS_OF(rows, channels) (2 * (((rows) + 15) / 16) + (rows) * ((channels) / 16))

// Work-items of a group of the generic family (generic.cl).
#define ATTENTION_ITEMS 64

// Attention on the matrix unit of NVIDIA GPUs (nvidia.cl): the rows of a warp, the keys of a block,
// and the local memory of a group in vectors of 16 bytes.
#define MATRIX_ROWS 16
#define MATRIX_BLOCK 32
#define LEVEL_BLOCK 64  // of nvidia_levels.cl
// Plain values have a vector between positions; packed sides have codes and parameters.
#define MATRIX_PLAIN_KEYS(head_dim) (MATRIX_BLOCK * ((head_dim) / 8))
#define MATRIX_PLAIN_VALUES(head_dim) (MATRIX_BLOCK * ((head_dim) / 8 + 1))
#define MATRIX_CODES(block, head_dim, bits, parameters) \
  ((block) / 16 * ((head_dim) * (bits) / 8 + 2 * (parameters)))
// Of a warp with rows of its own the sums of the segments before, and the queries that registers do
// not hold; of warps that share rows the queries and the scores of a block.
#define MATRIX_QUERY_VECTORS(head_dim) ((head_dim) > 128 ? 2 * (head_dim) : 0)
#define MATRIX_OWN_VECTORS(head_dim) (MATRIX_QUERY_VECTORS(head_dim) + 4 * (head_dim))
#define MATRIX_SHARED_VECTORS(head_dim) (2 * (head_dim) + 4 * MATRIX_BLOCK)
// The floats of a row's result in one segment: its sums, m, l, and two that are not used.
#define MATRIX_PARTIAL_FLOATS(head_dim) ((head_dim) + 4)
