"""Makes dequantize.txt from the PyPI package gguf (0.19.0 made the committed file):

    pip install gguf && python3 make_dequantize.py > dequantize.txt

A line each: the type, the packed bytes, the fp32 results as bits, both in hex. Scales cover zero,
negative zero, subnormals, the smallest and largest normals, both signs; codes cover every value.
"""
import importlib.metadata
import struct

import gguf
import numpy as np
from gguf.quants import dequantize

SCALES = [0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x3c00, 0xb555, 0x2e66, 0x7bff, 0xfbff]
FEW_SCALES = [0x3c00, 0x0000, 0x83ff, 0xb555, 0x7bff, 0x0400]
random = np.random.default_rng(7)


def halves(values):
    return b"".join(struct.pack("<H", v) for v in values)


def nibbles(i):
    if i == 0:
        return bytes((15 - k) << 4 | k for k in range(16))
    return random.integers(0, 256, 16, dtype=np.uint8).tobytes()


def bytes_of_codes(i):
    if i == 0:
        return bytes([0x80, 0x81, 0xff, 0, 1, 0x7f] + list(range(26)))
    return random.integers(0, 256, 32, dtype=np.uint8).tobytes()


def blocks(scales, at, count, size):
    """Random blocks but for the halves: `count` of them from byte `at` on. The first block's bytes
    are all ones, so that every field is at its limit once."""
    out = []
    for i, scale in enumerate(scales):
        block = random.integers(0, 256, size, dtype=np.uint8).tobytes() if i else b"\xff" * size
        made = halves([scale, scales[(i + 3) % len(scales)]][:count])
        out.append(block[:at] + made + block[at + 2 * count:])
    return b"".join(out)


PACKED = {
    "F32": struct.pack("<8f", 0.0, -0.0, 1.5, -3.25e-39, 3.4e38, 1e-45, float("inf"), -0.1),
    "F16": halves(SCALES + [0x7c00, 0xfc00, 0x03ff, 0x0155]),
    "BF16": halves([0x0000, 0x8000, 0x0001, 0x3f80, 0xc049, 0x7f7f, 0x7f80, 0x0080]),
    "Q8_0": b"".join(halves([s]) + bytes_of_codes(i) for i, s in enumerate(SCALES)),
    "Q4_0": b"".join(halves([s]) + nibbles(i) for i, s in enumerate(SCALES)),
    "Q4_1": b"".join(halves([s, m]) + nibbles(i)
                     for i, (s, m) in enumerate(zip(SCALES, SCALES[3:] + SCALES[:3]))),
    "Q5_0": blocks(SCALES, 0, 1, 22),
    "Q5_1": blocks(SCALES, 0, 2, 24),
    "IQ4_NL": b"".join(halves([s]) + nibbles(i) for i, s in enumerate(SCALES)),
    "Q4_K": blocks(FEW_SCALES, 0, 2, 144),
    "Q5_K": blocks(FEW_SCALES, 0, 2, 176),
    "Q6_K": blocks(FEW_SCALES, 208, 1, 210),
    "Q3_K": blocks(FEW_SCALES[3:5], 108, 1, 110),
    "Q2_K": blocks(FEW_SCALES[3:5], 80, 2, 84),
    "IQ4_XS": blocks(FEW_SCALES[3:5], 0, 1, 136),
    "IQ3_S": blocks(FEW_SCALES[3:5], 0, 1, 110),
    "IQ3_XXS": blocks(FEW_SCALES[3:5], 0, 1, 98),
    "IQ2_S": blocks(FEW_SCALES[3:5], 0, 1, 82),
    "IQ2_XS": blocks(FEW_SCALES[3:5], 0, 1, 74),
    "IQ2_XXS": blocks(FEW_SCALES[3:5], 0, 1, 66),
    "MXFP4": b"".join(bytes([e]) + nibbles(i) for i, e in enumerate([127, 0, 1, 2, 120, 252])),
    "NVFP4": b"".join(bytes(s) + nibbles(i) + nibbles(i) for i, s in enumerate(
        [[0x00, 0x01, 0x07, 0x08], [0x38, 0x7e, 0x7f, 0x80], [0x3c, 0xff, 0x81, 0x45]])),
}

print(f"# made by make_dequantize.py, gguf package {importlib.metadata.version('gguf')}")
for name, packed in PACKED.items():
    kind = getattr(gguf.GGMLQuantizationType, name)
    data = np.frombuffer(packed, dtype=np.uint8)
    if name == "F32":
        values = data.view(np.float32)
    elif name == "F16":
        values = data.view(np.float16).astype(np.float32)
    else:
        values = dequantize(data, kind)
    bits = np.ascontiguousarray(values, dtype=np.float32).reshape(-1).view(np.uint32)
    print(name, packed.hex(), "".join(f"{b:08x}" for b in bits))
