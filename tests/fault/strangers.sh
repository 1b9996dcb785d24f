#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Ranks join only their own job, whatever other processes do; and no process can block a job that another launcher
# starts by taking the name at which its ranks meet.
. "${srcdir:-.}/tests/testlib.sh"
faults=$builddir/tests/fault/comm_faults
hold=$builddir/tests/fault/hold_name
mkfifo hang && exec 9<>hang

# ---- the job segment ----

test_expect_success 'a rank that cuts the job segment short does not kill the supervisor' '
    test_exit 3 "$accelerate" launch --cpu --num_processes 2 \
        sh -c "(: >\"\$ACCEL_JOB_SEGMENT\") 2>/dev/null; sleep 0.1; exit 3" 2>err &&
    grep "exited with status 3" err && ! grep "was killed" err'
test_expect_success '... nor its peers, once they share memory' '
    cat >cut <<-\END &&
	"$1" open-hold >held.$RANK &
	until grep -q open held.$RANK; do sleep 0.02; done
	(: >"$ACCEL_JOB_SEGMENT") 2>/dev/null
	: >cut.$RANK
	until [ -e cut.0 ] && [ -e cut.1 ]; do sleep 0.02; done
	: >enough
	wait $!
	END
    test_exit 0 "$accelerate" launch --no_python --cpu --num_processes 2 sh ./cut "$faults" 2>err &&
    test "$(cat held.? | grep -c "status 0")" = 2 && rm enough'
test_expect_success 'a rank with the segment of another job does not join it' '
    { "$accelerate" launch --quiet --cpu --num_processes 2 \
        sh -c "[ \$RANK != 0 ] || echo \$ACCEL_JOB_SEGMENT \$ACCEL_JOB_ID >other; exec sleep $patience" & } && job=$! &&
    wait_for test -s other && read -r segment id <other &&
    test_exit 1 "$accelerate" launch --cpu --num_processes 2 env ACCEL_JOB_SEGMENT=$segment "$faults" open >out 2>err &&
    kill $job && test_exit 143 wait $job &&
    grep "rank .: status 1 .*$segment: the segment of job $id, but this process belongs to job .* (ACCEL_JOB_ID)" out'

# ---- the name of a job by hand ----

port=$(free_port)
# open_both OPTION...: both ranks of a job by hand, the second of them first
open_both () {
    env WORLD_SIZE=2 MASTER_PORT=$port RANK=1 "$@" timeout -s KILL $patience "$faults" open >out1 2>&1 &
    second=$!
    first=0
    env WORLD_SIZE=2 MASTER_PORT=$port RANK=0 "$@" timeout -s KILL $patience "$faults" open >out0 2>&1 || first=$?
    wait $second && [ $first = 0 ]
}
# The name is in what a rank says that waits in vain.
name_of_job () {
    test_exit 1 env RANK=1 WORLD_SIZE=2 MASTER_PORT=$port ACCEL_TIMEOUT_MS=50 "$faults" open >waiting &&
        sed -n 's/.*socket @\([-a-z0-9]*\).*/\1/p' waiting >name
}
# taken HOW SUFFIX: a stranger, $holder, has the name with that suffix
is_settled () { test -s ready || ! kill -0 $holder 2>/dev/null; }
taken () {
    name_of_job && : >ready && chmod 666 ready || return 1
    $as "$hold" "$(cat name)$2" seqpacket "$1" <hang >ready &
    holder=$!
    wait_for is_settled && test -s ready
}
# blocked HOW COMMAND...: while a stranger has the name, who then ends, so that the next case has it free
blocked () {
    taken "$1" "" && shift || return 1
    result=0
    "$@" || result=1
    kill $holder && { wait $holder || :; } && return $result
}

# What ranks say that meet a stranger who has the name.
alone () {
    test_exit 1 env RANK=1 WORLD_SIZE=2 MASTER_PORT=$port ACCEL_TIMEOUT_MS=300 "$faults" open >out1 &&
    grep "status 4 .* for rank 0 (socket @accel-.*, in use by user 65534, pid [0-9]* (.*hold_name" out1
}
silent () {
    test_exit 1 open_both ACCEL_TIMEOUT_MS=1500 &&
    grep "status 3 .* in use by user $(id -u), pid [0-9]* (.*hold_name .*), which does not answer" out0 &&
        grep "status 4 .* in use by user $(id -u), pid [0-9]* (.*hold_name" out1
}

as=
if [ "$(id -u)" = 0 ] && as_nobody test -x "$hold"; then
    as='setpriv --reuid=65534 --clear-groups'
    for how in listen full bind; do
        test_expect_success "another user has the name of the job ($how): the ranks meet elsewhere" '
            blocked '$how' open_both'
    done
    test_expect_success '... and is named by a rank that waits for rank 0 in vain' '
        blocked listen alone'
    if unshare -m true 2>/dev/null; then
        test_expect_success '... and by all at once where there is no other way' '
            cat >no_list <<-END &&
		mount -t tmpfs none /proc || exit 99
		RANK=0 WORLD_SIZE=2 MASTER_PORT=$port timeout -s KILL $patience "$faults" open >out0
		echo \$? >status
		RANK=1 WORLD_SIZE=2 MASTER_PORT=$port timeout -s KILL $patience "$faults" open >out1
		echo \$? >>status
		END
            blocked listen unshare -m sh no_list && test "$(uniq -c <status | tr -d " ")" = 21 &&
            for rank in 0 1; do
                grep "status 3 .* in use by user 65534, pid [0-9]*, which does not answer: .*MASTER_PORT" out$rank || return 1
            done'
    else
        test_skip 'no other way' 'no mount namespaces'
    fi
else
    test_skip 'another user has the name of the job' 'only root can be two users'
fi
as=
for how in full bind; do
    test_expect_success "a process of our own has the name and accepts no connection ($how): the ranks meet elsewhere" '
        blocked '$how' open_both'
done
test_expect_success 'one that takes ranks and says nothing is named' '
    blocked listen silent'
test_expect_success 'forged names of the same form mislead no rank' '
    taken listen -0123456789abcdef && open_both && kill $holder'
test_expect_success '... nor do many, where the ranks have to meet elsewhere' '
    name_of_job && : >many &&
    { "$hold" "$(cat name)-0000000000000" seqpacket bind 100 400 0 <hang >many & } && forger=$! &&
    wait_for test -s many && blocked bind open_both && kill $forger'

test_expect_success 'two jobs by hand with one port: both get an error' '
    rank="env WORLD_SIZE=2 MASTER_PORT=$port ACCEL_TIMEOUT_MS=${patience}000 RANK=0" &&
    { $rank "$faults" open >rank0.a & } && a=$! && { $rank "$faults" open >rank0.b & } && b=$! &&
    test_exit 1 wait $a && test_exit 1 wait $b &&
    test "$(cat rank0.* | grep -c "status 1 .* are both rank 0: if they belong to two jobs")" = 2'
# A stopped rank 0 accepts no connection, and its queue is filled with connections that have been given up.
cat >fill.py <<'EOF'
import socket, sys
try:
    while True:
        s = socket.socket (socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.setblocking (False)
        s.connect ("\0" + sys.argv[1])
        s.close ()
except BlockingIOError:
    pass
EOF
is_listening () { grep -q " 00010000 .* @$(cat name)\$" /proc/net/unix; }
# The second gives the first three seconds to take it.  A busy machine may need longer for that, so there are many tries.
both_told () {
    rank="env WORLD_SIZE=2 MASTER_PORT=$port ACCEL_TIMEOUT_MS=10000 RANK=0"
    { $rank "$faults" open >rank0.a & } && a=$! && wait_for is_listening && kill -STOP $a &&
        python3 fill.py "$(cat name)" && { $rank "$faults" open >rank0.b & } && b=$! && sleep 0.6 && kill -CONT $a &&
        test_exit 1 wait $a && test_exit 1 wait $b || return 2
    test "$(cat rank0.* | grep -c "status 1 .* are both rank 0: if they belong to two jobs")" = 2
}
test_expect_success '... though the first is slow and has a full queue' '
    name_of_job &&
    for try in $(seq 60); do
        result=0 && { both_told || result=$?; } && test $result = 1 || break
    done &&
    test "$result" = 0'
test_expect_success '... but with ids of their own (ACCEL_JOB_ID) they do not meet' '
    rank="env WORLD_SIZE=2 MASTER_PORT=$port" &&
    { $rank RANK=0 ACCEL_JOB_ID=a "$faults" open >rank0.a & } && a=$! &&
    { $rank RANK=1 ACCEL_JOB_ID=b "$faults" open >rank1.b & } && b=$! && sleep 0.3 &&
    $rank RANK=0 ACCEL_JOB_ID=b "$faults" open >rank0.b && kill -0 $a &&
    $rank RANK=1 ACCEL_JOB_ID=a "$faults" open >rank1.a && wait $a && wait $b &&
    test "$(cat rank?.? | grep -c "status 0 ")" = 4'
test_done
