/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher was asked for; see launched.h. */
#include <config.h>

#include "lib/state/launched.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/parse.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool
launched_is_on (const char *variable)
{
    const char *text = getenv (variable);
    bool is_on;
    return text && parse_bool (text, &is_on) == PARSE_OK && is_on;
}

/* As Accelerate's library does: beside a DeepSpeed file, these settings would be ignored. */
static enum accel_status
refuse_fields (struct accel_error *err)
{
    static const char replaced[] = ",gradient_accumulation_steps,gradient_clipping,zero_stage,offload_optimizer_device,"
                                   "offload_param_device,offload_param_nvme_path,offload_optimizer_nvme_path,"
                                   "zero3_save_16bit_model,mixed_precision,";
    AUTO_STRBUF struct strbuf names = { 0 };
    const char *text = getenv (ENV_DEEPSPEED_FIELDS);
    for (size_t length; text && *text; text += length + (text[length] == ',')) {
        char name[40];
        length = strcspn (text, ",");
        snprintf (name, sizeof name, ",%.*s,", (int) length, text);
        if (strstr (replaced, name))
            strbuf_printf (&names, "%s%.*s", names.length ? ", " : "", (int) length, text);
    }
    if (names.failed)
        return accel_fail_nomem (err);
    return !names.length ? ACCEL_OK
                         : accel_fail (err, ACCEL_ERR_INVALID, "environment: %s: the launcher's configuration file has "
                                       "%.200s beside deepspeed_config_file, which replaces them: set them in the "
                                       "DeepSpeed file only", ENV_DEEPSPEED_FIELDS, names.text);
}

enum accel_status
launched_deepspeed (struct deepspeed_file *file, struct accel_error *err)
{
    const char *name = getenv (ENV_DEEPSPEED_CONFIG_FILE);
    *file = (struct deepspeed_file){ 0 };
    if (!launched_is_on (ENV_USE_DEEPSPEED) || !name || !*name || !strcasecmp (name, "none"))
        return ACCEL_OK;
    enum accel_status status = refuse_fields (err);
    return status ? status : deepspeed_read (file, name, err);
}
