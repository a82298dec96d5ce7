#!/usr/bin/env python3
"""Writes tiny models as GGUF files: write_gguf.py FOLDER [MODEL...], by default all models."""
import dataclasses
import math
import pathlib
import sys
from collections.abc import Callable

import gguf
import numpy as np

from models import MODELS, VOCABULARY

WRITERS = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string",
           list: "add_array"}


def byte_characters():
    """The characters that stand for bytes in byte-level vocabularies, in order (GPT-2)."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return sorted([chr(b) for b in printed] +
                  [chr(256 + i) for i in range(256 - len(printed))])


@dataclasses.dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple  # in numpy's order of axes
    make: Callable  # gives the values, or the bytes of each row's blocks
    type: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32


def add_tokenizer(writer, count, pre="gpt-2"):
    """256 bytes, two merges, fillers and four control tokens."""
    fillers = [f"<w{i}>" for i in range(258, count - 4)]
    control = ["<s>", "</s>", "<unk>", "<pad>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(byte_characters() + ["th", "in"] + fillers + control)
    writer.add_token_types([gguf.TokenType.NORMAL] * (count - 4) + [gguf.TokenType.CONTROL] * 4)
    writer.add_token_merges(["t h", "i n"])
    writer.add_bos_token_id(count - 4)
    writer.add_eos_token_id(count - 3)
    writer.add_unk_token_id(count - 2)
    writer.add_pad_token_id(count - 1)


def write_tensors(writer, tensors):
    """Closes the writer. One tensor at a time is in memory."""
    for tensor in tensors:
        kind = np.dtype(np.float32 if tensor.type == gguf.GGMLQuantizationType.F32 else np.uint8)
        shape = gguf.quant_shape_to_byte_shape(tensor.shape, tensor.type) \
            if kind == np.uint8 else tensor.shape
        writer.add_tensor_info(tensor.name, shape, kind, kind.itemsize * math.prod(shape),
                               tensor.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in tensors:
        writer.write_tensor_data(tensor.make())
    writer.close()


def start(arch, metadata, path, name="tiny", file_type=gguf.LlamaFileType.ALL_F32):
    """A writer that has the metadata. llama.cpp takes names with phi3 for certain models."""
    writer = gguf.GGUFWriter(path, arch)
    writer.add_name(name)
    writer.add_file_type(file_type)
    for key, value in metadata.items():
        getattr(writer, WRITERS[type(value)])(key, value)
    return writer


def write(model, path, blocks=None, kind=gguf.GGMLQuantizationType.F32):
    """Tensors are F32, or bytes of `blocks` in the type `kind`."""
    blocks = blocks or {}

    def tensor(name, values):
        if name in blocks:
            return Tensor(name, values.shape, lambda: blocks[name], kind)
        return Tensor(name, values.shape, lambda: values)
    writer = start(model.arch, model.metadata(), path)  # nothing reads the file's type
    add_tokenizer(writer, VOCABULARY)
    write_tensors(writer, [tensor(*each) for each in model.tensors().items()])
    return path


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        print(write(MODELS[name], folder / f"{name}.gguf"))


if __name__ == "__main__":
    main()
