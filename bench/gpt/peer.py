# SPDX-License-Identifier: Apache-2.0
"""Training steps of PyTorch, or of Hugging Face Accelerate, for bench/gpt/run.py.

    peer.py WAY VOCAB POSITIONS LAYERS HEADS WIDTH LENGTH BATCH STEPS TOKENS

WAY is eager, compile or accelerate, and with "-bfloat16" computes in autocast.  TOKENS is a file of uint16.  Prints a line
after each step.  The optimizer is PyTorch's fused AdamW, which is its fastest."""
import sys
import warnings

import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.utils import logging

logging.set_verbosity_error ()
warnings.filterwarnings ("ignore")
way, narrow = sys.argv[1].split ("-")[0], sys.argv[1].endswith ("-bfloat16")
vocab, positions, layers, heads, width, length, batch, steps = map (int, sys.argv[2:10])
torch.manual_seed (1)
model = GPT2LMHeadModel (GPT2Config (vocab_size=vocab, n_positions=positions, n_embd=width, n_layer=layers, n_head=heads,
                                     attn_pdrop=0, embd_pdrop=0, resid_pdrop=0)).train ()
optimizer = torch.optim.AdamW (model.parameters (), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
accelerator, rank, clip = None, 0, torch.nn.utils.clip_grad_norm_
if way == "accelerate":
    from accelerate import Accelerator
    accelerator = Accelerator (cpu=True, mixed_precision="bf16" if narrow else "no")
    model, optimizer = accelerator.prepare (model, optimizer)
    rank, clip = accelerator.process_index, accelerator.clip_grad_norm_
    assert accelerator.num_processes == 2
else:
    torch.set_num_threads (2)
run = torch.compile (model) if way == "compile" else model
tokens = torch.frombuffer (bytearray (open (sys.argv[10], "rb").read ()), dtype=torch.int16).to (torch.int64) & 0xffff
for step in range (1, steps + 1):
    at = (step * 2 + rank) * batch * length % (len (tokens) - batch * length)
    rows = tokens[at:at + batch * length].reshape (batch, length)
    with torch.autocast ("cpu", torch.bfloat16, enabled=narrow and not accelerator):
        loss = run (rows, labels=rows, use_cache=False).loss
    optimizer.zero_grad ()
    accelerator.backward (loss) if accelerator else loss.backward ()
    clip (model.parameters (), 1)
    optimizer.step ()
    if rank == 0:
        print (f"step {step} loss {loss.item ():.6f}", flush=True)
