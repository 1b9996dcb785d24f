#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank that dies, leaves, comes late or calls something else: the others hear of it, with its number and its line.
. "${srcdir:-.}/tests/testlib.sh"
faults=$builddir/tests/fault/comm_faults
ls /dev/shm >before 2>/dev/null

# ranks HOW N WHAT CULPRIT: their words are in `said`; HOW is "launcher", or "hand" for no launcher at all
ranks () {
    how=$1 count=$2
    shift 2
    if [ "$how" = launcher ]; then
        timeout 30 "$accelerate" launch --quiet --grace 10 --cpu --num_processes "$count" "$faults" "$@" >said
    else
        pids=
        for rank in $(seq 0 $((count - 1))); do
            RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$count LOCAL_WORLD_SIZE=$count MASTER_ADDR=localhost MASTER_PORT=$$ \
                timeout 30 "$faults" "$@" >"said.$rank" &
            pids="$pids $!"
        done
        for pid in $pids; do
            wait "$pid"
        done
        cat said.? >said
    fi
    cat said
}
# heard RANKS STATUS PATTERN: each of these ranks got that status with such a text, and the same when it tried again
heard () {
    for who in $1; do
        grep -qE "^$who $2 $3" said || { echo "rank $who did not say: $2 $3"; return 1; }
        grep -qx "$who again" said || { echo "rank $who was not told at once the second time"; return 1; }
    done
}
here='(.*/)?comm_faults[.]c:[0-9]+'

# shellcheck disable=SC3045
ulimit -c 0
for how in launcher hand; do
    # Without the launcher a rank that somebody has reaped already leaves no status.
    ended='ended .process [0-9]+.'
    [ $how = launcher ] && ended='never'
    while IFS='|' read -r what status pattern; do
        test_expect_success "$how: rank 1 of 3: $what" '
            ranks $how 3 $what 1 && heard "0 2" $status "$pattern"'
    done <<E2
exit|5|rank 1 (exited with status 7|$ended), computing after .* waits for it in accel_comm_barrier at $here
big-exit|5|rank 1 (exited with status 7|$ended), computing after .* waits for it in accel_comm_all_reduce at $here
kill|5|rank 1 (was killed by signal 9 .SIGKILL.|$ended), computing after .* waits for it in accel_comm_barrier at $here
big-kill|5|rank 1 (was killed by signal 9 .SIGKILL.|$ended), computing after .* waits for it in accel_comm_all_reduce at $here
abort|5|rank 1 (was killed by signal 6 .SIGABRT.|$ended), computing after .* waits for it in accel_comm_barrier at $here
close|5|rank 1 has left [(]accel_close[)].* waits for it in accel_comm_barrier at $here
E2
    while IFS='|' read -r what pattern; do
        test_expect_success "$how: rank 2 of 3 disagrees: $what" '
            ranks $how 3 $what 2 && heard "0 1 2" 5 "$pattern"'
    done <<E2
call|rank 2 waits in accel_wait_for_everyone at $here while rank [01] is in accel_comm_barrier at $here
count|counts differ in accel_comm_all_reduce: 64 on rank [01] at $here, 60 on rank 2 at $here
dtype|element types differ in accel_comm_all_reduce: float32 on rank [01] at $here, int32 on rank 2 at $here
op|operations differ in accel_comm_all_reduce: sum on rank [01] at $here, max on rank 2 at $here
root|roots differ in accel_comm_broadcast: 0 on rank [01] at $here, 1 on rank 2 at $here
E2
    test_expect_success "$how: rank 0 of 2 comes too late" '
        ACCEL_TIMEOUT_MS=400 && export ACCEL_TIMEOUT_MS && ranks $how 2 late 0
        unset ACCEL_TIMEOUT_MS
        heard 1 4 "rank 1 has waited for 400 ms in accel_comm_barrier at $here, the timeout, for rank 0 [(]computing after accel_comm_all_reduce at $here[)]"'
done
test_expect_success 'launcher: a rank that ends before it has opened' '
    ranks launcher 3 unborn 1 &&
    test "$(grep -cE "^[02] 5 accel_open: rank 1 exited with status 5 before all ranks had joined" said)" = 2'
test_expect_success 'hand: a rank that never opens' '
    ACCEL_TIMEOUT_MS=700 && export ACCEL_TIMEOUT_MS && ranks hand 3 unborn 1
    unset ACCEL_TIMEOUT_MS
    grep -E "^[02] [45] accel_open: rank [02] has waited for 700 ms, the timeout, for rank 1 [(]not in accel_open[(][)] yet[)]" said'

while IFS='|' read -r variables words; do
    test_expect_success "environment: $variables" '
        test_exit 0 env ACCEL_TIMEOUT_MS=2000 $variables timeout 20 "$faults" exit 9 >said && cat said && grep -E "^[0-9]* [16] .*$words" said'
done <<'E2'
RANK=x WORLD_SIZE=2|RANK='x' is not an integer
RANK=5 WORLD_SIZE=2|RANK=5 is not below WORLD_SIZE=2
WORLD_SIZE=2|WORLD_SIZE=2 without RANK
RANK=0 WORLD_SIZE=99999999999|WORLD_SIZE='99999999999' is not an integer
RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1|no backend can connect
RANK=0 WORLD_SIZE=2 ACCEL_JOB_SEGMENT=/no/such/file|ACCEL_JOB_SEGMENT: .*No such file
RANK=0 WORLD_SIZE=2 ACCEL_JOB_SEGMENT=/etc/passwd|ACCEL_JOB_SEGMENT: .*/etc/passwd
ACCEL_BACKEND=nope|there is no backend 'nope'
RANK=0 WORLD_SIZE=2 ACCEL_BACKEND=self|self connects one process only
ACCEL_TIMEOUT_MS=soon|ACCEL_TIMEOUT_MS='soon' is not a number
ACCELERATE_MIXED_PRECISION=fp4|'fp4' is none of no, fp16
E2

test_expect_success 'no process is left' '! pgrep -f "^$faults" '
test_expect_success 'nothing is left in /dev/shm' 'ls /dev/shm 2>/dev/null | diff before -'
test_done
