"""How far fast math is from the official classes, family by family, beside llama.cpp."""
import json

from .run import ROOT, last_line, run

KLD_RATIO = 1.1
PROGRAM = ROOT / "bench/fidelity/families.py"


def row(measured):
    """A row of the page from a line of bench/fidelity/families.py. A ratio whose range has the
    limit in it proves nothing."""
    low, high = measured["low"], measured["high"]
    holds = True if high <= KLD_RATIO else False if low > KLD_RATIO else None
    return {"what": f"{measured['model']}, {measured['type']}: mean KLD of {measured['positions']} "
                    f"positions (median {measured['our_median']:.2g}, llama.cpp "
                    f"{measured['llama_cpp_median']:.2g}; top-1 {measured['our_top1']:.1%}, "
                    f"llama.cpp {measured['llama_cpp_top1']:.1%})",
            "ours": float(f"{measured['ours']:.3g}"), "peer": float(f"{measured['llama_cpp']:.3g}"),
            "peer_name": "llama.cpp, same file and tokens",
            "ratio": f"{measured['ratio']:.2f} ({low:.2f} to {high:.2f})",
            "required": f"ratio <= {KLD_RATIO}", "holds": holds, "runs": [measured]}


def rows_of(lines):
    rows = [row(json.loads(line)) for line in lines.splitlines()]
    held = sum(one["holds"] is True for one in rows)
    rows[0]["headline"] = f"KLD of {held} of {len(rows)} files of {KLD_RATIO} times llama.cpp's " \
                          "or less"
    return rows


def families(_context):
    python = last_line([ROOT / "bench/python.sh", "families"], timeout_s=3600)
    gemma = last_line([ROOT / "ops/model", "gemma-3-270m"], timeout_s=3600)
    return rows_of(run([python, PROGRAM], timeout_s=7200).text +
                   run([python, PROGRAM, "--gemma", gemma], timeout_s=3600).text)
