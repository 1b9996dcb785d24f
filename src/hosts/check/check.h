/* SPDX-License-Identifier: Apache-2.0 */
/* `accelerate test --hosts`: whether a job could run on these hosts, and how fast the network between them is.  Each
 * step has a deadline, so it ends whatever the hosts do. */
#ifndef HOSTS_CHECK_CHECK_H
#define HOSTS_CHECK_CHECK_H

#include "hosts/head/link.h"
#include "hosts/job_spec.h"
#include "hosts/list/hosts.h"
#include "hosts/net/benchmark.h"

enum { CHECK_SLOW_MOST = 8 };

struct check_host {
    struct link link; /* the first member */
    bool has_facts;
    char *build;     /* what the linker called the program there; "": not known */
    char *no_engine; /* why libaccel could not use MPI there; NULL: it could */
    char *no_gpu_engine; /* the same of NCCL */
    int gpus;
    struct net_benchmark benchmark; /* there; no process of ours */
    struct strlist addresses;
    int clocks;         /* answers so far */
    int64_t clock_ns;   /* its time of day less ours, by the quickest answer */
    int64_t clock_trip_ns; /* of that answer, through SSH; 0: none */
    int partner;           /* whose benchmark it measures now; -1: none */
    struct net_benchmark_result result;
    double load; /* processes that want to run, for each processor: the most while it measured */
};

enum check_transport_state {
    CHECK_TRANSPORT_UNWANTED, /* by --mpi no, or there is one host; NCCL: or no host has a GPU */
    CHECK_TRANSPORT_LEFT_OUT, /* `why` says why */
    CHECK_TRANSPORT_FAILED,   /* the same */
    CHECK_TRANSPORT_MEASURED,
};

/** What libaccel uses between hosts: MPI, and NCCL between GPUs.  Values as in struct check. */
struct check_transport {
    enum check_transport_state state;
    double *rates, *trips;
    char why[600];
};

struct check {
    struct hosts *hosts;
    struct job_spec spec;
    struct check_host *items; /* [count], in the order of hosts->list */
    int count;
    int64_t limit_ms; /* of each step */
    int64_t launch_ms; /* of each launch that measures a way, at most */
    int64_t heartbeat_ms;
    /* From host i to host j at i * count + j: */
    double *rates; /* MB/s; 0: not known */
    double *trips; /* ms there and back; 0: not known */
    char **whys;   /* why it is not known; NULL: it is, or was not tried */
    enum net_benchmark_trouble *troubles;
    double *loads; /* [count], of slow_links_find() */
    char **used;   /* address of host j */
    struct check_transport mpi, nccl;
    char *address; /* for MASTER_ADDR; NULL: none was found, or there is one host */
    int port;      /* 0: not known */
    char port_why[600]; /* what is wrong with the port; "": nothing */
    struct slow_link slow[CHECK_SLOW_MOST];
    size_t slow_count;
    bool loads_matter; /* without them, links would be called slow */
    struct slow_link nccl_slow[CHECK_SLOW_MOST];
    size_t nccl_slow_count;

    struct strlist problems; /* for people: why a job cannot run */
    struct strlist notes;    /* what else they should know */
    char *advice;            /* the one thing to do next */
};

/** Check the hosts, all but MPI and NCCL (mpi.c).  @param[out] check  for check_release(), also after a failure
 *  @return 0, or -1 with @p fail set: the check itself could not be made */
int check_run (struct check *check, struct hosts *hosts, struct config *config, struct fail *fail);

/** @return whether nothing can be found out about @p host any more */
static inline bool
check_is_lost (const struct check_host *host)
{
    return host->link.state == LINK_LOST;
}

/** Fill `problems`, `notes` and `advice` from what was found.  @param needs_mpi  the job cannot run without
 *  @return 0, or -1 with @p fail set: no memory */
int check_diagnose (struct check *check, bool needs_mpi, struct fail *fail);

void check_release (struct check *check);

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
