#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Messages of trees and objects that are not what the other process waits for.
. "${srcdir:-.}/tests/testlib.sh"
faults=$builddir/tests/fault/message_faults

test_expect_success 'other calls and forged messages: both processes are told, none waits' '
    timeout 100 "$accelerate" launch --quiet --cpu --num_processes 2 "$faults"
'
test_done
