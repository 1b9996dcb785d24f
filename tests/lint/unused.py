#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each function of src/ that is not public is called in src/: what only tests call has no place in the product.

unused.py TOP"""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
# Programs' entries.
CALLED_OTHERWISE = ["main"]


def read(path):
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)


sources = {path: read(path) for end in ("[ch]", "cu") for path in sorted((top / "src").rglob(f"*.{end}"))}
public = set(re.findall(r"\baccel_\w+", "".join(read(path) for path in (top / "include").rglob("*.h"))))
everything = "".join(sources.values())
# Names that a macro puts together, such as cmd_##function.
pasted = re.findall(r"\b(\w+_)##", everything)
wrong = []
count = 0
# The name of a function that is defined begins a line; that of a declaration follows its type.
uses = {}
for text in sources.values():
    for word in re.findall(r"\w+", re.sub(r"^\w.*\b\w+ \([^{};]*\)[^{};]*;$", "", text, flags=re.M)):
        uses[word] = uses.get(word, 0) + 1
for path, text in sources.items():
    for name in re.findall(r"^(\w+) \(", text, re.M):
        if name in public or name in CALLED_OTHERWISE or name.isupper() or name.startswith(tuple(pasted)):
            continue
        count += 1
        if uses[name] < 2:
            wrong.append(f"{path.relative_to(top)}: {name}: nothing in src/ calls it")
print("\n".join(wrong))
sys.exit(bool(wrong) or count < 1500)
