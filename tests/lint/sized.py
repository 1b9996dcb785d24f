#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every struct of the public headers that a program makes is passed with its size, so that it can grow.

With --list: the structs that may get new fields at their end without breaking compiled programs.
With --tails: a C program that prints each of them, its bits and the bits of padding at its end."""
import pathlib
import re
import sys

# These never change.  The library fills them in where the program has them, or both sides have arrays of them.
FROZEN = """
accel_error accel_field accel_loader_state accel_object accel_object_list accel_scaler_state accel_scheduler_state
accel_safetensors_tensor accel_split accel_tensor accel_value
""".split()
# The library makes them, and programs only read them.
MADE_BY_LIBRARY = ["accel_load_result", "accel_safetensors_info", "accel_tracker_run", "accel_update"]
# Functions that are compiled into the program read them.
INLINE = ["accel_parallel_linear"]
# Parameters that are always structs of the library.
OURS = {("accel_dataset_close", "accel_dataset"), ("accel_sampler_create_llmc_sized", "accel_dataset")}
# Filled in by the library, which test_output() tests; and refused, whatever its size.
NO_ROW = {("accel_optimizer_get_group", "accel_param_group")}

top = pathlib.Path(sys.argv[-1])
# The structs of engine.h have their sizes as members.
headers = [path for path in sorted((top / "include" / "accel").glob("*.h")) if path.name != "engine.h"]
text = "".join(path.read_text() for path in headers)
text = re.sub(r"/\*.*?\*/", "", text, flags=re.S).replace("\\\n", " ")
structs = dict(re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S))
sized = [name for name in structs if name not in FROZEN + MADE_BY_LIBRARY + INLINE]
if sys.argv[1] == "--list":
    print("\n".join(sized + MADE_BY_LIBRARY))
    sys.exit(0)

if sys.argv[1] == "--tails":
    print("#include <accel/accel.h>\n#include <stddef.h>\n#include <stdio.h>\nint main (void)\n{")
    for name in sized:
        last = re.findall(r"(\w+)(?:\[\w+\])?;|\(\*(\w+)\) \([^;]*\);", structs[name])[-1]
        last = f"((struct {name} *) 0)->{last[0] or last[1]}"
        print(f'    printf ("%s %zu %zu\\n", "{name}", 8 * sizeof (struct {name}), 8 * (sizeof (struct {name}) - '
              f"(size_t) ((char *) &{last} - (char *) 0) - sizeof {last}));")
    print("    return 0;\n}")
    sys.exit(0)

wrong = [f"{name} is not in the headers: take it off the lists" for name in FROZEN + MADE_BY_LIBRARY + INLINE
         if name not in structs]


def reached(name):
    """The sized structs that a program passes with a pointer to struct `name`: itself, and those that it points to."""
    members = re.sub(r"\(\*\w+\) \([^;]*", "", structs[name])  # not what its functions get from the library
    found = [name]
    for nested in re.findall(r"\bconst struct (\w+) \*", members):
        found += [each for each in reached(nested) if each not in found] if nested in sized else []
    return found


macros = {name: (function, re.findall(r"sizeof \(struct (\w+)\)", arguments))
          for name, function, arguments in re.findall(r"^#define (\w+)\(\.\.\.\) +(\w+) \((.*)\)$", text, re.M)}
rows = set(re.findall(r"ROW \((\w+), (\w+),", (top / "tests/unit/core/test_sized.c").read_text()))
count = 0
for function, parameters in re.findall(r"^ACCEL_API[^;(]*?\b(accel_\w+) \(([^;]*)\)[^;()]*;", text, re.M):
    structs_read = []
    for name in re.findall(r"\bstruct (\w+) \*(?!\*)", parameters):
        if name in sized and (function, name) not in OURS:
            structs_read += [each for each in reached(name) if each not in structs_read]
    if not structs_read:
        continue
    count += 1
    public = re.sub(r"_(sized|at)$", "", function)
    used, sizes = macros.get(public, (None, []))
    if used != function or set(sizes) != set(structs_read):
        wrong.append(f"{function}: expected a macro {public} that passes the sizes of {', '.join(structs_read)}"
                     f" to a function {public}_sized; it passes {', '.join(sizes) or 'none'}")
    named = re.findall(r"\bsize_t (\w+_size)\b", parameters)
    if len(named) != len(structs_read):
        wrong.append(f"{function}: {len(structs_read)} structs, but {len(named)} parameters named ..._size")
    for name in structs_read:
        if (public, name) not in NO_ROW and (public[6:], name[6:]) not in rows:
            wrong.append(f"tests/unit/core/test_sized.c has no row for {public}, {name}")
passed = {name for _, sizes in macros.values() for name in sizes}
wrong += [f"{name}: no function takes its size; is it frozen, or made by the library? tests/lint/sized.py has lists"
          for name in sized if name not in passed]
print("\n".join(wrong))
sys.exit(bool(wrong) or count < 25)
