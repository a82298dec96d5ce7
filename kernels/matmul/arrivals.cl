#pragma once
// Copies of NVIDIA GPUs of compute capability 9.0 and later from global to local memory that arrive
// at a barrier.
#include "common/prelude.cl"

// Barriers in local memory, 8 bytes each. A phase ends when all arrivals that mr_barrier_init said,
// and all bytes that were announced, have come; phases are numbered 0, 1, 0, ...
MR_GROUP_INLINE void mr_barrier_init(uint barrier, uint arrivals) {
  __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                   :
                   : "r"(barrier), "r"(arrivals)
                   : "memory");
}
// Makes inits visible to the units that copy.
#define MR_BARRIERS_MADE() __asm__ volatile("fence.mbarrier_init.release.cluster;" : : : "memory")
MR_GROUP_INLINE void mr_arrive(uint barrier) {
  __asm__ volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
// Arrives, and announces bytes of mr_copy_bytes.
MR_GROUP_INLINE void mr_arrive_for_bytes(uint barrier, uint bytes) {
  __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                   :
                   : "r"(barrier), "r"(bytes)
                   : "memory");
}
MR_GROUP_INLINE void mr_wait_for_phase(uint barrier, uint phase) {
  uint done;
  do {
    __asm__ volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; "
        "selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier), "r"(phase)
        : "memory");
  } while (!done);
}
// Begins to copy; a multiple of 16 bytes, from such an address to such an address.
MR_GROUP_INLINE void mr_copy_bytes(uint to, __global const uchar* from, uint bytes, uint barrier) {
  __asm__ volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
      :
      : "r"(to), "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
