#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Run by config_schema.sh: config_schema.py ACCELERATE SCHEMA EXAMPLE...  Speaks TAP.

import json
import subprocess
import sys

import yaml
from jsonschema import Draft202012Validator

FSDP = "distributed_type: FSDP\nnum_processes: 2\n"
AWS = "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: a\niam_role_name: b\n"

GOOD = [
    "debug: yes\n",
    "debug: 'on'\nuse_cpu: 1\n",
    "num_processes: '4'\n",
    "num_processes: -1\ndistributed_type: 'NO'\n",
    "distributed_type: NO\nmixed_precision: no\n",
    "distributed_type: multi_cpu\nnum_processes: 2\n",
    "main_process_ip: null\nmain_process_port: null\n",
    "gpu_ids: 0\n",
    "gpu_ids: '0,1'\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: [true, no, 'false']}\n",
    FSDP + "fsdp_config: {fsdp_version: 2, fsdp_reshard_after_forward: true}\n",
    FSDP + "fsdp_config: {fsdp_version: '1', fsdp_reshard_after_forward: FULL_SHARD, fsdp_sharding_strategy: 1}\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {gradient_accumulation_steps: auto, zero_stage: 2}\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {gradient_clipping: 1.0e-5, zero_stage: 3}\n",
    "dynamo_config: {dynamo_backend: EAGER, dynamo_mode: max-autotune}\n",
    "fp16: true\n",
    "fsdp_config: {}\n",
    "fsdp_config: null\n",
    "tpu_env: []\ncommands: [a, b]\n",
    "grace: 5\nfailure_report: r.json\n",
    AWS + "distributed_type: null\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: false}\n",
    FSDP + "fsdp_config: {fsdp_backward_prefetch: BACKWARD_PRE}\n",
    FSDP + "fsdp_config: {fsdp_backward_prefetch_policy: BACKWARD_PRE}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, amax_history_length: 3}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: [true, false, true]}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: 'yes,no,1'}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: '(False, False, True)'}\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 2, fp16: {enabled: true}}\n",
]
BROKEN = [
    "num_processes: two\n",
    "num_processes: 2.5\n",
    "num_processes: 0\n",
    "num_processes: [1]\n",
    "num_processes: true\n",
    "num_procs: 2\n",
    "num_machines: 0\n",
    "machine_rank: -1\n",
    "main_process_port: 70000\n",
    "main_process_port: {a: 1}\n",
    "main_process_ip: yes\n",
    "debug: perhaps\n",
    "debug: 2\n",
    "use_cpu: [true]\n",
    "mixed_precision: fp61\n",
    "mixed_precision: 16\n",
    "distributed_type: TPU\n",
    "distributed_type: DATA_PARALLEL\n",
    "compute_environment: MOON\n",
    "region: eu\n",
    AWS + "num_processes: 2\n",
    AWS + "distributed_type: FSDP\n",
    FSDP + "fsdp_config: [a]\n",
    FSDP + "fsdp_config: text\n",
    FSDP + "fsdp_config: {fsdp_versoin: 2}\n",
    FSDP + "fsdp_config: {fsdp_version: 3}\n",
    FSDP + "fsdp_config: {fsdp_auto_wrap_policy: TRANSFORMER_WRAP}\n",
    FSDP + "fsdp_config: {fsdp_state_dict_type: SHARDED_DICT}\n",
    FSDP + "fsdp_config: {fsdp_offload_params: maybe}\n",
    FSDP + "fsdp_config: {machine_rank: 0}\n",
    "fsdp_version: 2\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 4}\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {gradient_accumulation_steps: many}\n",
    "dynamo_config: {dynamo_backend: fast}\n",
    "mixed_precision: fp8\nfp8_config: {backend: XX}\n",
    "mixed_precision: fp8\nfp8_config: {override_linear_precision: [true]}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: [true, false]}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: some}\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: 'yes,no'}\n",
    "num_machines: '-5'\n",
    "mixed_precision: fp8\nfp8_config: {backend: TE, override_linear_precision: [true, false, true, false]}\n",
    "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {ccumulation_steps: 2}\n",
    "dry_run: true\n",
    "tpu_vm: {a: b}\n",
    "gpu_ids: {a: b}\n",
    "grace: -5\n",
]


def read(path):
    with open(path) as file:
        return json.load(file) if path.endswith(".json") else yaml.safe_load(file)


def lint_finds_fault(accelerate, text):
    with open("case.yaml", "w") as file:
        file.write(text)
    done = subprocess.run([accelerate, "config", "lint", "case.yaml"], capture_output=True, timeout=300)
    assert done.returncode in (0, 1), done
    return done.returncode == 1


def main():
    accelerate, schema_file, *examples = sys.argv[1:]
    schema = read(schema_file)
    count = failures = 0

    def ok(is_right, name):
        nonlocal count, failures
        count += 1
        failures += not is_right
        print(f"{'ok' if is_right else 'not ok'} {count} - {name}", flush=True)

    Draft202012Validator.check_schema(schema)
    ok(schema["$schema"].endswith("2020-12/schema"), "it is a schema of draft 2020-12")
    with open(schema_file) as file:
        ok(file.read().startswith("{\n  "), "with lines that people can read")
    validator = Draft202012Validator(schema)
    for path in examples:
        ok(validator.is_valid(read(path)), "accepts " + path.rsplit("/", 1)[-1])
    ok(len(examples) >= 14, "these are all examples")
    for text in GOOD:
        ok(validator.is_valid(yaml.safe_load(text)), "accepts " + json.dumps(text))
        ok(not refused(accelerate, text), "as the command does")
    for text in BROKEN:
        ok(not validator.is_valid(yaml.safe_load(text)), "rejects " + json.dumps(text))
        ok(lint_finds_fault(accelerate, text), "as lint does")
    ok(len(BROKEN) >= 30, "at least 30 broken ones")
    keys = {key for key, value in schema["properties"].items() if isinstance(value, dict)}
    ok(all("description" in schema["properties"][key] or "properties" in schema["properties"][key] for key in keys),
       "every key is described")
    print(f"1..{count}")
    return failures != 0


def refused(accelerate, text):
    """Whether the command cannot read it; what lint thinks useless may be right all the same."""
    with open("case.yaml", "w") as file:
        file.write(text)
    return subprocess.run([accelerate, "config", "show", "--config_file", "case.yaml"], capture_output=True,
                          timeout=300).returncode != 0


if __name__ == "__main__":
    sys.exit(main())
