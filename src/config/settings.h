/* SPDX-License-Identifier: Apache-2.0 */
/* What one invocation was asked to do: plain typed fields, one for each row of the option table (options.c), and where
 * each value came from.  Fields of absent settings hold their row's default; texts are NULL where that is "none". */
#ifndef CONFIG_SETTINGS_H
#define CONFIG_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

struct settings {
    /* meta */
    char *config_file;
    bool quiet;
    bool debug;

    /* hardware */
    bool cpu;
    bool use_cpu; /* the file's key; --cpu sets both */
    bool multi_gpu;
    char *distributed_type; /* the file's key */
    char *compute_environment; /* the file's key */

    /* resources */
    char *mixed_precision;
    int64_t num_processes;               /* 0: not given */
    int64_t num_machines;
    int64_t num_cpu_threads_per_process; /* 0: not given */
    char *dynamo_backend;
    char *dynamo_mode;
    bool dynamo_use_fullgraph;
    bool dynamo_use_dynamic;
    bool dynamo_use_regional_compilation;

    /* distributed */
    char *gpu_ids;
    int64_t machine_rank;
    char *main_process_ip;
    int64_t main_process_port; /* 0: not given, or "any free one"; the origin tells which */

    /* program */
    bool module;
    bool no_python;

    /* ours */
    bool dry_run;
    bool json;
    int64_t grace; /* seconds between TERM and KILL */
    char *failure_report;
};

#endif
