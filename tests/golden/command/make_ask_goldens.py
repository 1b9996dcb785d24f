#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Golden data about the original's questionnaire: lists of answers, and the file that it makes of them.
#
# NOT run by `make check`.  To make ask.json again (versions: see make_launch_goldens.py):
#     python3 -m venv V && V/bin/pip install accelerate==1.15.0 torch==2.15.0
#     V/bin/python tests/golden/command/make_ask_goldens.py
# README.md explains the output.

import builtins
import json
import os
import random
from pathlib import Path

os.environ["HOME"] = "/home/user"

from accelerate.commands.config import cluster, config, config_utils, sagemaker  # noqa: E402

HERE = Path(__file__).resolve().parent
SEED = 20261121
RANDOM = 160
SHOWN = 32  # enough to know a question by
MACHINES = ["NO", "multi-CPU", "multi-XPU", "multi-HPU", "multi-GPU", "multi-NPU", "multi-MLU", "multi-SDAA",
            "multi-MUSA", "multi-NEURON", "TPU"]

# Begin of a question -> answer: a menu's label, or what is typed.  All other questions get an empty answer, which is
# the default, or where there is none the word below.
NO_DEFAULT = [
    ("What is the IP address", "10.0.0.1"),
    ("What is the port", "29501"),
    ("Specify the comma-separated list of transformers MoE", "MixtralSparseMoeBlock,JetMoEBlock"),
    ("DeepSpeed configures multi-node", "/etc/hostfile"),
    ("DeepSpeed exclusion filter", "worker-1@worker-2:0"),
    ("DeepSpeed inclusion filter", "worker-3:0,1"),
    ("Specify the comma-separated list of transformer layer", "BertLayer,GPTJBlock"),
    ("What is the name of your TPU cluster", "pod-1"),
    ("What is the zone", "us-central1-a"),
    ("What is the path to your bash script", "/opt/scripts/../start.sh"),
    ("Please enter a single command", "echo hello: world"),
    ("AWS Access Key ID", "AKIA0"),
    ("AWS Secret Access Key", "secret"),
    ("Enter your IAM role name", "my-role"),
    ("Enter your Docker image", "repo/image:1"),
    ("Enter the path to the SageMaker inputs", "inputs.tsv"),
    ("Enter the path to the SageMaker metrics", "metrics.tsv"),
]
TYPED = [
    ("How many XLA", ["8", "1"]),
    ("If not using an instance group", ["vm-0,vm-1", "vm-0", ""]),
    ("What environment variables", ["A=1,B=two", ""]),
    ("What rendezvous backend", ["c10d", "etcd-v2", ""]),
    ("Please enter the path to the hostfile", ["~/hosts", "/etc/hosts.mpi", ""]),
    ("Please enter the path to the json", ["ds.json", "/x/ds_config.json", ""]),
    ("Nvme Path", ["/scratch", ""]),
    ("devices", ["0", "0,1", ""]),
    ("by id", ["0", "0,1", "3", ""]),
    ("What is the name of the function", ["train", ""]),
    ("sudo", ["yes", "no", ""]),
    ("Enter your AWS Profile", ["work", ""]),
    ("Enter your AWS Region", ["eu-west-1", ""]),
    ("Which EC2 instance", ["ml.g4dn.xlarge", ""]),
]

GPU = {"Which type": "multi-GPU", "How many GPU": "4"}
NODES = {"How many different": "3", "What is the rank": "2"}
NAMED = {
    "no.defaults": {},
    "no.cpu": {"Do you want to run your training on CPU": "yes"},
    "no.gpu.affinity": {"Would you like to enable numa": "yes", "What GPU": "1", "Do you wish to use mixed": "fp16"},
    "cpu.plain": {"Which type": "multi-CPU", "How many processes": "4"},
    "cpu.nodes.mpirun": {"Which type": "multi-CPU", **NODES, "Are all the machines": "no", "What rendezvous": "c10d",
                         "Do you want accelerate to launch mpirun": "yes", "How many CPU": "16"},
    "gpu.plain": {**GPU, "Should distributed": "yes", "Do you wish to use mixed": "bf16"},
    "gpu.nodes": {**GPU, **NODES, "How many GPU": "24"},
    "fsdp.1": {**GPU, "Do you want to use Fully": "yes", "What should be your FSDP version": "1",
               "What should be your sharding": "HYBRID_SHARD", "Do you want to enable CPU RAM": "no"},
    "fsdp.1.size": {**GPU, "Do you want to use Fully": "yes", "What should be your FSDP version": "1",
                    "What should be your auto wrap": "SIZE_BASED_WRAP", "What should be your FSDP's minimum": "1000"},
    "fsdp.2": {**GPU, "Do you want to use Fully": "yes"},
    "fsdp.2.parallelism": {**GPU, "Do you want to use Fully": "yes", "Do you want to use the parallelism": "yes",
                           "What is the context": "2", "What is the compute": "alltoall"},
    "fsdp.2.no_wrap": {**GPU, "Do you want to use Fully": "yes", "What should be your auto wrap": "NO_WRAP"},
    "deepspeed.json": {**GPU, "Do you want to use DeepSpeed": "yes", "Do you want to specify a json": "yes",
                       "Please enter the path to the json": "ds.json"},
    "deepspeed.zero2": {**GPU, "Do you want to use DeepSpeed": "yes", "Do you want to use gradient": "yes"},
    "deepspeed.zero3.nvme": {**GPU, "Do you want to use DeepSpeed": "yes", "What should be your DeepSpeed": "3",
                             "Where to offload opt": "nvme", "Where to offload par": "nvme",
                             "Do you want to save 16": "yes", "Do you want to enable `deepspeed": "yes",
                             "Do you want to enable Mixture": "yes"},
    "deepspeed.one": {"Do you want to use DeepSpeed": "yes", "What should be your DeepSpeed": "0"},
    "deepspeed.nodes": {**GPU, **NODES, "Do you want to use DeepSpeed": "yes",
                        "Do you want to specify exclusion": "yes", "Do you want to specify inclusion": "yes"},
    "deepspeed.nodes.standard": {**GPU, **NODES, "Do you want to use DeepSpeed": "yes",
                                 "Which Type of launcher": "standard"},
    "megatron": {**GPU, "Do you want to use Megatron": "yes"},
    "megatron.degrees": {**GPU, "Do you want to use Megatron": "yes", "What is the Tensor": "2",
                         "What is the Pipeline": "2", "What is the number of micro": "4",
                         "What is the gradient clipping value based": "0.5"},
    "tpu": {"Which type": "TPU", "How many XLA": "8"},
    "tpu.pod.file": {"Which type": "TPU", "Are you using a TPU cluster": "yes", "Do you have code": "yes",
                     "Is this code located": "yes", "To run a python": "yes"},
    "tpu.pod.commands": {"Which type": "TPU", "Are you using a TPU cluster": "yes", "Do you have code": "yes",
                         "If not using": "vm-0,vm-1", "What environment": "A=1"},
    "dynamo": {"Do you wish to optimize": "yes", "Which dynamo": "eager", "Do you want to customize": "yes",
               "Which mode": "max-autotune", "Do you want to enable dynamic": "yes"},
    "fp8.ao": {**GPU, "Do you wish to use mixed": "fp8"},
    "fp8.te": {**GPU, "Do you wish to use mixed": "fp8", "Which FP8": "te", "Which algorithm": "most_recent"},
    "fp8.te.override": {**GPU, "Do you wish to use mixed": "fp8", "Which FP8": "te",
                        "Do you want to execute": "yes", "Should `dgrad`": "yes"},
    "fp8.msamp": {**GPU, "Do you wish to use mixed": "fp8", "Which FP8": "msamp"},
    "aws": {"In which": "AWS (Amazon SageMaker)"},
    "aws.keys.create": {"In which": "AWS (Amazon SageMaker)", "How do you want": "Credentials",
                        "Do you already": "Create"},
    "aws.all": {"In which": "AWS (Amazon SageMaker)", "Do you want to use custom Docker": "yes",
                "Do you want to provide SageMaker": "yes", "Do you want to enable SageMaker": "yes"},
    "aws.parallel": {"In which": "AWS (Amazon SageMaker)", "What is the distributed mode": "Data parallelism",
                     "Which EC2": "ml.p3dn.24xlarge", "Should distributed": "yes", "How many machines": "2",
                     "Do you wish to use FP16": "bf16"},
    "aws.dynamo": {"In which": "AWS (Amazon SageMaker)", "Do you wish to optimize": "yes"},
}


def find(table, prompt):
    items = table.items() if isinstance(table, dict) else table
    return next((answer for begin, answer in items if prompt.startswith(begin) or f" {begin}" in prompt), None)


class Scripted:
    """The named answers, else the default."""

    def __init__(self, answers):
        self.answers = answers

    def menu(self, prompt, labels, default):
        wanted = find(self.answers, prompt)
        return default if wanted is None else next(i for i, x in enumerate(labels) if x.startswith(wanted))

    def line(self, prompt, convert, default):
        wanted = find(self.answers, prompt)
        if wanted is None:
            wanted = "" if default is not None else find(NO_DEFAULT, prompt)
        return wanted


class Walk:
    """Answers by chance; often not the default, so that deep branches are met."""

    def __init__(self, rng):
        self.rng = rng

    def menu(self, prompt, labels, default):
        while True:
            i = self.rng.randrange(len(labels))
            if labels[i] != "torhchxla_trace_once":  # the original refuses its own word
                return i

    def line(self, prompt, convert, default):
        typed = find(TYPED, prompt)
        if typed:
            return self.rng.choice(typed)
        if convert is config_utils._convert_yes_no_to_bool:
            return self.rng.choice(["", "yes", "no", "YES", "No"])
        if default is None:
            return find(NO_DEFAULT, prompt)
        if convert is int:
            return self.rng.choice(["", "1", "2", "3"])
        if convert is float:
            return self.rng.choice(["", "1", "0.25", "1e-5"])
        return ""


def run(source):
    asked = []

    def ask_options(text, options=[], convert_value=None, default=0):
        labels = [str(x) for x in options]
        i = source.menu(text, labels, default if isinstance(default, int) else options.index(default))
        asked.append({"question": text.strip()[:SHOWN], "menu": i, "label": labels[i]})
        return convert_value(i) if convert_value is not None else i

    def ask_field(text, convert_value=None, default=None, error_message=None):
        answer = source.line(text, convert_value, default)
        asked.append({"question": text.strip()[:SHOWN], "typed": answer})
        builtins.input = lambda prompt: answer
        return config_utils._ask_field(text, convert_value, default, error_message)

    for module in (cluster, config, sagemaker):
        module._ask_options, module._ask_field = ask_options, ask_field
    for name in dir(cluster):
        if name.startswith("is_") and name.endswith("_available"):
            hardware = ("npu", "mlu", "sdaa", "musa", "xpu", "hpu", "neuron", "mps")
            setattr(cluster, name, lambda answer=name[3:-10] not in hardware: answer)
    sagemaker._create_iam_role_for_sagemaker = lambda name: None
    # A line's answer is read in place of `input`; what is printed meanwhile is not part of the data.
    old_print, old_input = builtins.print, builtins.input
    builtins.print = lambda *args, **kwargs: None
    try:
        result = config.get_user_input().to_dict()
    except (ValueError, RuntimeError, NotImplementedError) as error:
        return {"asked": asked, "error": f"{type(error).__name__}: {error}"}
    finally:
        builtins.print, builtins.input = old_print, old_input
    return {"asked": asked, "file": json.loads(json.dumps(result))}


def main():
    rng = random.Random(SEED)
    cases = [(name, Scripted(answers)) for name, answers in NAMED.items()]
    for i in range(len(MACHINES)):
        label = MACHINES[i] if i else "No distributed training"
        cases.append((f"machine.{MACHINES[i]}", Scripted({"Which type": label, "How many GPU": "2"})))
    cases += [(f"random.{i}", Walk(rng)) for i in range(RANDOM)]
    with open(HERE / "ask.json", "w") as out:
        for name, source in cases:
            result = run(source)
            out.write(json.dumps({"name": name, **result}) + "\n")


if __name__ == "__main__":
    main()
