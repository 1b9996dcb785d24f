#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_layout on several processes: models of arrays and structs average their gradients as others do.
. "${srcdir:-.}/tests/testlib.sh"

for processes in 2 3; do
    test_expect_success "$processes processes" '
        "$accelerate" launch --cpu --num_processes $processes "$builddir/tests/unit/core/test_layout" >said && cat said &&
        ! grep "not ok" said && test "$(grep -c "^1\.\." said)" = $processes'
done
test_done
