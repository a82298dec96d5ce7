#pragma once
// What the launch of several layers (cpu.cl) reads and counts, as host and device share it. C++ and
// OpenCL C both read this file.

// Words of a layer in the table of layers.
#define LAYER_TEXT 0     // which of the program's generated texts it has
#define LAYER_BUFFERS 1  // from here on the addresses of its buffers, as the text numbers them

// Words of `phases`, zero before and after each launch.
#define PHASES_ENDED 0   // groups that have gone through all layers or given up
#define PHASES_LAYERS 1  // from here on the counters of each layer

// The counters of a phase, from its place among those of its layer on.
#define PHASE_NEXT 0  // the next chunk, or the next unit of tiles of several tokens
#define PHASE_DONE 1  // chunks or units that are done
#define PHASE_COUNTERS 2
#define PHASE_NEXT_SINGLE 2  // in attention: the next unit of tiles of one token
#define ATTEND_COUNTERS 3
#define PHASE_GATED_CHUNKS 2  // in the sorting of experts: the chunks of their first product
#define PHASE_DOWN_CHUNKS 3   // of the second
#define SORT_COUNTERS 4
