#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes estimate_cache.json: small models' configurations, and the bytes of their keys and values in transformers.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, transformers 5.23.0):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch transformers
    /tmp/venv/bin/python tests/golden/command/make_cache_goldens.py tests/golden/command

Each model is on a line, by its name: config (config.json), and bytes, of TOKENS tokens with 16 bits.  They are counted in the
cache of a model after its forward pass.  There, a layer with a window of 16 keeps 15 tokens, because the next one is added
to these; bytes counts 16.
"""

import copy
import json
import sys

import torch
import transformers

TOKENS, WINDOW = 64, 16
SIZES = dict(vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=8, num_attention_heads=4,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2)
LATENT = dict(kv_lora_rank=16, q_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, n_routed_experts=4,
              n_group=1, topk_group=1, num_experts_per_tok=2, moe_intermediate_size=16, n_shared_experts=1, head_dim=4,
              num_key_value_heads=4)
SLIDING = dict(sliding_window=WINDOW)
GEMMA = dict(vocab_size_per_layer_input=64, hidden_size_per_layer_input=8, **SLIDING)
EXPERTS = dict(num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, shared_expert_intermediate_size=16)
LINEAR = dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, **EXPERTS)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=8, mamba_d_state=8, mamba_n_groups=1)
GPT = dict(n_embd=32, n_layer=3, n_head=4, n_positions=128, vocab_size=64)
MODELS = {  # the second half of a name says what is special
    "llama": {},
    "mistral": SLIDING,
    "qwen2, later windows": dict(use_sliding_window=True, max_window_layers=4, **SLIDING),
    "qwen2, no windows": dict(use_sliding_window=False, max_window_layers=4, **SLIDING),
    "gemma2": SLIDING,
    "gemma3_text": SLIDING,
    "gemma3n_text": dict(GEMMA, num_kv_shared_layers=10, num_hidden_layers=20, laurel_rank=4, altup_num_inputs=2,
                         activation_sparsity_pattern=[0.0] * 20, intermediate_size=[32] * 20),
    "gemma3n_text, usual": dict(GEMMA, num_hidden_layers=25, laurel_rank=4, altup_num_inputs=2,
                                activation_sparsity_pattern=[0.0] * 25, intermediate_size=[32] * 25),
    "gemma4_text": dict(GEMMA, num_kv_shared_layers=6, num_hidden_layers=18, global_head_dim=16),
    "gemma4_text, usual": dict(GEMMA, num_hidden_layers=7),
    "gemma4_text, other pairs": dict(GEMMA, num_hidden_layers=12, global_head_dim=16, num_global_key_value_heads=1,
                                     attention_k_eq_v=True),
    "gemma4_text, unused pairs": dict(GEMMA, num_hidden_layers=12, global_head_dim=16, num_global_key_value_heads=1),
    "cohere2": SLIDING,
    "exaone4": dict(sliding_window_pattern=4, **SLIDING),
    "gpt_oss": dict(num_local_experts=2, num_experts_per_tok=1, **SLIDING),
    "olmo3": SLIDING,
    "phi3": SLIDING,
    "llama4_text": dict(attention_chunk_size=WINDOW, num_local_experts=2, intermediate_size_mlp=32),
    "llama4_text, listed": dict(attention_chunk_size=WINDOW, num_local_experts=2, intermediate_size_mlp=32,
                                no_rope_layers=[1, 0] * 4),
    "llama4_text, interval": dict(attention_chunk_size=WINDOW, num_local_experts=2, intermediate_size_mlp=32,
                                  no_rope_layer_interval=8),
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "kimi_linear": dict(kv_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4, head_dim=4,
                        num_experts=2, num_experts_per_tok=1, num_experts_per_token=1, moe_intermediate_size=16,
                        linear_attn_config=dict(full_attn_layers=[4, 8], kda_layers=[1, 2, 3, 5, 6, 7], num_heads=4,
                                                head_dim=8, short_conv_kernel_size=4)),
    "jamba": dict(num_hidden_layers=10, attn_layer_period=4, attn_layer_offset=2, mamba_d_state=4, mamba_dt_rank=4,
                  num_experts=2, use_mamba_kernels=False),
    "bamba": dict(attn_layer_indices=[1, 5], **MAMBA),
    "lfm2": dict(full_attn_idxs=[2, 5, 7]),
    "qwen3_next": LINEAR,
    "qwen3_next, interval": dict(full_attention_interval=2, **LINEAR),
    "granitemoehybrid": dict(layer_types=["mamba", "attention"] * 4, num_local_experts=0, **MAMBA),
    "nemotron_h": dict(hybrid_override_pattern="M-M*-M*-", mamba_num_heads=4, mamba_head_dim=8, ssm_state_size=8, n_groups=1),
    "minimax": dict(num_local_experts=2, num_experts_per_tok=1, layer_types=["linear_attention", "full_attention"] * 4,
                    block_size=16),
    "falcon": dict(multi_query=True, new_decoder_architecture=False, num_attention_heads=4, hidden_size=32, num_hidden_layers=3,
                   vocab_size=64),
    "gpt_bigcode": dict(multi_query=True, **GPT),
    "bloom": dict(n_embed=32, n_layer=3, n_head=4, vocab_size=64),
    "xglm": dict(d_model=32, attention_heads=4, num_layers=3, ffn_dim=32, vocab_size=64),
    "t5": dict(d_model=32, d_kv=16, num_heads=4, num_layers=3, vocab_size=64),
}
WITHOUT_SIZES = ("falcon", "gpt_bigcode", "bloom", "xglm", "t5")


def cache_of(kind, config):
    model = transformers.AutoModel.from_config(transformers.CONFIG_MAPPING[kind](**copy.deepcopy(config))).eval()
    ids = torch.randint(3, 60, (1, TOKENS))
    with torch.no_grad():
        if kind == "t5":
            return model(input_ids=ids, decoder_input_ids=ids, use_cache=True).past_key_values.self_attention_cache
        return model(input_ids=ids, use_cache=True).past_key_values


def bytes_of(layer):
    sizes = 0
    for tensor in (getattr(layer, "keys", None), getattr(layer, "values", None)):
        if tensor is not None and tensor.numel():
            tokens = tensor.shape[-2]
            assert tokens in (TOKENS, WINDOW - 1)
            sizes += tensor.numel() // tokens * (TOKENS if tokens == TOKENS else WINDOW)
    return 2 * sizes


def main():
    models = {}
    for name, more in MODELS.items():
        kind = name.split(",")[0]
        config = more if kind in WITHOUT_SIZES else {**SIZES, **more}
        size = sum(bytes_of(layer) for layer in cache_of(kind, config).layers)
        models[name] = dict(bytes=size, config=dict(model_type=kind, **config))
    with open(f"{sys.argv[1] if len(sys.argv) > 1 else '.'}/estimate_cache.json", "w") as file:
        lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(model, separators=(',', ':'))}" for name, model in models.items())
        file.write(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
