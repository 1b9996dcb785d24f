#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Data that cannot be loaded, on one rank or on all: everybody is told why, and nobody waits for ever.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/loader_faults

test_expect_success 'the program lists its scenarios' '"$faults" list >names && test "$(wc -l <names)" -gt 30'
while read -r name; do
    test_expect_success "$name" '
        test_exit 0 "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" "$name" >out 2>err &&
        ! grep WRONG out && test "$(grep -c "^rank [0-2]: as expected: " out)" = 3
    '
done <names
test_done
