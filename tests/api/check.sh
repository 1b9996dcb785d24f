#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accel_check(): a program ends with one line, and the launcher's report names the rank that failed first.
. "${srcdir:-.}/tests/testlib.sh"

checker=$builddir/tests/api/checker
# launch MODE: 3 ranks, of which the last fails; the report is in `report` and in report.json
launch () {
    "$accelerate" launch --cpu --num_processes 3 --failure_report report.json "$checker" "$1"
}

test_expect_success 'success returns' '"$checker" >out && grep -x done out && grep -x "exit handlers ran" out'
test_expect_success 'a failure ends the program: one line, exit handlers, status 1' '
    test_exit 1 "$checker" argument >out 2>said && cat said && test "$(wc -l <said)" = 1 && ! grep done out &&
    grep -x "exit handlers ran" out && grep "^checker: .*checker\.c:[0-9]*: .*-1.*" said'
test_expect_success 'no error object: the meaning of the status' '
    test_exit 1 "$checker" null 2>said && cat said && grep "^checker: .*checker\.c:[0-9]*: malformed file or data$" said'
test_expect_success 'an error of another status: the meaning of this one' '
    test_exit 1 "$checker" other 2>said && cat said && grep "^checker: .*checker\.c:[0-9]*: out of memory$" said'
test_expect_success 'a collective has said where: not twice' '
    test_exit 1 "$checker" collective 2>said && cat said && test "$(grep -o "checker\.c:" said | wc -l)" = 1 &&
    grep "^checker: accel_reduce_number at .*NULL" said'
test_expect_success 'the report names the rank that failed first, never a peer of it' '
    for i in 1 2 3; do
        test_exit 1 launch callback 2>said && grep "^accelerate: rank 2 .*exited with status 1" said &&
        grep "^checker: .*the \"third\" layer is.*broken" said && ! grep "^checker: rank 2 gave up" said || return 1
    done'
test_expect_success 'a peer exits silently: the rank that waits for it reports its exit' '
    test_exit 1 launch leave 2>said && cat said && grep "^checker: rank 2 exited with status 0" said'
test_expect_success 'the error is in the report of a job with log files' '
    test_exit 1 "$accelerate" launch --cpu --num_processes 2 --log_dir logs --failure_report report.json "$checker" \
        callback 2>said && cat said report.json && grep "its error file says: .*the \"third\" layer is" said &&
    grep -F "the \\\"third\\\" layer is broken\",\"traceback\"" report.json'
test_done
