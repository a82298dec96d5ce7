"""Runs one program and measures how others used the cores meanwhile; describes this machine."""
import dataclasses
import datetime
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("MILLRACE_BUILD", ROOT / "build")) / "bin"
CACHE_HOME = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
CACHE = CACHE_HOME / "millrace"
FEATURES = ["avx2", "avx512bw", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8"]


class Failed(Exception):
    """A program that did not do what it should. The text names it and quotes what it printed."""


class Refused(Failed):
    """A program that does not read the model's file."""


@dataclasses.dataclass
class Output:
    text: str
    seconds: float
    foreign: float  # share of all cores that other processes took, 0 to 1


def busy_ticks(stat):
    """Ticks in which cores were not idle, from the first line of /proc/stat."""
    fields = [int(x) for x in stat.split("\n", 1)[0].split()[1:]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields[:8]
    return user + nice + system + irq + softirq + steal


TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """CPU seconds that a live process has used on all cores."""
    after_name = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / TICKS_PER_S


class Watch:
    """Measures how long something takes, and what share of all cores others use meanwhile. Others
    are all processes but this one, its children that have ended, and `live`, the id of a child that
    has not."""

    def __init__(self, live=None):
        self.live = live
        self.begin, self.busy, self.own = time.monotonic(), self.now(), self.used()

    @staticmethod
    def now():
        return busy_ticks(pathlib.Path("/proc/stat").read_text()) / TICKS_PER_S

    def used(self):
        each = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        ended = sum(usage.ru_utime + usage.ru_stime for usage in each)
        return ended + (cpu_seconds(self.live) if self.live else 0)

    def seconds(self):
        return time.monotonic() - self.begin

    def foreign(self):
        others = self.now() - self.busy - (self.used() - self.own)
        return max(0.0, others) / (self.seconds() * os.cpu_count())


def run(command, timeout_s=1800):
    """Runs a program. Returns what it printed, its seconds, and how others used the cores. Raises
    Failed."""
    command = [str(word) for word in command]
    watch = Watch()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise Failed(f"{command[0]} took more than {timeout_s} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error}") from None
    seconds, foreign = watch.seconds(), watch.foreign()
    if done.returncode != 0:
        said = (done.stdout[-1000:] + done.stderr[-1000:]).strip()
        raise Failed(f"{command[0]} failed with {done.returncode}: {said}")
    return Output(done.stdout, seconds, foreign)


def quotas(root):
    """Yields the CPU quotas, in cores, of the control groups (v1 or v2) that hold this process."""
    for line in (root / "proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            try:
                if controllers:
                    words = [(folder / f"cpu.cfs_{x}_us").read_text() for x in ("quota", "period")]
                else:
                    words = (folder / "cpu.max").read_text().split()
                if words[0] != "max" and int(words[0]) > 0:
                    yield int(words[0]) / int(words[1])
            except OSError:
                pass  # no such group inside this container
            if folder == top:
                break


def usable_cores(root=pathlib.Path("/")):
    """The cores that the engine would use (engine/core/device/cores.hpp), so that peers use as
    many."""
    return max(1, int(min([len(os.sched_getaffinity(0)), *quotas(root)])))


def build(*programs):
    """Builds our own programs in $MILLRACE_BUILD or build/."""
    run(["bash", "-c", f". {ROOT}/ops/lib/common.sh; build_targets {' '.join(programs)}"],
        timeout_s=3600)


def own_environment():
    """Restarts this program in the Python that has matplotlib and gguf."""
    python = last_line([ROOT / "bench/python.sh"], timeout_s=1800)
    if pathlib.Path(sys.prefix) != pathlib.Path(python).parents[1]:
        os.execv(python, [python, *sys.argv])


def last_line(command, **options):
    """The last line that a program prints: a path, or one JSON object."""
    return run(command, **options).text.strip().split("\n")[-1]


def json_in(text):
    """The JSON object at the end of a program's output; lines of its log may precede it."""
    lines = text.strip().split("\n")
    for start, line in enumerate(lines):
        if line.startswith("{"):
            try:
                return json.loads("\n".join(lines[start:]))
            except ValueError:
                continue
    raise Failed(f"no JSON object in what was printed: {text[-500:]!r}")


def commit():
    """The short hash, with "-dirty" if a tracked file differs that is not a page of results."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True,
                              text=True).stdout.strip()
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".",
                  ":(exclude)bench/results")
    return git("rev-parse", "--short", "HEAD") + ("-dirty" if changed else "")


def machine():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].split("\n") if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    return {"processor": f"{fields['model name']} family {fields.get('cpu family')} "
                         f"model {fields.get('model')}",
            "cores": usable_cores(),
            "features": [f for f in FEATURES if f in fields.get("flags", "").split()],
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "commit": commit(), "date": datetime.date.today().isoformat()}
