/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates on settings, for the `when` of option rows, environment rules and questions. */
#ifndef CONFIG_CONDITIONS_H
#define CONFIG_CONDITIONS_H

#include "config/settings.h"

#include <string.h>

/** Define when_NAME(). */
#define CONDITION(name, condition)                        \
    static inline bool                                    \
    when_##name (const struct settings *settings)         \
    {                                                     \
        return condition;                                 \
    }

CONDITION (several_machines, settings->num_machines > 1)
CONDITION (on_cpu, settings->cpu || settings->use_cpu)
CONDITION (accel_on_cpu, !strcmp (settings->cpu_backend, "accel"))
CONDITION (cpu_backend_chosen, strcmp (settings->cpu_backend, "auto"))
CONDITION (gpus_chosen, settings->gpu_ids && strcmp (settings->gpu_ids, "all"))
CONDITION (bound_near_gpus, !strcmp (settings->bind, "gpu")
           || (!strcmp (settings->bind, "auto") && settings->enable_cpu_affinity))
CONDITION (deepspeed, settings->use_deepspeed)
CONDITION (tpu, settings->tpu)
CONDITION (sagemaker, !strcmp (settings->compute_environment, "AMAZON_SAGEMAKER"))
CONDITION (fsdp, settings->use_fsdp)
CONDITION (megatron_lm, settings->use_megatron_lm)
CONDITION (bf16, !strcmp (settings->mixed_precision, "bf16") && !settings->downcast_bf16)
CONDITION (downcast_bf16, !strcmp (settings->mixed_precision, "bf16") && settings->downcast_bf16)
CONDITION (fp8, !strcmp (settings->mixed_precision, "fp8"))
CONDITION (parallelism_config, settings->use_parallelism_config)
CONDITION (context_parallel, settings->use_parallelism_config && settings->parallelism_config_cp_size > 1)
CONDITION (sequence_parallel, settings->use_parallelism_config && settings->parallelism_config_sp_size > 1)

#undef CONDITION

#endif
