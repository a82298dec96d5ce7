"""Random weights from a name, the same with every version of numpy on every machine.

A tensor is a function of its model's name and its own: adding one changes no other. The integers
come from SplitMix64 (Steele, Lea, Flood, 2014), and everything after them is exact or rounded once.
"""
import hashlib

import numpy as np


def integers(name, count):
    """`count` integers of 64 random bits."""
    start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z += np.uint64(start)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def normal(name, shape):
    """Nearly normal values of mean 0 and deviation 1: sums of four uniform ones."""
    bits = integers(name, int(np.prod(shape)))
    total = sum(((bits >> np.uint64(16 * i)) & np.uint64(0xFFFF)).astype(np.int64)
                for i in range(4))
    # The sum's mean is 2 * 65535 and its variance 4 * (65536^2 - 1) / 12.
    return ((total - 2 * 65535) / np.sqrt((65536.0 ** 2 - 1) / 3)).reshape(shape)


# The spread of each kind of tensor, so that logits differ by about 1 and no part of a layer is
# without effect. A norm's weights are multiples of 2^-10, so that converters that add 1 to them are
# exact.
KINDS = {
    "matrix": lambda z: 1.3 / np.sqrt(z.shape[-1]) * z,
    "embedding": lambda z: z,
    "norm": lambda z: 1 + np.round(0.2 * z * 1024) / 1024,
    "small norm": lambda z: 0.3125 + np.round(0.06 * z * 1024) / 1024,  # scores are unscaled
    "bias": lambda z: 0.3 * z,
    "choice": lambda z: 0.2 * z,  # a router's bias
    "router scale": lambda z: 8 + 2 * z,  # is divided by the root of the width
    "taps": lambda z: 0.7 * z,  # of a convolution of one channel
    # A state is multiplied by exp(decay * softplus(step + matrix)) at each token. Some heads keep
    # half of it, some nearly all of it over the tokens that tests compute.
    "decay": lambda z: -np.exp(0.5 * z),
    "step": lambda z: -2.5 + z,
}


def tensor(model, name, kind, shape):
    """The float32 values of a tensor, in numpy's order of axes."""
    return KINDS[kind](normal(f"{model}/{name}", shape)).astype(np.float32)


def tokens(model, count):
    """Token ids below 256, which every vocabulary has."""
    return [int(x) for x in integers(f"{model} tokens", count) >> np.uint64(56)]
