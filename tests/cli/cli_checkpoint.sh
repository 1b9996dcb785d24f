#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate checkpoint: asks a job, waits, and says what was saved.
. "${srcdir:-.}/tests/testlib.sh"

resume=$builddir/examples/resume
# start ARGUMENT...: a job of two ranks in the background; its launcher in $launcher
start () {
    "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 "$@" >run.out 2>run.err &
    launcher=$!
}
steps () {
    rm -rf p log && start "$resume" --project_dir p --log log --every 1000 "$@" && wait_for has_lines
}
has_lines () { [ -e log ] && [ "$(wc -l <log)" -ge 16 ]; }

test_expect_success 'a job saves, and goes on' '
    steps --step_ms 30 && "$accelerate" checkpoint $launcher >out && cat out &&
    grep "^saved step [1-9][0-9]*: $PWD/p/checkpoints/checkpoint_0$" out &&
    test -e p/checkpoints/checkpoint_0/manifest.json && "$accelerate" checkpoint $launcher >out &&
    grep "^saved step [0-9]*: $PWD/p/checkpoints/checkpoint_1$" out &&
    "$accelerate" checkpoint --wait 0 $launcher >out && ! test -s out &&
    wait_for test -e p/checkpoints/checkpoint_2 && kill -TERM $launcher && test_exit 143 wait $launcher &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended by SIGTERM$" run.err'
test_expect_success 'the wait ends, and so does the job' '
    steps --step_ms 10000 && test_exit 1 "$accelerate" checkpoint --wait 1 $launcher 2>err && cat err &&
    grep "job [0-9a-f]* has not saved within 1 s; it is still asked to$" err &&
    { { sleep 0.5 && kill -KILL $launcher; } & } && test_exit 1 "$accelerate" checkpoint $launcher 2>err && cat err &&
    grep "job [0-9a-f]* ended before it had saved$" err && test_exit 137 wait $launcher'
test_expect_success 'a program that does not ask' '
    start sh -c "touch up.\$RANK; exec sleep 1000" && wait_for test -e up.1 &&
    test_exit 1 "$accelerate" checkpoint $launcher 2>err && cat err &&
    grep "cannot be asked for a checkpoint: no rank has opened the job with accel_open()$" err &&
    kill -TERM $launcher && test_exit 143 wait $launcher'
test_expect_success 'no such job' '
    test_exit 1 "$accelerate" checkpoint 999999999 2>err && cat err && test_exit 2 "$accelerate" checkpoint a b'
test_done
