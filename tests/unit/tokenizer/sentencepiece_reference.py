"""PyPI `sentencepiece` set up with a GGUF file's vocabulary, and files of small random ones."""
import struct

import sentencepiece
from gguf import GGUFWriter

from gguf_metadata import read_metadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BPE = 2


def _varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def _field(number, value):
    """Writes one field of a protocol buffer."""
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def processor(tokens, scores, kinds, space_prefix):
    """Returns a processor of the vocabulary. The numbers are those of sentencepiece_model.proto in
    https://github.com/google/sentencepiece; the kinds have the same numbers in GGUF."""
    model = b""
    unknown = kinds.index(UNKNOWN)
    for i, (token, score, kind) in enumerate(zip(tokens, scores, kinds)):
        if kind == UNKNOWN and i != unknown:
            kind = CONTROL  # it allows only one unknown token
        piece = _field(1, token.encode()) + _field(2, float(score)) + _field(3, int(kind))
        model += _field(1, piece)
    model += _field(2, _field(3, BPE) + _field(35, int(BYTE in kinds)) + _field(40, unknown))
    model += _field(3, _field(1, b"identity") + _field(3, int(space_prefix)) + _field(4, 0)
                    + _field(5, 1))
    result = sentencepiece.SentencePieceProcessor()
    result.LoadFromSerializedProto(model)
    return result


def processor_of(path):
    fields = read_metadata(path)
    tokens, scores, kinds = (fields[f"tokenizer.ggml.{name}"]
                             for name in ("tokens", "scores", "token_type"))
    key = "tokenizer.ggml.add_space_prefix"
    return processor(tokens, scores, kinds, fields[key] if key in fields else True)


def random_vocabulary(rng):
    """Returns tokens, scores, kinds and whether text gets a space prefix: pieces over a few
    characters, some of them unused or user-defined, some scores equal, some characters no token."""
    tokens, kinds = ["<unk>", "<s>"], [UNKNOWN, CONTROL]
    if rng.random() < 0.7:
        tokens += [f"<0x{byte:02X}>" for byte in range(256)]
        kinds += [BYTE] * 256
    characters = ["▁", "a", "b", "é", "漢"]
    pieces = [c for c in characters if rng.random() < 0.8]
    for _ in range(rng.randrange(5, 60)):
        piece = rng.choice(pieces + characters) + rng.choice(pieces + characters)
        if piece not in pieces and len(piece) <= 8:
            pieces.append(piece)
    scores = [0.0] * len(tokens)
    some = [0.0, 0.03, 0.1][rng.randrange(3)]
    for piece in pieces:
        draw = rng.random()
        kinds.append(UNUSED if draw < some else USER_DEFINED if draw < 2 * some else NORMAL)
        scores.append(-float(rng.randrange(1, 20)))
    return tokens + pieces, scores, kinds, rng.random() < 0.6


def write_vocabulary(path, tokens, scores, kinds, space_prefix):
    writer = GGUFWriter(path, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_unk_token_id(0)
    writer.add_add_space_prefix(space_prefix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
