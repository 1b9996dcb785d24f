#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes estimate.json: the tensors of models' checkpoints, and what Accelerate's estimate-memory says of the models.

Not run by the tests.  How to run, and with what the committed file was made (torch 2.15.0, accelerate 1.15.0,
transformers 5.23.0, timm 1.0.31):

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch accelerate transformers timm
    /tmp/venv/bin/python tests/golden/command/make_estimate_goldens.py tests/golden/command

Each model is an object on a line: name, library, the keys of config.json that matter, total and largest (bytes with
float32, of AutoModel without weights), and tensors, those of the checkpoint of a model with a head: name, type, shape.
bert and resnet50 have their real sizes, the others small ones.  t5 and bart have tied embeddings, which Accelerate counts
three times because empty models lose the ties; the totals here count them once.
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

import timm
import torch
import transformers
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes

SIZES = dict(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=96,
    vocab_size=1000, max_position_embeddings=128, n_layer=2, n_head=4, n_embd=64, n_positions=128, d_model=64,
    encoder_layers=2, decoder_layers=2, encoder_ffn_dim=96, decoder_ffn_dim=96, d_ff=96, d_kv=16, num_layers=2, num_heads=4,
    attention_types=[[["global", "local"], 1]], head_dim=16, n_ctx=128, rotary_dim=8, encoder_attention_heads=4,
    decoder_attention_heads=4, n_layers=2, dim=64, n_heads=4, hidden_dim=96, ffn_dim=96, word_embed_proj_dim=64,
    embedding_size=32, state_size=8, pad_token_id=0, max_source_positions=64, max_target_positions=32, bos_token_id=1,
    eos_token_id=2, decoder_start_token_id=2)
KEYS = ("model_type", "hidden_size", "num_attention_heads", "head_dim", "max_position_embeddings",
        "partial_rotary_factor", "rotary_pct", "rope_parameters", "n_layer", "num_layers", "n_positions", "rotary_dim",
        "num_hidden_layers", "num_key_value_heads", "qk_rope_head_dim", "n_embd", "n_head", "d_model")
HEADS = {
    "bert": "BertForPreTraining", "roberta": "RobertaForSequenceClassification", "distilbert": "DistilBertForMaskedLM",
    "gpt2": "GPT2LMHeadModel", "gpt_neo": "GPTNeoForCausalLM", "gpt_neox": "GPTNeoXForCausalLM",
    "gptj": "GPTJForCausalLM", "opt": "OPTForCausalLM", "bloom": "BloomForCausalLM", "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
    "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM", "phi": "PhiForCausalLM", "phi3": "Phi3ForCausalLM",
    "falcon": "FalconForCausalLM", "mpt": "MptForCausalLM", "stablelm": "StableLmForCausalLM",
    "olmo": "OlmoForCausalLM", "olmo2": "Olmo2ForCausalLM", "cohere": "CohereForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM", "granite": "GraniteForCausalLM", "mamba": "MambaForCausalLM",
    "t5": "T5ForConditionalGeneration", "bart": "BartForConditionalGeneration",
    "whisper": "WhisperForConditionalGeneration", "albert": "AlbertForMaskedLM", "electra": "ElectraForPreTraining",
    "mpnet": "MPNetForMaskedLM", "xlm-roberta": "XLMRobertaForMaskedLM", "camembert": "CamembertForMaskedLM",
    "cohere2": "Cohere2ForCausalLM", "ernie4_5": "Ernie4_5ForCausalLM", "exaone4": "Exaone4ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "glm4": "Glm4ForCausalLM", "lfm2": "Lfm2ForCausalLM",
    "nemotron": "NemotronForCausalLM", "olmo3": "Olmo3ForCausalLM", "smollm3": "SmolLM3ForCausalLM",
    "vit": "ViTForImageClassification", "deit": "DeiTForImageClassification"}
DTYPES = {torch.float32: "F32", torch.int64: "I64", torch.bool: "BOOL"}


def sizes(model):
    total, (largest, _) = calculate_maximum_sizes(model)
    return int(total), largest


def tensors_of(model):
    """Those that are saved: of tied ones, the first."""
    tied, seen, tensors = set(getattr(model, "all_tied_weights_keys", {}) or {}), set(), []
    for name, tensor in model.state_dict(keep_vars=True).items():
        if name not in tied and id(tensor) not in seen:
            seen.add(id(tensor))
            tensors.append([name, DTYPES[tensor.dtype], list(tensor.shape)])
    return tensors


def of_transformers(kind, head):
    usual = transformers.CONFIG_MAPPING[kind]()
    known = set(usual.to_dict()) | set(getattr(usual, "attribute_map", {}))
    own = dict(vocab_size=28996) if kind == "bert" else {key: value for key, value in SIZES.items() if key in known}
    config = transformers.CONFIG_MAPPING[kind](**own)
    with init_empty_weights():
        model = transformers.AutoModel.from_config(config, dtype=torch.float32)
        full = getattr(transformers, head)(config)
    total, largest = sizes(model)
    if kind in ("t5", "bart"):
        total -= 2 * 4 * model.shared.weight.numel()
    shown = {key: value for key, value in json.loads(config.to_json_string(use_diff=False)).items() if key in KEYS}
    return dict(name=kind, library="transformers", config=shown, total=total, largest=largest, tensors=tensors_of(full))


def of_timm(name):
    with init_empty_weights():
        model = timm.create_model(name, pretrained=False)
    total, largest = sizes(model)
    tensors = [[key, "I64" if "num_batches" in key else "F32", list(tensor.shape)]
               for key, tensor in model.state_dict().items()]
    return dict(name=name, library="timm", config={"architecture": name}, total=total, largest=largest, tensors=tensors)


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    models = [of_transformers(*item) for item in HEADS.items()] + [of_timm("resnet50")]
    with open(f"{folder}/estimate.json", "w") as file:
        lines = ",\n".join(json.dumps(model, separators=(",", ":")) for model in models)
        file.write(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
