# SPDX-License-Identifier: Apache-2.0
# ACCEL_SUMMARY: the last thing configure prints, feature by feature with the flag that would change it.
AC_DEFUN([ACCEL_SUMMARY_LINE], [printf '  %-18s %-34s %s\n' "$1" "$2" "$3"])
AC_DEFUN([ACCEL_SUMMARY], [
    AS_IF([test "x$MPICC" = xno], [mpi_bench="no (mpicc not found)"], [mpi_bench="yes ($MPICC)"])
    echo
    echo "accel $PACKAGE_VERSION"
    ACCEL_SUMMARY_LINE([feature], [state], [change with])
    ACCEL_SUMMARY_LINE([-------], [-----], [-----------])
    ACCEL_SUMMARY_LINE([install under], [$prefix], [--prefix=DIR])
    ACCEL_SUMMARY_LINE([compiler], [$CC], [CC=...])
    ACCEL_SUMMARY_LINE([your CFLAGS], [$CFLAGS], [CFLAGS=...])
    ACCEL_SUMMARY_LINE([engine self], [yes], [always built in])
    ACCEL_SUMMARY_LINE([engine shm], [yes], [always built in])
    ACCEL_SUMMARY_LINE([engine mpi], [$mpi_state], [--with-mpi=auto|yes|no, MPICC=...])
    ACCEL_SUMMARY_LINE([engine nccl], [$nccl_state], [--with-nccl=auto|yes|no|DIR])
    ACCEL_SUMMARY_LINE([code for GPUs], [$cuda_state], [--with-cuda=auto|yes|no|DIR, CUDA_ARCHITECTURES=...])
    ACCEL_SUMMARY_LINE([line editing], [$readline_state], [--with-readline=yes|libedit|no])
    ACCEL_SUMMARY_LINE([HTTP], [$curl_state], [--with-curl=auto|yes|no])
    ACCEL_SUMMARY_LINE([archives], [$archive_state], [--with-archive=auto|yes|no])
    ACCEL_SUMMARY_LINE([BLAS in examples], [$blas_state], [--with-blas=auto|yes|no])
    ACCEL_SUMMARY_LINE([oneDNN in examples], [$dnnl_state], [--with-dnnl=auto|yes|no])
    ACCEL_SUMMARY_LINE([MPI comparison], [$mpi_bench], [MPICC=...])
    ACCEL_SUMMARY_LINE([werror], [$enable_werror], [--enable-werror])
    ACCEL_SUMMARY_LINE([sanitizer], [$enable_sanitizer], [--enable-sanitizer=address,undefined|thread])
    ACCEL_SUMMARY_LINE([fuzzers], [$enable_fuzzers], [--enable-fuzzers CC=clang])
    ACCEL_SUMMARY_LINE([coverage], [$enable_coverage], [--enable-coverage])
    ACCEL_SUMMARY_LINE([shared library], [$enable_shared], [--disable-shared])
    echo
])
