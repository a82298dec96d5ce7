#pragma once
// Options whose values have units, as people write them. Thread safety: call these before threads
// start.

namespace CLI {
class Option;
}

namespace millrace {

// The option's value is a number of seconds: 90, 90s, 15m, 12h or 30d, up to limits::keep_s.
void takes_duration(CLI::Option& option);
// The option's value is a number of bytes: 4096, 64M, 10G or 2T, by powers of 1024.
void takes_size(CLI::Option& option);

}  // namespace millrace
