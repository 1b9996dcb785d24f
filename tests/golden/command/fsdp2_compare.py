#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fsdp2_compare.py ACCELERATE fsdp2.json: convert each case's file, and compare with what the original made of it.

Values are compared with their types.  Each file is converted to JSON, and to YAML and from there to JSON, so that what
is written as YAML is what it was.  Prints TAP; needs Python's own library only."""

import json
import os
import subprocess
import sys


def typed(value):
    """1, 1.0 and True are equal in Python, and here not."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value).__name__, value


def convert(accelerate, source, target):
    done = subprocess.run([accelerate, "to-fsdp2", "--config_file", source, "--output_file", target, "--overwrite"],
                          capture_output=True, text=True, timeout=300)
    return done.returncode, done.stderr


def differences(accelerate, case):
    with open("in.yaml", "w") as file:
        file.write(case["text"])
    for name in ("out.json", "out.yaml", "again.json"):
        if os.path.exists(name):
            os.unlink(name)
    status, said = convert(accelerate, "in.yaml", "out.json")
    if "error" in case:
        return [] if status == 1 and said and not os.path.exists("out.json") else [f"status {status}: {said}"]
    if status:
        return [f"status {status}: {said}"]
    left_out = sorted(line.split()[2] for line in said.splitlines() if "is removed" in line)
    found = [] if left_out == case["left_out"] else [f"left out: {left_out}, wanted {case['left_out']}"]
    convert(accelerate, "in.yaml", "out.yaml")
    convert(accelerate, "out.yaml", "again.json")
    for name in ("out.json", "again.json"):
        with open(name) as file:
            data = json.load(file)
        if typed(data) != typed(case["data"]):
            found.append(f"{name}: {json.dumps(data)}, wanted {json.dumps(case['data'])}")
    return found


def main():
    accelerate, path = sys.argv[1:]
    with open(path) as file:
        cases = [json.loads(line) for line in file]
    failures = 0
    for number, case in enumerate(cases, 1):
        found = differences(accelerate, case)
        print(f"{'not ' if found else ''}ok {number} - {case['what']}")
        for line in found:
            print(f"# {line}")
        failures += bool(found)
    print(f"1..{len(cases)}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
