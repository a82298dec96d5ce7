"""Multi-head latent attention: its tensors, and the keys of the models that have it, as the
ecosystem's converter names and shapes them.

Keys and values of all heads come from one latent. Matrices by head are 3-D.
"""
from recurrent import matrix

# Channels of the latent of keys and values, of that of queries, of the part of a query and key that
# rotates and of the part of a query that does not, and of a value.
LATENT, QUERY, TURNED, PLAIN, VALUE = 32, 48, 16, 16, 48


def latent_attention(query=QUERY, plain=PLAIN):
    """Without a `query` latent, queries are made of the layer's input."""
    def tensors(s):
        rows = s.heads * (plain + TURNED)
        queries = [matrix("attn_q", rows, s.width)] if query == 0 else [
            matrix("attn_q_a", query, s.width), matrix("attn_q_b", rows, query),
            ("attn_q_a_norm.weight", "norm", (query,))]
        return queries + [
            matrix("attn_kv_a_mqa", LATENT + TURNED, s.width),
            ("attn_kv_a_norm.weight", "norm", (LATENT,)),
            ("attn_k_b.weight", "matrix", (s.heads, LATENT, plain)),
            ("attn_v_b.weight", "matrix", (s.heads, VALUE, LATENT)),
            matrix("attn_output", s.width, s.heads * VALUE)]
    return tensors


def latent_keys(query=QUERY, plain=PLAIN):
    return {"attention.head_count_kv": 1, "attention.kv_lora_rank": LATENT,
            "attention.key_length": LATENT + TURNED, "attention.value_length": LATENT,
            "attention.key_length_mla": plain + TURNED, "attention.value_length_mla": VALUE,
            "rope.dimension_count": TURNED, "attention.q_lora_rank": query}


def experts_keys(shared, scale, dense, router):
    """`dense` layers come first."""
    return {"expert_shared_count": shared, "expert_weights_scale": scale,
            "leading_dense_block_count": dense, "expert_gating_func": router}


def groups(count, used):
    return {"expert_group_count": count, "expert_group_used_count": used}


SOFTMAX, SIGMOID = 1, 2
NORMALIZED = {"expert_weights_norm": True}

# A file has a tenth of the multiplier of YaRN that the class has.
DEEPSEEK = latent_keys() | NORMALIZED | groups(4, 2) | experts_keys(1, 2.5, 2, SIGMOID) | {
    "rope.scaling.yarn_log_multiplier": 0.1}
# Queries have no latent: the rank is the default of the class, which the converter writes.
DEEPSEEK_LITE = latent_keys(1536) | experts_keys(2, 1.0, 22, SOFTMAX) | {
    "expert_feed_forward_length": 32, "rope.scaling.yarn_log_multiplier": 0.0707}
GLM_LITE = latent_keys(plain=48) | NORMALIZED | groups(1, 1) | experts_keys(1, 1.8, 1, SIGMOID) | {
    "rope.freq_base": 1e6}
# Queries get a temperature beyond the first 16 positions.
MISTRAL4 = latent_keys() | NORMALIZED | groups(1, 1) | experts_keys(1, 1.0, 0, SOFTMAX) | {
    "rope.scaling.yarn_log_multiplier": 0.1,
    "attention.temperature_scale": 0.1, "attention.temperature_length": 16}
