/* SPDX-License-Identifier: Apache-2.0 */
/* What `accelerate config` takes for granted without asking; see infer.h. */
#include <config.h>

#include "cli/config/infer.h"

#include "config/conditions.h"
#include "config/file_keys.h"
#include "config/mode.h"
#include "hosts/list/hostlist.h"
#include "launch/plan/plan.h"

#include <stdio.h>
#include <string.h>

static int
set_default (struct config *config, const char *key, const char *text, struct fail *fail)
{
    /* It was not given, so the message must not blame it. */
    static const struct origin inferred = { ORIGIN_COMPUTED, 0 };
    if (config_origin (config, key).kind != ORIGIN_DEFAULT || !file_has_key (when_sagemaker (&config->settings), key))
        return 0;
    return config_set (config, option_find (key), text, inferred, fail);
}

/* --hosts a,b means two machines. */
static int
infer_machines (struct config *config, struct fail *fail)
{
    struct hostlist list = { 0 };
    char count[24];
    const char *text = config->settings.hosts;
    if (config_origin (config, "hosts").kind != ORIGIN_FLAG || !strcmp (text, "auto")
        || config_origin (config, "num_machines").kind == ORIGIN_FLAG)
        return 0;
    int result = hostlist_add_text (&list, text, fail) ? fail_prefix (fail, "--hosts") : 0;
    hostlist_finish (&list);
    snprintf (count, sizeof count, "%zu", list.count);
    hostlist_release (&list);
    return result ? -1 : config_compute (config, "num_machines", count, "hosts", fail);
}

int
infer_mode (struct config *config, int gpus, struct fail *fail)
{
    static const char *const keys[] = { "num_processes", "num_machines" };
    bool several = false;
    if (infer_machines (config, fail))
        return -1;
    several = config->settings.num_machines > 1;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        several = several || config_origin (config, keys[i]).kind == ORIGIN_FLAG;
    return mode_infer (config, several && plan_world_size (&config->settings, gpus) > 1, gpus > 0, fail);
}

int
infer_distributed (struct config *config, int gpus, struct fail *fail)
{
    const struct settings *settings = &config->settings;
    char count[24];
    bool several_gpus = gpus > 0 && !when_on_cpu (settings) && !when_sagemaker (settings)
                        && plan_world_size (settings, gpus) > 1;
    if (set_default (config, "distributed_type", several_gpus ? "MULTI_GPU" : "NO", fail))
        return -1;
    const char *type = settings->distributed_type; /* this has replaced an earlier one */
    bool is_one = !strcmp (type, "NO"), is_cpu = !strcmp (type, "MULTI_CPU") || (!gpus && is_one);
    bool is_multi_gpu = !strcmp (type, "MULTI_GPU");
    if (set_default (config, "use_cpu", is_cpu ? "true" : "false", fail))
        return -1;
    int64_t machines = settings->num_machines, processes = is_one ? machines : plan_world_size (settings, gpus);
    if (is_multi_gpu && machines == 1 && processes == 1)
        processes = 2;
    snprintf (count, sizeof count, "%lld", (long long) processes);
    return set_default (config, "num_processes", count, fail);
}
