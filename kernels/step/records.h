#pragma once
// The records of the step table, the one array of 32-bit words from which all kernels of a step
// read (engine/core/model/step_table.hpp). C++ and OpenCL C both read this file; `unsigned` has 32
// bits in both.

#define STEP_NO_SLOT 0xffffffffu  // in place of the slot of a token whose id the array has

#ifdef __cplusplus
namespace millrace::kernels {
#endif

// A tile: consecutive tokens of one sequence.
typedef struct TileRecord {
  unsigned token;  // the first
  unsigned tokens;
} TileRecord;

// A unit of attention: a tile with a run of consecutive segments (attention/tiles.cl) that one of
// its tokens sees.
typedef struct UnitRecord {
  unsigned token;  // of the tile
  unsigned tokens;
  unsigned first;  // segment
  unsigned count;  // of segments
  // Of a tile that is cut into several units, which have these in common; zeros if it is not.
  unsigned partial;  // the first of its partial results, one for each of the tile's segments
  unsigned counter;  // counts its units that are done
  unsigned parts;    // units
  unsigned unused;
} UnitRecord;

// A unit of attention on a matrix unit (attention/nvidia.cl): a tile of consecutive tokens of one
// sequence with a run of consecutive segments, of which one of its tokens sees something.
typedef struct MatrixUnit {
  unsigned token;  // of the tile
  unsigned tokens;
  unsigned position;  // of its first token
  unsigned table;     // where the page table of the sequence begins in the step table
  unsigned first;     // segment
  unsigned count;     // of segments
  // Of a tile that is cut into several units, which have these in common; zeros if it is not.
  unsigned partial;  // the first row of its partial results
  unsigned counter;  // counts its units that are done
  unsigned parts;    // units
} MatrixUnit;

// The tokens of one sequence in a step of a model with recurrent layers.
typedef struct StateRow {
  unsigned token;  // the first
  unsigned tokens;
  unsigned from;  // the place of the states before it; STEP_NO_SLOT: they are zero
  unsigned to;    // the place of the states after the last token; may be the same
} StateRow;

#ifdef __cplusplus
}  // namespace millrace::kernels
#endif
