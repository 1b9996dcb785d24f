#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The table of mutants fits the sources: each text that a mutant replaces is there, once.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    test_skip 'the table of mutants fits the sources' 'needs python3'
    test_done
fi
test_expect_success 'the table of mutants fits the sources' 'python3 -B "$srcdir/tests/mutants/mutants.py" --check'
test_done
