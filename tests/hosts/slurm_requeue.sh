#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/slurm/job.sbatch with examples/resume under Slurm: the ranks save and stop before the time limit, or when one
# of them is asked to, and the job is requeued and continues.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
. "$srcdir/tests/hosts/slurm"
begin_lab 1 || exit
begin_slurm 1 || exit
mkdir bin && ln -s "$accelerate" bin/accelerate
PATH=$scratch/bin:$PATH RANKS_PER_NODE=2
export PATH RANKS_PER_NODE

# submit OPTIONS -- ARGUMENTS: its number in $job
submit () {
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086
    job=$(on host1 sbatch --parsable --nodes=1 --cpus-per-task=2 --output=job.log $options \
        "$srcdir/examples/slurm/job.sbatch" --cpu "$builddir/examples/resume" --log samples --project_dir state "$@")
}
# A job that has ended is forgotten at last.
is_in () {
    on host1 scontrol show job "$job" >shown 2>&1 || return 1
    grep -q " *JobState=$1 " shown
}
is_requeued () { is_in PENDING && grep -q " Restarts=1 " shown; }
# Slurm would wait for two minutes before it starts a requeued job, and may set that time after we have seen it requeued.
is_started_again () {
    is_in PENDING || return 0 # since the last look, when it still waited
    on host1 scontrol update JobId="$job" StartTime=now && sleep 1 && ! is_in PENDING
}
has_ended () { is_in COMPLETED; }
has_grown () { [ "$(grep -c "process(es) x" job.log)" = 2 ] && [ "$(wc -l <samples)" -gt $((lines + 32)) ]; }
has_steps () { [ -e samples ] && test "$(wc -l <samples)" -gt 32; }

test_expect_success 'a signal to one rank: saved on all, requeued, continued' '
    rm -rf samples state job.log && submit -- --step_ms 20 && wait_for has_steps &&
    rank=$(on host1 pgrep -n -x resume) && on host1 kill -TERM "$rank" && wait_for is_requeued &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended as a signal to a rank asked$" job.log &&
    wait_for is_started_again && wait_for has_ended && cat job.log && grep "^finished 3 epochs$" job.log &&
    test "$(wc -l <samples)" = 3024 && test "$(sort -u samples | wc -l)" = 3024
'
# Two minutes, and Slurm sometimes fails to start the job again: TIME_LIMIT=yes runs it.
if [ -n "${TIME_LIMIT-}" ]; then
test_expect_success 'the time limit: saved before it, requeued, continued' '
    rm -rf samples state job.log && GRACE=30 && export GRACE && submit --time=1 -- --step_ms 250 && patience=120 &&
    wait_for is_requeued &&
    grep "^accelerate: saved step [0-9]* on all ranks, then ended before the end of its Slurm job$" job.log &&
    lines=$(wc -l <samples) && wait_for is_started_again && wait_for has_grown && sort samples | uniq -d >twice && ! test -s twice &&
    on host1 scancel "$job"
'
fi
test_done
