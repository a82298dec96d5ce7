#pragma once
// What the host gives the kernels of experts, as both share it. C++ and OpenCL C both read this
// file.

// Flags of a router (route.cl).
#define ROUTE_BIAS 1u        // the bias is added for the choice
#define ROUTE_NORMALIZED 2u  // the weights are divided by their sum
#define ROUTE_DIRECT 4u      // each choice is a run of its own

// Words of `runs` (runs.cl) for so many runs: their number with padding, then four of each.
#define RUNS_WORDS_OF(runs) (4 + 4 * (runs))

// Flags of the sum of a token's experts (runs.cl, combine).
#define COMBINE_ADDS 1u    // the sum is added to what the output holds
#define COMBINE_SHARED 2u  // the shared expert is one of them

// The addresses of the buffers of a step's experts, which a launch of whole layers reads.
#define MEMORY_LOGITS 0     // of the router, float [tokens][rows of the router]
#define MEMORY_WEIGHTS 1    // route.cl
#define MEMORY_CHOSEN 2     // route.cl
#define MEMORY_RUNS 3       // runs.cl
#define MEMORY_SLOTS 4      // runs.cl
#define MEMORY_PLACES 5     // runs.cl
#define MEMORY_CURSORS 6    // sort.cl
#define MEMORY_SORTED 7     // codes of the tokens by slot
#define MEMORY_ACTIVATED 8  // codes of the activation by slot
#define MEMORY_DOWN 9       // the experts' outputs, float [slots][rows of down]
#define MEMORY_WORDS 10
