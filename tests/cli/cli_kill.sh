#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate kill: the job ends, and it is said how; what cannot be killed is a sentence.
. "${srcdir:-.}/tests/testlib.sh"

# begin ARGUMENTS...: launch ranks in the background; sets $launcher
begin () {
    rm -f out
    "$accelerate" launch --quiet --cpu "$@" >out 2>err &
    launcher=$!
    echo "$launcher" >>launchers
}
ends_with () {
    got=0
    wait "$launcher" || got=$?
    test "$got" = "$1" || { echo "the launcher's exit status is $got, wanted $1"; return 1; }
}

test_expect_success 'a job is ended by its launcher' '
    begin --num_processes 2 "$builddir/tests/cli/watched" && await out &&
    "$accelerate" kill $launcher >said && cat said &&
    grep -x "job [0-9a-f]* has ended: each rank was killed by signal 15 (SIGTERM)" said && ends_with 143'
test_expect_success 'by the beginning of its id, and ranks may end in different ways' '
    begin --num_processes 3 sh -c "trap \"exit \$RANK\" TERM; echo >ready.\$RANK; while :; do sleep 0.1; done" &&
    await ready.0 ready.1 ready.2 && "$accelerate" ps >jobs 2>ignored &&
    id=$(awk -v launcher=$launcher "\$2 == launcher { print \$1 }" jobs) && test -n "$id" &&
    "$accelerate" kill "${id%???}" >said && cat said &&
    grep -x "job $id has ended: rank 0 exited with status 0; rank 1 exited with status 1; rank 2 exited with status 2" said &&
    ends_with 143'
test_expect_success 'another signal reaches the ranks, and nothing is waited for' '
    begin --num_processes 1 sh -c "trap \"echo >signalled\" USR1; echo >ready.usr1; while :; do sleep 0.1; done" && await ready.usr1 &&
    "$accelerate" kill --signal USR1 $launcher >said && test ! -s said && await signalled &&
    "$accelerate" kill --signal KILL $launcher >said && cat said && grep "has ended: " said && ends_with 137'
test_expect_success 'a job that does not end in time' '
    begin --num_processes 1 --grace 100 sh -c "trap : TERM; echo >ready.deaf; while :; do sleep 0.1; done" && await ready.deaf &&
    test_exit 1 "$accelerate" kill --wait 1 $launcher 2>error && cat error &&
    grep "has got SIGTERM, but has not ended after 1 s: .* accelerate kill --signal KILL [0-9a-f]*$" error &&
    "$accelerate" kill --signal KILL $launcher && ends_with 137'
test_expect_success 'ranks of another launcher: that one is named' '
    port=$(free_port) &&
    { by_hand 2 $port "$builddir/tests/cli/watched" steps=300 port=$port >hand 2>&1 & } && starter=$! && await hand &&
    "$accelerate" ps >jobs 2>ignored && cat jobs && id=$(awk "/port=$port/ && \$2 == \"-\" { print \$1 }" jobs) && test -n "$id" &&
    test_exit 1 "$accelerate" kill "$id" 2>error && cat error &&
    grep "accelerate launch has not started job .*, so send the signal to its launcher: process [1-9][0-9]* (" error &&
    { wait $starter || :; }'
test_expect_success 'no such job, no job named, no such signal' '
    test_exit 1 "$accelerate" kill nonsense 2>error && cat error && grep "no running job" error &&
    test_exit 2 "$accelerate" kill 2>error && grep "no job is named: accelerate kill JOB" error &&
    test_exit 2 "$accelerate" kill --signal SIGTERM x 2>error && grep "did you mean .TERM" error &&
    test_exit 2 "$accelerate" kill a b 2>error'
{ xargs kill -KILL <launchers 2>ignored || :; } # of tests that have failed
test_done
