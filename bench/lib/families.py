"""How far fast math is from the official classes, family by family, beside llama.cpp."""
import json

from .run import ROOT, last_line, run

KLD_RATIO = 1.1
MORE_WINDOWS = [4, 16]  # times as many as usual
GEMMA, GEMMA_TITLE = "gemma-3-270m", "Gemma 3 270M"  # in the command, in what is printed
PROGRAM = ROOT / "bench/fidelity/families.py"


def holds(measured):
    """True or False; None if the ratio's range has the limit in it, which proves nothing."""
    if measured["high"] <= KLD_RATIO:
        return True
    return False if measured["low"] > KLD_RATIO else None


def row(measured):
    """A row of the page from what bench/fidelity/families.py measured."""
    return {"what": f"{measured['model']}, {measured['type']}: mean KLD of {measured['positions']} "
                    f"positions (median {measured['our_median']:.2g}, llama.cpp "
                    f"{measured['llama_cpp_median']:.2g}; top-1 {measured['our_top1']:.1%}, "
                    f"llama.cpp {measured['llama_cpp_top1']:.1%})",
            "ours": float(f"{measured['ours']:.3g}"), "peer": float(f"{measured['llama_cpp']:.3g}"),
            "peer_name": "llama.cpp, same file and tokens",
            "ratio": f"{measured['ratio']:.2f} ({measured['low']:.2f} to {measured['high']:.2f})",
            "required": f"ratio <= {KLD_RATIO}", "holds": holds(measured), "runs": [measured]}


def decided(measured, measure):
    """What was measured, or the same of more windows while its range has the limit in it.
    measure(model, *options) gives the objects that bench/fidelity/families.py prints."""
    for times in MORE_WINDOWS:
        if holds(measured) is not None or measured["model"] == GEMMA_TITLE:  # whose text is given
            break
        [measured] = measure(measured["model"], "--type", measured["type"], "--times", times)
    return measured


def rows_of(objects):
    rows = [row(measured) for measured in objects]
    held = sum(one["holds"] is True for one in rows)
    rows[0]["headline"] = f"KLD of {held} of {len(rows)} files of {KLD_RATIO} times llama.cpp's " \
                          "or less"
    return rows


def families(context):
    """Of the models that the command names, or else of each."""
    python = last_line([ROOT / "bench/python.sh", "families"], timeout_s=3600)
    gemma = last_line([ROOT / "ops/model", GEMMA], timeout_s=3600)

    def measure(*words):
        text = run([python, PROGRAM, *words], timeout_s=7200).text
        return [json.loads(line) for line in text.splitlines()]
    named = context.families
    tiny = [name for name in named if name != GEMMA]
    objects = measure(*tiny) if tiny or not named else []
    if GEMMA in named or not named:
        objects += measure("--gemma", gemma)
    return rows_of([decided(one, measure) for one in objects])
