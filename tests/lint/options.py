#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The setters of include/accel/hpp/options.hpp are the fields of the C structs, in their order."""
import pathlib
import re
import sys

include = pathlib.Path(sys.argv[1]) / "include" / "accel"
c = re.sub(r"/\*.*?\*/", "", "".join(p.read_text() for p in sorted(include.glob("*.h"))), flags=re.S)
text = (include / "hpp" / "options.hpp").read_text()


def fields(name):
    body = re.search(r"struct %s \{(.*?)\n\};" % name, c, re.S).group(1)
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        yield from (re.search(r"(\w+)\s*$", part).group(1) for part in declaration.split(","))


classes = re.findall(r"struct \w+ : (\w+) \{(.*?)\n\};", text, re.S)
wrong = 0
for name, body in classes:
    setters = re.findall(r"ACCEL_SET_ \((\w+)\)", body)
    if setters != list(fields(name)):
        print(f"{name}: fields {list(fields(name))}, setters {setters}")
        wrong += 1
named = {name for name, body in classes}
for name in re.findall(r"struct (accel_\w+_options) \{", c):
    if name not in named:
        print(f"{name} has no setters")
        wrong += 1
sys.exit(wrong > 0 or len(classes) < 10)
