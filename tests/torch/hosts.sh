#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# PyTorch programs on several hosts: engine mpi where MPI has started the ranks, gloo with a note where it has not.
. "${srcdir:-.}/tests/testlib.sh"
torch_wanted=2.4
. "$srcdir/tests/torch/launched.inc"
. "$srcdir/tests/hosts/lab"
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
begin_lab 2 || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run PRTE_MCA_prte_tmpdir_base=/run
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH
python=$(command -v python3)

# on_hosts "STARTER [OPTION...]" BACKEND PROGRAM WORD...: one rank on each
on_hosts () {
    starter=$1 backend=$2 program=$srcdir/tests/torch/$3 && shift 3
    on host1 timeout -k 10 $patience "$accelerate" launch --cpu --starter $starter --hosts host1:1,host2:1 \
        --cpu_backend "$backend" --no_python "$python" "$program" "$@" >out 2>err
}

test_expect_success 'ranks that MPI has started have accel, and the losses of gloo' '
    on_hosts mpirun accel plug.py train && trained AccelProcessGroup 2 && notes 0 && sort out | sed "s/.* //" >accel &&
        on_hosts mpirun gloo plug.py train && trained ProcessGroup 2 && notes 0 && sort out | sed "s/.* //" >gloo &&
        cmp accel gloo
'
test_expect_success 'which is engine mpi, whose starts wait for no other rank' '
    on_hosts mpirun accel ends.py starts && test "$(grep -c "^as expected: starts$" out)" = 2
'
test_expect_success 'another call is named, with the lines of both sides' '
    test_exit 1 on_hosts mpirun accel faults.py shape all_reduce &&
        grep "it gave up: .*ranks* [01] .*at .*faults.py:[0-9]" err
'
test_expect_success 'a killed rank is named, with its host' '
    test_exit 137 on_hosts mpirun accel faults.py kill barrier &&
        grep "^accelerate: rank 1 (process [0-9]* on host2) was killed by signal 9 (SIGKILL)" err && all_clean host1 host2
'
test_expect_success 'without MPI, they have gloo' '
    on_hosts "ssh --mpi no" accel plug.py train && trained ProcessGroup 2 && notes 1 "ranks on several hosts need MPI"
'
test_done
