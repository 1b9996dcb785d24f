#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each recipe of HACKING.md is complete, as far as lints can see that by reading; see recipes.py.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
python3 "$srcdir/tests/recipes/recipes.py" "$srcdir"
