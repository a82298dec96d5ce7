#pragma once
// Options whose values have units, as people write them. Thread safety: call these before threads
// start.

namespace CLI {
class Option;
}

namespace millrace {

// The option's value is a number of seconds, as parse_duration() reads it, up to limits::keep_s.
void takes_duration(CLI::Option& option);
// The option's value is a number of bytes, as parse_size() reads it: 4096, 64M, 10G or 2T.
void takes_size(CLI::Option& option);

}  // namespace millrace
