/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates on settings; see conditions.h. */
#include <config.h>

#include "config/conditions.h"

#include <string.h>

bool
when_several_machines (const struct settings *settings)
{
    return settings->num_machines > 1;
}

bool
when_on_cpu (const struct settings *settings)
{
    return settings->cpu || settings->use_cpu;
}

bool
when_not_on_cpu (const struct settings *settings)
{
    return !when_on_cpu (settings) && strcmp (settings->distributed_type, "MULTI_CPU");
}

bool
when_gpus_chosen (const struct settings *settings)
{
    return settings->gpu_ids && strcmp (settings->gpu_ids, "all");
}

bool
when_distributed (const struct settings *settings)
{
    return strcmp (settings->distributed_type, "NO");
}

bool
when_not_distributed (const struct settings *settings)
{
    return !when_distributed (settings);
}
