"""The tables, as Markdown, and the sections of a page: one for each measure."""
import dataclasses
import statistics

from . import limits, profile
from .checks import peak_text
from .phase import held, spread
from .sections import TITLES, WHY
from .shapes import OURS
from .speed import typical

SAYS = {True: "yes", False: "NO", None: "unproven"}


@dataclasses.dataclass
class Section:
    measure: str
    parts: list            # Markdown
    headlines: list = dataclasses.field(default_factory=list)  # for the history
    failed: dict = dataclasses.field(default_factory=dict)     # what -> why
    model: str = ""  # if it is not the test model
    is_part: bool = False  # it has some rows of its measure, and a page keeps the others

    @property
    def title(self):
        return TITLES[self.measure] + (f": {self.model}" if self.model else "")

    def text(self, origin):
        """The section's Markdown. origin: its command, commit and date."""
        parts = [f"## {self.title}", origin, *self.parts]
        if self.failed:
            parts.append("\n".join(f"- Failed: {what}: {' '.join(why.split())[:400]}"
                                   for what, why in self.failed.items()))
        return "\n\n".join([*parts, WHY[self.measure]]) + "\n"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def said(holds, *remarks):
    """Returns yes, NO or unproven, followed by the remarks."""
    return "; ".join([SAYS[holds], *(remark for remark in remarks if remark)])


def beside(peer, required):
    """Returns the peer's speed, and how ours compares with it."""
    if not peer:
        return "-", "-"
    if not required:
        return f"{peer.speed:.0f}", spread(peer.ratios).text(2)
    return f"{peer.speed:.0f}", f"{held(peer.ratios, required)}, required {required:g}"


def verdict_table(lines):
    rows = []
    for line in lines:
        best = line.get("best")
        same_speed, same = beside(line.get("same_file"), line["required_same_file"])
        best_speed, ratio = beside(best, line["required_best"])
        lacks = "lacks " + ", ".join(line["missing"]) if line["missing"] else ""
        absent = ", ".join(f"{side}: refuses the file" for side in line.get("refused", [])) or "-"
        rows.append([line["what"], line["ours"].text() if "ours" in line else "-", same_speed, same,
                     f"{best_speed} ({best.name})" if best else absent, ratio,
                     said(line["holds"], lacks, line["mark"])])
    return table(["tokens/s", "ours", "llama.cpp, same file", "times", "best", "times", "holds"],
                 rows)


def cell(value, unit=""):
    return "-" if value is None else f"{value}{unit}"


def speed_rows(shape, rounds, work, peak):
    mark = rounds.mark  # shown once, beside the first side
    for side in (name for name in shape.sides if rounds.of(name)):
        runs = rounds.of(side)
        speed = typical(runs)
        share = {}
        if peak and work:
            share = limits.shares(shape, speed, work, peak["peak_dot_gops"], rounds.level)
        launches = speed.details.get("decode_launches_per_step")
        yield [shape.name, side, spread([run.prompt for run in runs]).text(),
               spread([run.generate for run in runs]).text(),
               *(cell(share.get(key)) for key in ("prompt_dots", "generate_dots",
                                                  "generate_reads")),
               cell(launches and round(launches)) if side.startswith(OURS) else "",
               f"{rounds.level:.1f}", "; ".join(filter(None, [str(len(runs)), mark]))]
        mark = ""


def speed_table(measured, work, peak):
    """A line for every shape and side, with median and range over the rounds."""
    head = ["rows x (prompt + output)", "side", "prompt", "generated", "prompt, % of dots",
            "generated, % of dots", "% of reads", "launches a step", "memory, GB/s", "rounds"]
    rows = []
    for shape, rounds in measured.items():
        rows += speed_rows(shape, rounds, work, peak)
        for side in rounds.failures:
            said_so = "refuses the file" if side in rounds.refused else "failed"
            rows.append([shape.name, side, said_so, said_so, *[""] * 6])
    return table(head, rows)


def check_table(rows):
    out = []
    for row in rows:
        peer = f"{row['peer']} ({row['peer_name']})" if "peer" in row else "-"
        verdict = "-" if row["required"] == "-" and "failure" not in row else said(row["holds"])
        out.append([row["what"], row["ours"], peer, row.get("ratio", "-"), row["required"],
                    "; ".join(filter(None, [verdict, row.get("mark")]))])
    return table(["what", "ours", "peer", "times", "required", "holds"], out)


def profile_table(profiles, work, peak):
    """Each kernel with the limit that it runs against."""
    rows = []
    for shape, details in profiles.items():
        for phase, step_ms, launches, kernels in profile.phases(details):
            least = limits.kernel_limits(details, phase, work, peak)
            inside = sum(ms for _, ms, _ in kernels)
            rows.append([shape, phase, "**whole step**", f"{step_ms:.2f}", f"{launches:.0f}", "",
                         "", details["mark"]])
            rows += [["", "", name, f"{ms:.2f}", f"{count:.0f}", f"{100 * ms / step_ms:.0f}",
                      *([f"{least[name]:.2f}", f"{100 * least[name] / ms:.0f}"]
                        if name in least else ["", ""])]
                     for name, ms, count in kernels if ms > 0.01 * step_ms]
            rows.append(["", "", "between kernels", f"{step_ms - inside:.2f}", "",
                         f"{100 * (step_ms - inside) / step_ms:.0f}", "", ""])
    return table(["load", "step", "kernel", "ms a step", "launches", "%", "limit, ms",
                  "% of limit"], rows)


def peak_line(peak):
    return (f"The device's limits, measured through OpenCL: dot products {peak_text(peak)}, fp32 "
            f"{peak['peak_fp32_gflops']:.0f} Gflop/s. Each round measures the memory's speed.")


def speed_section(measured, verdicts, work, peak, model=""):
    """measured: shape -> Rounds."""
    headlines = []
    for line in verdicts:
        ratios = [f"{statistics.median(line[name].ratios):.2f}" for name in ("same_file", "best")
                  if name in line]
        headlines.append(f"{line['what']}: {' and '.join(ratios) or '-'}")
    if model:
        headlines = [f"{model}: {'; '.join(headlines)}"]
    parts = [peak_line(peak), "What must hold, in tokens/s, as the median over the rounds:",
             verdict_table(verdicts), "Every shape, in tokens/s, median and range over the rounds; "
             "KV is fp16 unless a side says otherwise:", speed_table(measured, work, peak)]
    failed = {side if side in rounds.refused else f"{shape.name}, {side}": why
              for shape, rounds in measured.items() for side, why in rounds.failures.items()}
    return Section("speed", parts, headlines, failed, model)


def profile_section(profiles, work, peak, model=""):
    failed = {shape: d["failure"] for shape, d in profiles.items() if "failure" in d}
    return Section("profile", [profile_table(profiles, work, peak)], [], failed, model)


def check_section(name, rows, tables, is_part=False):
    """tables: (title, head, rows) of further tables that the check gives."""
    parts = [check_table(rows)]
    for title, head, lines in tables:
        parts += [f"{title}:", table(head, lines)]
    failed = {row["what"]: row["failure"] for row in rows if "failure" in row}
    headlines = [row["headline"] for row in rows if "headline" in row]
    return Section(name, parts, headlines, failed, is_part=is_part)
