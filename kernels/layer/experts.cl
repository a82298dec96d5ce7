#pragma once
// The phases of a mixture of experts (experts/README.md) in a launch of whole layers (cpu.cl). They
// call the functions of the separate kernels, so the bits are the same. For a layer it reads:
//
//   MR_ROUTER(15, 8, MR_WEIGHT(9), 0, 0, 128)                     normed rows -> logits, in fp32
//   MR_ROUTE(17, 0, 128, 8, 0, 2, 1, 1, 0, 1.0f)                  logits -> experts, weights
//   MR_SORT(19, 8, 128, 2, 96, 3, 128)                            experts -> runs
//   MR_GATHER(23, 8)                                              normed -> sorted, if sorted
//   MR_EXPERTS_GATED(25, 21, 2, 96, MR_WEIGHT(10), 0, 0, 128, 1536)   ... -> activated
//   MR_EXPERTS(27, 22, 3, 128, MR_WEIGHT(11), 0, 0, 128, 2048)    activated -> down
//   MR_COMBINE(29, 8, 2048, 1, 1.0f)                              weights, down -> hidden
//
// `memory` has the addresses of what lies between these phases (experts/table.h).
//   defines  EXPERTS; DIRECT_TOKENS: steps of up to so many tokens are not sorted; EXPERTS_STRIDE,
//            words of a row of activated codes; FLOAT_TILE
#include "experts/route.cl"
#include "experts/runs.cl"
#include "experts/sort.cl"
#include "experts/table.h"
#include "matmul/exact_cpu.cl"
#include "norm/rms.cl"

#ifndef DIRECT_TOKENS
#define DIRECT_TOKENS 1
#define EXPERTS_STRIDE 16
#endif

#define MR_MEMORY(type, which) ((__global type*)(size_t)s->memory[MEMORY_##which])
#define MR_SORTED (s->columns > DIRECT_TOKENS)
// All runs, with so many units of so many pairs of panels each.
#define MR_GATED_WORK(experts, panels) MR_WORK(experts, (panels) / 4, 2)
#define MR_DOWN_WORK(experts, panels) MR_WORK(experts, MR_PAIRS(panels), 1)
#define MR_WORK(experts, units, pairs)                                                            \
  mr_work_of(MR_MEMORY(const uint, RUNS), experts, units, pairs)

#define MR_NORM_ROWS(weight)                                                                    \
  mr_norm_row(s->hidden + (size_t)c * HIDDEN_STRIDE, weight,                                    \
              s->normed_rows + (size_t)c * HIDDEN_STRIDE, MR_CEIL(WIDTH, 16), s->inverse_width, \
              s->epsilon)

// Chunks of four panels by some tiles of columns.
#define ROUTER_COLUMNS (4u * FLOAT_TILE)
#define MR_ROUTER(place, panels, weight, bias, mode, out_stride)                                  \
  MR_PHASE(place, MR_CEIL(panels, 4) * MR_CEIL(s->columns, ROUTER_COLUMNS),                       \
           const uint first = i % MR_CEIL(panels, 4) * 4;                                         \
           const uint c = i / MR_CEIL(panels, 4) * ROUTER_COLUMNS;                                \
           mr_panels(weight, s->normed_rows + (size_t)c * HIDDEN_STRIDE,                          \
                     MR_MEMORY(float, LOGITS) + (size_t)c * (out_stride), bias, first,            \
                     min(first + 4, (uint)(panels)), min(ROUTER_COLUMNS, s->columns - c),         \
                     out_stride, mode))

#define MR_ROUTE(place, bias, stride, used, kind, flags, groups, groups_used, shared_at, scale)   \
  {                                                                                               \
    const Router router = {MR_MEMORY(float, LOGITS), bias, MR_MEMORY(float, WEIGHTS),             \
                           MR_MEMORY(uint, CHOSEN), MR_MEMORY(uint, RUNS),                        \
                           MR_MEMORY(uint2, SLOTS), MR_MEMORY(uint, PLACES), stride, used, kind,  \
                           (flags) | (MR_SORTED ? 0u : ROUTE_DIRECT), groups, groups_used,        \
                           shared_at, scale, 0};                                                  \
    MR_ROWS(place, mr_route(&router, c, s->columns);)                                             \
  }

// Sorts the choices, if they are many, and counts the chunks of both products: `gated` and `down`
// are their numbers.
#define MR_SORT(place, used, experts, gated, gated_panels, down, down_panels)                     \
  MR_PHASE(place, 1u,                                                                             \
           if (MR_SORTED) {                                                                       \
             mr_sort(MR_MEMORY(uint, CHOSEN), MR_MEMORY(uint, RUNS), MR_MEMORY(uint2, SLOTS),     \
                     MR_MEMORY(uint, PLACES), MR_MEMORY(uint, CURSORS), s->columns * (used),      \
                     used);                                                                       \
           }                                                                                      \
           const Work first = MR_GATED_WORK(experts, gated_panels);                               \
           const Work second = MR_DOWN_WORK(experts, down_panels);                                \
           sync[(place) + PHASE_GATED_CHUNKS] = MR_JOINED(mr_count_chunks, gated)(&first);        \
           sync[(place) + PHASE_DOWN_CHUNKS] = MR_JOINED(mr_count_chunks, down)(&second))
#define MR_GATHER(place, used)                                                                    \
  MR_PHASE(place, MR_SORTED ? MR_CEIL(s->columns * (used), s->rows) : 0u,                         \
           const uint slots = s->columns * (used);                                                \
           for (uint slot = i * s->rows; slot < min((i + 1) * s->rows, slots); ++slot)            \
               mr_gather_row(s->normed, MR_MEMORY(uint2, SLOTS), MR_MEMORY(int, SORTED),          \
                             NORMED_STRIDE / 16, slot, slots - 1))

// Goes through the chunks of all runs and calls `multiply` for those that this group claims. Their
// number stands at sync + total, because runs may be those of the next layer when a group that was
// away finds nothing left to claim.
#define MR_EACH_CHUNK(place, total, number, runs, multiply)                                       \
  {                                                                                               \
    const uint chunks = sync[total];                                                              \
    const Work work = runs;                                                                       \
    Walk walk;                                                                                    \
    MR_JOINED(mr_begin, number)(&walk, &work);                                                    \
    MR_PHASE(place, chunks, MR_JOINED(mr_go, number)(&walk, &work, i); multiply)                  \
  }
#define MR_EXPERTS_GATED(place, total, number, panels, weight, bias, mode, experts, rows)         \
  {                                                                                               \
    const ExpertsProduct product = {weight, s->normed, MR_MEMORY(int, SORTED), bias, panels,      \
                                    rows, 0, 1, mode};                                            \
    MR_EACH_CHUNK(place, total, number, MR_GATED_WORK(experts, panels),                           \
                  MR_JOINED(mr_experts_gate_up, number)(&walk, &work, &product, s->sums,          \
                                                        MR_MEMORY(int, ACTIVATED),                \
                                                        EXPERTS_STRIDE))                          \
  }
#define MR_EXPERTS(place, total, number, panels, weight, bias, mode, experts, rows)               \
  {                                                                                               \
    const ExpertsProduct product = {weight, MR_MEMORY(int, ACTIVATED),                            \
                                    MR_MEMORY(int, ACTIVATED), bias, panels, rows, 0, 0, mode};   \
    MR_EACH_CHUNK(place, total, number, MR_DOWN_WORK(experts, panels),                            \
                  MR_JOINED(mr_experts_pairs, number)(&walk, &work, &product,                     \
                                                      MR_MEMORY(float, DOWN), rows))              \
  }

#define MR_COMBINE(place, used, row_stride, mode, scale)                                          \
  MR_ROWS(place, mr_combine_row(MR_MEMORY(float, DOWN), MR_MEMORY(float, WEIGHTS),                \
                                MR_MEMORY(uint, PLACES), s->branch, s->hidden, used,              \
                                MR_CEIL(WIDTH, 16), row_stride, HIDDEN_STRIDE, HIDDEN_STRIDE,     \
                                mode, scale, c);)
