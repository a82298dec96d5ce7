// The passes around products whose matrix each head has for itself. Their input and output stand
// head by head: the row of head h and token t is slot h * tokens + t, so that the rows of one
// matrix follow one another (experts/runs.cl, where the head is the expert).
#include "common/prelude.cl"

// Copies numbers of each head and token, 16 * blocks of them:
//
//   to[t * to_token + h * to_head + i] = from[t * from_token + h * from_head + i]
//
// The offsets `from_first` and `to_first` count floats, as the strides do.
//   launch  one group of ROW_ITEMS work-items per head and token: groups (heads, tokens)
// Limit: memory.
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void copy_heads(__global const float* from, __global float* to, uint from_first, uint from_token,
                uint from_head, uint to_first, uint to_token, uint to_head, uint blocks) {
  const size_t head = get_group_id(0), token = get_group_id(1);
  from += from_first + token * from_token + head * from_head;
  to += to_first + token * to_token + head * to_head;
  for (uint b = ROW_ITEM; b < blocks; b += ROW_ITEMS) vstore16(vload16(b, from), b, to);
}

// Writes the runs and slots of a step of so many tokens (experts/runs.cl).
//   launch  one group of ROW_ITEMS work-items per head
__kernel __attribute__((reqd_work_group_size(ROW_ITEMS, 1, 1)))
void list_heads(__global uint* runs, __global uint2* slots, uint tokens) {
  const uint head = (uint)get_group_id(0);
  if (ROW_ITEM == 0) {
    if (head == 0) runs[0] = (uint)get_num_groups(0);
    vstore4((uint4)(head, head * tokens, tokens, 0), 1 + head, runs);
  }
  for (uint t = ROW_ITEM; t < tokens; t += ROW_ITEMS) slots[head * tokens + t] = (uint2)(head, t);
}
