#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Golden data about `accelerate launch`, made by running the original (Hugging Face Accelerate) with only its final
# effects replaced: processes are not started, what would have been started is written down.
#
# NOT run by `make check`.  To make the data again:
#     python3 -m venv V && V/bin/pip install accelerate==1.15.0 torch==2.15.0
#     V/bin/python tests/golden/command/make_launch_goldens.py            # all cases, writes launch.json
#     V/bin/python tests/golden/command/make_launch_goldens.py --real     # real torchrun runs, writes torchrun.json
#     V/bin/python tests/golden/command/make_launch_goldens.py NAME…      # only print these cases
# The data of this folder were made with accelerate 1.15.0, torch 2.15.0, PyYAML 6.0.3, Python 3.11.7.
# The cases themselves are in launch_cases.py; README.md explains the output.

import argparse
import contextlib
import importlib
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
CASE_DIR = "/tmp/golden-case"
BASE_ENV = {"PATH": "/usr/bin:/bin", "HOME": CASE_DIR + "/home"}
UUID = "00000000-0000-4000-8000-000000000000"


def clean(value):
    """Replace what depends on this machine."""
    if isinstance(value, str):
        return value.replace(CASE_DIR, "@DIR@").replace(sys.executable, "@PYTHON@").replace(UUID, "@UUID@")
    if isinstance(value, dict):
        return {k: clean(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(v) for v in value]
    return value


class Recorder:
    """What one case did; also the description of the machine it pretends to run on."""

    def __init__(self, case):
        self.machine = {"gpus": 0, **case.get("machine", {})}
        self.asked = {}
        self.out = {}
        self.before = None

    def env_diff(self, env):
        diff = {k: v if isinstance(v, str) else repr(v) for k, v in env.items() if self.before.get(k) != v}
        gone = [k for k in self.before if k not in env]
        assert not gone, gone
        return dict(sorted(diff.items()))

    def ask(self, key, default):
        """A fact of the machine that is noted only in cases which depend on it."""
        value = self.machine.get(key, default)
        self.asked[key] = value
        return value


class FakeProcess:
    def __init__(self, rec, kind, cmd, env):
        rec.out["path"] = kind
        rec.out["command"] = list(cmd)
        rec.out["set"] = rec.env_diff(env)
        for entry in list(cmd) + list(env.values()):  # what subprocess itself would refuse
            if not isinstance(entry, (str, bytes, os.PathLike)):
                raise TypeError(f"expected str, bytes or os.PathLike object, not {type(entry).__name__}")
        self.returncode = rec.machine.get("child_exit", 0)

    def wait(self):
        return self.returncode


def patch_machine(rec):
    import accelerate.commands.launch as launch
    import accelerate.utils.launch as ulaunch
    import psutil
    import torch

    gpus = rec.machine["gpus"]
    torch.cuda.is_available = lambda: gpus > 0
    torch.cuda.device_count = lambda: gpus
    torch.cuda.is_bf16_supported = lambda *a, **k: rec.ask("bf16", True)
    psutil.cpu_count = lambda logical=True: rec.ask("cores", 8)
    ulaunch.is_fp8_available = lambda: rec.ask("fp8", True)
    busy = lambda port=None: (29500 if port is None else port) in rec.machine.get("busy_ports", [])
    ulaunch.is_port_in_use = busy
    ulaunch.get_free_port = lambda: rec.ask("free_port", 40001)
    mpi = lambda: rec.ask("mpi", {"mpirun": "mpirun (Open MPI) 4.1.4"})
    ulaunch.which = lambda name: "/usr/bin/" + name if name in (mpi() or {}) else None
    subprocess.check_output = lambda cmd, **k: mpi()[cmd[0]].encode()
    launch.check_cuda_p2p_ib_support = lambda: not rec.machine.get("rtx40", False)
    launch.is_deepspeed_available = lambda: bool(rec.ask("deepspeed", "0.18.0"))

    def compare_versions(package, op, version):
        from packaging.version import parse

        assert (package, op) == ("deepspeed", "<")
        return parse(rec.ask("deepspeed", "0.18.0")) < parse(version)

    ulaunch.compare_versions = compare_versions
    runner = types.ModuleType("deepspeed.launcher.runner")
    runner.DEEPSPEED_ENVIRONMENT_NAME = os.getenv("DS_ENV_FILE", ".deepspeed_env")  # like DeepSpeed
    for name in ("deepspeed", "deepspeed.launcher"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["deepspeed.launcher.runner"] = runner


def patch_tpu(rec):
    import accelerate.commands.launch as launch
    import accelerate.utils.launch as ulaunch

    if not rec.machine.get("tpu"):
        return
    launch.is_torch_xla_available = ulaunch.is_torch_xla_available = lambda **k: True
    for name in ("torch_xla", "torch_xla.distributed"):
        sys.modules[name] = types.ModuleType(name)
    xmp = types.ModuleType("torch_xla.distributed.xla_multiprocessing")
    xla_dist = types.ModuleType("torch_xla.distributed.xla_dist")

    def spawn(fn, args=()):
        rec.out.update(path="tpu", command=[fn.launcher.__name__] + sys.argv, set=rec.env_diff(os.environ))

    def parser():  # the options of the removed torch_xla.distributed.xla_dist which the original touches
        p = argparse.ArgumentParser()
        p.add_argument("--tpu")
        p.add_argument("--vm", action="append")
        p.add_argument("--env", action="append")
        p.add_argument("--docker-image", default="")
        p.add_argument("--restart-tpuvm-pod-server", action="store_true")
        p.add_argument("--positional", nargs="+")
        return p

    def resolve_and_execute(args):
        rec.out.update(path="tpu_pod", command=list(args.positional), set=rec.env_diff(os.environ))
        rec.out["pod"] = {"tpu": args.tpu, "vm": args.vm, "env": args.env}

    xmp.spawn, xla_dist.get_args_parser, xla_dist.resolve_and_execute = spawn, parser, resolve_and_execute
    sys.modules["torch_xla.distributed.xla_multiprocessing"] = xmp
    sys.modules["torch_xla.distributed.xla_dist"] = xla_dist
    sys.modules["torch_xla.distributed"].xla_multiprocessing = xmp
    sys.modules["torch_xla.distributed"].xla_dist = xla_dist


class FakeHandler:
    use_agent_store = True

    def __init__(self, run_id):
        self.run_id = run_id

    def get_run_id(self):
        return self.run_id

    def get_backend(self):
        return "fake"

    def shutdown(self):
        return True


def ranks_of(rec, spec, config, node_rank, static):
    """What the elastic agent gives its workers; `--real` runs check these rules."""
    nodes, local = config.max_nodes, spec.local_world_size
    common = {
        "WORLD_SIZE": nodes * local,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": node_rank if static else None,
        "GROUP_WORLD_SIZE": nodes,
        "ROLE_NAME": spec.role,
        "MASTER_ADDR": spec.master_addr if static else None,
        "MASTER_PORT": spec.master_port if static else None,
        "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
        "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
        "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
    }
    if not static and nodes == 1:
        common["GROUP_RANK"] = 0
    out = {k: str(v) for k, v in common.items() if v is not None}
    if node_rank >= nodes:  # such an agent waits in vain
        out.pop("GROUP_RANK", None)
    elif common["GROUP_RANK"] is not None and local <= 64:
        out["RANK"] = [node_rank * local + i if static else i for i in range(local)]
    return out


def patch_torchrun(rec):
    import torch.distributed.launcher.api as api
    import torch.distributed.run as run
    import uuid

    real_run, real_elastic, real_handler = run.run, run.elastic_launch, api.rdzv_registry.get_rendezvous_handler
    uuid.uuid4 = lambda: uuid.UUID(UUID)
    state = {}

    def fake_run(args):
        plain = vars(run.get_args_parser().parse_args([args.training_script]))
        given = {k: v for k, v in vars(args).items() if (v or None) != (plain.get(k) or None)}
        given.pop("training_script_args", None)
        rec.out["path"] = "deepspeed" if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" else "multi_gpu"
        rec.out["set"] = rec.env_diff(os.environ)
        rec.out["torchrun"] = given
        state["args"] = args
        real_run(args)

    def fake_elastic(config, entrypoint):
        rec.out["set"] = rec.env_diff(os.environ)  # torchrun may have added OMP_NUM_THREADS
        state["config"] = config
        return real_elastic(config=config, entrypoint=entrypoint)

    def handler(params):
        if params.backend in ("c10d", "etcd", "etcd-v2"):  # would talk to the network
            return FakeHandler(params.run_id)
        return real_handler(params)

    class Agent:
        def __init__(self, spec, **kwargs):
            self.spec = spec

        def run(self):
            args = state["args"]
            entry = self.spec.entrypoint  # with PET_RUN_PATH a function
            rec.out["command"] = [getattr(entry, "__name__", entry), *self.spec.args]
            static = args.rdzv_backend == "static"
            rec.out["workers"] = ranks_of(rec, self.spec, state["config"], int(args.node_rank), static)
            failed = rec.machine.get("child_exit", 0)
            return types.SimpleNamespace(is_failed=lambda: False, return_values={}, failures={}) if not failed else None

        def get_event_succeeded(self):
            return types.SimpleNamespace()

        get_event_failed = get_event_succeeded

    run.run, run.elastic_launch = fake_run, fake_elastic
    api.rdzv_registry.get_rendezvous_handler = handler
    api.LocalElasticAgent = Agent
    api.events.record = lambda *a, **k: None


def warned_items(text):
    """Only the items of the defaults warning; its first and last line are always the same (README.md)."""
    lines = text.split("\n")
    return lines[1:-1] if lines[0].startswith("The following values were not passed") else [text]


def patch_launch(rec):
    """The default config file is found at import time, so that module is loaded anew in the case's environment."""
    import accelerate.commands.config.config_args as config_args
    import accelerate.commands.launch as launch

    importlib.reload(config_args)
    launch.default_config_file = config_args.default_config_file
    launch.load_config_from_file = config_args.load_config_from_file

    def popen(cmd, env=None):
        kind = "deepspeed_multinode" if cmd[0] == "deepspeed" else "simple"
        return FakeProcess(rec, "mpirun" if cmd[0] in ("mpirun", "mpiexec") else kind, cmd, env)

    launch.subprocess.Popen = popen
    launch.logger.warning = lambda text, *a: rec.out.setdefault("warned", []).extend(warned_items(text))
    warnings.simplefilter("always")
    warnings.showwarning = lambda message, category, *a, **k: rec.out.setdefault("warned", []).append(
        f"{category.__name__}: {message}"
    )


def run_cli(rec, args):
    """accelerate launch ARGS; the error as a user sees it."""
    from accelerate.commands.accelerate_cli import main

    sys.argv = ["accelerate", "launch", *args]
    text = io.StringIO()
    try:
        with contextlib.redirect_stderr(text), contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as e:
        if e.code not in (0, None) or "path" not in rec.out:
            last = text.getvalue().strip().split("\n")[-1]
            last = last[last.find(": error: ") + 9:] if ": error: " in last else last
            rec.out["error"] = {"type": "SystemExit", "message": last, "exit": e.code or 0}
    except BaseException as e:
        first = (str(e).split("\n") or [""])[0]
        rec.out["error"] = {"type": type(e).__name__, "message": first, "exit": 1}
        if os.environ.get("GOLDEN_TRACE"):
            traceback.print_exc()


def run_case(case):
    """In a child process of its own; returns the record."""
    rec = Recorder(case)
    shutil.rmtree(CASE_DIR, ignore_errors=True)
    for name, text in {"train.py": "def main():\n    pass\n", **case.get("files", {})}.items():
        path = Path(CASE_DIR, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.chdir(CASE_DIR)
    tempfile.tempdir = CASE_DIR  # torchrun makes a folder for its logs
    os.environ.clear()
    os.environ.update(BASE_ENV)
    os.environ.update({k: v.replace("@DIR@", CASE_DIR) for k, v in case.get("env", {}).items()})
    sys.path[1:1] = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p]
    patch_machine(rec)
    patch_tpu(rec)
    patch_torchrun(rec)
    patch_launch(rec)
    for name in ("torch", "torch.distributed", "torch.distributed.run", "accelerate"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    rec.before = dict(os.environ)
    run_cli(rec, [a.replace("@DIR@", CASE_DIR) for a in case["args"]])
    machine = {**rec.machine, **rec.asked}
    result = {"name": case["name"], "machine": machine, "args": case["args"]}
    result.update({k: case[k] for k in ("files", "env") if case.get(k)})
    ds_env = Path(CASE_DIR, os.environ.get("DS_ENV_FILE", ".deepspeed_env"))
    if ds_env.is_file():
        rec.out["wrote"] = {ds_env.name: ds_env.read_text()}
    for key in ("path", "command", "set", "torchrun", "workers", "pod", "wrote", "warned", "error"):
        if key in rec.out:
            result[key] = clean(rec.out[key])
    return result


def forked(case):
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(read_end)
            text = json.dumps(run_case(case), ensure_ascii=False, separators=(",", ":"))
            text = text.replace(":NaN", ':"nan"').replace(":Infinity", ':"inf"')  # JSON has no such numbers
            with os.fdopen(write_end, "w") as f:
                f.write(text)
            status = 0
        except BaseException:
            traceback.print_exc()
        os._exit(status)
    os.close(write_end)
    with os.fdopen(read_end) as f:
        text = f.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise SystemExit(f"case {case['name']} broke the generator")
    return text


def main():
    import accelerate.commands.accelerate_cli  # noqa: F401  (loaded once, cases fork)
    import psutil  # noqa: F401
    import torch.distributed.run  # noqa: F401
    from launch_cases import all_cases

    cases = all_cases()
    names = [c["name"] for c in cases]
    twice = {n for n in names if names.count(n) > 1}
    assert not twice, twice
    if sys.argv[1:] == ["--real"]:
        from real_torchrun import write_real

        write_real(forked)
        return shutil.rmtree(CASE_DIR)
    if len(sys.argv) > 1:
        for case in cases:  # one by one, for reading
            if case["name"] in sys.argv[1:]:
                print(json.dumps(json.loads(forked(case)), indent=1))
        return
    lines = [forked(case) for case in cases]
    shutil.rmtree(CASE_DIR)
    (HERE / "launch.json").write_text("\n".join(lines) + "\n")
    counts = {}
    for line in lines:
        record = json.loads(line)
        key = "error" if "error" in record else record["path"]
        counts[key] = counts.get(key, 0) + 1
    print(len(lines), "cases", counts, sum(map(len, lines)), "bytes")


if __name__ == "__main__":
    main()
