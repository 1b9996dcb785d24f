#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Engine mpi built with MPICH, where it stands beside the MPI that the tree was configured with; ranks that Hydra starts,
# and ranks of this launcher on two simulated hosts, with which Hydra's stand-ins share their variables.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
conformance=$builddir/tests/conformance/conformance
if [ ! -f "$builddir/src/engines/mpi/.libs/accel_engine_mpi.so" ]; then
    skip_rest 'engine mpi is not built'
elif is_sanitized; then
    skip_rest 'MPI is not built with sanitizers'
elif ! command -v mpicc.mpich >/dev/null || ! command -v mpiexec.hydra >/dev/null; then
    skip_rest 'MPICH is not installed (libmpich-dev, mpich)'
fi
limit=$((patience / 6)) # a hang is known after minutes: nothing here takes more than a few seconds
mkdir engines
ACCEL_ENGINE_PATH=$scratch/engines
export ACCEL_ENGINE_PATH
# Some warnings need an optimizer, which takes twice as long.
optimize=-O0
is_long && optimize=-O1
test_expect_success 'it compiles without a warning' '
    timeout -k 10 $limit mpicc.mpich -std=gnu11 -D_GNU_SOURCE $optimize -Wall -Wextra -Werror -fPIC -shared \
        -I"$builddir" -I"$srcdir/include" -I"$srcdir/src" -o engines/accel_engine_mpi.so "$srcdir"/src/engines/mpi/*.c -lpthread -ldl'
# hydra N COMMAND...
hydra () {
    ranks=$1
    shift
    timeout -k 10 $limit mpiexec.hydra -n "$ranks" "$@"
}
test_expect_success 'the conformance tests, 2 processes' '
    ACCEL_ENGINE=mpi hydra 2 "$conformance" mixture control groups work >out && grep "^mpi, 2 ranks: " out && nothing_left'
# One rank of the first job waits until the second job has ended.
test_expect_success 'two jobs side by side do not meet each other' '
    printf "#!/bin/sh\\n[ \$PMI_RANK = 0 ] && echo >waits || until [ -e go ]; do sleep 0.1; done\\nexec \"\$@\"\\n" >late &&
    chmod +x late && { ACCEL_ENGINE=mpi hydra 2 ./late "$conformance" control >first 2>&1 & } && await waits && sleep 1 &&
    ACCEL_ENGINE=mpi hydra 2 "$conformance" control >second && : >go && wait $! &&
    grep "^mpi, 2 ranks: " first && grep "^mpi, 2 ranks: " second'
timeout -k 10 $limit mpirun --version >version 2>&1 || :
if grep -q "Open MPI" version; then
    test_expect_success 'processes that Open MPI has started are refused' '
        allow_mpirun &&
        test_exit 1 env ACCEL_ENGINE=mpi timeout -k 10 $limit mpirun -n 2 "$conformance" control 2>error &&
        grep "MPI connects 1 process, but this job has 2: MPICH .* was not started by its own mpirun" error'
fi
# digits FILE COMMAND...: the losses, which one rank of each host prints
digits () {
    file=$1
    shift
    "$@" "$builddir/examples/digits" --epochs 2 --seed 1 --batch_size 60 >said && grep "^epoch" said | sort -u >"$file" &&
        test "$(wc -l <"$file")" = 2
}
test_expect_success 'examples/digits trains as with shared memory' '
    digits shm timeout -k 10 $limit "$accelerate" launch --quiet --cpu --num_processes 2 &&
    digits mpi env ACCEL_ENGINE=mpi timeout -k 10 $limit mpiexec.hydra -n 2 && diff shm mpi'

# The command gives MPI a time that a busy machine may exceed.
mpi_answers () {
    timeout -k 10 $limit "$accelerate" env >out || return 0
    ! grep "accel_engine_mpi.so did not answer" out
}
test_expect_success 'accelerate env names it, and what its thread level costs' '
    wait_for mpi_answers && grep "engine mpi: MPICH Version: *[0-9.]*, MPI_THREAD_[A-Z]*[:,]" out'

begin_lab 2 || exit
mkdir bin && printf '#!/bin/sh\nexec mpiexec.hydra "$@"\n' >bin/mpirun && chmod +x bin/mpirun
test_expect_success 'a launch on two hosts with MPICH' '
    digits hosts on host1 env PATH="$scratch/bin:$PATH" timeout -k 10 $limit "$accelerate" launch --quiet --cpu \
        --hosts host1:1,host2:1 && diff shm hosts && all_clean host1 host2'
if is_long; then
# Ranks need it only at their end, and not always.
finish_after_kill () {
    status=0
    wait "$head" || status=$?
    # How a process has ended is not always known, and mpiexec ends its other proxies at once: then both are named.
    [ $status = 0 ] || { grep "^accelerate: hydra_pmi_proxy .*, and ranks that use MPI ended with it" err &&
        grep -E "^(accelerate:|  at nearly the same time,) hydra_pmi_proxy \(process $1 on host2\) " err; }
}
has_epoch () {
    grep -q "^epoch" out 2>/dev/null || has_exited "$head"
}
test_expect_success 'a daemon of Hydra that is killed is named, not the ranks that cannot end without it' '
    rm -f out err && { on host1 env PATH="$scratch/bin:$PATH" timeout -k 10 $limit "$accelerate" launch --cpu --hosts \
        host1:1,host2:1 "$builddir/examples/digits" --epochs 20 --patience 0 --seed 1 --batch_size 60 >out 2>err & } && head=$! &&
    wait_for has_epoch && on host2 pgrep -x hydra_pmi_proxy >pid && on host2 pkill -9 -x hydra_pmi_proxy &&
    finish_after_kill "$(cat pid)" && ! grep "^accelerate: rank" err && all_clean host1 host2'
test_expect_success 'Hydra alone on two hosts' '
    digits hosts on host1 timeout -k 10 $limit mpiexec.hydra -hosts host1:1,host2:1 -n 2 && diff shm hosts'
fi
test_done
