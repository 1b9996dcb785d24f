#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The recipes of HACKING.md were followed to their ends: no file is missing in the makefiles, and what one place of the
# sources names is in the other places too.  tests/recipes/ tests these lints.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
test_expect_success 'each file is in a makefile, and each test in TESTS' 'python3 "$srcdir/tests/lint/listed.py" "$srcdir"'
test_expect_success 'what one place names is in the other places, too' 'python3 "$srcdir/tests/lint/recipes.py" "$srcdir"'
test_done
