"""The title of each measure on a page, and what limits its figures, in the page's order."""

TITLES = {
    "speed": "Prompts and generation",
    "profile": "A step of ours, by kernel",
    "kv": "Speed by KV policy",
    "job": "A whole job, file to file",
    "mixed": "The model in Q4_K_M",
    "busy": "Beside a busy process",
    "throughput": "Exact math",
    "prefix": "The prefix cache",
    "sampler": "What penalties and logprobs add",
    "kernels": "Integer matrix products",
    "start": "Start",
    "submits": "Durable submits",
    "queue": "The queue beside other queues",
    "memory": "Resident memory",
    "fidelity": "Distance from the float64 reference",
    "families": "Distance from the official classes, by family",
    "policies": "What KV policies cost hybrids and Gemma 4",
}

WHY = {
    "speed": "A decode step reads every weight and each row's keys and values once, so with few "
             "rows memory limits it. Integer dot products limit prompts and wide batches.",
    "profile": "A kernel's limit is the longer of its arithmetic at the measured peak and its "
               "reads at the speed of the memory at that time.",
    "kv": "With many long rows memory limits f16. A smaller policy reads fewer bytes but has to "
          "decode them, so its gain stays below the ratio of the bytes and shrinks when the memory "
          "is fast. At 256 tokens the weights are most of what a step reads.",
    "job": "Integer dot products limit 64 rows at once. Ours computes the system prompt once.",
    "mixed": "A block of Q4_K, Q5_0 or Q6_K takes more operations to unpack than one of Q4_1, and "
             "the file is larger. The launches a step show whether its layers ran as one kernel.",
    "busy": "Threads that wait for each other run at the speed of the slowest: with two of ours "
            "and the other process on one of the cores, that is half. What is above is work that "
            "the other core took over.",
    "throughput": "`--math exact` multiplies in fp32, and fp32 multiply-adds limit it.",
    "prefix": "With the cache a job computes only its own tokens. After a restart the engine reads "
              "the shared ones from disk and verifies them instead of computing them.",
    "sampler": "Penalties touch the ids that a row has seen; logprobs need a sum over the whole "
               "vocabulary.",
    "kernels": "The peak is measured from registers; a product also unpacks its weights and "
               "applies their scales.",
    "start": "Opening the device, loading its compiled kernels and reading the model take nearly "
             "all of the time.",
    "submits": "A commit waits for the disk, and jobs that arrive meanwhile share the next commit: "
               "the disk limits the latency, encoding and SQLite limit the rate.",
    "queue": "Commits, shared by all that waits, are synced one after the other; SQLite and the "
             "checks of each job take most of the cores. In PostgreSQL a job is rows of several "
             "tables, whose checks hold the lock of its tenant. Clients, broker and peers share "
             "the cores.",
    "memory": "Lines in flight and the ledger's cache take the memory; it does not grow with the "
              "input.",
    "fidelity": "Both sides round activations to 8 bits, which causes nearly all of the distance.",
    "families": "The models are tiny and random, except Gemma 3 270M. Both sides round activations "
                "to 8 bits. Where experts are chosen, rounding changes a choice at few positions, "
                "which make most of the mean; the medians show the others. In brackets is the "
                "ratio's range in 95 % of resamplings of the windows; a row whose range has the "
                "limit in it reads 4 and then 16 times as many windows.",
    "policies": "The models are tiny and random, with heads of 64 channels, Gemma 4 of 64 and 128, "
                "gemma4-large of 256 and 512 as real files have. The engine computes in fp32. All "
                "figures are distances from the official class in float64 with keys and values "
                "that are not rounded; the peer is that class with keys and values read through "
                "the codecs' definition. As for llama, a policy may cost 1.3 times that. Random "
                "weights show whether the engine stores and reads each layer as the codecs say. "
                "They do not show what a policy costs a trained model, whose attention is "
                "sharper and whose keys have a common mean: the KLD of SmolLM2 (kernels/kv) and "
                "its limits do not apply, and llama with random weights, the first rows, is "
                "beyond some of them.",
}
