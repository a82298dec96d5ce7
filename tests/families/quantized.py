"""The tiny models with their matrices in a quantized type. The official class gets the values that
the file's blocks stand for, so that only what a program does with them differs.
"""
import gguf

import write_gguf
from models import Model


def is_quantized(name, values):
    """Norms, biases, routers, convolutions and factors of ropes stay F32, as llama.cpp's quantizer
    has them."""
    kept = ("ffn_gate_inp", "_norm.", "ssm_conv1d", "shortconv.conv.")
    return values.ndim > 1 and name.endswith(".weight") and not name.startswith("rope_") and (
        not any(part in name for part in kept))


class Quantized:
    """A model of models.py whose tensors are those of a file of the type, for example "Q8_0"."""

    def __init__(self, model: Model, kind: str):
        self.model = model
        self.kind = gguf.GGMLQuantizationType[kind]
        self.blocks = {name: gguf.quants.quantize(values, self.kind)
                       for name, values in model.tensors().items() if is_quantized(name, values)}

    def __getattr__(self, name):
        return getattr(self.model, name)

    def tensors(self):
        """Name -> the float32 values that the file stands for."""
        return {name: gguf.quants.dequantize(self.blocks[name], self.kind)
                if name in self.blocks else values
                for name, values in self.model.tensors().items()}

    def write(self, path):
        return write_gguf.write(self, path, self.blocks, self.kind)
