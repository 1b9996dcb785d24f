#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# N processes that share global batches train as one process does with whole ones, and to the bit as they did before.
. "${srcdir:-.}/tests/testlib.sh"
program=$builddir/tests/conformance/global_batch

for count in 1 2 3 4; do
    test_expect_success "$count ranks: as one process with the global batch" '
        timeout $patience "$accelerate" launch --cpu --num_processes $count "$program" >first && [ "$(wc -l <first)" = 201 ]
    '
    sed -n '/^#/p' first
    test_expect_success "$count ranks: the same bits again" '
        timeout $patience "$accelerate" launch --cpu --num_processes $count "$program" >second && diff first second
    '
done
test_done
