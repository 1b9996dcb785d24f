# SPDX-License-Identifier: Apache-2.0
#
# Random combinations of options, config files and machines for make_launch_goldens.py; the seed is fixed.

import random

import yaml

SEED = 20261121
COUNT = 250
MODES = [("", "NO"), ("--cpu", "MULTI_CPU"), ("--multi_gpu", "MULTI_GPU"), ("--use_deepspeed", "DEEPSPEED"),
         ("--use_fsdp", "FSDP"), ("--use_megatron_lm", "MEGATRON_LM")]
GROUP_OF = {"DEEPSPEED": "deepspeed", "FSDP": "fsdp", "MEGATRON_LM": "megatron"}
# Options whose effect is an early error on most paths would hide the rest; they have cases of their own.
LEFT_OUT = {"vm", "env", "no_python", "module", "tpu_cluster", "no_tpu_cluster", "main_training_function",
            "num_machines", "machine_rank", "gpu_ids", "main_process_ip", "main_process_port",
            "fp8_override_linear_precision"}


def pick(rng, table, flag, count):
    options = [o for o in table if o[0] not in LEFT_OUT]
    return [(o, rng.choice(v), s) for o, v, s in rng.sample(options, min(count, len(options)))]


def as_words(rng, option, value, flag):
    name = "--" + (option.replace("_", "-") if rng.random() < 0.3 else option)
    if value is flag:
        return [name]
    return [f"{name}={value}"] if rng.random() < 0.3 or value == "" else [name, value]


def as_yaml(value, flag):
    if value is flag:
        return True
    return value if value in ("no", "") else yaml.safe_load(value)


def machine_words(rng):
    n = rng.choice((2, 4))
    words = ["--num_machines", str(n), "--machine_rank", str(rng.randrange(n))]
    if rng.random() < 0.8:
        words += ["--main_process_ip", rng.choice(("10.0.0.1", "node0"))]
    if rng.random() < 0.7:
        words += ["--main_process_port", rng.choice(("29501", "6000"))]
    return words + (["--same_network"] if rng.random() < 0.4 else [])


def random_case(rng, n, tables, flag):
    mode_flag, dtype = rng.choice(MODES)
    words, config = [], None
    picks = pick(rng, tables["general"], flag, rng.randrange(4))
    if dtype not in ("NO", "MULTI_CPU"):
        picks += pick(rng, tables["elastic"], flag, rng.randrange(3))
    group = GROUP_OF.get(dtype)
    if group:
        picks += pick(rng, tables[group], flag, rng.randrange(1, 6))
    if any(o == "mixed_precision" and v == "fp8" for o, v, _ in picks):
        picks += pick(rng, tables["fp8"], flag, rng.randrange(1, 4))
    if dtype == "FSDP" and rng.random() < 0.5:
        picks += pick(rng, tables["parallel"], flag, rng.randrange(1, 4))
    if rng.random() < 0.6:
        config = {"distributed_type": dtype, "num_processes": rng.choice((1, 2, 4, 8))}
        if rng.random() < 0.3:
            words.append(mode_flag)
    else:
        words += [mode_flag] + (["--num_processes", rng.choice("248")] if rng.random() < 0.7 else [])
        if any(s == "parallelism_config" for _, _, s in picks) and rng.random() < 0.9:
            words.append("--use_parallelism_config")
    for option, value, section in picks:
        if config is None or section is None or rng.random() < 0.4:
            words += as_words(rng, option, value, flag)
        elif section == "":
            config[option] = as_yaml(value, flag)
        else:
            config.setdefault(section, {})[option] = as_yaml(value, flag)
    if rng.random() < 0.25:
        words += machine_words(rng)
    if rng.random() < 0.2:
        words += ["--gpu_ids", rng.choice(("0,1", "2", "all"))]
    script = rng.choice((["train.py"], ["train.py", "--epochs", "3"], ["-m", "pkg.train", "x"],
                         ["sub/t.py", "--", "-v"]))
    made = {"name": f"random.{n}", "args": [w for w in words if w] + script,
            "machine": {"gpus": rng.choice((0, 4))}, "files": {}, "env": {}}
    if config is not None:
        made["files"] = {"c.yaml": yaml.safe_dump(config, sort_keys=False)}
        made["args"] = ["--config_file", "c.yaml"] + made["args"]
    if rng.random() < 0.1:
        made["env"]["OMP_NUM_THREADS"] = rng.choice("48")
    return made


def random_cases(flag, tables):
    rng = random.Random(SEED)
    return [random_case(rng, n, tables, flag) for n in range(COUNT)]
