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
when_gpus_chosen (const struct settings *settings)
{
    return settings->gpu_ids && strcmp (settings->gpu_ids, "all");
}

bool
when_fsdp (const struct settings *settings)
{
    return settings->use_fsdp;
}

bool
when_megatron_lm (const struct settings *settings)
{
    return settings->use_megatron_lm;
}

bool
when_fp8 (const struct settings *settings)
{
    return !strcmp (settings->mixed_precision, "fp8");
}

bool
when_parallelism_config (const struct settings *settings)
{
    return settings->use_parallelism_config;
}

bool
when_context_parallel (const struct settings *settings)
{
    return settings->use_parallelism_config && settings->parallelism_config_cp_size > 1;
}

bool
when_sequence_parallel (const struct settings *settings)
{
    return settings->use_parallelism_config && settings->parallelism_config_sp_size > 1;
}

bool
when_bf16 (const struct settings *settings)
{
    return !strcmp (settings->mixed_precision, "bf16") && !settings->downcast_bf16;
}

bool
when_downcast_bf16 (const struct settings *settings)
{
    return !strcmp (settings->mixed_precision, "bf16") && settings->downcast_bf16;
}

bool
when_deepspeed (const struct settings *settings)
{
    return settings->use_deepspeed;
}

bool
when_tpu (const struct settings *settings)
{
    return settings->tpu;
}

bool
when_sagemaker (const struct settings *settings)
{
    return !strcmp (settings->compute_environment, "AMAZON_SAGEMAKER");
}
