"""The limits of the machine, and how close a speed comes to them.

A token's integer work is that of the weights it passes (two operations a weight); the rows that
draw also pass the output layer. A decode step reads every weight once and each row's keys and
values once. Of a mixture's experts a token passes those that are chosen for it, and a step reads
those that any of its rows chose: an estimate, as if every choice were equally likely. Attention's
own arithmetic does not count as dot products.
"""
import dataclasses
import functools

from .run import BIN, json_in, run

KV_BYTES = 2  # fp16


@dataclasses.dataclass(frozen=True)
class Work:
    """The sizes of one model, from the tensors of its file."""
    layer_weights: int    # in the matrices of all layers
    output_weights: int
    weight_bytes: int     # in the file
    kv_values: int        # of a token, in all layers
    query_values: int = 0       # of a token, in all layers
    gate_up_weights: int = 0    # part of layer_weights
    gate_up_bytes: int = 0      # part of weight_bytes
    output_bytes: int = 0       # part of weight_bytes
    gate_up_expert_weights: int = 0  # of all experts, not part of layer_weights
    down_expert_weights: int = 0     # of all experts, not part of layer_weights
    gate_up_expert_bytes: int = 0    # not part of weight_bytes
    down_expert_bytes: int = 0       # not part of weight_bytes
    used: float = 0.0                # share of the experts that a token passes

    @property
    def passed(self):
        """The weights that a token passes in the layers."""
        return self.layer_weights + self.used * (self.gate_up_expert_weights
                                                 + self.down_expert_weights)

    def chosen(self, tokens):
        """The share of the experts that a step of so many tokens reads."""
        return 1 - (1 - self.used) ** tokens

    def prompt_ops(self, shape):
        """Operations for each prompt token, with the output layer once for each row."""
        return 2 * (self.passed + self.output_weights / shape.prompt)

    def generated_ops(self):
        return 2 * (self.passed + self.output_weights)

    def step_bytes(self, shape):
        """Bytes that a decode step reads when half of the output is drawn."""
        context = shape.prompt + shape.output / 2
        experts = self.gate_up_expert_bytes + self.down_expert_bytes
        return self.weight_bytes + self.chosen(shape.rows) * experts \
            + shape.rows * context * self.kv_values * KV_BYTES


@functools.cache  # a file with a large vocabulary takes seconds
def read(model):
    """The GGUF file's reader. Needs the package gguf."""
    import gguf  # in the benchmark's own environment
    return gguf.GGUFReader(model)


def vocabulary_of(model):
    """The number of tokens that the model knows."""
    return next(int(t.shape[1]) for t in read(model).tensors if t.name == "token_embd.weight")


def work_of(model):
    """Reads the sizes of a model from its file."""
    reader = read(model)
    arch = reader.fields["general.architecture"].contents()

    def number(key, default=None):
        field = reader.fields.get(f"{arch}.{key}")
        return field.contents() if field else default

    # Recurrent layers have no keys. A layer that attends may read those of another one.
    attends = sum(t.name.endswith(".attn_output.weight") for t in reader.tensors)

    def heads(key, layers=number("block_count")):  # of all layers
        found = number(key)
        return sum(found) if isinstance(found, list) else layers * found
    query_heads = heads("attention.head_count")
    head = number("attention.key_length") or \
        number("embedding_length") * number("block_count") // query_heads
    values = number("attention.value_length", head)
    matrices = {t.name: t for t in reader.tensors if len(t.shape) > 1 and min(t.shape) > 1}
    output = matrices.get("output.weight", matrices["token_embd.weight"])
    layers = {name: t for name, t in matrices.items() if name.startswith("blk.")}
    experts = {name: t for name, t in layers.items() if "_exps." in name}

    def total(tensors, *parts, of="n_elements"):
        return sum(int(getattr(t, of)) for name, t in tensors.items()
                   if not parts or any(part in name for part in parts))
    dense = {name: t for name, t in layers.items() if name not in experts}
    gates = "ffn_gate.", "ffn_up."
    gate_experts = "ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps"
    return Work(layer_weights=total(dense), output_weights=int(output.n_elements),
                weight_bytes=total(dense, of="n_bytes") + int(output.n_bytes),
                kv_values=heads("attention.head_count_kv", attends) * (head + values),
                query_values=query_heads * head,
                gate_up_weights=total(dense, *gates),
                gate_up_bytes=total(dense, *gates, of="n_bytes"),
                output_bytes=int(output.n_bytes),
                gate_up_expert_weights=total(experts, *gate_experts),
                down_expert_weights=total(experts, "ffn_down_exps"),
                gate_up_expert_bytes=total(experts, *gate_experts, of="n_bytes"),
                down_expert_bytes=total(experts, "ffn_down_exps", of="n_bytes"),
                used=number("expert_used_count", 0) / number("expert_count", 1))


def measure(only_peak):
    """kernel_bench's object: the limits, the kernels unless only_peak, and in `others` the share of
    the cores that other processes took meanwhile."""
    done = run([BIN / "kernel_bench", "--peak" if only_peak else "--products"])
    return {**json_in(done.text), "others": done.foreign}


def shares(shape, speed, work, dot_gops, read_gbytes):
    """Percent of the dot-product limit in both phases, and of the memory's speed in generation."""
    def percent(value, limit):
        return round(100 * value / limit) if limit else None
    dots, reads = dot_gops * 1e9, read_gbytes * 1e9
    steps = speed.generate / shape.rows
    return {"prompt_dots": percent(speed.prompt * work.prompt_ops(shape), dots),
            "generate_dots": percent(speed.generate * work.generated_ops(), dots),
            "generate_reads": percent(steps * work.step_bytes(shape), reads)}


def kernel_limits(details, phase, work, peak):
    """kernel -> the least ms that a step of this phase could spend in it: the time of its dot
    products or of reading its weights, for attention of its multiply-adds or of reading keys and
    values, whichever is longer. `details` is engine_bench's object, with the memory's speed at that
    time. kernel_bench --passes gives the limits of other kernels."""
    jobs, reads = details["jobs"], details["memory_gbytes_per_s"] * 1e9
    if phase == "prompt":
        tokens, outputs = details["prompt_tokens"] / details["prompt_steps"], \
            jobs / details["prompt_steps"]
        keys, sequences = (details["prompt"] + 1) / 2, tokens / details["prompt"]
    else:
        tokens = outputs = sequences = jobs
        keys = details["prompt"] + details["output"] / 2

    def most(operations, rate, read_bytes):
        return max(operations / (rate * 1e9), read_bytes / reads)

    def product(columns, weights, read_bytes):
        return most(2 * columns * weights, peak["peak_dot_gops"], read_bytes)

    def experts(weights, read_bytes):
        return product(tokens * work.used, weights, read_bytes * work.chosen(tokens))

    layer_bytes = work.weight_bytes - work.output_bytes
    gate_up = product(tokens, work.gate_up_weights, work.gate_up_bytes)
    others = product(tokens, work.layer_weights - work.gate_up_weights,
                     layer_bytes - work.gate_up_bytes)
    output = product(outputs, work.output_weights, work.output_bytes * min(1, outputs))
    attention = most(4 * tokens * keys * work.query_values, peak["peak_fp32_gflops"],
                     sequences * keys * work.kv_values * KV_BYTES)
    ran = {k["kernel"] for k in details[f"{phase}_kernels"]}
    whole = "layers" in ran
    seconds = {"layers": gate_up + others + attention, "gate_up": gate_up, "attention": attention,
               "matmul": output if whole else others + output}
    if {"layers", "gate_up"} <= ran:  # some layers ran whole, some in parts
        seconds = {}
    seconds |= {
        "experts_gate_up": experts(work.gate_up_expert_weights, work.gate_up_expert_bytes),
        "experts_matmul": experts(work.down_expert_weights, work.down_expert_bytes)}
    return {name: 1e3 * s for name, s in seconds.items()}


def wide_products(kernels):
    """Integer matrix kernels at 128 columns or more: (name, percent of the dot-product limit)."""
    return [(row["kernel"], row["gflops_percent_of_dot_peak"]) for row in kernels["kernels"]
            if row.get("math") == "fast" and row["columns"] >= 128]
