#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checkpoints in memory on two hosts: a killed rank of either makes all continue from what each host has kept, with the
# same log as an undisturbed run; the hosts share no checkpoint on disk.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
begin_lab 2 || exit
allow_leaks_of_mpi || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs ACCELERATE_LOG_LEVEL=info every=5
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH ACCELERATE_LOG_LEVEL
resume=$builddir/examples/resume

# start OPTION... -- ARGUMENT...: three ranks, in the background
start () {
    options=
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # shellcheck disable=SC2086 # a list of words
    on host1 timeout -k 10 $patience "$accelerate" launch --cpu --starter mpirun --hosts host1:2,host2:1 $options \
        "$resume" --samples 480 --total_batch_size 24 --every 1000000 "$@" >out 2>&1 &
    head=$!
}
# has_started COUNT: the ranks have begun to train as often
has_started () {
    [ "$(grep -c 'process(es) x' out)" -ge "$1" ]
}
# has_grown: to more than 24 * 2 * every lines since the latest start
has_grown () {
    [ "$(wc -l <log)" -ge $(($1 + 48 * every)) ]
}
# strike COUNT HOST: kill a rank there, some saves after the COUNT-th start
strike () {
    wait_for has_started "$1" && lines=$(wc -l <log) && wait_for has_grown "$lines" &&
        on "$2" ps -e -o pid=,comm= >processes && victim=$(awk '$2 == "resume" { print $1 }' processes | tail -n 1) &&
        on "$2" kill -9 "$victim"
}

test_expect_success 'an undisturbed run' 'start -- --epochs 12 --project_dir plain --log plain.log && finish 0'
test_expect_success 'ranks of both hosts are killed' '
    : >log && start --max_restarts 9 --memory_checkpoint_every $every -- --epochs 12 --step_ms 5 --project_dir killed --log log &&
    strike 1 host1 && strike 2 host2 && strike 3 host1 && finish 0 && all_clean host1 host2'
test_expect_success 'each time they continue from memory, and the log is that of an undisturbed run' '
    cat out && [ "$(grep -c "continuing from memory, after step" out)" = 3 ] && cmp log plain.log &&
    ! grep "this host gets models and optimizers" out &&
    grep "memory take up to 4 x 1 MiB here, up to 4 x 1 MiB on each other host, and 2 x 1 MiB for copies on another host$" out &&
    [ "$(grep -c "note: checkpoints in memory take up to 4 times what each rank saves, models and optimizers on each host, and 2 times the rest on another host; " out)" = 1 ]'
test_expect_success 'the first saves say how much that is' '
    grep "^accelerate: note: checkpoints in memory of this job take up to [1-9][0-9]* MiB on host1, and [1-9][0-9]* MiB on another host$" out'
# Its only rank and the process that would get copies of them are stopped, so nothing comes in between.
strike_without_common () {
    wait_for has_started 1 && lines=$(wc -l <log) && wait_for has_grown "$lines" && on host2 pkill -STOP -x "resume|accel-copies" &&
        on host2 "$builddir/tests/hosts/kept" hole && on host2 pkill -9 -x resume
}
test_expect_success 'a host without models and optimizers gets them from the other one' '
    : >log && start --max_restarts 1 --memory_checkpoint_every $every -- --epochs 12 --step_ms 5 --project_dir hole --log log &&
    strike_without_common && finish 0 && cat out && cmp log plain.log && grep "continuing from memory, after step" out &&
    grep "RANK 2. accel_load_state: this host gets models and optimizers, 0 MiB, from rank 0" out'
is_long || skip_rest 'only in the long form'
seed=${MEMORY_KILLS_SEED:-31} kills=${KILLS:-20} every=2
# resumed COUNT: the ranks have loaded their state as often
resumed () {
    [ "$(grep -c "^INFO: .RANK 0. checkpoints in memory take" out)" -ge "$1" ]
}
# Any of the three ranks, at any time after the first save of a start.
strike_any () {
    draw 99 1
    wait_for resumed "$1" && sleep "0.$drawn" && draw 3 1 || return 1
    case $drawn in
    1) on host1 pkill -9 -o -x resume ;;
    2) on host1 pkill -9 -n -x resume ;;
    3) on host2 pkill -9 -x resume ;;
    esac
}
strike_all () {
    struck=0
    while [ $struck -lt "$kills" ]; do
        struck=$((struck + 1))
        strike_any $struck || { tail -n 5 out && return 1; }
    done
}
test_expect_success "$kills random kills on two hosts" '
    start -- --epochs $((4 * kills)) --project_dir undisturbed --log plain.log && finish 0 && : >log &&
    start --max_restarts 1000 --memory_checkpoint_every $every -- --epochs $((4 * kills)) --step_ms 5 --project_dir random \
        --log log && strike_all && finish 0 && all_clean host1 host2'
test_expect_success 'each time they continue from memory, and the log is that of an undisturbed run' '
    cat out && [ "$(grep -c "^INFO: .*continuing from memory, after step" out)" = "$kills" ] && cmp log plain.log'
test_done
