/* SPDX-License-Identifier: Apache-2.0 */
/* A job as JSON, for scripts; accelerate-top(1) documents each field. */
#include <config.h>

#include "cli/watch/watched.h"

#include "config/text/json_text.h"

#include <math.h>

static json_t *
number (double value)
{
    return isfinite (value) ? json_real (value) : json_null ();
}

/* Without a value, null. */
static json_t *
integer (uint64_t value, bool is_known)
{
    return is_known ? json_integer ((json_int_t) value) : json_null ();
}

static json_t *
values_json (const struct sample_rank *rank)
{
    json_t *values = json_object ();
    for (uint32_t i = 0; i < rank->value_count; i++) {
        json_t *name = json_text (rank->values[i].name); /* for its checked bytes */
        if (name)
            json_object_set_new (values, json_string_value (name), number (rank->values[i].value));
        json_decref (name);
    }
    return values;
}

static json_t *
rank_json (const struct watched *watched, const struct watched_gpus *gpus, int i)
{
    const struct sample_rank *rank = &watched->sample.ranks[i];
    const struct history_rates *rates = &watched->rates[i];
    struct jobseg_gpu gpu = watched_rank_gpu (gpus, rank);
    return json_pack ("{s:i, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "rank",
                      rank->rank, "pid", integer ((uint64_t) rank->pid, rank->pid > 0), "host",
                      *rank->host ? json_text (rank->host) : json_null (), "state", watched_state (watched, i), "doing",
                      json_text (rank->doing), "step", integer (rank->step, rank->step_ns), "steps_per_second",
                      number (rates->steps_per_second), "waiting", number (rates->waiting), "awaited",
                      number (rates->awaited), "waits_for",
                      integer ((uint64_t) watched->awaits[i], watched->awaits[i] >= 0), "cpu", number (rates->cpu),
                      "memory_bytes", integer (rank->memory, rank->memory), "gpu",
                      integer ((uint64_t) gpu.number - 1, gpu.number > 0), "gpu_use_percent",
                      integer ((uint64_t) gpu.use, gpu.number && gpu.use >= 0), "gpu_temperature",
                      integer ((uint64_t) gpu.temperature, gpu.number && gpu.temperature >= 0),
                      "gpu_memory_used_bytes", integer (gpu.memory_used, gpu.memory_used), "values",
                      values_json (rank));
}

json_t *
watched_json (const struct watched *watched, const struct watched_gpus *gpus)
{
    const struct watch_job *job = &watched->job;
    const struct sample *sample = &watched->sample;
    int leader = watched_leader (watched);
    int64_t age = watched_age (watched);
    json_t *root = json_pack ("{s:o, s:o, s:o, s:o, s:o, s:i, s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "job",
                              json_text (job->id), "program", json_text (job->program), "launcher_pid",
                              integer ((uint64_t) job->launcher, job->launcher > 0), "started",
                              integer ((uint64_t) job->started_s, age >= 0), "age_s",
                              integer ((uint64_t) age, age >= 0),
                              "restarts", (int) job->restarts, "hosts",
                              integer ((uint64_t) job->hosts, job->hosts), "world_size", job->world_size, "first_rank",
                              job->first_rank, "local_ranks", job->rank_count, "ranks_alive",
                              sample_count_alive (sample), "step",
                              leader < 0 ? json_null () : integer (sample->ranks[leader].step, true),
                              "steps_per_second", number (watched_pace (watched)), "saved_step",
                              integer (sample->saved_step - 1, sample->saved_step), "memory_step",
                              integer (sample->memory_step - 1, sample->memory_step));
    json_t *ranks = gpus ? json_array () : NULL;
    for (int i = 0; ranks && i < watched->sample.count; i++)
        json_array_append_new (ranks, rank_json (watched, gpus, i));
    if (ranks)
        json_object_set_new (root, "ranks", ranks);
    return root;
}

json_t *
watched_gpus_json (const struct watched_gpus *gpus)
{
    json_t *array = json_array ();
    for (int i = 0; i < gpus->count; i++) {
        const struct gpu_load *load = &gpus->loads[i];
        json_array_append_new (array, json_pack ("{s:i, s:o, s:o, s:o, s:o}", "gpu", i, "use_percent",
                                                 integer ((uint64_t) load->use, load->use >= 0), "temperature",
                                                 integer ((uint64_t) load->temperature, load->temperature >= 0),
                                                 "memory_bytes", integer (load->memory, load->memory),
                                                 "memory_used_bytes", integer (load->memory_used, load->memory)));
    }
    return array;
}
