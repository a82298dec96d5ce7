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
