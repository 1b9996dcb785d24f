#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checkpoints in memory when a host of three is powered off: the job continues without it, or with another host of the
# list, from what its neighbour has copied; no checkpoint is on disk, and the log is that of an undisturbed run.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
hosts=3
is_long && hosts=4
begin_lab $hosts || exit
allow_leaks_of_mpi || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs ACCELERATE_LOG_LEVEL=info every=5 epochs=20
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH ACCELERATE_LOG_LEVEL
resume=$builddir/examples/resume

# start HOSTS OPTION... -- ARGUMENT...: four ranks, in the background; the head is on host1
start () {
    options=
    list=$1
    shift
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # a list of words
    on host1 timeout -k 10 $patience "$accelerate" launch --cpu --starter mpirun --host_timeout 4 --hosts "$list" \
        --num_cpu_threads_per_process 1 --memory_checkpoint_every $every $options "$resume" --samples 480 \
        --total_batch_size 16 --every 1000000 --epochs "$epochs" "$@" >out 2>&1 &
    head=$!
}
# has_started COUNT: the ranks have begun to save as often
has_started () {
    [ "$(grep -c "^INFO: .RANK 0. checkpoints in memory take" out)" -ge "$1" ]
}
has_copies () {
    on "$2" "$builddir/tests/hosts/kept" $(($1 - 1))
}
# train COUNT HOST: the COUNT-th start goes on until all hosts have copies of a save, as HOST knows
train () {
    wait_for has_started "$1" && wait_for has_copies "$1" "$2"
}
# continued COUNT: as often from memory, and the log is that of an undisturbed run
continued () {
    cat out && [ "$(grep -c "^INFO: .*continuing from memory, after step" out)" = "$1" ] && cmp log plain.log
}

test_expect_success 'an undisturbed run' '
    start host2:2,host3:1,host1:1 --max_restarts 1 -- --project_dir plain --log plain.log && finish 0'
test_expect_success 'the host of ranks 0 and 1 is powered off: the others continue from the copies of their neighbour' '
    : >log && start host2:2,host3:1,host1:1 --max_restarts 1 -- --step_ms 10 --project_dir off --log log && train 1 host3 &&
    hosts off host2 && finish 0 && all_clean host1 host3 &&
    grep "restarting all ranks (1 of 1), without host2: 2 instead of 4" out && continued 1 &&
    ! grep "this host gets models and optimizers" out'
is_long || skip_rest 'only in the long form'
test_expect_success 'another host of the list takes the place of one that is lost, also after a rank was killed' '
    hosts up 4 && : >log &&
    start host2:2,host3:1,host1:1,host4:2 --num_processes 4 --max_restarts 3 -- --step_ms 10 --project_dir spare --log log &&
    train 1 host3 && on host3 pkill -9 -x resume && train 2 host3 && hosts off host2 && train 3 host4 && on host4 pkill -9 -o -x resume &&
    finish 0 && all_clean host1 host3 host4 &&
    grep "restarting all ranks (2 of 3), without host2, with host4$" out && continued 3'
test_expect_success 'if that one cannot be reached, the next does' '
    hosts up 4 && hosts off host4 && : >log &&
    start host2,host3,host4,host1 --num_processes 2 --max_restarts 3 -- --step_ms 10 --project_dir next --log log &&
    train 1 host3 && hosts off host2 && finish 0 && all_clean host1 host3 &&
    grep "restarting all ranks (1 of 3), without host2, with host4$" out &&
    grep "restarting all ranks (2 of 3), without host4, with host1$" out && continued 1'
test_expect_success 'without a host for the ranks that were asked for, the job ends' '
    hosts up 4 && : >log &&
    start host2:2,host3:1,host1:1 --num_processes 4 --max_restarts 3 -- --step_ms 10 --project_dir few --log log &&
    train 1 host3 && hosts off host2 && finish 1 && all_clean host1 host3 && ! grep restarting out'
test_done
