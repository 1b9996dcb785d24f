#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read a sharded checkpoint of libaccel with torch.distributed.checkpoint, and compare it with a full one.

check_dcp.py SHARDED FULL    prints the number of tensors; needs torch and safetensors
"""
import os
import sys
import tempfile
import warnings

import torch
import torch.distributed.checkpoint as dcp
from safetensors import safe_open
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

warnings.filterwarnings("ignore")
sharded, full = sys.argv[1:]
count = 0
for name in "model", "optimizer":
    folder = os.path.join(sharded, name)
    with safe_open(os.path.join(full, name + ".safetensors"), "pt") as file:
        wanted = {key: file.get_tensor(key) for key in file.keys()}
    got = {name: {key: torch.full_like(value, 7) for key, value in wanted.items()}}
    dcp.load(got, checkpoint_id=folder)
    keys = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata.keys()
    assert keys == {f"{name}.{key}" for key in wanted}, keys
    with tempfile.TemporaryDirectory() as scratch:  # without knowing what is in it
        dcp_to_torch_save(folder, os.path.join(scratch, "all"))
        everything = torch.load(os.path.join(scratch, "all"), weights_only=True)
    assert everything.keys() == got.keys() and everything[name].keys() == wanted.keys()
    for key, value in wanted.items():
        for read in got[name][key], everything[name][key]:
            assert read.dtype == value.dtype and torch.equal(read, value), key
        count += 1
print(count, "tensors")
