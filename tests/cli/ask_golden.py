#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Gives the answers of golden/command/ask.json to `accelerate config` through a pipe, and compares the file with the original's.
# Run by config_golden.sh: ask_golden.py ACCELERATE ASK.JSON.  Speaks TAP.

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HOME = "/home/user"
SECRETS = ("AWS Access Key", "AWS Secret Access")
FP8_NAMES = {"amax_history_length": "fp8_amax_history_len", "amax_compute_algorithm": "fp8_amax_compute_algo",
             "optimization_level": "fp8_opt_level"}


def machines_of(case):
    asked = [asked for asked in case["asked"] if asked["question"].startswith("How many different machines")]
    return int(asked[0]["typed"] or 1) if asked else 1


def processes_of(case, typed):
    """The original drops the remainder where machines cannot have equal shares; here that is refused."""
    machines = machines_of(case)
    if machines == 1 or (typed and (not typed.isdigit() or typed == "0" or int(typed) % machines == 0)):
        return typed
    return str(-(-int(typed or 1) // machines) * machines)


def answers_of(case):
    """What a person types at ours: the number of a menu's choice, or its word, in turns."""
    lines = []
    for i, asked in enumerate(case["asked"]):
        if asked["question"].startswith(SECRETS):
            continue  # not asked here: they are not kept
        if re.match(r"How many (processes|[A-Z]+(\(s\)| cores)) should", asked["question"]):
            lines.append(processes_of(case, asked["typed"]))
        elif asked["question"].startswith("Do you want to use the model's `") and not asked["typed"]:
            lines.append("no")  # here the default is yes
        elif "typed" in asked:
            lines.append(asked["typed"])
            if asked["question"].startswith("How many different machines") and machines_of(case) > 1:
                lines.append("")  # no hosts: a question of ours
        elif asked["label"].isdigit() or " " in asked["label"].strip():
            lines.append(asked["label"] if asked["label"].isdigit() else str(asked["menu"]))
        else:
            lines.append(asked["label"] if i % 2 else str(asked["menu"]))
    return lines


def wanted_of(case):
    """The original's file, with the differences that accelerate-differences(7) tells."""
    wanted = dict(case["file"])
    if "downcast_bf16" in wanted:
        wanted["downcast_bf16"] = False  # a text "no", which is true to Python
    if wanted.get("tpu_use_sudo") in ("yes", "no"):
        wanted["tpu_use_sudo"] = wanted["tpu_use_sudo"] == "yes"
    for key in ("tpu_vm", "tpu_env"):
        if wanted.get(key) == [""]:
            wanted[key] = []
    if "fp8_config" in wanted:
        wanted["fp8_config"] = {FP8_NAMES.get(key, key if key.startswith("fp8_") else "fp8_" + key): value
                                for key, value in wanted["fp8_config"].items()}
    if wanted.get("num_processes") and machines_of(case) > 1:
        wanted["num_processes"] = int(processes_of(case, str(wanted["num_processes"])))
    fsdp = wanted.get("fsdp_config", {})
    if fsdp.get("fsdp_version") == 1:
        fsdp["fsdp_sharding_strategy"] = fsdp["fsdp_reshard_after_forward"]
    return wanted


def compare(accelerate, folder, case):
    path = os.path.join(folder, case["name"] + ".json")
    text = "".join(line + "\n" for line in answers_of(case)).encode()
    read_end, write_end = os.pipe()
    os.write(write_end, text)  # less than a pipe holds
    os.close(write_end)
    done = subprocess.run([accelerate, "config", "--config_file", path], stdin=read_end, capture_output=True,
                          env={"HOME": HOME, "PATH": "/usr/bin:/bin", "AWS_EC2_METADATA_DISABLED": "true"}, timeout=300)
    rest = os.read(read_end, 65536)
    os.close(read_end)
    said = (done.stdout + done.stderr).decode()[-600:]
    if "error" in case:
        return None if done.returncode and not os.path.exists(path) else "was not refused: " + said
    # Without credentials, a role cannot be created; cli/config_role.sh does.
    if done.returncode and b"the configuration is saved, but: cannot create role" not in done.stderr:
        return f"status {done.returncode}: {said}"
    if rest:
        return f"{rest!r} was not read: a question is missing"
    with open(path) as file:
        got = json.load(file)
    wanted = wanted_of(case)
    if got == wanted:
        return None
    return f"wrote {json.dumps(got, sort_keys=True)}\nwanted {json.dumps(wanted, sort_keys=True)}"


def main():
    accelerate, golden = sys.argv[1:3]
    with open(golden) as file:
        cases = [json.loads(line) for line in file]
    with ThreadPoolExecutor(2) as pool:
        problems = list(pool.map(lambda case: compare(accelerate, os.getcwd(), case), cases))
    for i, (case, problem) in enumerate(zip(cases, problems), 1):
        print(f"{'not ok' if problem else 'ok'} {i} - {case['name']}")
        if problem:
            print("# " + problem.replace("\n", "\n# "))
    print(f"1..{len(cases)}")
    return any(problems)


if __name__ == "__main__":
    sys.exit(main())
