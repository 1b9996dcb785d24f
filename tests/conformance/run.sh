#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The same cases for every engine and number of processes: under our launcher, by hand, and under mpirun.
. "${srcdir:-.}/tests/testlib.sh"
conformance=$builddir/tests/conformance/conformance
all="types sizes mixture tensors control arguments memory random objects trees messages groups work rounds"

# launched N SUITES...
launched () {
    processes=$1
    shift
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes "$processes" "$conformance" "$@"
}

one=$(free_port) two=$(free_port)
# Two processes go through all sizes and types, the others through one of five.
every=5
is_long && every=1

# Of what one process does alone nothing races.
alone=
is_thread_sanitized && alone='control memory random trees'
test_expect_success '1 process, without a launcher' '
    CONFORMANCE_EVERY=$every timeout $patience "$conformance" $alone && nothing_left'
is_long && test_expect_success '1 process, launched' 'launched 1 $alone && nothing_left'
test_expect_success 'an empty variable is ignored' 'ACCEL_ENGINE= launched 2 control'
# Every engine of the one list, so also the next one: alone, and with a second process unless it is for one.
names=$(sed -n 's/^ *X (\([a-z0-9_]*\)).*/\1/p' "$srcdir/src/util/engine_files.h")
suites='control groups work'
is_long && suites='types sizes control messages groups work'
conforms () {
    ACCEL_ENGINE=$1 launched 1 types control memory groups work >one && grep "^$1, 1 ranks: " one &&
    if ACCEL_ENGINE=$1 launched 2 $suites >two 2>error; then
        grep "^$1, 2 ranks: " two
    else
        grep "$1 connects one process only" error
    fi && nothing_left
}
test_expect_success 'the list of engines is read' 'test "$(echo $names | wc -w)" -ge 2'
for name in $names; do
    test_expect_success "engine $name, by its name" 'conforms $name'
done
for suite in $all; do
    test_expect_success "2 processes: $suite" 'launched 2 $suite && nothing_left'
done
test_expect_success '2 processes, buffers larger than caches' 'launched 2 large && nothing_left'
test_expect_success '2 processes, instructions of older processors' '
    ACCEL_INSTRUCTIONS=avx2 launched 2 types mixture messages &&
    CONFORMANCE_EVERY=$every ACCEL_INSTRUCTIONS=base launched 2 sizes messages
'
older_ranks=1
is_long && older_ranks='0 1'
test_expect_success 'ranks that would choose pieces of different sizes do as rank 0 does' '
    printf "#!/bin/sh\ntest \$RANK = \$1 && export ACCEL_INSTRUCTIONS=base\nshift\nexec \"\$@\"\n" >older &&
    chmod +x older && for older in $older_ranks; do
        CONFORMANCE_EVERY=5 timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 ./older $older "$conformance" sizes || return 1
    done && nothing_left
'
test_expect_success '3 processes' 'CONFORMANCE_EVERY=$every launched 3 $all && nothing_left'
seeds=2
test_expect_success '4 processes, which divide large all-reduces' '
    launched 4 mixture control messages groups && CONFORMANCE_EVERY=5 launched 4 sizes && nothing_left'
if is_long; then
    test_expect_success '4 processes, nearly everything' '
        launched 4 types tensors objects trees messages work rounds && nothing_left'
    test_expect_success '5 processes' 'launched 5 mixture tensors control && nothing_left'
    test_expect_success '6 processes' 'launched 6 tensors control trees messages groups work && nothing_left'
    seeds='2 3'
fi
test_expect_success '7 processes' 'launched 7 rounds && nothing_left'
is_long && test_expect_success '7 processes, random sequences' 'launched 7 mixture && nothing_left'
for seed in $seeds; do
    test_expect_success "random sequences of collectives, seed $seed" '
        CONFORMANCE_SEED=$seed launched 3 mixture && CONFORMANCE_SEED=1$seed launched 2 mixture
    '
done
test_expect_success 'debug mode: a table of shapes where they differ' '
    (for n in 1 2 3; do
        timeout $patience "$accelerate" launch --quiet --cpu --debug --num_processes $n "$conformance" debug tensors trees messages \
            2>table || { cat table >&2; exit 1; }
        test $n = 1 || { grep -x "Input shapes:" table && grep -x "  - Process 1: \[5, 2\]" table &&
            test "$(grep -c "all processes must pass the same element types" table)" = 2; } || exit 1
    done)'
test_expect_success 'several programs one after the other in one rank' '
    printf "#!/bin/sh\nset -e\nfor i in 1 2 3 4 5; do \"\$@\" tensors rounds; done\n" >several && chmod +x several &&
    timeout $patience "$accelerate" launch --quiet --cpu --num_processes 3 ./several "$conformance" >out &&
    test "$(grep -c "shm, 3 ranks" out)" = 5
'
test_expect_success 'ranks started by hand' 'by_hand 3 $one timeout $patience "$conformance" mixture tensors control rounds && nothing_left'
test_expect_success 'the same, several programs one after the other' '
    by_hand 3 $one timeout $patience ./several "$conformance" >out && test "$(grep -c "shm, 3 ranks" out)" = 5
'
test_expect_success 'two jobs by hand at once, told apart by MASTER_PORT' '
    { by_hand 2 $one timeout $patience "$conformance" mixture >one & } && first=$! &&
    by_hand 3 $two timeout $patience "$conformance" mixture >two && wait $first && grep "2 ranks" one && grep "3 ranks" two
'
if ! command -v mpirun >/dev/null; then
    test_skip 'ranks started by mpirun' 'there is no mpirun'
elif ! mpirun --version >version 2>/dev/null || ! grep -q 'Open MPI' version; then
    test_skip 'ranks started by mpirun' 'mpirun is not that of Open MPI'
else
    test_expect_success 'ranks started by mpirun' '
        allow_mpirun && timeout $patience mpirun -n 3 "$conformance" mixture tensors control >out && grep "shm, 3 ranks" out && nothing_left
    '
fi
test_done
