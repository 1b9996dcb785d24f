#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write fsdp2.json: what the original's `to-fsdp2` makes of configuration files.

Run with an installed accelerate: python3 make_fsdp2_goldens.py >fsdp2.json
Each case has the file's text, and either the error's kind, or the converted data and the keys that were told to be left
out.  Where a strategy stood as a number or in lower case, "original" is what the original writes, and the data what we
do.
"""

import argparse
import json
import logging
import os
import re
import tempfile

import yaml
from accelerate.commands import to_fsdp2

HEAD = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 4\n"
FULL = """fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_backward_prefetch: BACKWARD_PRE
  fsdp_cpu_ram_efficient_loading: true
  fsdp_forward_prefetch: false
  fsdp_offload_params: false
  fsdp_sharding_strategy: FULL_SHARD
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_sync_module_states: true
  fsdp_transformer_layer_cls_to_wrap: BertLayer,GPT2Block
  fsdp_use_orig_params: true
"""


def section(*lines):
    return HEAD + "fsdp_config:\n" + "".join(f"  {line}\n" for line in lines)


CASES = {
    "everything the questionnaire writes": HEAD + FULL,
    "the section first, others behind": FULL + HEAD,
    "SHARD_GRAD_OP": section("fsdp_sharding_strategy: SHARD_GRAD_OP"),
    "HYBRID_SHARD": section("fsdp_sharding_strategy: HYBRID_SHARD"),
    "HYBRID_SHARD_ZERO2": section("fsdp_sharding_strategy: HYBRID_SHARD_ZERO2"),
    "NO_SHARD": section("fsdp_sharding_strategy: NO_SHARD"),
    "a strategy in quotes": section("fsdp_sharding_strategy: 'FULL_SHARD'"),
    "a strategy by number": section("fsdp_sharding_strategy: 1"),
    "another by number": section("fsdp_sharding_strategy: 2"),
    "a strategy in lower case": section("fsdp_sharding_strategy: full_shard"),
    "a strategy under the new name": section("fsdp_version: 1", "fsdp_reshard_after_forward: SHARD_GRAD_OP"),
    "a truth value under the new name": section("fsdp_version: 1", "fsdp_reshard_after_forward: false"),
    "both names, the new one last": section("fsdp_sharding_strategy: FULL_SHARD", "fsdp_offload_params: true",
                                            "fsdp_reshard_after_forward: false"),
    "both names, the old one last": section("fsdp_reshard_after_forward: false", "fsdp_sharding_strategy: FULL_SHARD"),
    "only what is left out": section("fsdp_backward_prefetch: NO_PREFETCH", "fsdp_use_orig_params: false"),
    "null values": section("fsdp_auto_wrap_policy: null", "fsdp_sync_module_states: null", "fsdp_min_num_params: ~"),
    "numbers and truth values keep their type": section("fsdp_min_num_params: 2000", "fsdp_offload_params: yes",
                                                        "fsdp_activation_checkpointing: 'true'"),
    "version 1 said": section("fsdp_version: 1", "fsdp_sharding_strategy: FULL_SHARD"),
    "version 2 as a text": section("fsdp_version: '2'", "fsdp_sharding_strategy: FULL_SHARD"),
    "version 2 already": section("fsdp_version: 2", "fsdp_sharding_strategy: FULL_SHARD"),
    "version 2 as 0x2": section("fsdp_version: 0x2", "fsdp_use_orig_params: true"),
    "an empty section": HEAD + "fsdp_config: {}\n",
    "a null section": HEAD + "fsdp_config: null\n",
    "no section": HEAD + "debug: false\nmain_process_port: 29501\n",
    "other sections": HEAD + FULL + "deepspeed_config: {}\ndynamo_config:\n  dynamo_backend: INDUCTOR\n"
                      "tpu_env: []\nfp8_config:\n  override_linear_precision: [false, true, false]\n",
    "texts that look like something else": HEAD + FULL + "same_network: true\nrdzv_backend: 'static'\n"
                                           "main_process_ip: '10'\nmain_training_function: 'no'\n",
    "JSON inside YAML": '{"distributed_type": "FSDP", "fsdp_config": {"fsdp_use_orig_params": true, '
                        '"fsdp_sharding_strategy": "NO_SHARD"}}\n',
    "a comment and a document mark": "---\n# mine\n" + HEAD + FULL,
    "an empty file": "",
    "a comment alone": "# nothing\n",
}

OTHERWISE = {1: True, 2: False, "full_shard": True}


def run(text):
    """The case as the original sees it."""
    case = {"text": text}
    warnings = []
    handler = logging.Handler()
    handler.emit = lambda record: warnings.append(record.getMessage())
    to_fsdp2.logger.addHandler(handler)
    to_fsdp2.logger.propagate = False
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.yaml"), os.path.join(folder, "out.yaml")
        with open(source, "w") as file:
            file.write(text)
        try:
            to_fsdp2.to_fsdp2_command(
                argparse.Namespace(config_file=source, output_file=target, overwrite=False))
            with open(target) as file:
                case["data"] = yaml.safe_load(file)
        except Exception as error:
            case["error"] = type(error).__name__
    to_fsdp2.logger.removeHandler(handler)
    case["left_out"] = sorted(re.findall(r"Argument (\w+) ", " ".join(warnings)))
    return case


def main():
    for what, text in CASES.items():
        case = {"what": what, **run(text)}
        reshard = (case.get("data") or {}).get("fsdp_config") or {}
        value = reshard.get("fsdp_reshard_after_forward")
        if type(value) in (int, str):
            # FSDP 1 takes strategies by number and in lower case; what the original writes for them is not a truth value.
            case["original"] = value
            reshard["fsdp_reshard_after_forward"] = OTHERWISE[value]
        print(json.dumps(case, sort_keys=True))


if __name__ == "__main__":
    main()
