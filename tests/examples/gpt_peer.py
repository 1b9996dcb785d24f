# SPDX-License-Identifier: Apache-2.0
"""What PyTorch and transformers make of examples/gpt's models.

    python3 gpt_peer.py FOLDER TEXT

50 steps as gpt.sh has them, from config.json and model.safetensors in FOLDER; the text's bytes are tokens.  Prints the
loss of each step.  gpt.golden is that of the weights that `gpt --steps 0 --save FOLDER` saves."""
import math
import sys

import torch
from transformers import GPT2LMHeadModel

LENGTH, BATCH, STEPS, WARMUP, SEED, LR, DECAY = 32, 8, 50, 5, 1, 1e-3, 0.1


def loss_of (model, text, samples):
    rows = torch.tensor ([list (text[i * LENGTH:(i + 1) * LENGTH + 1]) for i in samples])
    logits = model (rows[:, :-1]).logits
    return torch.nn.functional.cross_entropy (logits.reshape (-1, logits.shape[-1]), rows[:, 1:].reshape (-1))


def rate (step):
    if step < WARMUP:
        return (step + 1) / WARMUP
    part = (step - WARMUP) / (STEPS - WARMUP)
    return 0.1 + 0.9 * 0.5 * (1 + math.cos (math.pi * part))


def train (model, text):
    count = (len (text) - 1) // LENGTH
    count -= count // 10
    count -= count % BATCH
    order = torch.randperm (count, generator=torch.Generator ().manual_seed (SEED)).tolist ()
    groups = [{ "params": [p for p in model.parameters () if (p.ndim > 1) == decays], "weight_decay": decay }
              for decays, decay in ((True, DECAY), (False, 0))]
    optimizer = torch.optim.AdamW (groups, lr=LR, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.LambdaLR (optimizer, rate)
    for step in range (STEPS):
        loss = loss_of (model, text, order[step * BATCH:(step + 1) * BATCH])
        optimizer.zero_grad ()
        loss.backward ()
        torch.nn.utils.clip_grad_norm_ (model.parameters (), 1)
        optimizer.step ()
        schedule.step ()
        print (f"{step + 1} {loss.item ():.6f}")


torch.set_num_threads (1)
train (GPT2LMHeadModel.from_pretrained (sys.argv[1], attn_pdrop=0, embd_pdrop=0, resid_pdrop=0).train (),
       open (sys.argv[2], "rb").read ())
