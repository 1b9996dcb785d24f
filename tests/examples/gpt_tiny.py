# SPDX-License-Identifier: Apache-2.0
"""Logits of transformers' GPT-2, and the folder that they are computed from.

    python3 gpt_tiny.py make FOLDER            a tiny random model as the Hub has GPT-2: names without "transformer.",
                                               masks, and biases that are not zero
    python3 gpt_tiny.py FOLDER TOKEN...        the logits after each token, a line each: gpt_tiny/logits of gpt_tiny/"""
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel


def make (folder):
    torch.manual_seed (1)
    config = GPT2Config (vocab_size=20, n_positions=12, n_embd=8, n_layer=2, n_head=2, bos_token_id=None,
                         eos_token_id=None)
    model = GPT2LMHeadModel (config)
    model.save_pretrained (folder)
    path = os.path.join (folder, "model.safetensors")
    tensors = { name.removeprefix ("transformer."): torch.randn_like (tensor) * 0.3
                for name, tensor in load_file (path).items () }
    for layer in range (config.n_layer):
        tensors[f"h.{layer}.attn.bias"] = torch.tril (torch.ones (1, 1, 12, 12))
    save_file (tensors, path, metadata={ "format": "pt" })
    if os.path.exists (os.path.join (folder, "generation_config.json")):
        os.remove (os.path.join (folder, "generation_config.json"))


def show (folder, tokens):
    model = GPT2LMHeadModel.from_pretrained (folder, attn_pdrop=0, embd_pdrop=0, resid_pdrop=0).eval ()
    with torch.no_grad ():
        for row in model (torch.tensor ([tokens])).logits[0].tolist ():
            print (*(f"{number:.6f}" for number in row))


torch.set_num_threads (1)
if sys.argv[1] == "make":
    make (sys.argv[2])
else:
    show (sys.argv[1], [int (token) for token in sys.argv[2:]])
