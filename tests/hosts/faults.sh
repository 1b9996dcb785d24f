#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whatever dies, a rank, an agent, the head, a host or a link: the report says which, and no process stays on any host.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
begin_lab 3 || exit
meet=$builddir/tests/hosts/rendezvous

# begin ARGUMENT...: launch from host1 on all hosts, in the background; ranks 0 and 1 are on host1, 2 on host2, 3 on
# host3
begin () {
    begin_on host1:2,host2:1,host3:1 "$@" && await up.3
}
begin_on () {
    rm -f up.*
    on host1 "$accelerate" launch --cpu --hosts "$@" "$meet" up >out 2>err &
    head=$!
    await up.0 up.1 up.2
}
blames_rank_0 () {
    grep "^accelerate: rank 0 (process $(cat up.0) on host1) was killed by signal 9 (SIGKILL)" err &&
        test "$(grep -c ^accelerate: err)" -eq 1
}

test_expect_success 'a killed rank: it is blamed, not those that lose their connection to it' '
    begin --grace 30 && on host1 kill -9 "$(cat up.0)" && finish 137 && blames_rank_0 && all_clean host1 host2 host3
'
# As on a busy machine: the kernel closes the connections of a process before its end can be seen.
held=
if may_hold 2>/dev/null; then held=yes; else test_skip 'ends that are seen late' 'not permitted to trace processes'; fi
[ -z "$held" ] || test_expect_success 'a killed rank whose end is seen after those of its victims on all hosts' '
    begin --grace 30 && on host1 "$builddir/tests/hosts/hold" "$(cat up.0)" 800 && finish 137 && blames_rank_0
'
[ -z "$held" ] || test_expect_success 'the same where its launcher has been told to end by then' '
    begin_on host1:1,host2:1,host3:1 && on host1 "$builddir/tests/hosts/hold" "$(cat up.0)" 800 && finish 137 &&
    blames_rank_0 && all_clean host1 host2 host3
'
# An abort may follow from the loss of a connection, and nothing but the order of ends tells; so both are named.
[ -z "$held" ] || test_expect_success 'a rank that aborts, and whose end is seen after that of a victim on its host' '
    begin_on host1:2,host2:1 && on host1 "$builddir/tests/hosts/hold" "$(cat up.0)" 800 6 && finish 4 &&
    grep -E "^accelerate: rank [12] .* exited with status 4$" err && test "$(grep -c ^accelerate: err)" -eq 1 &&
    grep -F "  at nearly the same time, rank 0 (process $(cat up.0) on host1) was killed by signal 6 (SIGABRT)" err
'
[ -z "$held" ] || test_expect_success 'a killed rank whose launcher is busy for more than a second' '
    begin_on host1:1,host2:1,host3:1 && freeze host1 && on host1 kill -9 "$(cat up.0)" &&
    { sleep 1.5 && thaw host1; } && finish 137 && blames_rank_0
'
test_expect_success 'a killed rank on another host' '
    begin && on host3 kill -SEGV "$(cat up.3)" && finish 139 &&
    grep "^accelerate: rank 3 (process $(cat up.3) on host3) was killed by signal 11 (SIGSEGV)" err &&
    all_clean host1 host2 host3
'
test_expect_success 'a killed agent: its host is blamed' '
    begin && on host2 pkill -9 -f "[-]-agent" && finish 1 && grep "^accelerate: host host2: lost: " err &&
    all_clean host1 host2 host3
'
# The launcher below it has the same name; the agent is the older one.
test_expect_success 'a killed agent, and ranks that wait for ever' '
    begin && on host1 pkill -9 -o -f "[e]xe --agent" && finish 1 && grep "^accelerate: host host1: lost: " err &&
    all_clean host1 host2 host3
'
test_expect_success 'a killed launcher below an agent' '
    begin && on host2 pkill -9 accel-job && finish 137 && grep "^accelerate: host host2: .*killed by signal 9" err &&
    all_clean host1 host2 host3
'
# The agent lives on, and so does its connection.
test_expect_success 'a stopped supervisor below an agent: its host is blamed after --host_timeout' '
    begin --host_timeout 4 && on host2 pkill -STOP accel-job && stopped=$(on host2 pgrep -x accel-job) && finish 1 &&
    grep -E "^accelerate: host host2: the launcher on this host gave no sign of life for [4-9] s: its process $stopped was" err &&
    grep "was stopped, as by SIGSTOP$" err && test "$(grep -c ^accelerate: err)" -eq 1 && all_clean host1 host2 host3
'
stop_agent () {
    on "$1" sh -c 'kill -STOP "$(pgrep -x accelerate | head -n 1)"'
}
begin_sleepers () {
    rm -f up.*
    on host1 "$accelerate" launch --cpu --hosts "$@" sh -c "echo >up.\$RANK; exec sleep 3600" >out 2>err &
    head=$!
    await up.0 up.1
}
test_expect_success 'a stopped agent: its host is blamed, and its ranks end all the same, although they wait for ever' '
    begin_sleepers host1,host3 --host_timeout 4 && stop_agent host3 && finish 1 &&
    grep "^accelerate: host host3: lost: no sign of life for 4 s$" err && all_clean host1 host3
'
# Its ranks do not notice that others end.
for stopped in 'supervisor:-x accel-job' 'process between the agent and the supervisor:-n -f [-]-agent'; do
    test_expect_success "SIGTERM ends a job with a stopped ${stopped%%:*}" '
        begin_sleepers host1,host2 --host_timeout 600 && on host2 pkill -STOP ${stopped#*:} &&
        on host1 pkill -TERM -f "[-]-hosts host1,host2" && finish 143 && grep "^accelerate: ended by SIGTERM$" err &&
        ! grep "did not end in time" err && all_clean host1 host2
    '
done
if is_long; then
test_expect_success 'a stopped process between the agent and the supervisor does not keep the end of the ranks from the head' '
    begin && on host2 pkill -STOP -n -f "[-]-agent" && on host2 kill -9 "$(cat up.2)" && finish 137 &&
    grep "^accelerate: rank 2 (process $(cat up.2) on host2) was killed by signal 9" err && all_clean host1 host2 host3
'
fi
test_expect_success 'a killed head: all hosts end their ranks' '
    begin && on host1 pkill -9 -f "[-]-hosts host1:2" && finish 137 && all_clean host1 host2 host3
'
test_expect_success 'SIGTERM reaches all ranks once, and ends the job' '
    begin && on host1 pkill -TERM -f "[-]-hosts host1:2" && finish 143 && grep "^accelerate: ended by SIGTERM$" err &&
    all_clean host1 host2 host3
'
test_expect_success 'a cut link: the host is blamed, and ends its own ranks' '
    begin --host_timeout 4 && hosts cut host2 && finish 1 &&
    grep "^accelerate: host host2: lost: no sign of life for 4 s$" err &&
    all_clean host1 host2 host3 && hosts heal host2
'
test_expect_success 'a host that is powered off' '
    begin --host_timeout 4 && hosts off host3 && finish 1 &&
    grep "^accelerate: host host3: lost: no sign of life for 4 s$" err && all_clean host1 host2
'
test_done
