#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes sagemaker.json: the request for a training job that Hugging Face Accelerate and Amazon's Python library
(sagemaker 2.257, the last line that Accelerate can use) make of many files and command lines.  No request is sent.

    python3 make_sagemaker_goldens.py >sagemaker.json

Two faults of Accelerate keep it from starting any such job [Q2]; they are mended here: files may say distributed_type NO,
and SageMaker files have no parallelism_config.  Times in names are fixed, the account is 111122223333, and each role's
ARN is arn:aws:iam::111122223333:role/NAME.
"""
import contextlib
import dataclasses
import io
import json
import logging
import os
import sys
import tarfile
import tempfile
import warnings
from typing import Optional
from unittest import mock

import yaml

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
with contextlib.redirect_stdout(io.StringIO()):
    import accelerate.commands.config.config_args as config_args
    import accelerate.commands.launch as launch
    import accelerate.utils.launch as utils_launch
    import sagemaker
    import sagemaker.huggingface
    import sagemaker.utils

ACCOUNT = "111122223333"
TIME = "2026-01-02-03-04-05-678"
TREE = {
    "train.py": "print('x')\n",
    "src/train.py": "print('x')\n",
    "src/lib/util.py": "x = 1\n",
    "src/requirements.txt": "numpy\n",
    "src/notes.sh": "true\n",
    "other/more.py": "y = 1\n",
    "extra.py": "z = 1\n",
}


@dataclasses.dataclass
class Mended(config_args.SageMakerConfig):
    num_processes: int = 1
    parallelism_config: Optional[dict] = None


config_args.SageMakerConfig = Mended
launch_fp8 = mock.patch.object(utils_launch, "is_fp8_available", lambda: True)


class Stub:
    """What the library gets instead of Amazon's answers, and what it would have sent."""

    def __init__(self, region):
        self.uploads = []
        self.boto = mock.MagicMock()
        self.boto.region_name = region
        self.client = mock.MagicMock()
        self.client._user_agent_creator.to_string = mock.Mock(return_value="x")
        self.boto.client = self.make_client
        self.boto.resource = self.make_resource
        self.session = sagemaker.Session(boto_session=self.boto, sagemaker_client=self.client)

    def make_client(self, name, **kwargs):
        client = mock.MagicMock()
        client.get_caller_identity.return_value = {"Account": ACCOUNT}
        return client

    def make_resource(self, name, **kwargs):
        resource = mock.MagicMock()
        resource.Role = lambda role: mock.Mock(arn=f"arn:aws:iam::{ACCOUNT}:role/{role}")
        resource.Object = lambda bucket, key: mock.Mock(
            upload_file=lambda path, ExtraArgs=None: self.upload(bucket, key, path, ExtraArgs))
        return resource

    def upload(self, bucket, key, path, extra):
        with tarfile.open(path) as tar:
            members = sorted(m.name for m in tar.getmembers() if m.isfile())
        self.uploads.append({"bucket": bucket, "key": key, "extra": extra, "members": members})


def run(case):
    """The request and the upload, or the error's first line."""
    real = sagemaker.huggingface.HuggingFace
    made = []

    def estimator(**kwargs):
        stub = Stub(os.environ["AWS_DEFAULT_REGION"])
        made.append(stub)
        result = real(sagemaker_session=stub.session, **kwargs)
        fit = result.fit
        result.fit = lambda inputs=None: fit(inputs=inputs, wait=False)
        return result

    parser = launch.launch_command_parser()
    with mock.patch("sagemaker.huggingface.HuggingFace", estimator), \
            mock.patch("sagemaker.utils.sagemaker_timestamp", lambda: TIME), \
            mock.patch.dict(os.environ), launch_fp8, \
            mock.patch.object(sagemaker.estimator.EstimatorBase, "model_data", "x", create=True), \
            contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            launch.launch_command(parser.parse_args(["--config_file", "job.yaml"] + case["argv"]))
        except (Exception, SystemExit) as error:
            return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:200]}
    request = dict(made[0].client.create_training_job.call_args.kwargs)
    uploads = made[0].uploads
    return {"request": request, "upload": uploads[0] if uploads else None}


cases = []
base = {"compute_environment": "AMAZON_SAGEMAKER", "distributed_type": "NO", "mixed_precision": "no",
        "ec2_instance_type": "ml.p3.2xlarge", "iam_role_name": "worker", "profile": "default", "region": "us-east-1",
        "base_job_name": "accelerate-sagemaker-1", "pytorch_version": "1.10.2", "transformers_version": "4.17.0",
        "py_version": "py38", "num_machines": 1, "gpu_ids": "all", "debug": False, "use_cpu": False}


def add(name, changes=None, argv=("src/train.py",), files=None):
    values = {k: v for k, v in {**base, **(changes or {})}.items() if v != "-"}
    cases.append({"name": name, "config": yaml.safe_dump(values), "argv": list(argv), "files": files or {}})


def args(name, script, *words):
    add("args-" + name, argv=[script, *words])


def more(name, additional, changes=None):
    add("more-" + name, {**(changes or {}), "additional_args": additional})


def add_images():
    with open(os.path.join(os.path.dirname(sagemaker.__file__), "image_uri_config", "huggingface.json")) as file:
        table = json.load(file)["training"]
    regions, newest_regions = set(), set(table["versions"]["4.56.2"]["pytorch2.8.0"]["registries"])
    for version, by_base in table["versions"].items():
        for framework, row in by_base.items():
            if framework.startswith("pytorch"):
                regions |= set(row["registries"])
                for py in row["py_versions"]:
                    add(f"image-{version}-{framework}-{py}",
                        {"transformers_version": version, "pytorch_version": framework[7:], "py_version": py})
    newest = {"transformers_version": "4.56.2", "pytorch_version": "2.8.0", "py_version": "py312"}
    for region in sorted(regions | {"eu-west-9", "ap-south-2", "eu-central-2"}):
        add(f"region-{region}", {**newest, "region": region})
        if region not in newest_regions:
            add(f"region-old-{region}", {"region": region})
    for names in [("4.17", "1.10", "py38"), ("4.26", "1.13", "py39"), ("4.17", "1.10.2", "py38"), ("4.17.0", "1.9", "py38"),
                  ("4.17.0", "1.9.1", "py38"), ("4.99.0", "1.10.2", "py38"), ("4.17.0", "1.10.2", "py27"),
                  ("4.49.0", "2.5.1", "py311"), ("-", "1.10.2", "py38"), ("4.17.0", "-", "py38")]:
        add("versions-" + "-".join(names),
            {"transformers_version": names[0], "pytorch_version": names[1], "py_version": names[2]})
    for kind in ["ml.g4dn.xlarge", "ml.g5.2xlarge", "ml.p4d.24xlarge", "ml.p4dn.24xlarge", "ml.p5.48xlarge", "ml.p2.xlarge",
                 "ml.c5.xlarge", "ml.m5.large", "ml.trn1.2xlarge", "ml.inf1.xlarge", "ml.c6g.large", "ml_p3", "p3.2xlarge",
                 "ml.p3", "ml.P3.2xlarge"]:
        add(f"instance-{kind}", {"ec2_instance_type": kind})
        add(f"instance-image-{kind}", {"ec2_instance_type": kind, "image_uri": "123.dkr.ecr.us-east-1.amazonaws.com/x:1"})


def add_distribution():
    for kind in ["ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4dn.24xlarge", "ml.p4d.24xlarge", "ml.p3.2xlarge",
                 "ml.p5.48xlarge", "ml.trn1.32xlarge"]:
        add(f"data-parallel-{kind}", {"distributed_type": "DATA_PARALLEL", "ec2_instance_type": kind, "num_machines": 2})
    for version in [("4.36.0", "2.1.0", "py310"), ("4.46.1", "2.3.0", "py311"), ("4.28.1", "2.0.0", "py310")]:
        add("data-parallel-" + version[1],
            {"distributed_type": "DATA_PARALLEL", "ec2_instance_type": "ml.p3.16xlarge", "transformers_version": version[0],
             "pytorch_version": version[1], "py_version": version[2]})
    add("data-parallel-image", {"distributed_type": "DATA_PARALLEL", "ec2_instance_type": "ml.p3.16xlarge",
                                "image_uri": "x:1", "pytorch_version": "9.9.9"})
    add("data-parallel-image-refused", {"distributed_type": "DATA_PARALLEL", "ec2_instance_type": "ml.p3.16xlarge",
                                        "image_uri": "x:2.0.1-gpu-py310-cu121"})
    add("model-parallel", {"distributed_type": "MODEL_PARALLEL", "ec2_instance_type": "ml.p3.16xlarge"})
    new = {"transformers_version": "4.36.0", "pytorch_version": "2.1.0", "py_version": "py310"}
    parallel = {"distributed_type": "DATA_PARALLEL", "ec2_instance_type": "ml.p3.16xlarge"}
    # Without DATA_PARALLEL, merging into the missing distribution ends Accelerate.
    more("distribution-none", {"distribution": {"torch_distributed": {"enabled": True}}}, new)
    more("distribution-mpi-options", {"distribution": {"smdistributed": {"dataparallel": {"custom_mpi_options": "-v"}}}},
         parallel)
    more("distribution-off", {"distribution": {"smdistributed": {"dataparallel": {"enabled": False}}}}, parallel)
    more("distribution-two", {"distribution": {"smdistributed": {"modelparallel": {"enabled": True}}}}, parallel)
    more("distribution-strange", {"distribution": {"smdistributed": {"strange": {"enabled": True}}}}, parallel)
    more("distribution-mpi", {"distribution": {"mpi": {"enabled": True, "processes_per_host": 4}}}, parallel)
    more("distribution-mpi-custom", {"distribution": {"mpi": {"enabled": True, "custom_mpi_options": "-x A"}}}, parallel)
    more("distribution-servers", {"distribution": {"parameter_server": {"enabled": True}}}, parallel)
    more("distribution-torch", {"distribution": {"torch_distributed": {"enabled": True}}}, {**parallel, **new})
    more("distribution-torch-old", {"distribution": {"torch_distributed": {"enabled": True}}}, parallel)
    more("distribution-torch-off", {"distribution": {"torch_distributed": {"enabled": False}}}, {**parallel, **new})
    more("distribution-ddp", {"distribution": {"pytorchddp": {"enabled": True}}}, parallel)
    more("distribution-torch-p5", {"distribution": {"torch_distributed": {"enabled": True}}},
         {**parallel, **new, "ec2_instance_type": "ml.p5.48xlarge"})
    more("distribution-null", {"distribution": None}, parallel)


def add_arguments():
    args("none", "src/train.py")
    args("here", "train.py")
    args("dot", "./src/train.py")
    args("numbers", "src/train.py", "--epochs", "3", "--lr", "5e-05", "--big", "1e3", "--huge", "1e25", "--half", "0.5",
         "--zero", "0", "--long", "123456789012345678901", "--under", "1_000", "--octal", "010", "--plus", "+4")
    args("small", "src/train.py", "--a", "1e-7", "--b", "0.0001", "--c", "1e16", "--d", "123456.789", "--e", "1e22",
         "--f", "2.5e300", "--g", ".5", "--j", "5.", "--i", "9007199254740993")
    args("truth", "src/train.py", "--a", "True", "--b", "False", "--c", "true", "--d", "None", "--e", "yes")
    args("texts", "src/train.py", "--model-name", "bert-base", "--q", 'say "hi"', "--path", "a\\b", "--uml", "Zoë",
         "--tab", "a\tb", "--empty", "", "--emoji", "😀")
    args("dashes", "src/train.py", "--learning-rate", "1", "--a_b-c", "2", "-x", "3", "--UPPER", "4")
    args("infinite", "src/train.py", "--a", "inf")
    args("nan", "src/train.py", "--a", "nan")
    args("flag", "src/train.py", "--fast")
    args("flag-first", "src/train.py", "--fast", "--lr", "1")
    args("equals", "src/train.py", "--lr=1")
    args("equals-two", "src/train.py", "--lr=1", "x")
    args("negative", "src/train.py", "--lr", "-1")
    args("stray", "src/train.py", "word")
    args("stray-later", "src/train.py", "--lr", "1", "word")
    args("repeated", "src/train.py", "--lr", "1", "--lr", "2")
    args("help", "src/train.py", "--help", "1")
    args("separator", "src/train.py", "--", "--lr", "1")
    args("not-python", "src/notes.sh")
    args("missing", "src/gone.py")
    args("missing-folder", "gone/train.py")
    add("args-module", argv=["--module", "src/train.py"])
    add("args-no-python", argv=["--no_python", "src/train.py"])


def add_environment():
    for precision in ["fp16", "bf16"]:
        add(f"precision-{precision}", {"mixed_precision": precision})
        add(f"precision-flag-{precision}", argv=["--mixed_precision", precision, "src/train.py"])
    add("precision-fp8", {"mixed_precision": "fp8"}, ["--fp8_backend", "te", "src/train.py"])
    add("precision-none", {"mixed_precision": "-"})
    add("dynamo-flags", argv=["--dynamo_backend", "inductor", "--dynamo_mode", "max-autotune", "--dynamo_use_fullgraph",
                              "--dynamo_use_dynamic", "--dynamo_use_regional_compilation", "src/train.py"])
    add("dynamo-backend", argv=["--dynamo_backend", "eager", "src/train.py"])
    add("dynamo-file", {"dynamo_config": {"dynamo_backend": "INDUCTOR", "dynamo_mode": "default"}})
    add("debug-file", {"debug": True})
    add("debug-flag", argv=["--debug", "src/train.py"])
    add("machines", {"num_machines": 4})
    add("machines-flag", {"num_machines": 4}, ["--num_machines", "2", "src/train.py"])
    add("cpu", {"use_cpu": True})
    add("keys", {"profile": "-"}, ["--aws_access_key_id", "A", "--aws_secret_access_key", "B", "src/train.py"])
    add("keys-none", {"profile": "-"})
    add("role-arn", {"iam_role_name": "arn:aws:iam::444455556666:role/service-role/Sage"})
    add("name-long", {"base_job_name": "a" * 60})
    add("name-none", {"base_job_name": None})
    add("name-image", {"base_job_name": None, "image_uri": "1.dkr.ecr.us-east-1.amazonaws.com/my_thing/train:7"})
    add("minimal", {key: "-" for key in base if key not in ("compute_environment", "distributed_type", "ec2_instance_type",
                                                            "iam_role_name", "profile")})


def add_files():
    inputs = {"inputs.tsv": "channel_name\tdata_location\ntrain\ts3://data/train\ntest\ts3://data/test/\n"}
    add("inputs", {"sagemaker_inputs_file": "inputs.tsv"}, files=inputs)
    add("inputs-crlf", {"sagemaker_inputs_file": "inputs.tsv"},
        files={"inputs.tsv": inputs["inputs.tsv"].replace("\n", "\r\n")})
    add("inputs-no-newline", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\ntrain\ts3://b/c"})
    add("inputs-header", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\n"})
    add("inputs-repeated", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\nx\ts3://1\nx\ts3://2\n"})
    add("inputs-more-columns", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\nx\ts3://1\tnote\n"})
    add("inputs-no-tab", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\nx s3://1\n"})
    add("inputs-empty-line", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\n\nx\ts3://1\n"})
    add("inputs-local", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\nx\tfile:///tmp/x\n"})
    add("inputs-http", {"sagemaker_inputs_file": "inputs.tsv"}, files={"inputs.tsv": "a\tb\nx\thttp://x\n"})
    add("inputs-missing", {"sagemaker_inputs_file": "inputs.tsv"})
    metrics = {"metrics.tsv": "metric_name\tmetric_regex\nloss\tloss: ([0-9.]+)\naccuracy\t'acc': ([0-9\\.]+),?\n"}
    add("metrics", {"sagemaker_metrics_file": "metrics.tsv"}, files=metrics)
    add("metrics-header", {"sagemaker_metrics_file": "metrics.tsv"}, files={"metrics.tsv": "a\tb\n"})
    add("metrics-repeated", {"sagemaker_metrics_file": "metrics.tsv"}, files={"metrics.tsv": "a\tb\nl\tx\nl\ty\n"})
    add("metrics-no-tab", {"sagemaker_metrics_file": "metrics.tsv"}, files={"metrics.tsv": "a\tb\nloss\n"})
    add("both", {"sagemaker_inputs_file": "inputs.tsv", "sagemaker_metrics_file": "metrics.tsv"}, files={**inputs, **metrics})


def add_more():
    more("empty", {})
    more("volume", {"volume_size": 100, "volume_kms_key": "key-1"})
    more("spot", {"use_spot_instances": True, "max_run": 3600, "max_wait": 7200})
    more("spot-off", {"use_spot_instances": False})
    more("run", {"max_run": 3600})
    more("wait-only", {"max_wait": 3600})
    more("checkpoints", {"checkpoint_s3_uri": "s3://b/c", "checkpoint_local_path": "/opt/c"})
    more("checkpoints-local-only", {"checkpoint_local_path": "/opt/c"})
    more("vpc", {"subnets": ["subnet-1", "subnet-2"], "security_group_ids": ["sg-1"]})
    more("vpc-half", {"subnets": ["subnet-1"]})
    more("tags-list", {"tags": [{"Key": "team", "Value": "x"}]})
    more("tags-map", {"tags": {"team": "x", "cost": 7}})
    more("output", {"output_path": "s3://mine/out"})
    more("output-slash", {"output_path": "s3://mine/out/"})
    more("output-key", {"output_path": "s3://mine/out", "output_kms_key": "key-2"})
    more("output-key-default", {"output_kms_key": "key-2"})
    more("code-location", {"code_location": "s3://code/dir"})
    more("code-location-slash", {"code_location": "s3://code/dir/"})
    more("code-location-bucket", {"code_location": "s3://code", "output_kms_key": "k", "output_path": "s3://code/x"})
    more("code-elsewhere-key", {"code_location": "s3://code/a", "output_kms_key": "k", "output_path": "s3://other/x"})
    more("no-compression", {"disable_output_compression": True})
    more("input-mode", {"input_mode": "FastFile"})
    more("hyperparameters", {"hyperparameters": {"epochs": 5, "name": "x", "list": [1, 2.5, None, True], "map": {"a": "b"},
                                                 "rate": 1e-5, "none": None, "on": False}})
    more("environment", {"environment": {"WANDB_MODE": "offline", "ACCELERATE_MIXED_PRECISION": "bf16"}})
    more("metrics", {"metric_definitions": [{"Name": "a", "Regex": "b"}]})
    more("no-metrics-series", {"enable_sagemaker_metrics": False})
    more("metrics-series-null", {"enable_sagemaker_metrics": None})
    more("isolation", {"enable_network_isolation": True})
    more("encrypt", {"encrypt_inter_container_traffic": True})
    more("encrypt-off", {"encrypt_inter_container_traffic": False})
    more("retries", {"max_retry_attempts": 3})
    more("profiler-off", {"disable_profiler": True})
    more("profiler-region", {}, {"region": "ap-southeast-3", "image_uri": "x:1"})
    more("hook", {"debugger_hook_config": True})
    more("hook-null", {"debugger_hook_config": None})
    more("hook-region", {"debugger_hook_config": None}, {"region": "ap-southeast-3", "image_uri": "x:1"})
    more("log-level", {"container_log_level": 10})
    more("repository", {"training_repository_access_mode": "Vpc",
                        "training_repository_credentials_provider_arn": "arn:aws:lambda:x"})
    more("repository-mode", {"training_repository_access_mode": "Platform"})
    more("infra-check", {"enable_infra_check": True})
    more("container", {"container_entry_point": ["/bin/sh"], "container_arguments": ["-c", "x"]})
    more("remote-debug", {"enable_remote_debug": True})
    more("session-tags", {"enable_session_tag_chaining": True})
    more("plan", {"training_plan": "arn:aws:sagemaker:x"})
    more("placement", {"instance_placement_config": {"EnableMultipleJobs": True}})
    more("warm", {"keep_alive_period_in_seconds": 600})
    more("model-channel", {"model_uri": "s3://m/model.tar.gz"})
    more("model-channel-name", {"model_uri": "s3://m/model.tar.gz", "model_channel_name": "weights"})
    more("dependencies", {"dependencies": ["other", "extra.py"]})
    more("source-dir", {"source_dir": "other", "entry_point": "more.py"})
    more("source-dir-s3", {"source_dir": "s3://b/sourcedir.tar.gz", "entry_point": "more.py"})
    more("source-dir-null", {"source_dir": None, "entry_point": "src/train.py"})
    more("entry-missing", {"entry_point": "gone.py"})
    more("instances", {"instance_count": 3, "instance_type": "ml.g5.xlarge"})
    more("versions", {"transformers_version": "4.26.0", "pytorch_version": "1.13.1", "py_version": "py39"})
    more("image", {"image_uri": "y:2"})
    more("role", {"role": "other"})
    more("name", {"base_job_name": "mine"})
    more("old-names", {"train_volume_size": 50, "train_max_run": 100})
    more("tensorflow", {"tensorflow_version": "2.6.3"})
    more("unknown", {"volume_sise": 100})
    more("list", {"instance_groups": []})


def main():
    credentials = tempfile.NamedTemporaryFile("w")
    credentials.write("[default]\naws_access_key_id = A\naws_secret_access_key = B\n")
    credentials.flush()
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = credentials.name
    os.environ["AWS_CONFIG_FILE"] = "/dev/null"
    add("default")
    add_images()
    add_distribution()
    add_arguments()
    add_environment()
    add_files()
    add_more()
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            for path, text in {**TREE, "job.yaml": case["config"], **case["files"]}.items():
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                with open(path, "w", newline="") as file:
                    file.write(text)
            case.update(run(case))
            os.chdir("/")
    print(json.dumps({"name": "", "sagemaker": sagemaker.__version__, "files": TREE}, sort_keys=True))
    for case in cases:
        print(json.dumps(case, sort_keys=True))


main()
