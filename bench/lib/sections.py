"""What each measure is called on a page, and what limits its figures. The order is the page's."""

TITLES = {
    "speed": "Prompts and generation",
    "profile": "A step of ours, by kernel",
    "kv": "Speed by KV policy",
    "job": "A whole job, file to file",
    "mixed": "The model in Q4_K_M",
    "throughput": "Exact math",
    "prefix": "The prefix cache",
    "sampler": "What penalties and logprobs add",
    "kernels": "Integer matrix products",
    "start": "Start",
    "submits": "Durable submits",
    "memory": "Resident memory",
    "fidelity": "Distance from the float64 reference",
}

WHY = {
    "speed": "A decode step reads every weight and each row's keys and values once: with few rows "
             "memory limits it. Prompts and wide batches are limited by integer dot products.",
    "profile": "A kernel's limit is the longer of its arithmetic at the measured peak and its "
               "reads at the speed of the memory at that time.",
    "kv": "With many long rows f16 is limited by memory. A smaller policy reads fewer bytes but "
          "decodes them, so that its gain stays below the ratio of the bytes, and shrinks when the "
          "memory is fast. At 256 tokens the weights are most of what a step reads.",
    "job": "64 rows at once are limited by integer dot products. Ours computes the system prompt "
           "once.",
    "mixed": "A layer whose matrices have different types is not run as one kernel; the launches a "
             "step say which way was taken.",
    "throughput": "`--math exact` multiplies in fp32, and fp32 multiply-adds limit it.",
    "prefix": "With the cache a job computes its own tokens alone. After a restart the shared ones "
              "are read from disk and verified in place of being computed.",
    "sampler": "Penalties touch the ids that a row has seen; logprobs need a sum over the whole "
               "vocabulary.",
    "kernels": "The peak is measured from registers; a product also unpacks its weights and "
               "applies their scales.",
    "start": "Opening the device, loading its compiled kernels and reading the model take nearly "
             "all of it.",
    "submits": "A commit waits for the disk, and what arrives meanwhile shares the next one: the "
               "disk limits latency, encoding and SQLite limit the rate.",
    "memory": "Lines in flight and the ledger's cache take it; it does not grow with the input.",
    "fidelity": "Both sides round activations to 8 bits, from which nearly all of it comes.",
}
