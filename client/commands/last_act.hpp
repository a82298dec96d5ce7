#pragma once
// What the process does first when a second signal ends it at once (remember_interrupts).
// Thread safety: any thread; the act runs in a signal handler, and uses only what one may.
namespace millrace::client {

void set_last_act(void (*act)());  // nullptr: nothing

}  // namespace millrace::client
