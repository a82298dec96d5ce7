#include "client/commands/top_keys.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

namespace millrace::client {
namespace {

enum class Key : std::uint8_t { other, quit, stop, part, up, down, page_up, page_down };

// The keys for scrolling send an escape character and others in one piece.
std::optional<Key> next_key(TerminalScreen& screen) {
  std::string pressed;
  for (std::optional<char> one = screen.key(); one; one = screen.key()) {
    pressed += *one;
    const bool open = pressed == "\x1b" || pressed == "\x1b[" || pressed == "\x1bO" ||
                      pressed == "\x1b[5" || pressed == "\x1b[6";
    if (!open) {
      break;
    }
  }
  if (pressed.empty()) {
    return std::nullopt;
  }
  for (const auto& [text, key] :
       {std::pair("q", Key::quit), std::pair("Q", Key::quit), std::pair("p", Key::stop),
        std::pair("P", Key::stop), std::pair("\t", Key::part), std::pair("k", Key::up),
        std::pair("\x1b[A", Key::up), std::pair("\x1bOA", Key::up), std::pair("j", Key::down),
        std::pair("\x1b[B", Key::down), std::pair("\x1bOB", Key::down),
        std::pair("\x1b[5~", Key::page_up), std::pair("\x1b[6~", Key::page_down),
        std::pair(" ", Key::page_down)}) {
    if (pressed == text) {
      return key;
    }
  }
  return Key::other;
}

// Scrolling without a part to scroll chooses one.
void scroll(TopView& view, std::ptrdiff_t lines) {
  if (view.section == TopSection::all) {
    view.section = view.batches.empty() ? TopSection::engines : TopSection::batches;
  }
  const auto most = static_cast<std::ptrdiff_t>(section_lines(view)) - 1;
  const auto at = static_cast<std::ptrdiff_t>(view.scroll) + lines;
  view.scroll = static_cast<std::size_t>(
      std::clamp<std::ptrdiff_t>(at, 0, std::max<std::ptrdiff_t>(0, most)));
}

void choose_next_section(TopView& view) {
  view.section = static_cast<TopSection>((static_cast<int>(view.section) + 1) % 4);
  view.scroll = 0;
}

}  // namespace

bool take_keys(TerminalScreen& screen, TopView& now, TopView& frozen) {
  while (const auto key = next_key(screen)) {
    TopView& shown = now.frozen ? frozen : now;
    const auto page = static_cast<std::ptrdiff_t>(screen.rows() / 2);
    switch (*key) {
      case Key::quit:
        return true;
      case Key::stop:
        now.frozen = !now.frozen;
        now.section = shown.section;
        now.scroll = shown.scroll;
        frozen = now;
        break;
      case Key::part:
        choose_next_section(shown);
        break;
      case Key::up:
      case Key::down:
        scroll(shown, *key == Key::up ? -1 : 1);
        break;
      case Key::page_up:
      case Key::page_down:
        scroll(shown, *key == Key::page_up ? -page : page);
        break;
      case Key::other:
        break;
    }
  }
  return false;
}

}  // namespace millrace::client
