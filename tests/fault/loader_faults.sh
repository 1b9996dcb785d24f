#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Data that cannot be loaded, on one rank or on all: everybody is told why, and nobody waits for ever.
. "${srcdir:-.}/tests/testlib.sh"
faults=$builddir/tests/fault/loader_faults

"$faults" list >names
while read -r name; do
    test_expect_success "$name" '
        timeout 40 "$accelerate" launch --cpu --num_processes 3 "$faults" "$name" 2>err || { cat err; false; }
        test "$(grep -c "^rank [0-2]: " err)" = 3
    '
done <names
test_done
