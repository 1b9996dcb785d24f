#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Where the head of a job is, ps, top, stacks, checkpoint and kill see the ranks of all its hosts; nothing is asked of
# those while no process watches.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 2 || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH

# begin ARGUMENT...: two ranks on host1, where the head is, and one on host2
begin () {
    rm -f out err
    on host1 timeout -k 10 $((4 * patience)) "$accelerate" launch --cpu --host_timeout 120 --hosts host1:2,host2:1 "$@" >out 2>err &
    head=$!
}
# at_head COMMAND ARGUMENT...: a command of ours there
at_head () {
    on host1 timeout -k 10 "$patience" "$accelerate" "$@"
}
# value NAME: of what is in json, all of them in their order
value () {
    sed -n "s/^ *\"$1\": \(.*[^,]\),*$/\1/p" json | tr '\n' ' '
}
end_job () {
    at_head ps >jobs.out && at_head kill "$(cut -f1 jobs.out)" >said && cat said && grep "has ended: each rank was killed by signal 15 (SIGTERM)$" said &&
        wait_for grep "^accelerate: ended by SIGTERM$" err && all_clean host1 host2
}

test_expect_success 'the ranks of all hosts, and no others, also of programs without libaccel' '
    begin sh -c "echo >begun.\$RANK; sleep 1000" && await begun.0 begun.1 begun.2 && at_head top --json >json && cat json &&
    test "$(value rank)$(value host)" = "0 1 2 \"host1\" \"host1\" \"host2\" " && test "$(value hosts)$(value world_size)" = "2 3 " &&
    test "$(value state)" = "\"not open\" \"not open\" \"not open\" " && ! grep "\"pid\": null" json && at_head ps >jobs.out && cat jobs.out &&
    test "$(wc -l <jobs.out)" = 1 && grep "^[0-9a-f]*	[1-9][0-9]*	3/3	-	" jobs.out'
# What was asked for last may still be on its way on a busy machine.
is_quiet () {
    pid=$(cut -f2 jobs.out) && on host1 "$builddir/tests/hosts/told" "$pid" >before && sleep 3 &&
        on host1 "$builddir/tests/hosts/told" "$pid" >after && cat before after && grep -q "[1-9]" before && cmp before after
}
becomes_quiet () { is_quiet || is_quiet || is_quiet; }
test_expect_success 'hosts are asked only for those who watch' 'becomes_quiet'
test_expect_success 'a host that does not answer is reported, and holds up nothing' '
    hosts cut host2 && at_head top --once >once && at_head stacks >places && hosts heal host2 && cat once places &&
    grep "^rank 2: host host2 has not answered for " places && grep "^  no stack: its host has not shown it$" places && grep "3 of 3 ranks .* 2 hosts" once &&
    grep "^    0 .* not open .*  host1  .*not in accel_open() yet" once &&
    grep "^    2 .* no answer .*  host2  .*host host2 has not answered for [0-9]* s; before: not in accel_open() yet" once'
answers () { at_head top --json >json && test "$(value state)" = "\"not open\" \"not open\" \"not open\" "; }
test_expect_success 'it answers again, and the job ends by a signal to its head' 'wait_for answers && end_job'
test_expect_success 'after a restart: the same id' '
    begin --max_restarts 1 sh -c "echo >start.\$TORCHELASTIC_RESTART_COUNT.\$RANK; until [ -e go.\$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.1; done; exit 7" &&
    await start.0.0 start.0.1 start.0.2 && at_head ps >first && touch go.0 && await start.1.0 start.1.1 start.1.2 && at_head ps --json >json && cat first json &&
    grep "\"job\": \"$(cut -f1 first)\"" json && test "$(value restarts)$(value ranks_alive)" = "1 3 " && on host2 "$accelerate" ps >part &&
    grep "^$(cut -f1 first)	" part && touch go.1 && all_clean host1 host2 && grep "restarting all ranks (1 of 1)" err'

mpirun --version >version 2>&1 || :
grep -q "Open MPI" version || skip_rest 'there is no mpirun of Open MPI'
shows () { at_head top --json >json && test "$(value waits_for)" = "2 2 null " && ! grep "\"step[a-z_]*\": null" json; }
test_expect_success 'steps, values, and who waits for a rank of another host' '
    begin --starter mpirun "$builddir/tests/cli/watched" ms=60 slow=2 log=5 quiet=1 && wait_for shows && cat json &&
    test "$(value loss)" = "1.0 2.0 3.0 " && at_head ps >jobs.out && cat jobs.out && grep "	3/3	[1-9][0-9]*	[0-9.]*	" jobs.out'
if has_libdw; then
shows_lines () { at_head stacks >places && grep "^ranks 0-1: in accel_backward at " places; }
test_expect_success 'stacks of all hosts' '
    wait_for shows_lines && at_head stacks --json >json && cat places && grep "^rank 2: computing after accel_[a-z_]* at " places &&
    test "$(grep -c "^  main (watched.c:[0-9]*)$" places)" = 2 && grep "^  nanosleep (libc)$" places &&
    test "$(value rank)$(value host)" = "0 1 2 \"host1\" \"host1\" \"host2\" "'
fi
test_expect_success 'the job ends' 'end_job'
if is_long; then
has_step () { at_head ps >jobs.out && grep "	3/3	[1-9]" jobs.out; }
test_expect_success 'a checkpoint of all ranks' '
    begin --starter mpirun "$builddir/examples/resume" --project_dir p --log log --every 1000 --step_ms 50 --total_batch_size 12 && wait_for has_step &&
    at_head checkpoint >said && cat said && grep "^saved step [1-9][0-9]*: .*/p/checkpoints/checkpoint_0$" said && at_head top --once >once && cat once &&
    grep " saved step [1-9]" once && ls p/checkpoints >saved && test "$(cat saved)" = checkpoint_0 &&
    at_head kill "$(cut -f1 jobs.out)" && all_clean host1 host2'
fi
test_done
