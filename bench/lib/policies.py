"""What KV policies cost hybrids and Gemma 4, beside what the codecs' definition costs them."""
import json
import sys

from .run import ROOT, last_line, run

PROGRAM = ROOT / "bench/fidelity/policies.py"


def room():
    """The gates' room, which tests hold policies to, too."""
    sys.path.insert(0, str(ROOT / "tests/families"))
    from kv_models import ROOM
    return ROOM


def row(measured, most):
    """A row of the page from what bench/fidelity/policies.py measured."""
    ratio = measured["ours"] / measured["expected"]
    return {"what": f"{measured['model']}, KV {measured['policy']}: mean KLD of "
                    f"{measured['positions']} positions (KV f16 {measured['f16']:.2g}; top-1 "
                    f"{measured['ours_top1']:.1%}, f16 {measured['f16_top1']:.1%})",
            "ours": float(f"{measured['ours']:.3g}"),
            "peer": float(f"{measured['expected']:.3g}"),
            "peer_name": "official class, same codecs in float64",
            "ratio": f"{ratio:.3f}", "required": f"ratio <= {most}", "holds": ratio <= most,
            "runs": [measured]}


def rows_of(objects, most):
    rows = [row(measured, most) for measured in objects]
    held = sum(one["holds"] for one in rows)
    rows[0]["headline"] = f"KLD of {held} of {len(rows)} KV policies of {most} times the codecs' " \
                          "or less"
    return rows


def policies(_context):
    python = last_line([ROOT / "bench/python.sh", "families"], timeout_s=3600)
    lines = run([python, PROGRAM], timeout_s=7200).text.splitlines()
    return rows_of([json.loads(line) for line in lines if line.startswith("{")], room())
