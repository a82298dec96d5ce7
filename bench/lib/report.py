"""The tables, as Markdown."""
from . import limits, profile
from .checks import peak_text
from .shapes import BUSY, OURS

SAYS = {True: "yes", False: "NO", None: "unproven"}


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def times(ours, peer, required):
    """The ratio beside what it must be."""
    if not peer:
        return "-"
    return f"{ours / peer:.2f} of {required:g}" if required else f"{ours / peer:.2f}"


def verdict_table(lines):
    rows = []
    for line in lines:
        ours, same, best = line.get("ours"), line.get("same_file"), line.get("best")
        said = SAYS[line["holds"]]
        if line["missing"]:
            said += "; lacks " + ", ".join(line["missing"])
        rows.append([line["what"], f"{ours:.0f}" if ours else "-", f"{same:.0f}" if same else "-",
                     times(ours, same, line["required_same_file"]) if ours else "-",
                     f"{best:.0f} ({line['best_name']})" if best else "-",
                     times(ours, best, line["required_best"]) if ours else "-", said])
    return table(["tokens/s", "ours", "llama.cpp, same file", "ratio", "best", "ratio", "holds"],
                 rows)


def cell(value, unit=""):
    return "-" if value is None else f"{value}{unit}"


def speed_table(measured, failures, work, peak):
    """Every shape and side. Shares of the limits stand only where a peak was measured."""
    head = ["rows x (prompt + output)", "side", "prompt", "generated", "prompt, % of dots",
            "generated, % of dots", "% of reads", "launches a step", "others"]
    rows = []
    for shape, by_side in measured.items():
        for side, speed in by_side.items():
            share = limits.shares(shape, speed, work, peak) if peak and work else {}
            launches = speed.details.get("decode_launches_per_step")
            rows.append([shape.name, side, f"{speed.prompt:.0f}", f"{speed.generate:.0f}",
                         *(cell(share.get(key)) for key in
                           ("prompt_dots", "generate_dots", "generate_reads")),
                         cell(launches and round(launches)) if side.startswith(OURS) else "",
                         f"{speed.foreign:.0%}" + (" BUSY" if speed.foreign > BUSY else "")])
    rows += [[shape.name, side, "failed", "failed", "", "", "", "", ""]
             for shape, side in failures]
    return table(head, rows)


def check_table(rows):
    out = []
    for row in rows:
        peer = f"{row['peer']} ({row['peer_name']})" if "peer" in row else "-"
        out.append([row["what"], row["ours"], peer, row.get("ratio", "-"), row["required"],
                    SAYS[row["holds"]]])
    return table(["what", "ours", "peer", "ratio", "required", "holds"], out)


def profile_table(profiles, work=None, peak=None):
    """With the model's work and the machine's limits, each kernel beside what it runs against."""
    rows = []
    for shape, details in profiles.items():
        for phase, step_ms, launches, kernels in profile.phases(details):
            least = limits.kernel_limits(details, phase, work, peak) if work and peak else {}
            inside = sum(ms for _, ms, _ in kernels)
            rows.append([shape, phase, "**whole step**", f"{step_ms:.2f}", f"{launches:.0f}", "",
                         "", ""])
            rows += [["", "", name, f"{ms:.2f}", f"{count:.0f}", f"{100 * ms / step_ms:.0f}",
                      *([f"{least[name]:.2f}", f"{100 * least[name] / ms:.0f}"]
                        if name in least else ["", ""])]
                     for name, ms, count in kernels if ms > 0.005 * step_ms]
            rows.append(["", "", "between kernels", f"{step_ms - inside:.2f}", "",
                         f"{100 * (step_ms - inside) / step_ms:.0f}", "", ""])
    return table(["load", "step", "kernel", "ms a step", "launches", "%", "limit, ms",
                  "% of limit"], rows)


def page(here, peak, verdicts, measured, failures, work, checks, profiles, tables=()):
    """The whole report. tables: (title, head, rows) that checks bring beside their rows."""
    parts = [f"{here['processor']}, {here['cores']} cores, {', '.join(here['features'])}; commit "
             f"{here['commit']}, {here['date']}"]
    if peak:
        parts.append(f"Limits measured through OpenCL: dot products {peak_text(peak)}, reads "
                     f"{peak['peak_read_gbytes_per_s']} GB/s, fp32 {peak['peak_fp32_gflops']:.0f} "
                     "Gflop/s.")
    if verdicts:
        parts += ["## What must hold", verdict_table(verdicts)]
    if checks:
        parts += ["## Checks", check_table(checks)]
    for title, head, rows in tables:
        parts += [f"## {title}", table(head, rows)]
    if measured or failures:
        parts += ["## Speeds, tokens/s, KV fp16 unless said",
                  speed_table(measured, failures, work, peak)]
    if profiles:
        parts += ["## A step of ours, by kernel", profile_table(profiles, work, peak)]
    failed = {f"{shape.name}, {side}": why for (shape, side), why in failures.items()}
    failed |= {row["check"]: row["failure"] for row in checks if "failure" in row}
    failed |= {shape: d["failure"] for shape, d in profiles.items() if "failure" in d}
    if failed:
        parts += ["## Failed", "\n".join(f"- {what}: {' '.join(why.split())[:400]}"
                                         for what, why in failed.items())]
    return "\n\n".join(parts) + "\n"
