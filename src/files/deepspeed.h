/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed's configuration file, JSON: the keys that a native program can follow. */
#ifndef FILES_DEEPSPEED_H
#define FILES_DEEPSPEED_H

#include "files/error.h"

enum deepspeed_key {
    DEEPSPEED_STAGE,            /* zero_optimization.stage */
    DEEPSPEED_OPTIMIZER_DEVICE, /* of enum deepspeed_device */
    DEEPSPEED_OPTIMIZER_PATH,   /* a text */
    DEEPSPEED_PARAM_DEVICE,
    DEEPSPEED_PARAM_PATH,
    DEEPSPEED_MAX_LIVE,    /* elements */
    DEEPSPEED_PERSISTENCE, /* elements */
    DEEPSPEED_STEPS,       /* gradient_accumulation_steps, at least 1 */
    DEEPSPEED_CLIPPING,    /* a norm; 0: none */
    DEEPSPEED_FP16,        /* 0 or 1; 0 if the file has its section without it */
    DEEPSPEED_BF16,
    DEEPSPEED_KEYS
};

enum deepspeed_device { DEEPSPEED_NONE, DEEPSPEED_CPU, DEEPSPEED_NVME };

struct deepspeed_value {
    enum { DEEPSPEED_ABSENT, DEEPSPEED_AUTO, DEEPSPEED_SET } is; /* absent: or null */
    double number; /* 0 unless it is set */
    char *text;    /* as in the file, without quotes; NULL: absent, or false by default */
};

struct deepspeed_file {
    bool is_read; /* false: there is none, and all values are absent */
    struct deepspeed_value values[DEEPSPEED_KEYS];
};

/**
 * Read @p name: a file, or its content, also in base64, as Accelerate does.  Of keys that are not listed above, only
 * the syntax is checked.
 *
 * @param[out] file  release it with deepspeed_release(), also after a failure
 * @retval ACCEL_ERR_FORMAT  names the file, the line and the key
 */
__attribute__ ((cold)) enum accel_status deepspeed_read (struct deepspeed_file *file, const char *name,
                                                         struct accel_error *err);

void deepspeed_release (struct deepspeed_file *file);

#endif
