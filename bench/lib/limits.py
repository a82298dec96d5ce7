"""The limits of the machine, and how close a speed comes to them.

A token's integer work is that of the weights it passes (two operations a weight); the rows that
draw also pass the output layer. A decode step reads every weight once and each row's keys and
values once. Attention's own arithmetic does not count as dot products.
"""
import dataclasses

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

    def prompt_ops(self, shape):
        """Operations for each prompt token, with the output layer once for each row."""
        return 2 * (self.layer_weights + self.output_weights / shape.prompt)

    def generated_ops(self):
        return 2 * (self.layer_weights + self.output_weights)

    def step_bytes(self, shape):
        """Bytes that a decode step reads when half of the output is drawn."""
        context = shape.prompt + shape.output / 2
        return self.weight_bytes + shape.rows * context * self.kv_values * KV_BYTES


def work_of(model):
    """Reads the tensors' shapes of a GGUF file. Needs the package gguf."""
    import gguf  # in the benchmark's own environment
    reader = gguf.GGUFReader(model)
    field = {name: reader.fields[f"llama.{name}"].contents()
             for name in ("block_count", "embedding_length", "attention.head_count",
                          "attention.head_count_kv")}
    matrices = {t.name: t for t in reader.tensors if len(t.shape) == 2 and min(t.shape) > 1}
    output = matrices.get("output.weight", matrices["token_embd.weight"])
    layers = [t for name, t in matrices.items() if name.startswith("blk.")]
    gate_up = [t for t in layers if "ffn_gate" in t.name or "ffn_up" in t.name]
    head = field["embedding_length"] // field["attention.head_count"]
    return Work(layer_weights=sum(int(t.n_elements) for t in layers),
                output_weights=int(output.n_elements),
                weight_bytes=sum(int(t.n_bytes) for t in [*layers, output]),
                kv_values=2 * field["block_count"] * head * field["attention.head_count_kv"],
                query_values=field["block_count"] * field["embedding_length"],
                gate_up_weights=sum(int(t.n_elements) for t in gate_up),
                gate_up_bytes=sum(int(t.n_bytes) for t in gate_up),
                output_bytes=int(output.n_bytes))


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

    layer_bytes = work.weight_bytes - work.output_bytes
    gate_up = product(tokens, work.gate_up_weights, work.gate_up_bytes)
    others = product(tokens, work.layer_weights - work.gate_up_weights,
                     layer_bytes - work.gate_up_bytes)
    output = product(outputs, work.output_weights, work.output_bytes * min(1, outputs))
    attention = most(4 * tokens * keys * work.query_values, peak["peak_fp32_gflops"],
                     sequences * keys * work.kv_values * KV_BYTES)
    whole = any(k["kernel"] == "layers" for k in details[f"{phase}_kernels"])
    seconds = {"layers": gate_up + others + attention, "gate_up": gate_up, "attention": attention,
               "matmul": output if whole else others + output}
    return {name: 1e3 * s for name, s in seconds.items()}


def wide_products(kernels):
    """Integer matrix kernels at 128 columns or more: (name, percent of the dot-product limit)."""
    return [(row["kernel"], row["gflops_percent_of_dot_peak"]) for row in kernels["kernels"]
            if row.get("math") == "fast" and row["columns"] >= 128]
