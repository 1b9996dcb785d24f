#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A save fails on one rank: the job fails, the report names that rank and why, and nothing of the save is left.
. "${srcdir:-.}/tests/testlib.sh"

failing=$builddir/tests/fault/failing_saves

# run_failing RANKS RANK WHAT: that rank's disk is full; the status in $status, the report in err
run_failing () {
    status=0
    rm -rf saved
    timeout $patience "$accelerate" launch --cpu --num_processes "$1" "$failing" "$3" saved "$2" >out 2>err || status=$?
}
# headline: the report's first line
headline () { grep '^accelerate: .* (process ' err | head -n 1; }
# is_clean: neither the save nor what it had begun with is there
is_clean () { ! find . -name '*saved*' -o -name '.model*' | grep .; }

for how in close return; do
    test_expect_success "the last save in the background fails, then $how: the job fails, and the rank is named" '
        run_failing 2 1 $how && test $status = 1 && is_clean &&
        headline | grep "^accelerate: rank 1 (process [0-9]* on [^ ]*) failed in accel_save_state_start at .*failing_saves.c:[0-9]*: .*random_states_1.*File too large"'
done
test_expect_success 'the same of one process' '
    run_failing 1 0 close && test $status = 1 && is_clean &&
    headline | grep "^accelerate: .*failing_saves (process [0-9]* on [^ ]*) failed in accel_save_state_start at .*: File too large"'
for how in wait end; do
    test_expect_success "a program that gets the error ($how) decides itself" '
        run_failing 2 1 $how && test $status = 0 && is_clean &&
        grep "told: .*the save started at .*failing_saves.c:[0-9]*: rank 1: .*File too large" out && ! grep "^accelerate: rank" err'
done
for rank in 0 1; do
    test_expect_success "accel_save_state fails on rank $rank, whose end comes last: it is named, and nothing is left" '
        run_failing 2 $rank state && test $status = 1 && is_clean &&
        headline | grep "^accelerate: rank $rank (process [0-9]* on [^ ]*) failed in accel_save_state at .*failing_saves.c:[0-9]*: .*File too large"'
done
test_expect_success 'accel_save_model fails: the rank is named, and nothing is left' '
    run_failing 2 0 model && test $status = 1 && ! find saved -type f | grep . &&
    headline | grep "^accelerate: rank 0 (process [0-9]* on [^ ]*) failed in accel_save_model at .*failing_saves.c:[0-9]*: .*File too large"'
test_expect_success 'a rank that fails after other calls is blamed itself' '
    run_failing 2 1 later && test $status = 3 &&
    headline | grep "^accelerate: rank 0 (process [0-9]* on [^ ]*) exited with status 3" &&
    grep "  it was: computing after accel_comm_barrier at" err'
test_expect_success 'one process crashes after accel_save_model, which the report names' '
    run_failing 1 -1 crash && test $status = 134 && grep "it was: computing after accel_save_model at .*failing_saves.c:" err'
nothing_left
test_done
