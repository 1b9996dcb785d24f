# SPDX-License-Identifier: Apache-2.0
#
# The cases of make_launch_goldens.py: hand-written ones by theme, tables of every option, and random ones.
# A case is a dict: name, args (without `launch`), machine, files, env.

import yaml

from launch_random import random_cases

CASES = []
GPU4 = {"gpus": 4}
TPU = {"tpu": True}
LEFT_OUT = ("no_python", "tpu_cluster", "num_processes", "main_process_port")
FLAG = object()  # an option without a value


def case(name, args, config=None, env=None, machine=None, files=None, json_text=None):
    """args: text split at blanks, or a list; the script is added if no .py word is there.
    config: mapping or YAML text of c.yaml, which --config_file then names."""
    args = args.split() if isinstance(args, str) else list(args)
    files = dict(files or {})
    if config is not None:
        files["c.yaml"] = config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False)
        args = ["--config_file", "c.yaml"] + args
    if json_text is not None:
        files["c.json"] = json_text
        args = ["--config_file", "c.json"] + args
    if not any(a.endswith(".py") for a in args):
        args.append("train.py")
    CASES.append({"name": name, "args": args, "machine": machine or {}, "files": files, "env": env or {}})


# ---- every option: name, values (FLAG = none), config section ("" = top level, None = no key) -------------------

GENERAL = [
    ("mixed_precision", ["no", "fp16", "bf16", "fp8"], ""),
    ("num_processes", ["1", "3"], ""),
    ("num_machines", ["1"], ""),
    ("num_cpu_threads_per_process", ["1", "6", "0"], None),
    ("enable_cpu_affinity", [FLAG], ""),
    ("dynamo_backend", ["no", "inductor", "eager", "aot_ts_nvfuser", "tensorrt"], "dynamo_config"),
    ("dynamo_mode", ["default", "reduce-overhead", "max-autotune"], "dynamo_config"),
    ("dynamo_use_fullgraph", [FLAG], "dynamo_config"),
    ("dynamo_use_dynamic", [FLAG], "dynamo_config"),
    ("dynamo_use_regional_compilation", [FLAG], "dynamo_config"),
    ("debug", [FLAG], ""),
    ("quiet", [FLAG], None),
    ("module", [FLAG], None),
    ("no_python", [FLAG], None),
    ("gpu_ids", ["0,2", "all", "1"], ""),
    ("machine_rank", ["0", "1"], ""),
    ("main_process_ip", ["10.0.0.1", "node-0.example"], ""),
    ("main_process_port", ["29501", "0", "65535", "-1"], ""),
    ("aws_access_key_id", ["AK"], None),
    ("aws_secret_access_key", ["SK"], None),
    ("main_training_function", ["run"], ""),
    ("tpu_use_sudo", [FLAG], ""),
    ("vm", ["a"], None),
    ("env", ["A=b"], None),
    ("downcast_bf16", [FLAG], ""),
    ("tpu_cluster", [FLAG], None),
    ("no_tpu_cluster", [FLAG], None),
]
ELASTIC = [
    ("same_network", [FLAG], ""),
    ("tee", ["0", "1", "2", "3", "0:1,1:3"], None),
    ("log_dir", ["logs", "/dev/null"], None),
    ("role", ["trainer"], None),
    ("rdzv_backend", ["static", "c10d"], ""),
    ("rdzv_conf", ["timeout=30", "timeout=30,join_timeout=60"], None),
    ("max_restarts", ["0", "3"], None),
    ("monitor_interval", ["1", "0.5", "1e-3"], None),
]
DEEPSPEED = [
    ("deepspeed_config_file", ["ds.json"], "deepspeed_config"),
    ("zero_stage", ["0", "1", "2", "3"], "deepspeed_config"),
    ("offload_optimizer_device", ["none", "cpu", "NVME"], "deepspeed_config"),
    ("offload_param_device", ["none", "CPU", "nvme"], "deepspeed_config"),
    ("offload_optimizer_nvme_path", ["/nvme"], "deepspeed_config"),
    ("offload_param_nvme_path", ["/nvme"], "deepspeed_config"),
    ("gradient_accumulation_steps", ["1", "4"], "deepspeed_config"),
    ("gradient_clipping", ["1", "0.5", "1e-5", "inf"], "deepspeed_config"),
    ("zero3_init_flag", ["true", "False"], "deepspeed_config"),
    ("zero3_save_16bit_model", ["True", "false"], "deepspeed_config"),
    ("deepspeed_hostfile", ["hosts"], "deepspeed_config"),
    ("deepspeed_exclusion_filter", ["n1:0"], "deepspeed_config"),
    ("deepspeed_inclusion_filter", ["n1:0,1"], "deepspeed_config"),
    ("deepspeed_multinode_launcher", ["pdsh", "standard", "nonsense"], "deepspeed_config"),
    ("deepspeed_moe_layer_cls_names", ["A,B"], "deepspeed_config"),
]
FSDP = [
    ("fsdp_version", ["1", "2"], "fsdp_config"),
    ("fsdp_offload_params", ["true", "False"], "fsdp_config"),
    ("fsdp_min_num_params", ["2000"], "fsdp_config"),
    ("fsdp_sharding_strategy", ["SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "2"], "fsdp_config"),
    ("fsdp_reshard_after_forward", ["False", "true", "FULL_SHARD"], "fsdp_config"),
    ("fsdp_auto_wrap_policy", ["TRANSFORMER_BASED_WRAP", "NO_WRAP"], "fsdp_config"),
    ("fsdp_transformer_layer_cls_to_wrap", ["BertLayer,T5Block"], "fsdp_config"),
    ("fsdp_backward_prefetch", ["BACKWARD_PRE", "no_prefetch"], "fsdp_config"),
    ("fsdp_state_dict_type", ["SHARDED_STATE_DICT", "FULL_STATE_DICT"], "fsdp_config"),
    ("fsdp_forward_prefetch", ["True"], "fsdp_config"),
    ("fsdp_use_orig_params", ["False"], "fsdp_config"),
    ("fsdp_cpu_ram_efficient_loading", ["False"], "fsdp_config"),
    ("fsdp_sync_module_states", ["False"], "fsdp_config"),
    ("fsdp_activation_checkpointing", ["TRUE"], "fsdp_config"),
    ("fsdp_activation_checkpointing_offload", ["True"], "fsdp_config"),
]
MEGATRON = [
    ("tp_degree", ["2"]), ("use_custom_fsdp", ["True", "False", ""]), ("no_load_optim", ["true"]),
    ("eod_mask_loss", ["1"]), ("overlap_cpu_optimizer_d2h_h2d", ["no"]), ("no_save_optim", ["0"]),
    ("optimizer_cpu_offload", ["yes"]), ("use_precision_aware_optimizer", ["x"]),
    ("decoder_last_pipeline_num_layers", ["3"]), ("pp_degree", ["4"]), ("num_micro_batches", ["8"]),
    ("sequence_parallelism", ["true"]), ("recompute_activations", ["False"]), ("use_distributed_optimizer", ["true"]),
    ("gradient_clipping", ["0.5", "2", "1e-7"]), ("recompute_granularity", ["full"]), ("recompute_method", ["block"]),
    ("recompute_num_layers", ["2"]), ("attention_backend", ["true"]), ("expert_model_parallel_size", ["2"]),
    ("context_parallel_size", ["2"]), ("attention_dropout", ["0.1", "0"]), ("hidden_dropout", ["1e5"]),
    ("attention_softmax_in_fp32", ["true"]), ("expert_tensor_parallel_size", ["1"]),
    ("calculate_per_token_loss", ["true"]), ("use_rotary_position_embeddings", ["false"]),
]
FP8 = [
    ("fp8_backend", ["ao", "te", "msamp"], "fp8_config"),
    ("fp8_use_autocast_during_eval", [FLAG], "fp8_config"),
    ("fp8_margin", ["3"], "fp8_config"),
    ("fp8_interval", ["5"], "fp8_config"),
    ("fp8_format", ["HYBRID", "E4M3", "E5M2"], "fp8_config"),
    ("fp8_amax_history_len", ["16"], "fp8_config"),
    ("fp8_amax_compute_algo", ["max", "most_recent"], "fp8_config"),
    ("fp8_override_linear_precision", ["true,no,1", "F,F,T"], "fp8_config"),
    ("fp8_opt_level", ["O1"], "fp8_config"),
    ("fp8_enable_fsdp_float8_all_gather", ["no", "true"], "fp8_config"),
    ("fp8_pad_inner_dim", ["0", "YES"], "fp8_config"),
]
PARALLEL = [
    ("dp_replicate_size", ["2"]), ("dp_shard_size", ["4"]), ("tp_size", ["2"]), ("cp_size", ["2"]),
    ("cp_backend", ["torch"]), ("cp_comm_strategy", ["alltoall"]), ("sp_size", ["2"]), ("sp_backend", ["deepspeed"]),
    ("sp_seq_length", ["512"]), ("sp_seq_length_is_variable", ["False", "", "true"]),
    ("sp_attn_implementation", ["flash_attention_2"]),
]


def yaml_value(text):
    if text is FLAG:
        return True
    return yaml.safe_load(text) if text not in ("", "no") else text


def by_flag(option, values, before, machine, n):
    for i, value in enumerate(values):
        spelled = "--" + (option.replace("_", "-") if (n + i) % 3 == 1 else option)
        words = [spelled] if value is FLAG else [spelled, value]
        if value is not FLAG and (n + i) % 4 == 2:
            words = [f"{spelled}={value}"]
        tag = "" if value is FLAG else "=" + value
        case(f"flag.{option}{tag}", before.split() + words, machine=machine)


def by_file(option, key, values, section, dtype, machine, extra=None):
    for value in values[:2]:
        value = yaml_value(value)
        config = {"distributed_type": dtype, "num_processes": 2, **(extra or {})}
        if section:
            config.setdefault(section, {})[key] = value
        else:
            config[key] = value
        case(f"file.{section or 'top'}.{option}={value}", "", config, machine=machine)


def option_tables():
    for n, (option, values, section) in enumerate(GENERAL):
        by_flag(option, values, "", {}, n)
        if section is not None:
            by_file(option, option, values, section, "NO", {})
            by_file(option + "(gpu)", option, values[:1], section, "MULTI_GPU", GPU4)
    for n, (option, values, section) in enumerate(ELASTIC):
        by_flag(option, values, "--multi_gpu --num_processes 2", GPU4, n)
        if section is not None:
            by_file(option, option, values, section, "MULTI_GPU", GPU4)
    for n, (option, values, section) in enumerate(DEEPSPEED):
        by_flag(option, values, "--use_deepspeed", GPU4, n)
        by_file(option, option, values, section, "DEEPSPEED", GPU4)
    for n, (option, values, section) in enumerate(FSDP):
        by_flag(option, values, "--use_fsdp", GPU4, n)
        short = option[5:] if n % 2 else option
        by_file(option, short, values, section, "FSDP", GPU4)
    case("file.fsdp_config.ignored_modules", "",
         {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {"fsdp_ignored_modules": "a|b"}}, machine=GPU4)
    for n, (option, values) in enumerate(MEGATRON):
        by_flag("megatron_lm_" + option, values, "--use_megatron_lm", GPU4, n)
        by_file("megatron_lm_" + option, "megatron_lm_" + option, values, "megatron_lm_config", "MEGATRON_LM", GPU4)
    for n, (option, values, section) in enumerate(FP8):
        by_flag(option, values, "--mixed_precision fp8", {}, n)
        if option != "fp8_override_linear_precision":
            key = option[4:] if option != "fp8_format" else option
            by_file(option, key, values, section, "NO", {}, {"mixed_precision": "fp8"})
    for n, (option, values) in enumerate(PARALLEL):
        name = "parallelism_config_" + option
        extra = " --parallelism_config_cp_size 2 --parallelism_config_sp_size 2" if "size" not in option else ""
        by_flag(name, values, "--use_fsdp --fsdp_version 2 --use_parallelism_config" + extra, GPU4, n)
        sizes = {"parallelism_config_cp_size": 2, "parallelism_config_sp_size": 2} if extra else {}
        by_file(name, name, values, "parallelism_config", "FSDP", GPU4,
                {"parallelism_config": dict(sizes), "fsdp_config": {"fsdp_version": 2}})


# ---- themes ----------------------------------------------------------------------------------------------------

def everything_by_flag():
    """All options of a group at once, in both spellings."""
    plain = {"general": ("--num_processes 2", GENERAL, LEFT_OUT), "elastic": ("--multi_gpu --num_processes 2", ELASTIC,
             ()),
             "deepspeed": ("--use_deepspeed --num_processes 2", DEEPSPEED, ()), "fsdp": ("--use_fsdp", FSDP, ()),
             "megatron": ("--use_megatron_lm", [("megatron_lm_" + o, v, "") for o, v in MEGATRON], ()),
             "fp8": ("--mixed_precision fp8", FP8, ()),
             "parallel": ("--use_fsdp --fsdp_version 2 --use_parallelism_config",
                          [("parallelism_config_" + o, v, "") for o, v in PARALLEL], ())}
    for group, (before, table, without) in plain.items():
        for hyphens in (False, True):
            words = before.split()
            for option, values, _ in table:
                if option not in without:
                    words += ["--" + option] + ([] if values[-1] is FLAG else [values[-1]])
            if hyphens:
                words = ["--" + w[2:].replace("_", "-") if w.startswith("--") else w for w in words]
            case(f"everything.{group}" + (".hyphens" if hyphens else ""), words, machine=GPU4)
    case("everything.tpu.hyphens", "--tpu --main-training-function main --no-tpu-cluster --num-machines 1", machine=TPU)
    case("hyphens.config", "--config-file d.yaml", files={"d.yaml": "distributed_type: 'NO'\n"})
    case("hyphens.multi", "--multi-gpu --num-processes 2 --num-machines 1", machine=GPU4)
    case("short.t", "--multi_gpu --num_processes 2 -t 3", machine=GPU4)


def defaults():
    for gpus in (0, 1, 2, 4):
        m = {"gpus": gpus}
        case(f"default.gpus{gpus}", "train.py a --b c", machine=m)
        for flag in ("--cpu", "--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--tpu"):
            case(f"default.gpus{gpus}{flag}", flag, machine=m)
    for flag in ("--cpu", "--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm"):
        case(f"default.rtx40{flag}", flag + " --num_processes 2", machine={"gpus": 4, "rtx40": True})
    case("default.rtx40.preset", "--multi_gpu --num_processes 2", env={"NCCL_P2P_DISABLE": "0"},
         machine={"gpus": 4, "rtx40": True})
    for mp in ("no", "fp16", "bf16", "fp8"):
        for path in ("--multi_gpu", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--cpu"):
            case(f"precision.{mp}{path}", f"{path} --mixed_precision {mp}", machine=GPU4)
            if path == "--use_deepspeed":
                case(f"precision.file.{mp}", "", {"distributed_type": "DEEPSPEED", "mixed_precision": mp,
                                                   "num_processes": 2, "deepspeed_config": {"zero_stage": 2}})
    for b in ("no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt "
              "aot_torchxla_trace_once torhchxla_trace_once torchxla_trace_once tvm hpu_backend INDUCTOR").split():
        case(f"dynamo.flag.{b}", f"--dynamo_backend {b}")
        case(f"dynamo.file.{b}", "", {"distributed_type": "NO", "dynamo_config": {"dynamo_backend": b.upper()}})
    case("dynamo.section.short", "", {"distributed_type": "NO", "dynamo_config": {
        "backend": "EAGER", "mode": "max-autotune", "use_fullgraph": True}})
    case("dynamo.unknown", "", {"distributed_type": "NO", "dynamo_config": {"dynamo_backend": "nope"}})
    case("dynamo.unknown.gpu", "", {"distributed_type": "MULTI_GPU", "num_processes": 2,
                                    "dynamo_config": {"dynamo_backend": "nope"}})


def cpu_processes():
    for n in (0, 1, 2, 4, 16, -1):
        case(f"cpu.n{n}", f"--cpu --num_processes {n}")
        case(f"file.cpu.n{n}", "", {"distributed_type": "MULTI_CPU", "use_cpu": True, "num_processes": n})
    for cores in (1, 2, 7, 96):
        case(f"cpu.cores{cores}", "--cpu --num_processes 2", machine={"cores": cores})
    for omp in ("4", "0", "-3", "4,2", "", " 5 ", "1_0", "x"):
        case(f"omp={omp}", "--cpu --num_processes 2", env={"OMP_NUM_THREADS": omp})
        case(f"omp.gpu={omp}", "--multi_gpu --num_processes 2", env={"OMP_NUM_THREADS": omp}, machine=GPU4)
    for var in ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"):
        case(f"cpu.local.{var}", "--cpu --num_processes 2", env={var: "3"})
    case("cpu.local.order", "--cpu --num_processes 2", env={"OMPI_COMM_WORLD_LOCAL_SIZE": "4", "MPI_LOCALNRANKS": "2"})
    case("cpu.local.bad", "--cpu --num_processes 2", env={"MPI_LOCALNRANKS": "a"})
    case("cpu.local.zero", "--cpu --num_processes 2", env={"MPI_LOCALNRANKS": "0"})
    case("cpu.nocores", "--cpu --num_processes 2", machine={"cores": None})
    for flags in ("--main_process_ip 1.2.3.4", "--main_process_port 12345", "--main_process_port 0",
                  "--main_process_ip 1.2.3.4 --main_process_port 7"):
        case("cpu.two " + flags, "--cpu --num_processes 2 " + flags)
        case("cpu.one " + flags, "--cpu --num_processes 1 " + flags)
        case("cpu.machines " + flags, "--cpu --num_processes 4 --num_machines 2 --machine_rank 1 " + flags)
    case("cpu.machines", "--cpu --num_processes 4 --num_machines 2")
    case("cpu.machines.file", "", {"distributed_type": "NO", "num_machines": 2, "main_process_ip": "h",
                                   "main_process_port": 9, "num_processes": 4})
    for text in ("true", "yes", "'true'", "'no'", "1", "0", "null", "'maybe'", "2"):
        case(f"use_cpu={text}", "", f"distributed_type: 'NO'\nuse_cpu: {text}\n")
    case("cpu.and.multi_gpu.file", "--cpu", {"distributed_type": "MULTI_GPU", "num_processes": 4}, machine=GPU4)
    for f in ("--cpu", "--cpu --use_megatron_lm", "--cpu --tpu_cluster", "--use_megatron_lm --use_fsdp",
              "--use_megatron_lm --use_deepspeed", "--use_megatron_lm --multi_gpu --num_processes 2"):
        case("combine " + f, f, machine=GPU4)


def mpirun():
    ompi, intel = {"mpirun": "mpirun (Open MPI) 4.1.4"}, {"mpirun": "Intel(R) MPI Library for Linux"}
    only_exec = {"mpiexec": "HYDRA build details"}
    both = {"mpirun": "Intel", "mpiexec": "mpiexec (OpenRTE) Open MPI"}
    for name, mpi in (("ompi", ompi), ("intel", intel), ("mpiexec", only_exec), ("both", both), ("none", {})):
        case(f"mpi.{name}", "--cpu --num_processes 4 --mpirun_hostfile hosts s.py x", machine={"mpi": mpi})
        case(f"mpi.{name}.file", "", {"distributed_type": "MULTI_CPU", "use_cpu": True, "num_processes": 16,
             "num_machines": 4, "main_process_ip": "127.0.0.1", "main_process_port": 29500,
             "mpirun_config": {"mpirun_hostfile": "/h"}}, machine={"mpi": mpi})
    file = {"distributed_type": "MULTI_CPU", "num_processes": 2, "mpirun_config": {"mpirun_hostfile": "/h"}}
    for key, value in (("bind-to", "core"), ("bind_to", "core"), ("mpirun_ccl", 1), ("bind-to", None)):
        config = {**file, "mpirun_config": {"mpirun_hostfile": "/h", key: value}}
        case(f"mpi.key.{key}={value}", "", config)
    case("mpi.zero", "--cpu --num_processes 0 --mpirun_hostfile h")
    case("mpi.odd", "--cpu --num_processes 5 --num_machines 2 --main_process_ip h --main_process_port 1 "
                    "--mpirun_hostfile h")
    case("mpi.module", "-m --cpu --num_processes 2 --mpirun_hostfile h pkg.mod a.py")
    case("mpi.nopython", "--no_python --cpu --num_processes 2 --mpirun-hostfile h ./x a.py")
    case("mpi.flagwins", "--mpirun_hostfile flag", file)
    case("mpi.null", "", {**file, "mpirun_config": {"mpirun_hostfile": None}})
    case("mpi.gpu", "--multi_gpu --num_processes 2 --mpirun_hostfile h", machine=GPU4)


def machines():
    for n in (2, 4):
        for path in ("--multi_gpu", "--use_fsdp", "--use_deepspeed --deepspeed_multinode_launcher standard"):
            base = f"{path} --num_processes 8 --num_machines {n} --machine_rank {n - 1}"
            tag = f"machines{n}.{path.split()[0]}"
            case(tag, base, machine=GPU4)
            case(tag + ".ip", base + " --main_process_ip 10.0.0.1 --main_process_port 1234", machine=GPU4)
            case(tag + ".same", base + " --main_process_ip 10.0.0.1 --main_process_port 1234 --same_network",
                 machine=GPU4)
            case(tag + ".same.noip", base + " --same_network", machine=GPU4)
    two = "--multi_gpu --num_processes 4 --num_machines 2 "
    case("machines.norank", two + "--main_process_ip h", machine=GPU4)
    case("machines.rank0", two + "--machine_rank 0 --main_process_ip h", machine=GPU4)
    case("machines.rank5", two + "--machine_rank 5 --main_process_ip h", machine=GPU4)
    case("machines.negative", "--multi_gpu --num_processes 4 --num_machines -1", machine=GPU4)
    case("machines.zero", "--multi_gpu --num_processes 4 --num_machines 0", machine=GPU4)
    case("machines.zero.cpu", "--cpu --num_processes 4 --num_machines 0")
    case("machines.odd", two.replace("4", "5") + "--machine_rank 1 --main_process_ip h", machine=GPU4)
    case("machines.fewer", "--multi_gpu --num_processes 2 --num_machines 4 --machine_rank 1 --main_process_ip h",
         machine=GPU4)
    for backend in ("c10d", "static", "etcd-v2", "nonsense"):
        case(f"rdzv.{backend}", two + f"--machine_rank 1 --main_process_ip h --rdzv_backend {backend}", machine=GPU4)
        case(f"rdzv.one.{backend}", f"--multi_gpu --num_processes 2 --rdzv_backend {backend}", machine=GPU4)
    for conf in ("timeout=5", "a=b,c=d", "nonsense", "a=", "=b", "a=1,,b=2", "timeout=x", "is_host=true"):
        case(f"rdzv_conf {conf}", two + f"--machine_rank 1 --main_process_ip h --rdzv_conf {conf}", machine=GPU4)
    for ip in ("[::1]", "::1", "a b", "", "host.", "h:1"):
        case(f"machines.ip={ip}", two.split() + ["--machine_rank", "1", "--main_process_ip", ip], machine=GPU4)
    for port in ("0", "1", "65535", "65536", "99999", "-1", "x", "1.5"):
        for path in ("--multi_gpu --num_processes 2", "--cpu --num_processes 2",
                     two + "--machine_rank 1 --main_process_ip h"):
            case(f"port={port} {path.split()[0]}{len(path)}", f"{path} --main_process_port={port}", machine=GPU4)
    busy = {"gpus": 4, "busy_ports": [29500, 1234]}
    for path in ("--multi_gpu --num_processes 2", "--use_deepspeed --num_processes 2", two + "--machine_rank 0",
                 two + "--machine_rank 1", "--cpu --num_processes 2",
                 "--use_deepspeed --num_processes 4 --num_machines 2 --machine_rank 0",
                 "--use_deepspeed --num_processes 4 --num_machines 2 --machine_rank 1"):
        case("busy " + path, path, machine=busy)
        case("busy other " + path, path + " --main_process_port 4321", machine=busy)
    for var in ("PET_RDZV_ID=job", "PET_MASTER_ADDR=h", "PET_NNODES=1:2", "PET_NODE_RANK=1", "PET_STANDALONE=1",
                "PET_RDZV_ENDPOINT=h:1", "PET_MAX_RESTARTS=3", "PET_REDIRECTS=3", "PET_ROLE=x", "PET_NPROC_PER_NODE=7",
                "PET_MASTER_PORT=5", "PET_TEE=3", "PET_LOCAL_ADDR=h", "PET_RUN_PATH=1", "PET_VIRTUAL_LOCAL_RANK=1",
                "PET_SHUTDOWN_TIMEOUT=5", "PET_SIGNALS_TO_HANDLE=SIGTERM", "PET_LOCAL_RANKS_FILTER=x"):
        key, value = var.split("=")
        case("env " + var, "--multi_gpu --num_processes 2", env={key: value}, machine=GPU4)
    for spec in ("4", "x", "0:1", "10:1", "0:4", "0:1,", "3,3", ""):
        case(f"tee={spec}", ["--multi_gpu", "--num_processes", "2", "--tee", spec], machine=GPU4)
    case("log_dir.file", "--multi_gpu --num_processes 2 --log_dir train.py s.py", machine=GPU4)
    case("max_restarts=-1", "--multi_gpu --num_processes 2 --max_restarts -1", machine=GPU4)
    case("nproc.zero", "--use_fsdp --num_processes 0", machine=GPU4)
    case("nproc.negative", "--use_fsdp --num_processes -2", machine=GPU4)
    case("nproc.minus1.file", "", {"distributed_type": "MULTI_GPU"}, machine=GPU4)
    case("nproc.null.file", "", "distributed_type: MULTI_GPU\nnum_processes: null\n", machine=GPU4)
    case("python_exec", "--multi_gpu --num_processes 2", env={"PYTHON_EXEC": "/opt/py"}, machine=GPU4)
    case("python_exec.simple", "", env={"PYTHON_EXEC": "/opt/py"})
    case("lower-case variables", "--multi_gpu --num_processes 2",
         env={"http_proxy": "a", "HTTP_PROXY": "b", "Mixed": "c"}, machine=GPU4)
    case("lower-case variables.simple", "", env={"http_proxy": "a", "HTTP_PROXY": "b"})
    case("env.preset", "", env={"ACCELERATE_MIXED_PRECISION": "fp16", "ACCELERATE_USE_CPU": "x", "MASTER_ADDR": "h"})
    case("env.preset.gpu", "--multi_gpu --num_processes 2", machine=GPU4, env={
        "RANK": "7", "WORLD_SIZE": "9", "ACCELERATE_USE_FSDP": "true", "CUDA_VISIBLE_DEVICES": "3,2"})


def gpu_ids():
    for ids in ("all", "0", "0,1", "0,1,2,3", "3,1", "x", "", "0,", "-1"):
        a = [f"--gpu_ids={ids}"]
        case(f"gpu_ids={ids} simple", a + ["--num_processes", "1"], machine=GPU4)
        case(f"gpu_ids={ids} multi", a + ["--multi_gpu", "--num_processes", "2"], machine=GPU4)
        case(f"gpu_ids={ids} multi file", a, {"distributed_type": "MULTI_GPU", "num_processes": 2}, machine=GPU4)
        case(f"gpu_ids={ids} fsdp file", a, {"distributed_type": "FSDP", "num_processes": 2}, machine=GPU4)
        case(f"gpu_ids={ids} in file", "", {"distributed_type": "MULTI_GPU", "num_processes": 2, "gpu_ids": ids},
             machine=GPU4)
    for text in ("0", "0,1", "'0'", "[0, 1]", "null", "all", "'all'", "1.5", "true"):
        case(f"gpu_ids yaml {text}", "", f"distributed_type: 'NO'\ngpu_ids: {text}\n")
    case("gpu_ids.machines", "--machine_rank 1", {"distributed_type": "MULTI_GPU", "num_processes": 2,
                                                  "gpu_ids": "0", "num_machines": 2}, machine=GPU4)
    case("gpu_ids.ds", "--use_deepspeed --gpu_ids 1,2 --num_processes 2", machine=GPU4)


def fp8():
    ns = {"distributed_type": "NO", "mixed_precision": "fp8"}
    for key, value in (("override_linear_precision", [False, True, False]),
                       ("override_linear_precision", "(false, false, false)"), ("override_linear_precision", "x"),
                       ("use_mxfp8_block_scaling", True), ("amax_history_length", 3), ("fp8_unknown", 1),
                       ("backend", "TE"), ("backend", "nonsense"), ("margin", None), ("pad_inner_dim", False)):
        case(f"fp8.{key}={value}", "", {**ns, "fp8_config": {key: value}})
    for v in ("true,true", "1,1,1,1", "a,b,c", ""):
        case(f"fp8.override={v}", ["--mixed_precision", "fp8", "--fp8_override_linear_precision", v])
    case("fp8.flags.without", "--fp8_backend te --fp8_margin 3")
    case("fp8.flag.wins", "--fp8_margin 7", {**ns, "fp8_config": {"margin": 3, "interval": 2}})
    for path in ("--cpu", "--multi_gpu", "--use_fsdp", "--use_deepspeed"):
        case("fp8.missing" + path, path + " --mixed_precision fp8 --num_processes 2",
             machine={"gpus": 4, "fp8": False})
    case("fp8.bad.choice", "--fp8_backend TE")
    case("fp8.bad.bool", "--fp8_pad_inner_dim maybe")


def deepspeed():
    two = "--use_deepspeed --num_processes 8 --num_machines 2 --machine_rank 1 "
    for launcher in "pdsh standard openmpi mvapich mpich nossh slurm PDSH".split():
        case(f"ds.{launcher}", two + f"--deepspeed_multinode_launcher {launcher}", machine=GPU4)
        case(f"ds.{launcher}.full", two + f"--deepspeed_multinode_launcher {launcher} --deepspeed_hostfile hosts "
             "--main_process_ip 10.0.0.1 --main_process_port 1234 --mixed_precision bf16 s.py a -b", machine=GPU4)
    case("ds.exclude", two + "--deepspeed_exclusion_filter a:1 --deepspeed_inclusion_filter b:1", machine=GPU4)
    case("ds.include", two + "--deepspeed_inclusion_filter b:1", machine=GPU4)
    case("ds.module", two + "-m pkg.mod a.py", machine=GPU4)
    case("ds.no_python", two + "--no_python x a.py", machine=GPU4)
    case("ds.both", two + "--no_python -m x a.py", machine=GPU4)
    case("ds.nossh.old", two + "--deepspeed_multinode_launcher nossh", machine={"gpus": 4, "deepspeed": "0.14.4"})
    case("ds.missing", "--use_deepspeed", machine={"gpus": 4, "deepspeed": None})
    case("ds.pythonpath", "--use_deepspeed", env={"PYTHONPATH": "/a::/b"}, machine=GPU4)
    case("ds.envfile", two, env={"DS_ENV_FILE": "here.env", "BAD": "a b", "BAD2": "a;b", "BAD3": "<", "OK": "1",
                                 "EMPTY": "", "NEWLINE": "a\nb"}, machine=GPU4)
    case("ds.child.exit", two, machine={"gpus": 4, "child_exit": 3})
    case("ds.child.quiet", two + "-q", machine={"gpus": 4, "child_exit": 3})
    case("ds.child.signal", two, machine={"gpus": 4, "child_exit": -9})
    case("ds.port0", two + "--main_process_port 0", machine=GPU4)
    ds = {"distributed_type": "DEEPSPEED", "num_processes": 2}
    for section in ({}, {"zero_stage": 3, "Offload_Param_Device": "cpu"}, {"gradient_accumulation_steps": "auto"},
                    {"deepspeed_config_file": "x.json", "zero3_init_flag": True}, {"zero_stage": None},
                    {"fsdp_version": 2, "num_processes": 9}, {"unknown": "x", "quiet": True}):
        case(f"ds.file {section}", "", {**ds, "deepspeed_config": section})
        case(f"ds.file.bf16 {section}", "", {**ds, "mixed_precision": "bf16", "deepspeed_config": section})
    case("ds.flag.wins", "--zero_stage 1 --mixed_precision no", {**ds, "mixed_precision": "fp16",
         "deepspeed_config": {"zero_stage": 3, "gradient_clipping": 1.0}})
    case("ds.parallel", "", {**ds, "parallelism_config": {"parallelism_config_sp_size": 2}})
    case("ds.parallel.short", "", {**ds, "parallelism_config": {"sp_size": 2}})
    case("ds.parallel.flag", "--use_deepspeed --use_parallelism_config")
    case("ds.two.file", "--machine_rank 1", {**ds, "num_machines": 2, "num_processes": 16, "main_process_ip": "h",
         "deepspeed_config": {"deepspeed_multinode_launcher": "nossh", "deepspeed_hostfile": "hf"}})
    for zero in (0, 1, 2, 3):
        case(f"ds.zero{zero}.all", f"--use_deepspeed --zero_stage {zero} --offload_optimizer_device cpu "
             "--offload_param_device nvme --offload_param_nvme_path /n --gradient_accumulation_steps 2 "
             "--gradient_clipping 1.0 --zero3_init_flag true --zero3_save_16bit_model true --mixed_precision bf16 "
             "--deepspeed_moe_layer_cls_names Moe", machine=GPU4)


def fsdp_and_others():
    fs = {"distributed_type": "FSDP", "num_processes": 2}
    for load, sync in ((True, False), (False, False), (True, "false"), ("false", False), (None, None), (True, None)):
        case(f"fsdp.load={load!r} sync={sync!r}", "", {**fs, "fsdp_config": {
            "fsdp_cpu_ram_efficient_loading": load, "fsdp_sync_module_states": sync}}, machine=GPU4)
    case("fsdp.flags.false", "--use_fsdp --fsdp_sync_module_states false", machine=GPU4)
    case("fsdp.flag.empty", ["--use_fsdp", "--fsdp_sync_module_states", ""], machine=GPU4)
    case("fsdp.null", "", {**fs, "fsdp_config": {"fsdp_sharding_strategy": None, "fsdp_version": None,
                                                  "fsdp_min_num_params": None}}, machine=GPU4)
    case("fsdp.version=3", "--use_fsdp --fsdp_version 3", machine=GPU4)
    case("fsdp.parallel.v1", "--use_fsdp --use_parallelism_config", machine=GPU4)
    case("fsdp.parallel.none", "--use_parallelism_config", machine=GPU4)
    case("fsdp.parallel.multi", "--multi_gpu --use_parallelism_config --num_processes 2", machine=GPU4)
    par = {"parallelism_config_tp_size": 2, "parallelism_config_cp_size": 2}
    case("fsdp.parallel.file", "", {**fs, "parallelism_config": par}, machine=GPU4)
    case("fsdp.parallel.file.flag", "--use_fsdp", {**fs, "parallelism_config": par}, machine=GPU4)
    case("multi.parallel.file", "", {**fs, "distributed_type": "MULTI_GPU", "parallelism_config": par}, machine=GPU4)
    case("no.parallel.file", "", {**fs, "distributed_type": "NO", "parallelism_config": par}, machine=GPU4)
    case("parallel.text", "", {**fs, "parallelism_config": {"parallelism_config_cp_size": "2"}}, machine=GPU4)
    case("parallel.null", "", {**fs, "parallelism_config": {"parallelism_config_cp_size": None}}, machine=GPU4)
    case("parallel.both.flag", "--parallelism_config_tp_size 4", {**fs, "parallelism_config": par}, machine=GPU4)
    full = {"fsdp_" + k[5:]: yaml_value(v[0]) for k, v, _ in FSDP}
    case("fsdp.everything", "", {**fs, "fsdp_config": full}, machine=GPU4)
    mega = {"megatron_lm_" + k: yaml_value(v[0]) for k, v in MEGATRON}
    ml = {"distributed_type": "MEGATRON_LM", "num_processes": 2}
    case("megatron.everything", "", {**ml, "megatron_lm_config": mega}, machine=GPU4)
    case("megatron.short", "", {**ml, "megatron_lm_config": {"tp_degree": 4}}, machine=GPU4)
    case("megatron.nulls", "", {**ml, "megatron_lm_config": {k: None for k in mega}}, machine=GPU4)
    case("megatron.both.fsdp", "--use_megatron_lm --use_fsdp --megatron_lm_tp_degree 2", machine=GPU4)


def tpu():
    xla = {"distributed_type": "XLA", "num_processes": 8}
    case("tpu.missing", "--tpu --main_training_function main")
    case("tpu.nofunction", "--tpu", machine=TPU)
    for f in ("", "--mixed_precision bf16", "--mixed_precision bf16 --downcast_bf16", "--mixed_precision fp16",
              "--debug", "--num_processes 4 -q", "--module", "--no_python", "--mixed_precision bf16 --cpu"):
        script = "train a" if f == "--module" else "train.py a --b"
        case("tpu " + f, f"--tpu --main_training_function main {f} {script}".replace("--tpu", "" if "--cpu" in f
             else "--tpu"), machine=TPU, env={"PYTHONPATH": "."} if f == "--module" else None)
        case("tpu.file " + f, f"{f} {script}", {**xla, "main_training_function": "main"}, machine=TPU)
    case("tpu.wrong.function", "--tpu --main_training_function nope", machine=TPU)
    case("tpu.file.function", "", xla, machine=TPU, files={"train.py": "def main():\n  pass\ndef run():\n  pass\n"})
    case("tpu.downcast.text", "", {**xla, "mixed_precision": "bf16", "downcast_bf16": "no"}, machine=TPU)
    case("tpu.script.missing", "--tpu --main_training_function main sub/none.py", machine=TPU)
    pod = {**xla, "tpu_use_cluster": True, "tpu_name": "pod", "tpu_zone": "z", "tpu_vm": ["a", "b"], "tpu_env": ["A=1"],
           "commands": ["echo"]}
    case("pod.file", "x.py a", pod, machine=TPU)
    case("pod.sudo", "--tpu_use_sudo --debug", pod, machine=TPU)
    case("pod.sudo.file", "", {**pod, "tpu_use_sudo": True, "debug": True}, machine=TPU)
    case("pod.vm", "--vm x --vm y --env Q=1", pod, machine=TPU)
    case("pod.flags", "--tpu --tpu_cluster", pod, machine=TPU)
    case("pod.flags.nofile", "--tpu --tpu_cluster --main_training_function main", machine=TPU)
    case("pod.no", "--tpu --no_tpu_cluster", pod, machine=TPU)
    case("pod.bf16", "--mixed_precision bf16", pod, machine=TPU)
    case("tpu.cluster.alone", "--tpu_cluster", {"distributed_type": "MULTI_GPU", "num_processes": 2}, machine=GPU4)
    case("tpu.old", "", {"distributed_type": "TPU", "num_processes": 8}, machine=TPU)


def words():
    for n, args in enumerate([
            ["s.py", "--cpu"], ["-m", "pkg.mod", "--x"], ["--module", "a.b"], ["--no_python", "./x", "-y"],
            ["--no_python", "--module", "x"], ["--", "s.py", "--x", "1"], ["s.py", "--", "--x"],
            ["--num_processes", "1", "--", "s.py", "--", "y"], ["s.py", "a", "--", "b"], ["-qm", "mod"], ["-t3",
            "s.py"],
            ["-test", "s.py"], ["--foo", "bar", "s.py"], ["--foo=bar", "s.py"], ["-x", "s.py"], [],
            ["--num_processes"], ["--num_processes", "two", "s.py"], ["--num-processes", "2", "s.py"],
            ["--num-cpu-threads_per_process", "2", "s.py"], ["--num_proc", "2", "s.py"], ["--cpu=1", "s.py"],
            ["--num_processes=2", "--num_processes=3", "s.py"], ["--mixed_precision", "BF16", "s.py"], ["s.py", ""],
            ["s.py", "-"], ["s.py", "a b", "c\"d", "é", "$x"], ["", "x"], ["-h"], ["--help", "s.py"],
            ["--config_file", "missing.yaml", "s.py"], ["--config_file", "", "s.py"], ["--config_file", "~/c.yaml",
            "s.py"],
            ["--num_processes", "1.0", "s.py"], ["--num_processes", " 2", "s.py"], ["--num_processes", "1_0", "s.py"],
            ["--num_processes", "0x2", "s.py"], ["--num_processes", "+2", "s.py"], ["--num_processes", "", "s.py"],
            ["--num_processes", "99999999999999999999", "s.py"], ["--monitor_interval", "nan", "s.py"],
            ["--gradient_clipping", "1_0.5", "s.py"], ["--gradient_clipping", "x", "s.py"], ["--zero_stage", "a",
            "s.py"],
            ["--dynamo_mode", "fast", "s.py"], ["--fp8_format", "x", "s.py"], ["--num_machines", "a", "s.py"],
            ["--tpu_cluster", "--no_tpu_cluster", "s.py"], ["-q", "s.py", "-q"], ["s.py", "--config_file", "x"],
            ["--main_process_ip", "-a b", "s.py"], ["--main_process_ip", "-ab", "s.py"], ["--role", "--x", "s.py"],
            ["--parallelism_config_cp_backend", "x", "s.py"], ["--parallelism_config_tp_size", "x", "s.py"]]):
        for machine in ({}, GPU4):
            tag = "gpu" if machine else "cpu"
            CASES.append({"name": f"words.{n}.{tag} " + " ".join(args), "args": args, "machine": machine,
                          "files": {}, "env": {}})
    for status in (0, 1, 3, 255, -2, -9, -15):
        case(f"child={status}", "", machine={"child_exit": status})
        case(f"child.quiet={status}", "--quiet", machine={"child_exit": status})


def config_files():
    no = {"distributed_type": "NO"}
    hf = "hf/accelerate/default_config.yaml"
    env = {"HF_HOME": "@DIR@/hf"}
    text = "distributed_type: MULTI_GPU\nnum_processes: 3\nmixed_precision: bf16\n"
    for f in ("", "--cpu", "--num_processes 2", "--mixed_precision no", "--multi_gpu", "--use_fsdp", "--tpu_cluster"):
        case("default file " + f, f, files={hf: text}, env=env, machine=GPU4)
    case("default file json text", "", files={hf: '{"distributed_type": "NO", "mixed_precision": "fp16"}'}, env=env)
    case("default file .json", "", files={"hf/accelerate/default_config.json": "{}"}, env=env)
    case("default file bad", "", files={hf: "a: 1\n"}, env=env)
    case("default file bad cpu", "--cpu", files={hf: "a: 1\n"}, env=env)
    case("default file named wins", "", no, files={hf: text}, env=env)
    home = "home/.cache/huggingface/accelerate/default_config.yaml"
    case("default file home", "", files={home: text}, machine=GPU4)
    case("default file xdg", "", files={"x/huggingface/accelerate/default_config.yaml": text},
         env={"XDG_CACHE_HOME": "@DIR@/x"}, machine=GPU4)
    case("default file hf over xdg", "", files={"x/huggingface/accelerate/default_config.yaml": text},
         env={"XDG_CACHE_HOME": "@DIR@/x", "HF_HOME": "@DIR@/none"}, machine=GPU4)
    case("default file hf tilde", "", files={"home/h/accelerate/default_config.yaml": text}, env={"HF_HOME": "~/h"})
    case("default file hf empty", "", files={"accelerate/default_config.yaml": text}, env={"HF_HOME": ""})
    case("default file hf relative", "", files={"r/accelerate/default_config.yaml": text}, env={"HF_HOME": "r"})
    case("default file hf variable", "", files={hf: text}, env={"HF_HOME": "$HOME/../hf"})
    case("file.json", "", json_text='{"distributed_type": "NO", "num_machines": 1, "debug": true}')
    case("file.json.unknown", "", json_text='{"distributed_type": "NO", "b": 1, "a": 2}')
    case("file.json.syntax", "", json_text='{"distributed_type": "NO",}')
    case("file.json.list", "", json_text='[1]')
    case("file.json.yaml", "", json_text="distributed_type: 'NO'\n")
    for d in ("MULTI_CPU MULTI_GPU MULTI_NPU MULTI_MLU MULTI_SDAA MULTI_MUSA MULTI_XPU DEEPSPEED FSDP XLA MEGATRON_LM "
              "MULTI_HPU MULTI_NEURON TPU nonsense no multi_gpu").split():
        case(f"type {d}", "", {"distributed_type": d, "num_processes": 2, "main_training_function": "main"},
             machine={"gpus": 4, "tpu": d == "XLA"})
        case(f"type {d} one", "", {"distributed_type": d, "num_processes": 1}, machine={"gpus": 4, "tpu": d == "XLA"})
    for n, text in enumerate([
            "", "# only a comment\n", "distributed_type: NO\n", "distributed_type: NO\nnum_processes: 1\n",
            "distributed_type: 'NO'\nmixed_precision: no\n", "distributed_type: 'NO'\nmixed_precision: fp7\n",
            "distributed_type: 'NO'\nmixed_precision: BF16\n", "distributed_type: 'NO'\nmixed_precision: 16\n",
            "distributed_type: 'NO'\nmixed_precision: ''\n", "distributed_type: 'NO'\nmixed_precision:\n",
            "num_processes: 1\n", "distributed_type: 'NO'\nfp16: true\n", "distributed_type: 'NO'\nfp16: false\n",
            "distributed_type: 'NO'\nfp16: true\nmixed_precision: 'no'\n", "distributed_type: 'NO'\nfp16: 'no'\n",
            "distributed_type: 'NO'\ndynamo_backend: INDUCTOR\n", "distributed_type: 'NO'\ndynamo_backend: 'NO'\n",
            "distributed_type: 'NO'\ndynamo_backend: NO\n", "distributed_type: 'NO'\ndynamo_backend: inductor\n",
            "distributed_type: 'NO'\ndynamo_backend: EAGER\ndynamo_config: {dynamo_mode: max-autotune}\n",
            "distributed_type: 'NO'\nipex_config: {ipex: true}\n", "distributed_type: 'NO'\ntpu_cluster: false\n",
            "distributed_type: 'NO'\nzeta: 1\nalpha: 2\n", "distributed_type: 'NO'\ncompute_environment: MOON\n",
            "distributed_type: 'NO'\ncompute_environment: AMAZON_SAGEMAKER\n",
            "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\nec2_instance_type: a\n"
            "iam_role_name: r\n",
            "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: a\niam_role_name: r\n",
            "distributed_type: [\n", "distributed_type: 'NO'\n\tx: 1\n", "- a\n- b\n", "just text\n", "a: b: c\n",
            "distributed_type: 'NO'\ndistributed_type: FSDP\nnum_processes: 2\n",
            "distributed_type: 'NO'\nnum_processes: two\n", "distributed_type: 'NO'\nnum_processes: '2'\n",
            "distributed_type: MULTI_GPU\nnum_processes: '2'\n", "distributed_type: MULTI_GPU\nnum_processes: 2.5\n",
            "distributed_type: MULTI_GPU\nnum_processes: true\n", "distributed_type: 'NO'\nnum_processes: null\n",
            "distributed_type: 'NO'\nnum_machines: '2'\n",
            "distributed_type: MULTI_GPU\nnum_processes: 2\nnum_machines: '1'\n",
            "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nmachine_rank: '1'\nmain_process_ip: h\n",
            "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nmain_process_ip: h\n",
            "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nmachine_rank: null\nmain_process_ip: h\n",
            "distributed_type: MULTI_GPU\nnum_processes: 2\nmain_process_port: '4000'\n",
            "distributed_type: MULTI_GPU\nnum_processes: 2\nmain_process_port: 4000\nmain_process_ip: h\n",
            "distributed_type: MULTI_GPU\nnum_processes: 4\nnum_machines: 2\nsame_network: true\nmachine_rank: 1\n"
            "main_process_ip: h\nrdzv_backend: c10d\n",
            "distributed_type: 'NO'\ndebug: 'false'\n", "distributed_type: 'NO'\ndebug: null\n",
            "distributed_type: 'NO'\ndynamo_config: {dynamo_mode: null}\n",
            "distributed_type: 'NO'\ndynamo_config: []\n",
            "distributed_type: 'NO'\ndynamo_config: text\n", "distributed_type: 'NO'\ndeepspeed_config: null\n",
            "distributed_type: 'NO'\ndynamo_config: {dynamo_use_dynamic: maybe}\n",
            "distributed_type: 'NO'\ndynamo_config: {dynamo_use_dynamic: 1, dynamo_mode: 3}\n",
            "distributed_type: 'NO'\ndynamo_config: {dynamo_backend: true}\n",
            "distributed_type: 'NO'\nfsdp_config: {training_script: other.py}\n",
            "distributed_type: 'NO'\nfp8_config: {training_script: other.py}\nmegatron_lm_config: {debug: true}\n",
            "distributed_type: 'NO'\nmpirun_config: {num_cpu_threads_per_process: 5}\n",
            "distributed_type: 'NO'\nmpirun_config: {gpu_ids: '1,2'}\n",
            "distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {1: 2}\n",
            "distributed_type: &a 'NO'\nmain_training_function: *a\n",
            "defaults: &d\n  x: 1\ndistributed_type: 'NO'\n", "%YAML 1.1\n---\ndistributed_type: 'NO'\n",
            "---\ndistributed_type: 'NO'\n...\n", "distributed_type: 'NO'\n---\ndistributed_type: FSDP\n",
            "\ufeffdistributed_type: 'NO'\n", "distributed_type: 'NO'\r\nmixed_precision: fp16\r\n",
            "{distributed_type: 'NO', mixed_precision: fp16}\n", "distributed_type: !!str NO\n",
            "? distributed_type\n: 'NO'\n", "distributed_type: >-\n  NO\n", "distributed_type: !x NO\n",
            "distributed_type: 1\nnum_processes: 1\n", "distributed_type: null\nnum_processes: 1\n"]):
        case(f"text.{n}", "", text, machine=GPU4 if "MULTI_GPU" in text or "FSDP" in text else None)


def precedence():
    """Option over file over default, for options of every kind; and flags that name the file's own values."""
    config = {"distributed_type": "MULTI_GPU", "num_processes": 4, "num_machines": 2, "machine_rank": 1,
              "main_process_ip": "file", "main_process_port": 1111, "mixed_precision": "fp16", "gpu_ids": "0,1",
              "debug": True, "same_network": True, "enable_cpu_affinity": True, "rdzv_backend": "c10d",
              "dynamo_config": {"dynamo_backend": "EAGER", "dynamo_mode": "max-autotune", "dynamo_use_dynamic": True},
              "fsdp_config": {"fsdp_offload_params": True, "fsdp_version": 2},
              "deepspeed_config": {"zero_stage": 3}, "megatron_lm_config": {"megatron_lm_tp_degree": 2}}
    for f in ("", "--num_processes 6", "--num_machines 1", "--machine_rank 0", "--main_process_ip flag",
              "--main_process_port 2222", "--mixed_precision no", "--gpu_ids all", "--gpu_ids 2", "--same_network",
              "--dynamo_backend no", "--dynamo_mode default", "--rdzv_backend static", "--use_fsdp",
              "--use_fsdp --fsdp_offload_params false", "--use_fsdp --fsdp-version 1", "--use_deepspeed",
              "--use_deepspeed --zero_stage 2 --deepspeed_multinode_launcher standard", "--use_megatron_lm",
              "--use_megatron_lm --megatron_lm_tp_degree 1", "--multi_gpu", "--cpu", "--tpu", "--debug",
              "--num_cpu_threads_per_process 3", "--multi_gpu --num_machines 1 --gpu_ids 1", "--num_processes 1",
              "--mixed_precision bf16"):
        case("precedence " + f, f, config, machine={"gpus": 4, "tpu": "--tpu" in f})
    case("bf16.unsupported.file", "--mixed_precision bf16", config, machine={"gpus": 4, "bf16": False})
    case("bf16.unsupported.infile", "", {**config, "mixed_precision": "bf16"}, machine={"gpus": 4, "bf16": False})
    case("bf16.unsupported.nofile", "--mixed_precision bf16", machine={"gpus": 4, "bf16": False})
    for a, b in (("cpu", "multi_gpu"), ("tpu", "cpu"), ("use_fsdp", "use_deepspeed"), ("multi_gpu", "use_fsdp")):
        case(f"exclusive.{a}.{b}", f"--{a} --{b}", machine=GPU4)
    case("multi_gpu.one", "--multi_gpu --num_processes 1", machine=GPU4)
    case("multi_gpu.zero", "--multi_gpu --num_processes 0", machine=GPU4)
    case("multi_gpu.one.file", "--multi_gpu", {"distributed_type": "NO"}, machine=GPU4)


def keys_of_a_line():
    """Several keys on one line of a file; threads of several ranks without GPUs."""
    section = '{"zero_stage": 2, "gradient_clipping": 0.5, "gradient_accumulation_steps": 4}'
    top = '{"distributed_type": "DEEPSPEED", "num_processes": 2, "mixed_precision": "bf16", "deepspeed_config": '
    case("one line.json", "", json_text=top + section + "}", machine=GPU4)
    case("one line.json.flag", "--zero_stage 3", json_text=top + section + "}", machine=GPU4)
    case("one line.yaml", "", "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: " + section + "\n",
         machine=GPU4)
    case("ds.threads", "--use_deepspeed --num_processes 2 --num_cpu_threads_per_process 6", machine=GPU4)
    case("ds.threads.one", "--use_deepspeed --num_processes 1 --num_cpu_threads_per_process 6", machine=GPU4)
    case("ds.threads.env", "--use_deepspeed --num_processes 2", env={"OMP_NUM_THREADS": "0"}, machine=GPU4)
    for dtype in ("MULTI_GPU", "FSDP", "MEGATRON_LM", "DEEPSPEED"):
        case(f"use_cpu.{dtype}", "", {"distributed_type": dtype, "num_processes": 2, "use_cpu": True}, machine=GPU4)


def all_cases():
    CASES.clear()
    for theme in (defaults, everything_by_flag, option_tables, cpu_processes, mpirun, machines, gpu_ids, fp8, deepspeed,
                  fsdp_and_others, tpu, words, config_files, precedence, keys_of_a_line):
        theme()
    return CASES + random_cases(FLAG, {"general": GENERAL, "elastic": ELASTIC, "deepspeed": DEEPSPEED, "fsdp": FSDP,
                                       "fp8": FP8,
                                       "megatron": [("megatron_lm_" + o, v, "megatron_lm_config") for o, v in MEGATRON],
                                       "parallel": [("parallelism_config_" + o, v, "parallelism_config")
                                                    for o, v in PARALLEL]})
