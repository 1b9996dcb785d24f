/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates on settings, for the `when` of option rows, environment rules and questions. */
#ifndef CONFIG_CONDITIONS_H
#define CONFIG_CONDITIONS_H

#include "config/settings.h"

bool when_several_machines (const struct settings *settings);
bool when_on_cpu (const struct settings *settings);
bool when_gpus_chosen (const struct settings *settings);
bool when_deepspeed (const struct settings *settings);
bool when_tpu (const struct settings *settings);
bool when_sagemaker (const struct settings *settings);
bool when_fsdp (const struct settings *settings);
bool when_megatron_lm (const struct settings *settings);
bool when_bf16 (const struct settings *settings); /* and not when_downcast_bf16() */
bool when_downcast_bf16 (const struct settings *settings);
bool when_fp8 (const struct settings *settings);
bool when_parallelism_config (const struct settings *settings);
bool when_context_parallel (const struct settings *settings);
bool when_sequence_parallel (const struct settings *settings);

#endif
