"""Records a command in a terminal and draws it as an animated SVG.

    picture.py OUTPUT.svg COMMAND...

The picture plays once, as fast as the command ran, and keeps its last screen; a viewer without
animation shows the last screen. It understands what `millrace` writes to a terminal: text, line
ends, and "erase this line" before each new state of the progress line.
"""
import fcntl
import os
import pty
import struct
import sys
import termios
import time
from xml.sax.saxutils import escape

COLUMNS = 124
CHARACTER_PX, LINE_PX, MARGIN_PX = 8.4, 20, 16
SET = '<set attributeName="visibility" to="{}" begin="{:.2f}s" dur="{:.2f}s"/>'
ERASE_LINE = "\r\x1b[K"


def record(command):
    """Pairs of seconds since the start and the screen, a list of lines."""
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, COLUMNS, 0, 0))
    begin, text, screens = time.monotonic(), "", []
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not data:
            break
        text += data.decode("utf-8", errors="replace")
        screen = screen_of(text)
        if not screens or screens[-1][1] != screen:
            screens.append((time.monotonic() - begin, screen))
    os.waitpid(child, 0)
    return screens


def screen_of(text):
    return [line.rsplit(ERASE_LINE, 1)[-1] for line in text.split("\r\n") if line]


def lifetimes(screens):
    """Tuples of row, text, begin and end in seconds; the end is None on the last screen."""
    found, living = [], {}
    for now, screen in screens:
        for row in range(max(len(screen), len(living))):
            line = screen[row] if row < len(screen) else ""
            if row in living and living[row][0] != line:
                found.append((row, *living.pop(row), now))
            if line and row not in living:
                living[row] = (line, now)
    return found + [(row, line, begin, None) for row, (line, begin) in living.items()]


def svg(title, screens):
    rows = [(0, "$ " + title, 0.0, None)]
    for row, text, begin, end in lifetimes(screens):
        rows.append((row + 2, text[:COLUMNS], begin, end))
    width = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX
    height = (max(x[0] for x in rows) + 1) * LINE_PX + 2 * MARGIN_PX
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">',
           f'<rect width="{width:g}" height="{height:g}" rx="8" fill="#16181d"/>',
           '<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="14" '
           'fill="#d7dae0" xml:space="preserve">']
    for row, text, begin, end in rows:
        y = MARGIN_PX + (row + 0.75) * LINE_PX
        at_rest, steps = "", ""
        if end is not None:
            at_rest = ' visibility="hidden"'
            steps = SET.format("visible", begin, end - begin)
        elif begin > 0:
            steps = SET.format("hidden", 0, begin)
        out.append(f'<text x="{MARGIN_PX}" y="{y:g}"{at_rest}>{escape(text)}{steps}</text>')
    return "\n".join([*out, "</g>", "</svg>"]) + "\n"


def main():
    output, command = sys.argv[1], sys.argv[2:]
    screens = record(command)
    title = " ".join([os.path.basename(command[0]), *map(os.path.basename, command[1:])])
    with open(output, "w", encoding="utf-8") as file:
        file.write(svg(title, screens))


if __name__ == "__main__":
    main()
