/* SPDX-License-Identifier: Apache-2.0 */
/* The last steps of a check of several hosts: MPI between each two of them, and NCCL, as libaccel uses them. */
#ifndef HOSTS_CHECK_MPI_H
#define HOSTS_CHECK_MPI_H

#include "hosts/check/check.h"

/**
 * Unless --mpi no, launch `SELFTEST --links` with one rank on each host, as any job would be, and take its results.
 * Blocks, but not longer than launch_ms.
 *
 * Sets `mpi`: it is left out where it could not work.
 *
 * @param selftest  path on all hosts; NULL: it is not installed
 * @return 0, or -1 with @p fail set: no memory
 */
int check_mpi_run (struct check *check, const struct config *config, const char *selftest, struct fail *fail);

/** The same of NCCL between a GPU of each host, after MPI: sets `nccl` and nccl_slow.  It stays unwanted if no host has
 * a GPU. */
int check_nccl_run (struct check *check, const struct config *config, const char *selftest, struct fail *fail);

#endif
