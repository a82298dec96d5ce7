"""The shapes of load that are measured, and which sides run each.

A shape is `rows` sequences at once, each with its own prompt of `prompt` tokens and `output` tokens
drawn.
"""
import dataclasses

OURS, OURS_EXACT = "ours", "ours, exact"
SAME_FILE = "llama.cpp Q4_1"  # the file that ours reads
LLAMA = {SAME_FILE: "Q4_1", "llama.cpp Q4_0": "Q4_0", "llama.cpp Q8_0": "Q8_0"}
# name: (the file's format, KV precision)
OPENVINO = {"OpenVINO Q4_1": ("Q4_1", "f16"), "OpenVINO Q4_0": ("Q4_0", "f16"),
            "OpenVINO Q4_1, its default KV": ("Q4_1", "default")}
# The model in a format whose files hold several types of tensors, on both sides.
MIXED_KIND = "Q4_K_M"
OURS_MIXED, MIXED_FILE = f"ours, {MIXED_KIND}", f"llama.cpp {MIXED_KIND}"
# The peers that read the file of `--model`, whatever its format.
LLAMA_FILE, OPENVINO_FILE = "llama.cpp, same file", "OpenVINO, same file"
SIDES = [OURS, OURS_EXACT, *LLAMA, *OPENVINO, OURS_MIXED, MIXED_FILE, LLAMA_FILE, OPENVINO_FILE]
# The peers whose KV is fp16. Ratios are taken against these alone.
PEERS = [*LLAMA, "OpenVINO Q4_1", "OpenVINO Q4_0"]

BUSY = 0.1  # a run does not count if other processes took a larger share of the cores


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    prompt: int
    output: int
    sides: tuple = (OURS, SAME_FILE, "llama.cpp Q4_0", "OpenVINO Q4_1")
    rounds: int = 3  # that run unless the command says otherwise, and that a verdict needs
    # Only generation has a requirement. No side runs the prompts alone first, and llama.cpp
    # computes one prompt and copies its keys and values to the other rows, so a round takes half as
    # long.
    generation_only: bool = False
    # Tokens that our rows may draw beyond `output` while the last prompts are computed, so that all
    # rows still draw at once in `output` steps. Their contexts are longer for it.
    headroom: int = 0

    @property
    def name(self):
        return f"{self.rows} x ({self.prompt} + {self.output})"

    @property
    def context(self):
        return self.prompt + self.output


ALL = (OURS, *LLAMA, *OPENVINO)
FASTEST = (OURS, "llama.cpp Q4_0", "OpenVINO Q4_1")

# The sides of shapes with a requirement: OpenVINO in both formats, because either may be faster.
BOTH = (OURS, SAME_FILE, "llama.cpp Q4_0", "OpenVINO Q4_1", "OpenVINO Q4_0")

ONE, EIGHT = Shape(1, 128, 128, ALL), Shape(8, 128, 128, ALL)
FULL, LONGER = Shape(64, 128, 128, BOTH), Shape(8, 512, 32, BOTH)
# Five rounds: the ratios are near what is required, and the machine may change during a run.
LONG_ONE = Shape(1, 7000, 64, BOTH, rounds=5)
LONG_FOUR = Shape(4, 7000, 128, BOTH, rounds=5, generation_only=True)
JUDGED = [ONE, EIGHT, LONGER, FULL, LONG_ONE, LONG_FOUR]
SHAPES = [*JUDGED, *(Shape(rows, prompt, output, FASTEST) for rows, prompt, output in
                     ((8, 64, 64), (32, 128, 128), (128, 128, 128), (1, 2000, 64), (4, 2000, 64)))]

# --quick: the shapes with a requirement, shorter, without the batch of 7,000 tokens.
QUICK = [Shape(1, 128, 64), Shape(8, 128, 64), Shape(8, 512, 16), Shape(64, 128, 32),
         Shape(1, 7000, 32, rounds=5)]

EXACT = Shape(64, 128, 128, (OURS_EXACT, SAME_FILE))
MIXED_SIDES = (OURS_MIXED, MIXED_FILE, OURS)
MIXED_FULL, MIXED_ONE, MIXED_EIGHT = (Shape(rows, 128, 128, MIXED_SIDES) for rows in (64, 1, 8))

# Beside another process that is always busy, and alone.
IDLE, BESIDE = "alone", "beside a busy process"
IDLE_ONE, IDLE_EIGHT, IDLE_FULL = (Shape(rows, 128, 128, (IDLE, BESIDE)) for rows in (1, 8, 64))

# --model: a file that the command names. The prompts of the 64 rows are not measured.
FILE_SIDES = (OURS, LLAMA_FILE, OPENVINO_FILE)
FILE_ONE, FILE_EIGHT = Shape(1, 128, 128, FILE_SIDES), Shape(8, 128, 128, FILE_SIDES)
FILE_LONGER = Shape(8, 512, 32, FILE_SIDES)
# Without headroom the first rows of a slow model would end before the last ones begin to draw.
FILE_FULL = Shape(64, 128, 128, FILE_SIDES, generation_only=True, headroom=192)
FILE_SHAPES = [FILE_ONE, FILE_EIGHT, FILE_LONGER, FILE_FULL]
FILE_QUICK = [Shape(1, 128, 32, FILE_SIDES), Shape(8, 128, 32, FILE_SIDES),
              Shape(64, 128, 32, FILE_SIDES, generation_only=True, headroom=192)]
