#include "client/commands/terminal_screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "client/commands/last_act.hpp"

namespace millrace::client {
namespace {

constexpr std::string_view enter = "\x1b[?1049h\x1b[?25l";  // alternate screen, no cursor
constexpr std::string_view leave = "\x1b[?25h\x1b[?1049l";
constexpr std::size_t usual_columns = 80, usual_rows = 24;

termios before;  // of the one screen; a signal handler cannot reach an object

bool write_all(std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Also called by a signal handler: uses only what one may.
void give_back() {
  static_cast<void>(write_all(leave));
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

winsize window() {
  winsize size{};
  static_cast<void>(::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size));
  return size;
}

}  // namespace

TerminalScreen::TerminalScreen() {
  ::tcgetattr(STDIN_FILENO, &before);
  set_last_act(&give_back);
  termios keys = before;
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  // These keys would end or stop the program without giving the terminal back.
  keys.c_cc[VQUIT] = keys.c_cc[VSUSP] = _POSIX_VDISABLE;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  static_cast<void>(write_all(enter));
}

TerminalScreen::~TerminalScreen() {
  give_back();
  set_last_act(nullptr);
}

std::size_t TerminalScreen::columns() const {
  const winsize size = window();
  return size.ws_col > 0 ? size.ws_col : usual_columns;
}

std::size_t TerminalScreen::rows() const {
  const winsize size = window();
  return size.ws_row > 0 ? size.ws_row : usual_rows;
}

std::optional<char> TerminalScreen::key() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char pressed = 0;
  if (::poll(&input, 1, 0) <= 0 || ::read(STDIN_FILENO, &pressed, 1) != 1) {
    return std::nullopt;
  }
  return pressed;
}

void TerminalScreen::draw(const std::vector<std::string>& lines) {
  std::string frame = "\x1b[H";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    frame += (i == 0 ? "" : "\r\n") + lines[i] + "\x1b[K";
  }
  frame += "\x1b[J";
  if (frame != shown_) {
    shown_ = write_all(frame) ? std::move(frame) : "";  // so that the next call tries again
  }
}

}  // namespace millrace::client
