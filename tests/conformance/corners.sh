#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Corners that the large suites pass by; see corners.c.
. "${srcdir:-.}/tests/testlib.sh"
corners=$builddir/tests/conformance/corners

launched () {
    timeout $patience "$accelerate" launch --quiet --cpu "$@"
}

test_expect_success 'ranks in a group follow the keys, then their order' 'launched --num_processes 3 "$corners" keys'
test_expect_success 'shared memory: blocks never overlap, and what was freed is unmapped' \
    'launched --num_processes 2 "$corners" memory'
test_expect_success 'a small address space is not used up' 'launched --num_processes 2 "$corners" limit'
test_expect_success 'after uneven inputs, loaders are even again' 'launched --num_processes 2 "$corners" join'
test_expect_success 'local SGD averages what is trained, and ends' 'launched --num_processes 2 "$corners" local-sgd'
test_expect_success 'the end of training is that of all' 'launched --num_processes 2 "$corners" end'
test_expect_success 'debug mode: a table without room has the rows that differ' \
    'launched --debug --num_processes 6 "$corners" table'
test_expect_success 'the error names the rank that died, not the one that gave up' '
    test_exit 137 launched --num_processes 3 "$corners" death >out &&
    test "$(grep -c "as expected" out)" = 2 && ! grep WRONG out
'
test_expect_success 'the error says how a rank ended before its parent has reaped it' '
    port=$(free_port) && MASTER_PORT=$port timeout $patience "$corners" zombie
'
test_expect_success 'a warning is written once, among the latest 1024' '
    timeout $patience "$corners" log 2>lines && test "$(grep -c "warning [0-9]*$" lines)" = 1101 &&
        test "$(grep -c "warning 0$" lines)" = 2 && test "$(grep -c "warning 76$" lines)" = 1
'
test_done
