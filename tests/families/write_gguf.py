#!/usr/bin/env python3
"""Writes tiny models as GGUF files: write_gguf.py FOLDER [MODEL...], by default all models."""
import pathlib
import sys

import gguf

from models import MODELS, VOCABULARY

WRITERS = {bool: "add_bool", int: "add_uint32", float: "add_float32", str: "add_string",
           list: "add_array"}


def byte_characters():
    """The characters that stand for bytes in byte-level vocabularies, in order (GPT-2)."""
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return sorted([chr(b) for b in printed] +
                  [chr(256 + i) for i in range(256 - len(printed))])


def add_tokenizer(writer):
    """256 bytes, two merges, fillers and four control tokens."""
    fillers = [f"<w{i}>" for i in range(258, VOCABULARY - 4)]
    control = ["<s>", "</s>", "<unk>", "<pad>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(byte_characters() + ["th", "in"] + fillers + control)
    writer.add_token_types([gguf.TokenType.NORMAL] * (VOCABULARY - 4) +
                           [gguf.TokenType.CONTROL] * 4)
    writer.add_token_merges(["t h", "i n"])
    writer.add_bos_token_id(VOCABULARY - 4)
    writer.add_eos_token_id(VOCABULARY - 3)
    writer.add_unk_token_id(VOCABULARY - 2)
    writer.add_pad_token_id(VOCABULARY - 1)


def write(model, path, blocks=None, kind=gguf.GGMLQuantizationType.F32):
    """Tensors are F32, or bytes of `blocks` in the type `kind`."""
    blocks = blocks or {}
    writer = gguf.GGUFWriter(path, model.arch)
    writer.add_name("tiny")  # llama.cpp takes names with phi3 for certain models
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)  # nothing reads it
    for key, value in model.metadata().items():
        getattr(writer, WRITERS[type(value)])(key, value)
    add_tokenizer(writer)
    for name, values in model.tensors().items():
        if name in blocks:
            writer.add_tensor(name, blocks[name], raw_dtype=kind)
        else:
            writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        print(write(MODELS[name], folder / f"{name}.gguf"))


if __name__ == "__main__":
    main()
