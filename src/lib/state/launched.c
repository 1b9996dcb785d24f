/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher was asked for; see launched.h. */
#include <config.h>

#include "lib/state/launched.h"

#include "util/envnames.h"
#include "util/parse.h"

#include <stdlib.h>
#include <strings.h>

bool
launched_is_on (const char *variable)
{
    const char *text = getenv (variable);
    bool is_on;
    return text && parse_bool (text, &is_on) == PARSE_OK && is_on;
}

enum accel_status
launched_deepspeed (struct deepspeed_file *file, struct accel_error *err)
{
    const char *name = getenv (ENV_DEEPSPEED_CONFIG_FILE);
    *file = (struct deepspeed_file){ 0 };
    if (!launched_is_on (ENV_USE_DEEPSPEED) || !name || !*name || !strcasecmp (name, "none"))
        return ACCEL_OK;
    return deepspeed_read (file, name, err);
}
