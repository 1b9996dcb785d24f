#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A rank dies, leaves, disagrees or does not arrive: the others get an error with its rank and place, and nothing remains.
. "${srcdir:-.}/tests/testlib.sh"
drive=$builddir/tests/fault/drive
faults=$builddir/tests/fault/comm_faults

port=$(free_port)

# told N: N ranks got the right error, and none got another
told () {
    ! grep WRONG out && test "$(grep -c "^rank [0-9]*: as expected" out)" = "$1" && nothing_left
}

# What was said and how long it took, for whoever reads the log.
show () {
    sed -n 's/^rank /# rank /p' out
}

# scenario NAME VICTIM TOLD STATUS: under our launcher, whose status is that of the first rank to fail, and by hand, where
# it is the largest
scenario () {
    test_expect_success "$1, rank $2 of 3, launched" '
        test_exit '"$4"' "$drive" -- "$accelerate" launch --cpu --num_processes 3 "$faults" '"$1 $2"' >out 2>err &&
        told '"$3"
    show
    test_expect_success "$1, rank $2 of 3, by hand" '
        test_exit '"$4"' "$drive" -- sh "$srcdir/tests/hand.sh" 3 "$port" "$faults" '"$1 $2"' >out 2>err &&
        told '"$3"
    show
}

scenario exits 1 2 7
scenario exits 0 2 7
scenario aborts 2 2 134
scenario killed 1 2 137
scenario killed 0 2 137
scenario killed-large 1 2 137
scenario killed-large-shared 2 2 137
scenario fork-exits 1 2 7
scenario closes 1 2 0
scenario closes 0 2 0
# Engine pipes knows only what the ledger shows, and that is overwritten.
[ "${TEST_ENGINE-}" = pipes ] || scenario messages-closes 1 2 0
for what in call name count dtype op root size size-shared; do
    scenario other-$what 1 3 0
done
scenario third-computes 1 3 0
scenario send-dies 1 2 137
scenario recv-dies 2 2 7
scenario recv-closes 0 2 0
scenario send-killed 1 2 137
scenario send-killed-shared 0 2 137
scenario group-dies 0 2 137
scenario work-exits 1 2 7
scenario work-dies 0 2 137
scenario work-killed-large 1 2 137
scenario work-killed-large-shared 2 2 137
scenario work-group-dies 1 2 137
scenario work-closes 2 2 0
scenario work-count 1 3 0
scenario work-blocks 0 3 0
# An engine that waits may hear of it only when its time is over.
[ "${TEST_ENGINE-}" ] || scenario work-aborted 1 2 0
for what in tree-send tree-recv objects-send objects-recv objects-all; do
    scenario $what-dies 1 2 137
done
scenario tree-send-closes 2 2 0
for how in send-barrier recv-count send-circle group-count; do
    scenario $how 1 3 0
done

# in_vain HOW COMMAND...: in a folder of its own, two ranks of three wait for the other until their time is over
in_vain () (
    mkdir -p "$1" && cd "$1" && shift && test_exit 0 "$drive" -- "$@" >out 2>err && told 2
)
launched_in_vain () {
    patiently 20000 in_vain "$1" "$accelerate" launch --cpu --num_processes 3 "$faults" "$1" 1
}
by_hand_in_vain () {
    patiently 20000 in_vain "$1" sh "$srcdir/tests/hand.sh" 3 "$(free_port)" "$faults" "$1" 1
}
# all_in_vain COMMAND: one job for each way, side by side, because each takes as long as its timeout
all_in_vain () {
    jobs=
    # Engine pipes cannot change its timeout.
    ways="late stopped stopped-shared recv-late work-late $([ "${TEST_ENGINE-}" = pipes ] || echo set-late)"
    for how in $ways; do
        ("$1" $how) >$how.said 2>&1 &
        jobs="$jobs $how:$!"
    done
    good=yes
    for job in $jobs; do
        wait "${job#*:}" || { good=no && echo "${job%:*}:" && cat "${job%:*}.said" "${job%:*}/err"; }
    done
    test $good = yes && test "$(echo */out | wc -w)" = "$(echo "$ways" | wc -w)"
}
test_expect_success 'late and stopped ranks, rank 1 of 3, launched' 'all_in_vain launched_in_vain'
test_expect_success 'late and stopped ranks, rank 1 of 3, by hand' 'all_in_vain by_hand_in_vain'

# missed VICTIM: the others wait for it in vain
missed () {
    ACCEL_TIMEOUT_MS=${ACCEL_TIMEOUT_MS:-400} test_exit 7 "$drive" -- \
        sh "$srcdir/tests/hand.sh" 3 "$port" "$faults" open-exit "$1" >out 2>err &&
    nothing_left && test "$(grep -c "^rank .: status [45] .*rank $1" out)" = 2
}

for victim in 0 1 2; do
    for how in exit killed; do
        case $how in
        exit) status=7 words='exited with status 7' ;;
        killed) status=137 words='was killed by signal 9 (SIGKILL)' ;;
        esac
        test_expect_success "rank $victim is gone ($how) before accel_open, launched" '
            test_exit $status "$drive" -- \
                "$accelerate" launch --cpu --num_processes 3 "$faults" open-$how $victim >out 2>err &&
            nothing_left && test "$(grep -c "^rank .: status 5 .*rank $victim $words before all" out)" = 2
        '
        show
    done
    test_expect_success "rank $victim is gone before accel_open, by hand" '
        patiently 10000 missed $victim
    '
    show
done

# refuse WORDS STATUS VARIABLE=VALUE...: one line, with that status of the library
refuse () {
    words=$1 status=$2 && shift 2
    test_expect_success "refused: $*" '
        test_exit 1 env '"$*"' timeout $patience "$faults" open >out 2>&1 &&
        test "$(wc -l <out)" = 1 && grep -F "status $status " out && grep -F -e "$words" out
    '
}
head -c 300000 /dev/urandom >garbage
head -c 300000 /dev/zero >zeros
{ printf SJACCEL1 && head -c 300000 /dev/zero; } >old
printf SJACCEL1 >short
two="RANK=0 WORLD_SIZE=2"
refuse "RANK='x' is not an integer" 1 RANK=x WORLD_SIZE=2
refuse "RANK='' is not an integer" 1 RANK= WORLD_SIZE=2
refuse "RANK='-2' is not an integer" 1 RANK=-2 WORLD_SIZE=2
refuse "RANK=5 must be less than WORLD_SIZE=2" 1 RANK=5 WORLD_SIZE=2
refuse "WORLD_SIZE='0' is not an integer" 1 RANK=0 WORLD_SIZE=0
refuse "WORLD_SIZE='2x' is not an integer" 1 RANK=0 WORLD_SIZE=2x
refuse "WORLD_SIZE='99999999999999999999' is not" 1 RANK=0 WORLD_SIZE=99999999999999999999
refuse "WORLD_SIZE=2 is set, but RANK is not" 1 WORLD_SIZE=2
refuse "RANK=1 is set, but WORLD_SIZE is not" 1 RANK=1
refuse "LOCAL_RANK='y' is not an integer" 1 "$two" LOCAL_RANK=y
refuse "local rank 3 (LOCAL_RANK) must be less than local world size 2" 1 RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 LOCAL_WORLD_SIZE=2
refuse "LOCAL_WORLD_SIZE=3 is greater than the world size 2" 1 "$two" LOCAL_RANK=0 LOCAL_WORLD_SIZE=3
refuse "LOCAL_RANK=0 is set, but LOCAL_WORLD_SIZE is not" 1 RANK=1 WORLD_SIZE=2 LOCAL_RANK=0
refuse "shm connects processes on one host only" 6 "$two" LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
refuse "unknown engine 'nope'" 6 ACCEL_ENGINE=nope
refuse "unknown engine 'nope'" 6 "$two" ACCEL_ENGINE=nope
refuse "self connects one process only" 6 "$two" ACCEL_ENGINE=self
refuse "ACCEL_TIMEOUT_MS='0' is not a number" 1 ACCEL_TIMEOUT_MS=0
refuse "ACCEL_TIMEOUT_MS='1s' is not a number" 1 ACCEL_TIMEOUT_MS=1s
refuse "ACCELERATE_MIXED_PRECISION='fp7' is invalid" 1 ACCELERATE_MIXED_PRECISION=fp7
refuse "ACCELERATE_USE_CPU='maybe' is not a boolean" 1 ACCELERATE_USE_CPU=maybe
refuse "/proc/1/fd/none: " 1 "$two" ACCEL_JOB_SEGMENT=/proc/1/fd/none
test_expect_success "a process that is alone needs no job segment: one that cannot be had is passed over" '
    timeout 900 env ACCEL_JOB_SEGMENT=/proc/1/fd/none "$faults" open
'
refuse "garbage: not a job segment" 1 "$two" ACCEL_JOB_SEGMENT=garbage
refuse "zeros: not a job segment" 1 "$two" ACCEL_JOB_SEGMENT=zeros
refuse "short: not a job segment" 1 "$two" ACCEL_JOB_SEGMENT=short
refuse "old: the job segment has version 0" 1 "$two" ACCEL_JOB_SEGMENT=old
refuse "/dev/null: not a job segment" 1 "$two" ACCEL_JOB_SEGMENT=/dev/null
refuse "RANK=0 but OMPI_COMM_WORLD_RANK=1" 1 "$two" OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
refuse "WORLD_SIZE=1 but OMPI_COMM_WORLD_SIZE=2" 1 RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2
refuse "for rank 0" 4 RANK=1 WORLD_SIZE=2 ACCEL_TIMEOUT_MS=100 MASTER_PORT=$port
refuse "for rank 1 (not in accel_open() yet)" 4 "$two" ACCEL_TIMEOUT_MS=100 MASTER_PORT=$port

test_expect_success 'a limit on the size of files is an error, not a signal' '
    (ulimit -f 100 && test_exit 1 "$accelerate" launch --cpu --num_processes 2 "$faults" open) >out 2>err &&
    grep "rank 0: status 3 .* cannot resize the job segment" out && ! grep XFSZ err
'
# Rank 0 is here twice.
cat >twice <<'EOF'
#!/bin/sh
[ "$RANK" = 0 ] || exec "$1" open-hold
"$1" open-hold >held &
until grep open held; do sleep 0.02; done
"$1" open
status=$?
: >enough
wait
exit $status
EOF
chmod +x twice
test_expect_success 'two processes with one rank, launched' '
    test_exit 1 "$accelerate" launch --cpu --num_processes 2 \
        ./twice "$faults" >out 2>err &&
    grep "status 1 .* are both rank 0" out
'
# come_late MS: with that timeout, a third of which is what the machine may add
come_late () {
    "$accelerate" launch --cpu --num_processes 3 "$builddir/tests/fault/late_ranks" "$1" >out 2>err && grep -x timeout out
}
test_expect_success 'several late ranks have one timeout, not one each' '
    { come_late 3000 || come_late 30000; } && nothing_left
'
test_done
