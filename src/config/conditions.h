/* SPDX-License-Identifier: Apache-2.0 */
/* Predicates on settings, for the `when` of option rows, environment rules and questions. */
#ifndef CONFIG_CONDITIONS_H
#define CONFIG_CONDITIONS_H

#include "config/settings.h"

bool when_several_machines (const struct settings *settings);
bool when_on_cpu (const struct settings *settings);
bool when_gpus_chosen (const struct settings *settings);
bool when_distributed (const struct settings *settings);
bool when_not_distributed (const struct settings *settings);
bool when_not_on_cpu (const struct settings *settings);

#endif
