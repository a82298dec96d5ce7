#pragma once
// The worked examples of `millrace help examples`. Thread safety: a pure function.
#include <string>

namespace millrace::client {

// Titles and explanations begin a line; commands have two spaces before them. A shell that runs all
// commands in their order, in a folder with a model file M.gguf, does what the text says.
std::string examples_text();

}  // namespace millrace::client
