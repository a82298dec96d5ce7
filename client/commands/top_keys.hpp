#pragma once
// The keys of `millrace top`. Thread safety: the main thread.
#include "client/commands/terminal_screen.hpp"
#include "client/commands/top_frame.hpp"

namespace millrace::client {

// Does what the keys say that were pressed since the last call: to `now`, or to `frozen`, which is
// shown while the display is stopped. True: the user quits.
bool take_keys(TerminalScreen& screen, TopView& now, TopView& frozen);

}  // namespace millrace::client
