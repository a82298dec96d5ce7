"""What is measured: shapes of load, and which sides run each.

A shape is `rows` sequences at once with a prompt of `prompt` tokens of its own and `output` tokens
drawn. Long shapes run once and on fewer sides, so that a whole comparison takes 30 minutes.
"""
import dataclasses

OURS, OURS_EXACT = "ours", "ours, exact"
SAME_FILE = "llama.cpp Q4_1"  # the file that ours reads
LLAMA = {SAME_FILE: "Q4_1", "llama.cpp Q4_0": "Q4_0", "llama.cpp Q8_0": "Q8_0"}
# name: (the file's format, KV precision)
OPENVINO = {"OpenVINO Q4_1": ("Q4_1", "f16"), "OpenVINO Q4_0": ("Q4_0", "f16"),
            "OpenVINO Q4_1, its default KV": ("Q4_1", "default")}
SIDES = [OURS, OURS_EXACT, *LLAMA, *OPENVINO]
# Those whose KV is fp16: ratios are taken against these alone.
PEERS = [*LLAMA, "OpenVINO Q4_1", "OpenVINO Q4_0"]

BUSY = 0.1  # a run during which others took more of the cores than this is not trusted


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    prompt: int
    output: int
    sides: tuple = (OURS, SAME_FILE, "llama.cpp Q4_0", "OpenVINO Q4_1")
    rounds: int = 3  # at most

    @property
    def name(self):
        return f"{self.rows} x ({self.prompt} + {self.output})"

    @property
    def context(self):
        return self.prompt + self.output


ALL = (OURS, *LLAMA, *OPENVINO)
FASTEST = (OURS, "llama.cpp Q4_0", "OpenVINO Q4_1")

# Judged: OpenVINO in both formats, because either may be the faster.
BOTH = (OURS, SAME_FILE, "llama.cpp Q4_0", "OpenVINO Q4_1", "OpenVINO Q4_0")

ONE, EIGHT = Shape(1, 128, 128, ALL), Shape(8, 128, 128, ALL)
FULL, LONGER = Shape(64, 128, 128, BOTH, rounds=2), Shape(8, 512, 32, BOTH)
LONG_ONE, LONG_FOUR = Shape(1, 7000, 64, BOTH), Shape(4, 7000, 128, BOTH, rounds=1)
JUDGED = [ONE, EIGHT, LONGER, FULL, LONG_ONE, LONG_FOUR]
SHAPES = [*JUDGED,
          Shape(8, 64, 64, FASTEST, rounds=1), Shape(32, 128, 128, FASTEST, rounds=1),
          Shape(128, 128, 128, FASTEST, rounds=1), Shape(1, 2000, 64, FASTEST, rounds=1),
          Shape(4, 2000, 64, FASTEST, rounds=1)]

# --quick: the rows that are judged, shorter, once, without the 7,000-token batch.
QUICK = [Shape(1, 128, 64, rounds=1), Shape(8, 128, 64, rounds=1),
         Shape(8, 512, 16, rounds=1), Shape(64, 128, 32, rounds=1),
         Shape(1, 7000, 32, rounds=1)]
