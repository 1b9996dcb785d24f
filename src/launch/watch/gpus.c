/* SPDX-License-Identifier: Apache-2.0 */
/* What GPUs do, asked by a thread: NVML takes up to seconds to begin, and with a broken driver for ever. */
#include <config.h>

#include "launch/watch/gpus.h"

#include "launch/process/process.h"
#include "util/threads.h"

#include <string.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watched_gpus latest;

static void *
serve (void *user)
{
    static struct watched_gpus now; /* too large for a stack */
    struct nvml *nvml = nvml_open (NULL);
    (void) user;
    while (nvml) {
        now.count = nvml_measure (nvml, now.loads, WATCHED_GPUS);
        pthread_mutex_lock (&lock);
        latest = now;
        pthread_mutex_unlock (&lock);
        nanosleep (&(struct timespec){ .tv_sec = 1 }, NULL);
    }
    return NULL;
}

void
watched_gpus_start (void)
{
    pthread_t thread;
    if (!thread_start (&thread, serve, NULL))
        pthread_detach (thread);
}

void
watched_gpus_read (struct watched_gpus *gpus)
{
    pthread_mutex_lock (&lock);
    *gpus = latest;
    pthread_mutex_unlock (&lock);
}

static bool
is_of (const struct sample_rank *rank, pid_t pid)
{
    return pid == rank->pid || (rank->has_descendants && process_is_below (pid, rank->pid));
}

struct jobseg_gpu
watched_gpu_of (const struct watched_gpus *gpus, const struct sample_rank *rank)
{
    for (int i = 0; rank->pid > 0 && i < gpus->count; i++) {
        const struct gpu_load *load = &gpus->loads[i];
        for (int j = 0; j < load->process_count && j < NVML_MOST_PROCESSES; j++)
            if (is_of (rank, load->processes[j].pid))
                return (struct jobseg_gpu){ .number = i + 1, .use = load->use, .temperature = load->temperature,
                                            .memory_used = load->memory ? load->memory_used : 0 };
    }
    return (struct jobseg_gpu){ .number = 0 };
}
