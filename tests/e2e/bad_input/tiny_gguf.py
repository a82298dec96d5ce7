"""Writes a whole model of random weights in 260 KB, also wrong ones: it checks nothing.

The model has one llama layer and a vocabulary of the 256 bytes, one pair and two control tokens;
the real engine loads and runs it. `metadata` replaces keys (None removes one), `tensors` replaces a
tensor's (shape, type, data), `template` is the chat template (None for none).
"""
import random
import struct

U32, F32, STRING, ARRAY, I32 = 4, 6, 8, 9, 5
ALIGNMENT = 32
WIDTH, HEADS, KV_HEADS, FFN_WIDTH, CONTEXT = 64, 4, 2, 96, 256
TEMPLATE = ("{% for m in messages %}<|turn|>{{ m['role'] }}: {{ m['content'] }}<|end|>{% endfor %}"
            "<|turn|>")


def byte_alphabet():
    """Returns the bytes as printable characters, as GPT-2's vocabulary writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in plain}
    others = [b for b in range(256) if b not in names]
    names.update({b: chr(256 + i) for i, b in enumerate(others)})
    return [names[b] for b in range(256)]


TOKENS = [*byte_alphabet(), "ab", "<|turn|>", "<|end|>"]


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def pair(key, value):
    """Encodes a str, an int (u32), a float, a list of str or of int (i32); copies bytes."""
    head = string(key)
    if isinstance(value, bytes):
        return head + value
    if isinstance(value, str):
        return head + struct.pack("<I", STRING) + string(value)
    if isinstance(value, int):
        return head + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return head + struct.pack("<If", F32, value)
    if value and isinstance(value[0], int):
        return head + struct.pack("<IIQ", ARRAY, I32, len(value)) + struct.pack(
            f"<{len(value)}i", *value)
    return head + struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(string, value))


def good_metadata(template):
    keys = {
        "general.architecture": "llama", "general.name": "tiny", "llama.block_count": 1,
        "llama.embedding_length": WIDTH, "llama.feed_forward_length": FFN_WIDTH,
        "llama.context_length": CONTEXT, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": TOKENS, "tokenizer.ggml.token_type": [1] * 257 + [3, 3],
        "tokenizer.ggml.merges": ["a b"], "tokenizer.ggml.eos_token_id": 258,
        "tokenizer.ggml.bos_token_id": 257}
    if template is not None:
        keys["tokenizer.chat_template"] = template
    return keys


def good_tensors(seed=1):
    shuffle = random.Random(seed)
    kv_width = WIDTH // HEADS * KV_HEADS
    shapes = {
        "token_embd.weight": (WIDTH, len(TOKENS)), "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, len(TOKENS)), "blk.0.attn_norm.weight": (WIDTH,),
        "blk.0.ffn_norm.weight": (WIDTH,), "blk.0.attn_q.weight": (WIDTH, WIDTH),
        "blk.0.attn_k.weight": (WIDTH, kv_width), "blk.0.attn_v.weight": (WIDTH, kv_width),
        "blk.0.attn_output.weight": (WIDTH, WIDTH), "blk.0.ffn_gate.weight": (WIDTH, FFN_WIDTH),
        "blk.0.ffn_up.weight": (WIDTH, FFN_WIDTH), "blk.0.ffn_down.weight": (FFN_WIDTH, WIDTH)}
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data = struct.pack(f"<{count}f", *(shuffle.uniform(-0.3, 0.3) for _ in range(count)))
        tensors[name] = (shape, 0, data)
    return tensors


def tiny_gguf(metadata=None, tensors=None, template=TEMPLATE):
    keys = {**good_metadata(template), **(metadata or {})}
    keys = {key: value for key, value in keys.items() if value is not None}
    entries, data = b"", b""
    everything = {**good_tensors(), **(tensors or {})}
    everything = {name: entry for name, entry in everything.items() if entry is not None}
    for name, (shape, kind, values) in everything.items():
        data += b"\0" * (-len(data) % ALIGNMENT)
        entries += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind,
                                              len(data))
        data += values
    head = b"GGUF" + struct.pack("<IQQ", 3, len(everything), len(keys))
    head += b"".join(pair(key, value) for key, value in keys.items()) + entries
    return head + b"\0" * (-len(head) % ALIGNMENT) + data
