#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A stall over two hosts: each launcher says what it sees, the one with the rank that is to blame names it.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/hosts/lab"
needs_libdw
mpirun --version >version 2>&1 || :
if ! grep -q "Open MPI" version; then
    skip_rest 'there is no mpirun of Open MPI'
fi
begin_lab 2 || exit
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=/run
PRTE_MCA_prte_tmpdir_base=/run # of Open MPI 5
ACCEL_ENGINE_PATH=$builddir/src/engines/mpi/.libs ACCEL_TIMEOUT_MS=5000
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base \
    ACCEL_ENGINE_PATH ACCEL_TIMEOUT_MS

test_expect_success 'rank 1 on host1 keeps rank 2 on host2 waiting' '
    test_exit 1 on host1 timeout -k 10 $patience "$accelerate" launch --cpu --starter mpirun --stall_timeout 1 \
        --hosts host1:2,host2:1 "$builddir/tests/fault/stalls" pipe >out 2>err && cat err &&
    grep -q "^accelerate: warning: rank 1 has made no progress; rank 0 has been waiting for " err &&
    grep -q "^accelerate: note: all ranks on host2 are waiting for ranks on other hosts, or for each other (.* and so does the note after 10 s" err &&
    grep -q "^  rank 2: in accel_wait_for_everyone at .*stalls.c:[0-9]* for .* s, in main (stalls.c:[0-9]*)$" err &&
    grep -q "^    read_batch (stalls.c:[0-9]*)$" err && all_clean host1 host2
'
test_done
