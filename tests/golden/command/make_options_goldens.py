#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# What Hugging Face Accelerate says about its own options and keys, without running a launch: the parser of `accelerate
# launch`, the fields of its configuration classes, and how its library reads the variables that ranks get.
#
# NOT run by `make check`.  To make the data again:
#     python3 -m venv V && V/bin/pip install accelerate==1.15.0 torch==2.15.0
#     V/bin/python tests/golden/command/make_options_goldens.py >tests/golden/command/options.json
# options_compare.py compares it with `accelerate --emit=json`.

import dataclasses
import json
import re
from pathlib import Path

import accelerate
from accelerate.commands.config.config_args import ClusterConfig, SageMakerConfig
from accelerate.commands.launch import launch_command_parser

# A reader of a variable is its type: str_to_bool (os.environ.get (prefix + "NAME"...
READERS = {"str_to_bool": "bool", "parse_flag_from_env": "bool", "int": "int", "float": "float"}
PREFIX = re.compile(r'^\s*(?:env_)?prefix = "(\w+)"')


def options():
    for action in launch_command_parser()._actions:
        names = {name.lstrip("-").replace("-", "_") for name in action.option_strings if name.startswith("--")}
        for name in sorted(names - {"help"}):
            kind = getattr(action.type, "__name__", "str") if action.nargs != 0 else "flag"
            default = None if action.default is None else str(action.default)
            yield {"option": name, "kind": kind, "default": default, "choices": action.choices and list(action.choices)}


def keys():
    for config in (ClusterConfig, SageMakerConfig):
        for field in dataclasses.fields(config):
            optional = re.fullmatch(r"typing.Optional\[(\w+)\]", str(field.type))
            yield {"key": field.name, "class": config.__name__,
                   "kind": optional[1] if optional else getattr(field.type, "__name__", str(field.type))}


def variables():
    """The variables that are read as something other than text."""
    prefix, found = "", {}
    for line in (Path(accelerate.__file__).parent / "utils/dataclasses.py").read_text().splitlines():
        if named := PREFIX.match(line):
            prefix = named[1]
        for reader, name in re.findall(r'(str_to_bool|parse_flag_from_env|\bint|\bfloat)\((?:os\.environ\.get\()?'
                                       r'(?:\w*prefix \+ )?"([A-Z][A-Z0-9_]*)"', line):
            whole = prefix + name if "prefix +" in line else name
            found[whole] = READERS[reader]
        for name in re.findall(r'os\.environ\.get\("([A-Z][A-Z0-9_]*)", "\w+"\)\.lower\(\) == "true"', line):
            found[name] = "bool"
    for name in sorted(found):
        yield {"variable": name, "kind": found[name]}


for row in [*options(), *keys(), *variables()]:
    print(json.dumps(row))
