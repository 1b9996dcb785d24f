#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every allocation of training, of groups and of collectives fails once, in one process and on one rank of two.
. "${srcdir:-.}/tests/testlib.sh"
memory=$builddir/tests/fault/training_memory

test_expect_success 'alone: every allocation fails once' '
    timeout $patience "$memory" >out
'
sed 's/^/# /' out

test_expect_success 'rank 1 of 2: every allocation fails once' '
    number=0 && while [ "$number" -lt 500 ]; do
        timeout $patience "$accelerate" launch --cpu --num_processes 2 "$memory" "$number" >out 2>&1 || return 1
        ! grep WRONG out || return 1
        ! grep unreached out || break
        number=$((number + 1))
    done && echo "$number allocations" && grep unreached out && [ "$number" -gt 20 ]
'
test_done
