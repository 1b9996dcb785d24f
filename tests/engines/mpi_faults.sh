#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine mpi: what it takes of a process and gives back, ranks that are late, and how it fails.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/engines/under_mpirun.sh"
# Seldom, an mpirun whose ranks have ended does not end.  Nothing here takes more than a few seconds.
limit=$((patience / 9))

# Sanitizers keep freed memory, and reserve addresses.
is_sanitized || test_expect_success 'calls leave no memory behind' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" many'
test_expect_success 'a message, and a sum, that MPI gets in parts' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" message'
test_expect_success 'what was started moves on while a rank computes' '
    under_mpirun 3 ./layout "2 1" "$builddir/tests/engines/mpi_program" alone'
# fails RANKS LAYOUT HOW...: mpirun may complain that one of them cannot leave MPI
fails () {
    ranks=$1 layout=$2
    shift 2
    under_mpirun "$ranks" ./layout "$layout" "$builddir/tests/engines/mpi_program" "$@" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$ranks"
}
test_expect_success 'a rank that is far ahead of another one of its host leaves no rank of other hosts behind' '
    for i in 1 $(is_long && seq 9); do
        fails 4 "2 2" ahead || return 1
    done'
test_expect_success 'accel_work_test() sees that the time is out' 'fails 2 "1 1" tests'
test_expect_success 'after a pause, a call takes no more messages than before' 'fails 4 "2 2" after'
is_long && test_expect_success 'children take memory while a thread of the engine moves a call on' 'fails 3 "2 1" forks'
test_expect_success 'after MPI_Finalize() of the program, no thread of the engine calls MPI' 'fails 2 2 ended'
test_expect_success 'after MPI_Init(), other threads can neither open the job nor wait for a call' 'fails 2 2 strays'
test_expect_success 'freed memory is given back in a way that MPI hears of' 'fails 3 "2 1" freed'
is_sanitized || test_expect_success 'with a limit on address space, half of it is left to the program' 'fails 3 "2 1" limited'
test_expect_success 'a rank that exits while MPI_Init() waits for others ends' '
    test_exit 3 under_mpirun 2 ./layout "1 1" "$builddir/tests/engines/mpi_program" absent >out 2>&1 &&
    ! grep WRONG out && grep "^timeout: .* waiting for ranks of other hosts (1) to call" out'
test_expect_success 'a call in which MPI fails does not end well: a broadcast' 'fails 2 2 broken broadcast'
test_expect_success 'and neither does a large sum on two hosts' 'fails 3 "2 1" broken sum'
test_expect_success 'who waits in a group hears that a rank gave up in another one' 'fails 3 "1 1 1" elsewhere'
test_expect_success 'a rank of several hosts that waits for long says for whom, and the job continues' '
    ACCEL_STALL_TIMEOUT_MS=1000 under_mpirun 3 ./hosts 1 "$builddir/tests/fault/stalls" alone 5 >out 2>&1 &&
    test "$(grep -c "^done$" out)" = 3 &&
    grep "^WARNING: \[RANK 1\] rank 1 has been waiting for [0-9]* s in accel_wait_for_everyone at .*, for rank 0$" out'
# bounds RANKS LAYOUT HOW
bounds () {
    under_mpirun "$1" ./layout "$2" "$builddir/tests/engines/mpi_bounds" "$3" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$1"
}
test_expect_success 'and so does who waits in the same one' 'bounds 3 "1 1 1" early'
test_expect_success 'a rank that does not continue a transfer is named' 'bounds 2 2 asleep'
test_expect_success 'accel_alloc() may have more than fits into the memory of the host' 'bounds 3 "2 1" full'
is_long && test_expect_success 'a group of which a rank has no memory for large calls needs none' 'bounds 3 "2 1" crowded'
is_long && test_expect_success 'where one host cannot share memory, none does' 'bounds 4 "2 2" unshared'
test_expect_success 'the thread of the engine ends with the job' 'bounds 2 "1 1" threads'
is_long && test_expect_success 'beside MPI of the program, the engine has no thread' 'bounds 2 "1 1" serialized'
test_expect_success 'nor may another thread of the program average divided gradients' 'bounds 2 2 divided'
test_expect_success 'a program may wait for another rank in MPI itself, with a call in flight' 'bounds 3 "1 2" mixed'
is_long && test_expect_success 'a call is not over before MPI has sent all of it' 'bounds 3 "2 1" unsent'
is_long && test_expect_success 'a broadcast does not end well if its root gave up, and freed the buffer, before it was read' '
    bounds 3 "2 1" freed'
# steps RANKS LAYOUT HOW: in states that only rare timing would bring about
steps () {
    under_mpirun "$1" ./layout "$2" "$builddir/tests/engines/mpi_steps" "$3" >out 2>&1 || :
    test "$(grep -cx "as expected" out)" = "$1"
}
test_expect_success 'ranks that find another file share no memory' 'steps 3 "2 1" replaced'
test_expect_success 'the module reports the level that MPI gives' '
    limited "$builddir/tests/engines/mpi_steps" report "$module" >out &&
    grep "MPI_THREAD_FUNNELED, but MPI_THREAD_SERIALIZED was asked for: only the thread" out'
# Others take seconds, and a busy machine can bring their ranks into another order: MPI_STEPS=yes runs them.
if [ "${MPI_STEPS-}" = yes ]; then
    test_expect_success 'a rank does not wait for the one that reads for its host, but for messages of its own' '
        steps 4 "2 2" forwarder && steps 4 "2 2" others'
    test_expect_success 'nothing of other hosts is written over what a rank has not read' 'steps 4 "2 2" read'
    test_expect_success 'and nothing of its own host' 'steps 4 "3 1" seen'
    test_expect_success 'nor are results of a large sum that a rank has not taken' 'steps 4 "2 2" taken'
    test_expect_success 'large sums have the same order on all ranks' 'steps 3 "1 2" numbers'
    test_expect_success 'a call is not matched with what was sent after a message that is late' 'steps 3 "2 1" overtaken'
    test_expect_success 'what MPI still sends is not written over' 'OMPI_MCA_btl_vader_eager_limit=256 steps 3 "1 2" bundles'
    test_expect_success 'and makes the job the last one of the process' 'steps 2 "1 1" abandoned'
    test_expect_success 'ranks in another order share no memory' 'steps 4 "1 3" permuted'
    test_expect_success 'ranks of different machines share no memory' 'steps 3 "2 1" machines'
    test_expect_success 'large sums of 16-bit floats' 'steps 3 "2 1" halves'

fi
test_expect_success 'a timeout is that of one call' 'under_mpirun 2 "$builddir/tests/engines/mpi_program" waits'
# Scenarios of tests/fault/comm_faults.sh, rank 1 being the victim: how many ranks get an error, and which.
while read -r scenario told what; do
    test_expect_success "hang: $what" '
        under_mpirun 3 "$builddir/tests/fault/comm_faults" $scenario 1 >out && ! grep WRONG out &&
        test "$(grep -c "^rank [0-9]*: as expected" out)" = $told'
done <<'EOT'
other-call 3 a rank calls something else
other-name 3 a rank calls another function of the same kind
other-count 3 a rank has another count
recv-count 3 a message of another length
set-late 2 a rank computes for longer than the timeout that the others have set
EOT
# On other hosts, the words are fewer.
for scenario in other-call send-barrier recv-count; do
    test_expect_success "on several hosts, too, ranks hear of it: $scenario" '
        { under_mpirun 3 ./layout "2 1" "$builddir/tests/fault/comm_faults" $scenario 1 >out 2>&1 || :; } &&
        grep "ranks [012] and [012] do not call the same thing while rank" out'
done
# mpirun would end the others at once.
if is_open_mpi; then
    test_expect_success 'ranks hear of one that ends on another host, although no rank there is in a call' '
        under_mpirun 4 --enable-recovery ./layout "2 2" "$builddir/tests/engines/mpi_program" hears >out 2>&1 &&
        test "$(grep -cx "as expected" out)" = 3'
    # recovers HOW: rank 1 ends
    recovers () {
        { under_mpirun 3 --enable-recovery ./layout "2 1" "$builddir/tests/engines/mpi_steps" "$1" >out 2>&1 || :; } &&
            test "$(grep -cx "as expected" out)" = 2
    }
    if [ "${MPI_STEPS-}" = yes ]; then
        test_expect_success 'a rank that ends while it carries a part of a large sum is named' 'recovers carries'
        test_expect_success 'and in a group' 'recovers grouped'
    fi
    for scenario in killed killed-large-shared; do
        is_long || [ $scenario = killed ] || continue
        # mpirun itself can fail when a rank is killed ("PMIX ERROR: BAD-PARAM"), or hang until it is ended (Open MPI 5).
        test_expect_success "all hosts hear of a rank that has ended: $scenario" '
            { under_mpirun 4 --enable-recovery ./layout "2 2" "$builddir/tests/fault/comm_faults" $scenario 1 >out 2>&1 ||
                grep -E "PMIX ERROR|Abort is in progress" out; } && ! grep WRONG out && grep "^rank 0: as expected after [0-9.]* ms: rank 1 ended (process [0-9]*); mean" out &&
            test "$(grep -cE "^rank [23]: as expected after [0-9.]* ms: (rank [023] gave up: )*rank 1 ended \(process" out)" = 2'
    done
fi
test_done
