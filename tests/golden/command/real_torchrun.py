# SPDX-License-Identifier: Apache-2.0
#
# make_launch_goldens.py --real: the unpatched original starts real workers that write down their environment, which
# is compared with what launch.json derives for the same arguments and stored in torchrun.json.

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

DIR = "/tmp/golden-real"
WORKER = """import json, os, sys
name = f"{os.environ.get('GROUP_RANK', 'x')}-{os.environ.get('LOCAL_RANK', 'x')}.json"
with open(os.path.join(os.environ["GOLDEN_OUT"], name), "w") as f:
    json.dump({"argv": sys.argv, "env": dict(os.environ)}, f)
"""
BASE = ["--mixed_precision", "no", "--dynamo_backend", "no"]
TWO = ["--num_processes", "4", "--num_machines", "2", "--main_process_ip", "127.0.0.1"]

# name, one list of arguments per node, environment
RUNS = [
    ("one", [["--multi_gpu", "--num_processes", "2", "--num_machines", "1"]], {}),
    ("one.port.role", [["--multi_gpu", "--num_processes", "3", "--num_machines", "1", "--main_process_port", "29611",
                        "--role", "trainer", "--max_restarts", "2"]], {}),
    ("one.c10d", [["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--rdzv_backend", "c10d"]], {}),
    ("one.fsdp.threads", [["--use_fsdp", "--num_processes", "1", "--num_machines", "1",
                           "--num_cpu_threads_per_process", "3", "--main_process_port", "29612"]], {}),
    ("two.same", [["--multi_gpu", *TWO, "--machine_rank", r, "--same_network", "--main_process_port", "29613"]
                  for r in "01"], {}),
    ("two.endpoint", [["--multi_gpu", *TWO, "--machine_rank", r, "--main_process_port", "29614"] for r in "01"], {}),
    ("two.odd", [["--multi_gpu", "--num_processes", "5", *TWO[2:], "--machine_rank", r, "--main_process_port", "29615"]
                 for r in "01"], {}),
    ("one.lower", [["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--main_process_port", "29616"]],
     {"http_proxy": "a", "PET_RDZV_ID": "job"}),
    ("simple", [["--num_processes", "1", "--num_machines", "1"]], {}),
    ("simple.cpu", [["--cpu", "--num_processes", "2", "--num_machines", "1", "--num_cpu_threads_per_process", "1"]],
     {}),
    ("one.tee", [["--multi_gpu", "--num_processes", "2", "--num_machines", "1", "--main_process_port", "29617",
                  "--tee", "3", "--log_dir", DIR + "/log"]], {}),
]
VARIES = [(re.compile(r"/torchelastic_[^/]*/"), "/torchelastic_@RANDOM@/"),
          (re.compile(r"/(job|none)_[0-9a-z_]+/"), r"/\1_@RANDOM@/")]


def tidy(text):
    for pattern, by in VARIES:
        text = pattern.sub(by, text)
    return text.replace(DIR, "@DIR@").replace(sys.executable, "@PYTHON@")


def run_one(name, nodes, extra):
    out = Path(DIR, "out")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    env = {"PATH": "/usr/bin:/bin", "HOME": DIR + "/home", "TMPDIR": DIR, "GOLDEN_OUT": str(out), **extra}
    launch = [sys.executable, "-m", "accelerate.commands.launch"]
    started = [subprocess.Popen(launch + args + BASE + ["w.py", "a"], cwd=DIR, env=env, stdin=subprocess.DEVNULL)
               for args in nodes]
    codes = [p.wait(timeout=300) for p in started]
    workers = {}
    for path in sorted(out.iterdir()):
        seen = json.loads(path.read_text())
        new = {k: tidy(v) for k, v in sorted(seen["env"].items()) if env.get(k) != v and k != "LC_CTYPE"}
        if name == "one.c10d":  # the host's name and a free port
            new.update({k: "@ANY@" for k in ("MASTER_ADDR", "MASTER_PORT")})
        workers[path.stem] = new
    words = [[tidy(w) for w in args + BASE + ["w.py", "a"]] for args in nodes]
    return {"name": "real." + name, "nodes": words, "env": extra, "exit": codes, "workers": workers}


def check(record, forked):
    """The derived values of launch.json's way against the real ones, per node."""
    for node, args in enumerate(record["nodes"]):
        args = [w.replace("@DIR@", DIR) for w in args]
        derived = json.loads(forked({"name": "x", "args": args, "env": record["env"], "machine": {"gpus": 0}}))
        rules = dict(derived.get("workers", {}))
        ranks = rules.pop("RANK", None)
        for label, real in record["workers"].items():
            group, local = label.split("-")
            if group not in (str(node), "x"):
                continue
            want = {**derived["set"], **rules}
            if ranks:
                want["RANK"] = str(ranks[int(local)])
            wrong = {k: (v, real.get(k)) for k, v in want.items() if real.get(k) != v}
            print(record["name"], label, "differs: " + str(wrong) if wrong else "as derived")


def write_real(forked):
    shutil.rmtree(DIR, ignore_errors=True)
    os.makedirs(DIR + "/home")
    Path(DIR, "w.py").write_text(WORKER)
    records = [run_one(*r) for r in RUNS]
    text = "".join(json.dumps(r, ensure_ascii=False, separators=(",", ":")) + "\n" for r in records)
    Path(__file__).resolve().parent.joinpath("torchrun.json").write_text(text)
    for record in records:
        check(record, forked)
    shutil.rmtree(DIR)
