#pragma once
// The heap of a broker: how malloc serves frames, and when free memory goes back to the system.
// Thread safety: any thread may call return_free_memory.
#include <cstddef>

namespace millrace::broker {

// Free memory that the heap may keep for the next answers.
inline constexpr std::size_t free_memory_kept_bytes = 48 * 1024 * 1024;

// Blocks up to the size of usual answers come from the heap: with pages of their own, the kernel
// would clear some hundred of them for each answer. Larger frames get pages of their own, which
// return to the system when they are freed. Left to itself, malloc raises this limit to the
// largest block that was ever freed. Call it once, before any thread starts.
void set_up_heap();

// malloc returns free memory only from the heap's end, where one small block in use holds back all
// that lies before it. Returns the rest too when more than `free_memory_kept_bytes` of it have
// pages. Call it now and then: it visits each free block.
void return_free_memory();

}  // namespace millrace::broker
