#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Messages of trees and objects that differ from what the receiver expects.
. "${srcdir:-.}/tests/testlib.sh"
faults=$builddir/tests/fault/message_faults
# A sanitizer's allocator refuses impossible sizes only with this option.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}allocator_may_return_null=1"
export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}allocator_may_return_null=1"

test_expect_success 'other calls and forged messages: both processes get an error, none waits' '
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 "$faults"
'
test_done
