#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Compares the option table with options.json, which make_options_goldens.py made of Hugging Face Accelerate: each option
# of its `launch` is one of ours, of the same kind and with the same default and choices, and so is each key of its
# files; and what its library reads as a number or a truth value is one in our table.  Prints what differs.
#     options_compare.py TABLE OPTIONS.JSON          TABLE: what `accelerate --emit=json` prints

import json
import sys

TEXT = {"text", "path", "truth value", "list of texts"}
NUMBER = {"integer", "number"}
TRUTH = {"flag", "truth value"}
SAME_KIND = {
    "flag": {"flag"}, "str": TEXT, "int": NUMBER, "float": {"number"}, "bool": TRUTH, "str_to_bool": TRUTH,
    "<lambda>": {"three truth values"}, "list": {"list of texts"}, "Union": {"text"}, "ComputeEnvironment": {"text"},
}
REASONS = {
    ("dynamo_backend", "choices"): "the original misspells torchxla_trace_once, and leaves out two that its library has",
    ("no_tpu_cluster", "default"): "the same switch; the original stores its opposite",
    ("FSDP_VERSION", "kind"): "a choice of two words, 1 and 2",
}


def differences(table, golden):
    ours = {}
    for row in table:
        ours.setdefault(row["key"], row)
    by_variable = {row["environment"]: row for row in table if "environment" in row}
    sections = {row["section"] for row in table if "section" in row}
    for row in golden:
        name = row.get("option") or row.get("key") or row["variable"]
        mine = by_variable.get(name) if "variable" in row else ours.get(name)
        if row["kind"] == "dict" and (name in sections or name == "additional_args"):
            continue
        if not mine:
            if "variable" not in row:
                yield name, "missing", row
            continue
        if ("option" in row and not mine["flag"]) or ("key" in row and not mine["file"]):
            yield name, "missing", row
        if mine["type"] not in SAME_KIND[row["kind"]]:
            yield name, "kind", (mine["type"], row["kind"])
        if row.get("choices") and row["choices"] != mine.get("choices"):
            yield name, "choices", (mine.get("choices"), row["choices"])
        default = row.get("default")
        if default is not None and default.strip("()").replace(" ", "").lower() != mine.get("default", "").lower():
            yield name, "default", (mine.get("default"), default)


table, golden = json.load(open(sys.argv[1])), [json.loads(line) for line in open(sys.argv[2])]
found = {(name, what): detail for name, what, detail in differences(table, golden)}
wrong = [(key, detail) for key, detail in found.items() if key not in REASONS]
unused = [key for key in REASONS if key not in found]
for key, detail in wrong:
    print(*key, detail)
for key in unused:
    print(*key, "is not a difference any more")
print(len(golden), "options, keys and variables compared")
sys.exit(bool(wrong or unused))
