# SPDX-License-Identifier: Apache-2.0
#
# Config files for make_config_goldens.py: every key and section, environment and distributed type in both formats, old
# keys, scalars of every sort, and the ways in which YAML and JSON can be written.

import json

NO = "distributed_type: 'NO'\n"
AWS = {"compute_environment": "AMAZON_SAGEMAKER", "ec2_instance_type": "ml.p3.2xlarge", "iam_role_name": "role"}

MACHINE_TYPES = ["NO", "MULTI_CPU", "MULTI_GPU", "MULTI_XPU", "MULTI_HPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA",
                 "MULTI_MUSA", "MULTI_NEURON", "XLA", "DEEPSPEED", "FSDP", "MEGATRON_LM"]
TOP = {
    "mixed_precision": "bf16", "use_cpu": True, "debug": True, "num_processes": 4, "machine_rank": 1,
    "num_machines": 2, "gpu_ids": "0,1", "main_process_ip": "10.0.0.1", "main_process_port": 29501,
    "rdzv_backend": "c10d", "same_network": True, "main_training_function": "train", "enable_cpu_affinity": True,
    "downcast_bf16": "yes", "tpu_name": "t", "tpu_zone": "us-central1-a", "tpu_use_cluster": True,
    "tpu_use_sudo": True, "command_file": "/tmp/c.sh", "commands": ["ls", "a: b"], "tpu_vm": ["v1", "v2"],
    "tpu_env": ["A=1", "B=no"],
}
SECTIONS = {
    "fp8_config": {"fp8_backend": "TE", "fp8_format": "E4M3", "fp8_margin": 1, "fp8_interval": 2,
                   "fp8_amax_history_len": 32, "fp8_amax_compute_algo": "max", "fp8_opt_level": "O1",
                   "fp8_use_autocast_during_eval": True, "fp8_override_linear_precision": [True, False, True],
                   "fp8_enable_fsdp_float8_all_gather": False, "fp8_pad_inner_dim": False},
    "deepspeed_config": {"deepspeed_config_file": "ds.json", "zero_stage": 2, "offload_optimizer_device": "cpu",
                         "offload_param_device": "nvme", "offload_optimizer_nvme_path": "/n",
                         "offload_param_nvme_path": "/m", "gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
                         "zero3_init_flag": True, "zero3_save_16bit_model": False, "deepspeed_hostfile": "h",
                         "deepspeed_exclusion_filter": "a@b:0", "deepspeed_inclusion_filter": "c:1",
                         "deepspeed_multinode_launcher": "standard", "deepspeed_moe_layer_cls_names": "M,N"},
    "fsdp_config": {"fsdp_version": 2, "fsdp_offload_params": True, "fsdp_min_num_params": 2000,
                    "fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_reshard_after_forward": False,
                    "fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_transformer_layer_cls_to_wrap": "A,B",
                    "fsdp_backward_prefetch": "BACKWARD_PRE", "fsdp_state_dict_type": "SHARDED_STATE_DICT",
                    "fsdp_forward_prefetch": True, "fsdp_use_orig_params": True,
                    "fsdp_cpu_ram_efficient_loading": False, "fsdp_sync_module_states": True,
                    "fsdp_activation_checkpointing": True},
    "megatron_lm_config": {"megatron_lm_tp_degree": 2, "megatron_lm_pp_degree": 2,
                           "megatron_lm_num_micro_batches": 8, "megatron_lm_sequence_parallelism": True,
                           "megatron_lm_recompute_activations": False, "megatron_lm_use_distributed_optimizer": True,
                           "megatron_lm_gradient_clipping": 1.0e-5},
    "parallelism_config": {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 2,
                           "parallelism_config_tp_size": 2, "parallelism_config_cp_size": 1,
                           "parallelism_config_cp_comm_strategy": "allgather"},
    "mpirun_config": {"mpirun_hostfile": "/h", "mpirun_ccl": "1"},
    "dynamo_config": {"dynamo_backend": "INDUCTOR", "dynamo_mode": "max-autotune", "dynamo_use_dynamic": True,
                      "dynamo_use_fullgraph": False, "dynamo_use_regional_compilation": True},
}
SAGEMAKER = {
    "image_uri": "i:1", "profile": "p", "region": "eu-west-1", "num_machines": 2, "gpu_ids": "all",
    "base_job_name": "b", "pytorch_version": "2.0", "transformers_version": "4.30", "py_version": "py310",
    "sagemaker_inputs_file": "in.tsv", "sagemaker_metrics_file": "m.tsv", "use_cpu": True, "debug": True,
    "mixed_precision": "fp16", "enable_cpu_affinity": True, "dynamo_config": {"dynamo_backend": "EAGER"},
    "additional_args": {"role": None, "tags": [{"Key": "a", "Value": "no"}], "n": {"deep": {"x": 1.5, "y": []}},
                        "e": {}, "max_run": 86400, "spot": True},
}
OLD = {"fp16": True, "dynamo_backend": "EAGER", "ipex_config": {"ipex": True}, "tpu_cluster": True,
       "use_megatron_lm": True, "deepspeed_hostfile": "h", "cpu": True, "fsdp_sharding_strategy": 1}

# values of a text key, as YAML has them
SCALARS = ["no", "No", "'no'", "yes", "on", "~", "null", "'null'", "''", "0", "0123", "'0123'", "0o17", "0x1F",
           "0b11", "1_000", "1e3", "'1e3'", "1.0e3", "1.0e+3", "1.5", "'1.5'", ".5", "5.", ".inf", "-.inf", ".nan",
           "12:30", "12:30:45", "1.2.3.4", "::1", "fe80::1", "0,1", "1,000", "2020-01-02", "'2020-01-02'",
           "2020-01-02T03:04:05Z", "18446744073709551616", "-0", "+1", "=", "'='", "'<<'", "é", "\"\\u00e9\"",
           "\"\\x07\"", "\"\\0\"", "\"a\\nb\"", "'a  b'", "'  a'", "a#b", "a #b", "'a #b'", "a: b", "'a: b'", "a:b",
           "- a", "-a", "'- a'", "?a", "'@a'", "@a", "`a", "'`a'", "%a", "'%a'", "!a", "'!a'", "&a b", "'&a'", "*a",
           "'*a'", "{a", "'{a'", "'[a]'", "|", ">", "a'b", "'a''b'", "\"a\\\"b\"", "a\\b", "C:\\x", "~/x", "512MB",
           "!!str no", "!!str 12", "!!int '3'", "!!float 1", "!!float '1e3'", "!!bool yes", "!!null ''", "! 12",
           "!!binary aGk=", "!!set {a}", "!!timestamp 2020-01-02", "!!python/none x", "!local x", "😀", "'😀'",
           "\"\\U0001F600\"", "a\u0085b", "'a\u2028b'", "\u00a0x", "\"\\ta\"", "'a\tb'", "---", "'---'", "...", "'...'"]

STYLES = [
    ("comments", "# first\n\n" + NO + "  # inner\ndebug: true # behind\n#last"),
    ("flow", "{distributed_type: 'NO', fsdp_config: {fsdp_version: 2}, commands: [a, b], }\n"),
    ("flow.lines", "{\n  distributed_type: 'NO',\n  tpu_env: [\n    A=1,\n    'B'\n  ]\n}\n"),
    ("block.literal", NO + "command_file: |\n  a\n   b\n\n  c\n"),
    ("block.strip", NO + "command_file: |-\n  a\n  b\n"),
    ("block.keep", NO + "command_file: |+\n  a\n\n\n"),
    ("block.folded", NO + "command_file: >\n  a\n  b\n\n  c\n"),
    ("block.folded.strip", NO + "command_file: >-\n  a\n  b\n"),
    ("block.indent", NO + "command_file: |2\n    a\n   b\n"),
    ("plain.lines", NO + "command_file: a\n  b\n  c\n"),
    ("quoted.lines", NO + "command_file: 'a\n  b\n\n  c'\n"),
    ("double.lines", NO + "command_file: \"a\\\n  b\\n\n  c\"\n"),
    ("quoted.keys", "'distributed_type': 'NO'\n\"debug\": true\n"),
    ("escaped.key", "\"distributed\\x5ftype\": 'NO'\n"),
    ("explicit.keys", "? distributed_type\n: 'NO'\n? debug\n: true\n"),
    ("key.blank", "distributed_type : 'NO'\n"),
    ("key.only", NO + "tpu_name\n"),
    ("key.null", NO + "? \n: a\n"),
    ("key.bool", NO + "yes: 1\n"),
    ("key.list", NO + "? [a, b]\n: c\n"),
    ("key.merge.inline", NO + "fsdp_config:\n  <<: {fsdp_version: 2}\n"),
    ("key.merge.list", NO + "fsdp_config: &a {fsdp_version: 2}\nmpirun_config:\n  <<: [*a]\n"),
    ("key.merge.quoted", NO + "fsdp_config:\n  '<<': 1\n"),
    ("anchor.scalar", NO + "tpu_name: &n t\ntpu_zone: *n\n"),
    ("anchor.unused", NO + "tpu_name: &n t\n"),
    ("anchor.unknown", NO + "tpu_name: *n\n"),
    ("anchor.list", NO + "tpu_vm: &l [a, b]\ntpu_env: *l\n"),
    ("anchor.itself", NO + "fsdp_config: &a {x: *a}\n"),
    ("document.start", "---\n" + NO),
    ("document.end", NO + "...\n"),
    ("document.directive", "%YAML 1.1\n---\n" + NO),
    ("document.directive.12", "%YAML 1.2\n---\n" + NO),
    ("document.directive.20", "%YAML 2.0\n---\n" + NO),
    ("document.tag", "%TAG !e! tag:e,2000:\n---\n" + NO),
    ("document.empty.second", NO + "---\n"),
    ("document.two.ends", NO + "...\n...\n"),
    ("blank.lines", "\n\n" + NO + "\n\n\ndebug: true\n\n"),
    ("blank.only", "   \n\n"),
    ("null.only", "null\n"),
    ("map.empty", "{}\n"),
    ("number.only", "1\n"),
    ("bom.comment", "\ufeff# x\n" + NO),
    ("bom.twice", "\ufeff\ufeff" + NO),
    ("bom.inside", NO + "\ufeffdebug: true\n"),
    ("crlf.all", (NO + "fsdp_config:\n  fsdp_version: 2\ncommands:\n- a\n- |\n  b\n  c\n").replace("\n", "\r\n")),
    ("cr.only", NO.replace("\n", "\r") + "debug: true\r"),
    ("nel", NO.replace("\n", "\u0085") + "debug: true\n"),
    ("no.end", "distributed_type: 'NO'\ndebug: true"),
    ("indented", "  distributed_type: 'NO'\n  debug: true\n"),
    ("indent.wrong", NO + " debug: true\n"),
    ("indent.list", NO + "commands:\n    - a\n    - b\n"),
    ("tab.value", NO + "debug:\ttrue\n"),
    ("tab.comment", NO + "\t# x\n"),
    ("tab.blank", NO + "\t\ndebug: true\n"),
    ("nul", NO + "debug: \0\n"),
    ("bell", NO + "tpu_name: \a\n"),
    ("delete", NO + "tpu_name: \x7f\n"),
    ("truncated.quote", NO + "tpu_name: 'a\n"),
    ("truncated.flow", NO + "commands: [a,\n"),
    ("truncated.map", NO + "fsdp_config: {a: 1\n"),
    ("truncated.key", NO + "tpu_na"),
    ("bracket.extra", NO + "commands: [a]]\n"),
    ("colon.twice", NO + "tpu_name: a: b\n"),
    ("dash.inside", NO + "commands: - a\n"),
    ("duplicate.same", NO + NO),
    ("duplicate.other", NO + "num_machines: 1\nnum_machines: 2\n"),
    ("duplicate.section", NO + "fsdp_config: {fsdp_version: 2}\nfsdp_config: {fsdp_version: 1}\n"),
    ("duplicate.inner", NO + "fsdp_config: {fsdp_version: 2, fsdp_version: 1}\n"),
    ("nested.top", NO + "num_machines: {a: {b: 1}}\n"),
    ("nested.section", NO + "fsdp_config: {fsdp_version: {a: 1}}\n"),
    ("list.top", NO + "num_machines: [1]\n"),
    ("list.section", NO + "fsdp_config: [fsdp_version]\n"),
    ("list.type", "distributed_type: ['NO']\n"),
    ("list.environment", NO + "compute_environment: [LOCAL_MACHINE]\n"),
    ("list.null", NO + "tpu_env: [null]\n"),
    ("list.nested", NO + "commands: [[a]]\n"),
    ("list.text", NO + "commands: a\n"),
    ("list.number", NO + "tpu_vm: [0123, '0123', 1.50, no, 'no', 1e3]\n"),
    ("long.words", NO + "command_file: " + "word " * 40 + "end\n"),
    ("long.word", NO + "command_file: " + "x" * 300 + "\n"),
    ("long.unicode", NO + "command_file: " + "wört " * 40 + "end\n"),
    ("long.quoted", NO + "command_file: '" + "a: b " * 40 + "end'\n"),
    ("long.quote", NO + "command_file: \"" + "it's # " * 40 + "end\"\n"),
    ("long.double", NO + "command_file: \"" + "a\\tb " * 40 + "end\"\n"),
    ("long.blanks", NO + "command_file: 'a" + " " * 100 + "b'\n"),
    ("lines.text", NO + "command_file: \"a\\nb c\\n  d\\n\\ne\\n\"\n"),
    ("lines.dash", NO + "command_file: \"- a\\n- b\"\n"),
]

JSON_TEXTS = [
    ("float", '{"distributed_type": "NO", "deepspeed_config": {"gradient_clipping": 1e-5}}'),
    ("float.large", '{"distributed_type": "NO", "deepspeed_config": {"gradient_clipping": 1E400}}'),
    ("float.whole", '{"distributed_type": "NO", "deepspeed_config": {"gradient_clipping": 1.0}}'),
    ("nan.text", '{"distributed_type": "NO", "tpu_name": NaN, "tpu_zone": Infinity, "command_file": -Infinity}'),
    ("integer.large", '{"distributed_type": "NO", "tpu_name": 123456789012345678901234567890}'),
    ("integer.zero", '{"distributed_type": "NO", "tpu_name": -0}'),
    ("integer.plus", '{"distributed_type": "NO", "tpu_name": +1}'),
    ("integer.leading", '{"distributed_type": "NO", "tpu_name": 01}'),
    ("integer.hex", '{"distributed_type": "NO", "tpu_name": 0x1}'),
    ("float.half", '{"distributed_type": "NO", "tpu_name": .5}'),
    ("float.dot", '{"distributed_type": "NO", "tpu_name": 5.}'),
    ("text.empty", '{"distributed_type": "NO", "tpu_name": ""}'),
    ("text.escapes", '{"distributed_type": "NO", "tpu_name": "\\/\\b\\f\\n\\r\\t\\u0041\\u007f\\u0080"}'),
    ("text.raw", '{"distributed_type": "NO", "tpu_name": "é😀\u2028\x7f"}'),
    ("text.control", '{"distributed_type": "NO", "tpu_name": "a\tb"}'),
    ("text.nul", '{"distributed_type": "NO", "tpu_name": "a\\u0000b"}'),
    ("text.half", '{"distributed_type": "NO", "tpu_name": "\\ud83d"}'),
    ("text.yes", '{"distributed_type": "NO", "tpu_name": "yes", "tpu_zone": "1e3", "command_file": "0123"}'),
    ("text.wrong", '{"distributed_type": "NO", "tpu_name": "\\q"}'),
    ("single", "{'distributed_type': 'NO'}"),
    ("comment", '{"distributed_type": "NO"} // x'),
    ("two", '{"distributed_type": "NO"}{"a": 1}'),
    ("bom", '\ufeff{"distributed_type": "NO"}'),
    ("null", '{"distributed_type": "NO", "gpu_ids": null, "fsdp_config": null}'),
    ("nulls.inner", '{"distributed_type": "NO", "fsdp_config": {"fsdp_version": null}}'),
    ("lists", '{"distributed_type": "NO", "commands": [], "tpu_vm": ["a"]}'),
    ("spaces", ' \t\r\n{ "distributed_type" :\t"NO" , "debug" : true } \n'),
    ("truncated", '{"distributed_type": "NO"'),
    ("truncated.text", '{"distributed_type": "NO'),
    ("word", '{"distributed_type": "NO", "debug": True}'),
    ("only.null", 'null'),
]


def yaml_of(top):
    """Plain YAML, as a user would type it."""
    out = []
    for key, value in top.items():
        out.append(f"{key}: {json.dumps(value)}\n")
    return "".join(out)


def both(name, top):
    yield name, "c.yaml", yaml_of(top)
    yield name + ".json", "c.json", json.dumps(top)


def all_cases():
    for kind in MACHINE_TYPES:
        yield from both(f"type={kind}", {"distributed_type": kind})
    yield from both("type=4", {"distributed_type": "MULTI_GPU", "num_processes": 4, "gpu_ids": "all"})
    for kind in ("NO", "DATA_PARALLEL", "MODEL_PARALLEL", "FSDP"):
        yield from both(f"aws.type={kind}", AWS | {"distributed_type": kind})
    for kind in ("DATA_PARALLEL", "MODEL_PARALLEL"):
        yield from both(f"type={kind}", {"distributed_type": kind})
    for key, value in TOP.items():
        yield from both(f"top.{key}", {"distributed_type": "MULTI_GPU", key: value})
        yield f"top.{key}.null", "c.yaml", f"distributed_type: FSDP\n{key}:\n"
        yield f"aws.top.{key}", "c.yaml", yaml_of(AWS | {"distributed_type": "DATA_PARALLEL", key: value})
    for section, keys in SECTIONS.items():
        yield from both(f"section.{section}", {"distributed_type": "MULTI_GPU", section: keys})
        yield f"section.{section}.nulls", "c.yaml", yaml_of({"distributed_type": "NO", section: dict.fromkeys(keys)})
        yield f"section.{section}.aws", "c.yaml", yaml_of(AWS | {"distributed_type": "DATA_PARALLEL", section: keys})
        yield f"section.{section}.list", "c.yaml", NO + f"{section}: [a]\n"
    for key, value in SAGEMAKER.items():
        yield from both(f"aws.key.{key}", AWS | {"distributed_type": "DATA_PARALLEL", key: value})
        yield f"key.{key}.aws", "c.yaml", yaml_of({"distributed_type": "NO", key: value})
    yield from both("aws.everything", AWS | {"distributed_type": "MODEL_PARALLEL"} | SAGEMAKER)
    yield from both("everything", {"distributed_type": "FSDP"} | TOP | SECTIONS)
    for key, value in OLD.items():
        yield from both(f"old={key}", {"distributed_type": "MULTI_GPU", "num_processes": 2, key: value})
    yield from both("aws.old", AWS | {"distributed_type": "DATA_PARALLEL", "fp16": True, "dynamo_backend": "EAGER"})
    for i, text in enumerate(SCALARS):
        yield f"scalar.{i}", "c.yaml", NO + f"tpu_name: {text}\n"
        yield f"scalar.{i}.item", "c.yaml", NO + f"commands:\n- {text}\n"
    for name, text in STYLES:
        yield f"style.{name}", "c.yaml", text
    for name, text in JSON_TEXTS:
        yield f"json.{name}", "c.json", text


CASES = list(all_cases())
