#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks that ask for other shapes, scales or types in one call, or prepare other optimizers, or cannot compare theirs for
# lack of memory: all get an error that names the rank and the reason.
. "${srcdir:-.}/tests/testlib.sh"

test_expect_success 'every difference is named, on all ranks, also to those who come late' '
    timeout 900 "$accelerate" launch --quiet --cpu --num_processes 3 "$builddir/tests/fault/agreement"
'
test_done
