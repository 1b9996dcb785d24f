#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""accel.hpp calls every public C function, except those that C++ does not need."""
import pathlib
import re
import sys

# Functions that C++ programs call as they are, or that something else in accel.hpp or in C++ replaces.
NOT_NEEDED = """
accel_dtype_bytes accel_dtype_to_dl
accel_set_log_level accel_status_string accel_version
accel_main_process_first_at accel_local_main_process_first_at
""".split()

include = pathlib.Path(sys.argv[1]) / "include" / "accel"


def read(files):
    return re.sub(r"/\*.*?\*/", "", "".join(path.read_text() for path in sorted(files)), flags=re.S)


functions = re.findall(r"^ACCEL_API[^;]*?\b(accel_\w+) \(", read(include.glob("*.h")), re.M)
called = set(re.findall(r"\baccel_\w+", read((include / "hpp").glob("*.hpp"))))
wrong = [f"accel.hpp does not call {name}" for name in functions
         if name not in called and name.removesuffix("_sized") not in called and name not in NOT_NEEDED]
wrong += [f"{name} is called, or is gone: take it off the list" for name in NOT_NEEDED
          if name in called or name not in functions]
print("\n".join(wrong))
sys.exit(bool(wrong) or len(functions) < 200)
