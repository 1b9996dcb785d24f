#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine mpi: the conformance tests under mpirun, on "several hosts" too, who is refused, and training.
. "${srcdir:-.}/tests/testlib.sh"
conformance=$builddir/tests/conformance/conformance
all="types sizes mixture tensors control arguments memory random objects trees messages groups work rounds"

test_expect_success 'neither the library nor the command needs MPI' '
    for file in "$builddir"/.libs/libaccel.so "$accelerate" "$builddir"/.libs/accelerate; do
        [ ! -f "$file" ] || ! readelf -d "$file" 2>/dev/null | grep "NEEDED.*mpi" || return 1; done'
test_expect_success 'its sources include accel/engine.h, and nothing else of libaccel' '
    ! grep -h "^#include" "$srcdir"/src/engines/mpi/*.[ch] | grep -v -e "<[a-z/]*\.h>" -e "\"engines/mpi/" | grep . &&
    ! grep -h "^#include <accel/" "$srcdir"/src/engines/mpi/*.[ch] | grep -vx "#include <accel/engine.h>"'
. "$srcdir/tests/engines/under_mpirun.sh"
test_expect_success 'it needs nothing of libaccel' '! nm -D -u "$module" | grep " accel_"'

# conforms N SUITE...
conforms () {
    wanted="^mpi, $1 ranks: "
    processes=$1
    shift
    # shellcheck disable=SC2086 # words
    under_mpirun "$processes" $leaks "$conformance" "$@" >conformed && grep "$wanted" conformed && nothing_left
}

test_expect_success '1 process' 'conforms 1 $all'
# Each call waits for the processor twice, thousands of calls for minutes on a busy machine: one of five sizes will do.
if is_long; then
    test_expect_success '2 processes' 'limit=$patience && conforms 2 $all'
else
    test_expect_success '2 processes' 'CONFORMANCE_EVERY=5 conforms 2 $all'
fi
test_expect_success '3 processes' 'conforms 3 mixture messages groups work rounds'
test_expect_success '4 processes' 'conforms 4 control groups'
# Open MPI copies messages below that limit; larger ones stay where they are until their receiver has come.
test_expect_success '3 processes, where MPI copies no message' 'OMPI_MCA_btl_vader_eager_limit=256 conforms 3 mixture'
if is_long; then
    # Beside 16 busy processes, a message between two of four ranks takes milliseconds.
    test_expect_success '4 processes, a quarter of the sizes' '
        limit=$patience && CONFORMANCE_EVERY=4 conforms 4 sizes mixture'
    test_expect_success '3 processes, all suites' 'CONFORMANCE_EVERY=5 conforms 3 $all'
    test_expect_success 'ranks of two hosts in turns, all suites' '
        CONFORMANCE_EVERY=5 under_mpirun 4 ./placed "a b a b" "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success '2 hosts of 2 ranks, all suites' '
        CONFORMANCE_EVERY=5 under_mpirun 4 ./hosts 2 "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success 'hosts of 2, 1 and 1 ranks, all suites' '
        CONFORMANCE_EVERY=5 under_mpirun 4 ./layout "2 1 1" "$conformance" $all >out && grep "^mpi, 4 ranks: " out'
    test_expect_success '2 processes, more than caches hold' 'conforms 2 large'
    test_expect_success 'more elements than an int can count' '
        under_mpirun 2 "$builddir/tests/engines/mpi_program" large >out && grep -x "2181038077 elements" out'
fi
test_expect_success '2 hosts of 2 ranks' '
    under_mpirun 4 ./hosts 2 "$conformance" mixture messages work >out && grep "^mpi, 4 ranks: " out'

# ---- who is chosen, and who is refused ----

test_expect_success 'on one host, mpirun starts ranks that share memory' '
    limited "$mpirun" -n 2 "$conformance" control >out && grep "^shm, 2 ranks: " out'
test_expect_success 'on several hosts, it is chosen' '
    limited "$mpirun" -n 2 ./hosts 1 "$conformance" control >out && grep "^mpi, 2 ranks: " out'
test_expect_success 'ranks that MPI did not start are refused, and the message says how to start them' '
    test_exit 1 env ACCEL_ENGINE=mpi timeout $patience "$accelerate" launch --quiet --cpu --num_processes 2 "$conformance" \
        control 2>error && grep "mpi cannot connect ranks that MPI did not start .*: start the program with .*mpirun -n 2 PROGRAM" error'
test_expect_success 'ranks each of which is alone for MPI are refused' '
    printf "#!/bin/sh\\nPMI_RANK=\$RANK OMPI_COMM_WORLD_RANK=\$RANK ACCEL_ENGINE=mpi\\nexport PMI_RANK OMPI_COMM_WORLD_RANK ACCEL_ENGINE\\nexec \"\$@\"\\n" >alone &&
    chmod +x alone && test_exit 1 by_hand 2 "$port" ./alone timeout $patience "$conformance" control 2>error &&
    grep "accel_open: engine mpi: MPI connects 1 process, but this job has 2: .* was not started by its own mpirun" error'
if is_open_mpi; then
    test_expect_success 'ranks started through PMI-2, of which Open MPI knows nothing, are refused' '
        printf "#!/bin/sh\\nPMI_RANK=\$RANK ACCEL_ENGINE=mpi\\nexport PMI_RANK ACCEL_ENGINE\\nexec \"\$@\"\\n" >other &&
        chmod +x other && test_exit 1 by_hand 2 "$port" ./other timeout $patience "$conformance" control 2>error &&
        grep "started through PMI-1 or PMI-2 .*Open MPI, which needs PMIx" error'
fi
for how in init serialized; do
    test_expect_success "the program has called MPI_Init() itself, and trains: $how" '
        under_mpirun 2 "$builddir/tests/engines/mpi_program" $how >out && grep -x "mpi, 2 ranks" out'
done
test_expect_success 'the program has called MPI_Finalize()' '
    under_mpirun 2 "$builddir/tests/engines/mpi_program" finalized >out && test "$(grep -cx refused out)" = 2'
test_expect_success 'a kind that it does not know is unsupported' '
    under_mpirun 2 "$builddir/tests/engines/opens" >out && test "$(grep -cx "kind 40: engine mpi: unknown kind 40" out)" = 2 &&
    test "$(grep -cx "kind 40, started: engine mpi: unknown kind 40" out)" = 2'
# The command gives MPI a time that a busy machine may exceed.
mpi_answers () {
    limited "$accelerate" env >out || return 0
    ! grep "accel_engine_mpi.so did not answer" out
}
test_expect_success 'accelerate env says which MPI it is, and what its thread level costs' '
    wait_for mpi_answers && grep "engine mpi: [A-Z][^,]*[0-9][^,]*, MPI_THREAD_[A-Z]*[:,] " out'

# ---- training ----

# digits FILE COMMAND...: the losses, which one rank of each host prints
digits () {
    file=$1
    shift
    "$@" "$builddir/examples/digits" --epochs 2 --seed 1 --batch_size 60 >said && grep "^epoch" said | sort -u >"$file" &&
        test "$(wc -l <"$file")" = 2
}
for n in 2 4; do
    test $n = 2 || is_long || continue
    test_expect_success "examples/digits: $n processes train as with shared memory, bit for bit" '
        digits shm timeout $patience "$accelerate" launch --quiet --cpu --num_processes $n &&
        digits mpi under_mpirun $n && diff shm mpi && digits several under_mpirun $n ./hosts 1 && diff shm several'
done
test_done
