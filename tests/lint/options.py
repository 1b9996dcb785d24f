#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The setters of include/accel/hpp/options.hpp are the fields of the C structs, in their order; each field of
options has a comment, which its manual page shows."""
import pathlib
import re
import sys

include = pathlib.Path(sys.argv[1]) / "include" / "accel"
c = re.sub(r"/\*.*?\*/", "", "".join(p.read_text() for p in sorted(include.glob("*.h"))), flags=re.S)
text = (include / "hpp" / "options.hpp").read_text()


def fields(name):
    body = re.search(r"struct %s \{(.*?)\n\};" % name, c, re.S).group(1)
    body = re.sub(r"union \{(.*?)\};", r"\1", body, flags=re.S)  # two names of one field
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        yield from (re.search(r"(\w+)\s*$", part).group(1) for part in declaration.split(","))


# What optimizers have in place of two setters.
text = text.replace("ACCEL_SET_GROUPS_\n", "ACCEL_SET_ (groups) ACCEL_SET_ (group_count)\n")
classes = re.findall(r"struct \w+ : (\w+) \{(.*?)\n\};", text, re.S)
wrong = 0
for name, body in classes:
    setters = re.findall(r"ACCEL_SET_(?:NUMBER_|FLAG_)? \((\w+)\)", body)
    if setters != list(fields(name)):
        print(f"{name}: fields {list(fields(name))}, setters {setters}")
        wrong += 1
named = {name for name, body in classes}
for name in re.findall(r"struct (accel_\w+_options) \{", c):
    if name not in named:
        print(f"{name} has no setters")
        wrong += 1

# A field has its own comment, or is named in one of its struct.
headers = "".join(p.read_text() for p in sorted(include.glob("*.h")))
structs = r"(/\*\*(?:(?!\*/).)*\*/\n)?struct (accel_\w+_options) \{(.*?)\n\};"
for above, name, body in re.findall(structs, headers, re.S):
    parts = re.findall(r"/\*.*?\*/|[^;/]*;", body, re.S)
    comments = above + "".join(part for part in parts if part.startswith("/*"))
    for before, part, after in zip([""] + parts, parts, parts[1:] + [""]):
        field = re.search(r"(\w+)\W*$", part)[1]
        if not (part.startswith("/*") or after.startswith("/**<") or re.match(r"/\*\*[^<]", before)
                or re.search(r"\b%s\b" % field, comments)):
            print(f"{name}: {field} has no comment that says what it is, and what 0 means")
            wrong += 1

# param_group owns its lists, so they need no counts.
group = (include / "hpp" / "groups.hpp").read_text()
setters = set(re.findall(r"^    param_group &\n    (\w+) \(", group, re.M))
setters |= set(re.findall(r"ACCEL_(?:NUMBER|FLAG)_ \((\w+)\)", group))
for field in fields("accel_param_group"):
    if field not in setters and field not in ("parameter_count", "index_count"):
        print(f"param_group has no setter for {field}")
        wrong += 1
sys.exit(wrong > 0 or len(classes) < 10)
