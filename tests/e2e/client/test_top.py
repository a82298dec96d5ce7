"""`millrace top` and `status --watch`: what they draw, at which widths, and which keys they know"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

import pytest
from patience import PATIENCE_S
from programs import completion, program, wait_until


class Terminal:
    """A command in a terminal of so many columns; what it draws is kept as frames."""

    def __init__(self, command, columns, rows=24):
        self.master, slave = pty.openpty()
        self.resize(columns, rows, slave)
        # Of a session of its own, so that keys such as Ctrl-C mean to it what they do to a shell's.
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.shown = ""

    def resize(self, columns, rows, end=None):
        fcntl.ioctl(self.master if end is None else end, termios.TIOCSWINSZ,
                    struct.pack("4H", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        while select.select([self.master], [], [], seconds)[0]:
            try:
                piece = os.read(self.master, 65536)
            except OSError:
                return
            if not piece:
                return
            self.shown += piece.decode()

    def frames(self):
        """Returns the lines of each whole frame, without escape sequences."""
        begun = self.shown.split("\x1b[H")[1:]
        whole = [x for x in begun if "\x1b[J" in x]  # the last one may still be coming
        plain = [re.sub(r"\x1b\[\??[0-9]*[A-Za-z]", "", x) for x in whole]
        return [[line.strip("\r") for line in x.split("\n")] for x in plain]

    def wait_for(self, condition, what):
        def done():
            self.read()
            return self.frames() and condition(self.frames()[-1])
        wait_until(done, what)
        return self.frames()[-1]

    def press(self, key):
        os.write(self.master, key.encode())

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def busy(broker, tmp_path):
    jobs = tmp_path / ("evening-" + "long-name-" * 8 + ".jsonl")
    jobs.write_text("".join(completion(f"j{i}", f"p {i}") + "\n" for i in range(500)))
    broker.engine(STUB_DELAY_MS="300", STUB_ROWS="4")
    broker.millrace("submit", str(jobs), expect=0)
    return broker


def text(frame):
    return "\n".join(frame)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_top_fits_the_terminal_and_shows_what_counts(busy, columns):
    screen = Terminal(busy.command("top"), columns)
    try:
        frame = screen.wait_for(lambda x: "evening-" in text(x) and "stub" in text(x), "a frame")
        for line in (x for one in screen.frames() for x in one):
            assert len(line) <= columns, line
        assert len(frame) <= 24
        assert re.search(r"queued \d+  leased 4", text(frame))
        assert "jobs/s" in text(frame) and "ENGINE" in text(frame) and "BATCH" in text(frame)
        frame = screen.wait_for(lambda x: " left" in text(x), "an estimate of the time left")
        screen.wait_for(lambda x: "oldest waits" in text(x) or columns == 60, "the oldest job")
        assert "QUEUE OF" in text(frame) and "KV" in text(frame) and "CACHED" in text(frame)
        screen.press("q")
        assert screen.process.wait(PATIENCE_S) == 0
        screen.read()
        assert screen.shown.startswith("\x1b[?1049h") and screen.shown.endswith("\x1b[?1049l")
    finally:
        screen.end()


def test_p_stops_the_display_and_lets_it_go_on(busy, tmp_path):
    more = tmp_path / "more.jsonl"
    more.write_text(completion("later", "p") + "\n")
    screen = Terminal(busy.command("top"), 100)
    try:
        screen.wait_for(lambda x: "evening-" in text(x), "a frame")
        screen.press("p")
        screen.wait_for(lambda x: "display stopped" in x[0], "the stop")
        # What a new size draws meanwhile is what was known at the stop.
        stopped = screen.frames()[-1]
        busy.millrace("submit", str(more), "--batch", "after-the-stop", expect=0)
        wait_until(lambda: "after-the-stop" in busy.millrace("top", expect=0).stdout, "a batch")
        before = len(screen.frames())
        screen.resize(110, 24)
        frame = screen.wait_for(lambda x: len(screen.frames()) > before, "a frame of a new size")
        assert frame[0].split()[:5] == stopped[0].split()[:5], "the time of day is that of the stop"
        assert "display stopped" in frame[0] and "after-the-stop" not in text(frame)
        screen.press("p")
        screen.wait_for(lambda x: "display stopped" not in x[0] and "after-the-stop" in text(x),
                        "the display goes on")
        screen.resize(62, 12)
        frame = screen.wait_for(lambda x: len(x) <= 12, "the smaller size")
        assert max(map(len, frame)) <= 62 and frame[-1].startswith("q quit")
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(PATIENCE_S) == 130
    finally:
        screen.end()


def test_keys_that_quit_or_suspend_leave_no_changed_terminal(busy):
    screen = Terminal(busy.command("top"), 100)
    try:
        screen.wait_for(lambda x: "evening-" in text(x), "a frame")
        keys = termios.tcgetattr(screen.master)[6]
        assert keys[termios.VQUIT] == keys[termios.VSUSP] == b"\0"
        assert keys[termios.VINTR] == b"\x03"
        screen.press("\x1c\x1ap")  # Ctrl-\\, Ctrl-Z
        screen.wait_for(lambda x: "display stopped" in x[0], "the key after them")
        screen.press("\x03")
        assert screen.process.wait(PATIENCE_S) == 130
        screen.read()
        assert termios.tcgetattr(screen.master) == screen.before
        assert "interrupted" in screen.shown.split("\x1b[?1049l")[-1]
    finally:
        screen.end()


def test_a_second_signal_gives_the_terminal_back(busy):
    screen = Terminal(busy.command("top"), 100)
    try:
        screen.wait_for(lambda x: "evening-" in text(x), "a frame")
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            screen.process.send_signal(number)  # so that both are there before it goes on
        assert screen.process.wait(PATIENCE_S) == 130
        screen.read()
        assert termios.tcgetattr(screen.master) == screen.before
        assert "stopped at once" in screen.shown.split("\x1b[?1049l")[-1]
    finally:
        screen.end()


def test_batches_that_do_not_fit_are_counted(busy, tmp_path):
    (tmp_path / "one.jsonl").write_text(completion("j", "p") + "\n")
    for i in range(9):
        busy.millrace("submit", str(tmp_path / "one.jsonl"), "--batch", f"b{i}", expect=0)
    screen = Terminal(busy.command("top"), 100, rows=12)
    try:
        frame = screen.wait_for(lambda x: "BATCH" in text(x), "batches")
        batches = frame[next(i for i, line in enumerate(frame) if "BATCH" in line) + 1:-1]
        hidden = 10 - (len(batches) - 1)
        assert batches[-1] == f"and {hidden} more that have not finished" and hidden > 1, frame
        screen.resize(100, 40)
        frame = screen.wait_for(lambda x: "b8" in text(x), "all batches")
        assert "more" not in text(frame)
    finally:
        screen.end()


def test_top_waits_for_a_broker_that_is_away(busy):
    screen = Terminal(busy.command("top"), 100)
    try:
        screen.wait_for(lambda x: "evening-" in text(x), "a frame")
        busy.kill()
        screen.wait_for(lambda x: "does not answer" in x[0], "that it is away")
        busy.start()
        screen.wait_for(lambda x: "does not answer" not in x[0], "that it is back")
        screen.press("q")
        assert screen.process.wait(PATIENCE_S) == 0
    finally:
        screen.end()


def test_top_without_a_terminal_is_printed_once(busy):
    once = busy.millrace("top", expect=0).stdout
    assert "ENGINE" in once and "\x1b" not in once
    view = json.loads(busy.millrace("top", "--json", expect=0).stdout)
    assert view["counts"]["leased"] == 4 and len(view["batches"]) == 1


def test_status_is_shown_again_and_again_and_breaks_no_word(busy):
    screen = Terminal(busy.command("status", "--watch", "1"), 60)
    try:
        screen.wait_for(lambda _: len(screen.frames()) >= 3, "three looks")
        words = set(busy.millrace("status").stdout.split())
        for frame in screen.frames()[:-1]:
            assert max(map(len, frame)) <= 60
            cut = {w for line in frame for w in line.split() if not re.search(r"\d", w)} - words
            assert not cut, cut
        screen.process.send_signal(signal.SIGTERM)
        assert screen.process.wait(PATIENCE_S) == 130
    finally:
        screen.end()
    process = subprocess.Popen(busy.command("status", "--watch"), stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("queued ")
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@pytest.fixture
def crowd(broker, tmp_path):
    """Eight engines, which tell how full they are, and a batch for them."""
    jobs = tmp_path / "jobs.jsonl"
    jobs.write_text("".join(completion(f"j{i}", f"p {i}") + "\n" for i in range(900)))
    for i in range(8):
        broker.processes.append(subprocess.Popen(
            [program("stub_engine"), "--broker", broker.engines, "--name", f"host-{i}", "--rows",
             "4", "--capacity", "6", "--step-ms", "100", "--job-steps", "40"],
            stderr=subprocess.DEVNULL))
    wait_until(lambda: len(json.loads(
        broker.millrace("status", "--json", expect=0).stdout)["engines"]) == 8, "eight engines")
    broker.millrace("submit", str(jobs), "--batch", "evening", expect=0)
    yield broker
    for process in broker.processes:  # in place of waiting until engines with results give up
        process.kill()


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_engines_show_how_full_they_are(crowd, columns):
    screen = Terminal(crowd.command("top"), columns, rows=40)
    try:
        frame = screen.wait_for(lambda x: text(x).count(" 4/4 ") == 8, "full steps")
        heads = next(x for x in frame if x.startswith("ENGINE")).split()
        line = next(x for x in frame if x.startswith("host-3")).split()
        assert ("KV TOKENS" in text(frame)) == (columns == 200)
        assert "ROWS" in heads and "WAIT" in heads and "4/4" in line
        assert re.search(r" 4/4 +2 +[0-9]+ %", text(frame)), "two jobs wait in each"
    finally:
        screen.end()


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_long_names_are_told_apart_by_their_ends(broker, columns):
    for number in (1, 2):
        broker.processes.append(subprocess.Popen(
            [program("stub_engine"), "--broker", broker.engines, "--name",
             f"gpu-worker.rack-seven.example.org:411{number}"], stderr=subprocess.DEVNULL))
    screen = Terminal(broker.command("top"), columns)
    try:
        screen.wait_for(lambda x: all(re.search(rf"^gpu-wo\S*~\S*11{number} ", text(x), re.M)
                                      for number in (1, 2)), "both engines")
    finally:
        screen.end()


def test_top_without_an_engine_says_how_to_start_one(broker):
    screen = Terminal(broker.command("top"), 60)
    try:
        screen.wait_for(lambda x: "no engine: millrace-engine --model FILE starts one" in text(x),
                        "how to start an engine")
    finally:
        screen.end()


def test_a_terminal_with_no_room_for_all_parts_leaves_the_queues_out(crowd):
    screen = Terminal(crowd.command("top"), 90, rows=8)
    try:
        frame = screen.wait_for(lambda x: "evening" in text(x), "the batch")
        assert "more engines" in text(frame) and "QUEUE OF" not in text(frame)
        screen.press("\t\t")
        screen.wait_for(lambda x: "QUEUE OF" in text(x) and "ENGINE" not in text(x), "queues")
    finally:
        screen.end()


def test_tab_shows_a_part_alone_and_arrows_scroll_in_it(crowd):
    screen = Terminal(crowd.command("top"), 90, rows=10)
    try:
        frame = screen.wait_for(lambda x: "evening" in text(x), "all parts")
        assert "more engines" in text(frame)
        screen.press("\t")
        frame = screen.wait_for(lambda x: "evening" not in text(x), "engines alone")
        assert "host-0" in text(frame) and "host-7" not in text(frame)
        screen.press("\x1b[B" * 3 + "j" * 4)
        frame = screen.wait_for(lambda x: "host-7" in text(x), "the last engine")
        assert "host-0" not in text(frame) and "of 8 engines" in text(frame)
        screen.press("\x1b[5~\x1b[Ak")
        screen.wait_for(lambda x: "host-0" in text(x), "the first engine")
        screen.press("\t")
        screen.wait_for(lambda x: "QUEUE OF" in text(x) and "ENGINE" not in text(x), "queues")
        screen.press("\t\t")
        screen.wait_for(lambda x: "evening" in text(x) and "ENGINE" in text(x), "all parts again")
    finally:
        screen.end()
