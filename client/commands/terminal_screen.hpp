#pragma once
// The whole terminal for a display that is drawn again and again: its alternate screen, so that
// what was there before comes back, and keys as they are pressed. Ctrl-C interrupts; the keys that
// quit or suspend a program do nothing. A frame is written in one piece
// and over the last one, so that nothing flickers.
// Thread safety: one thread; at most one screen at a time.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace millrace::client {

class TerminalScreen {
 public:
  TerminalScreen();   // standard input and output must be terminals
  ~TerminalScreen();  // the terminal is as it was
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  std::size_t columns() const;
  std::size_t rows() const;
  std::optional<char> key();                         // that was pressed; does not wait
  void draw(const std::vector<std::string>& lines);  // no more lines than there are rows

 private:
  std::string shown_;
};

}  // namespace millrace::client
