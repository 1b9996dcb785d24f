/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a file that is not written yet; see verify.h. */
#include <config.h>

#include "cli/verify.h"

#include "config/check.h"
#include "config/load.h"
#include "config/useless.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* As launch would read it, but without lines. */
static int
copy_keys (const struct config *file, struct config *copy, struct fail *fail)
{
    for (size_t i = 0; i < option_count; i++) {
        const struct option *row = &options[i];
        AUTO_STRBUF struct strbuf text = { 0 };
        if (!(row->properties & PROPERTY_FILE) || file->origins[i].kind == ORIGIN_DEFAULT || row->type == OPTION_LIST)
            continue;
        option_types[row->type].format (option_field_const (row, &file->settings), &text);
        if (text.failed)
            return fail_nomem (fail);
        if (text.length && config_set (copy, row, text.text, (struct origin){ ORIGIN_FILE, 0 }, fail))
            return fail_prefix (fail, "%s", row->key);
    }
    return 0;
}

static int
verify (const struct config *flags, const struct config *file, struct config *copy, struct fail *fail)
{
    struct useless useless;
    if (config_init (copy, fail) || copy_keys (file, copy, fail))
        return -1;
    copy->file = strdup ("your answers");
    if (!copy->file)
        return fail_nomem (fail);
    if (config_resolve (copy, fail))
        return -1;
    for (size_t i = 0; i < option_count; i++)
        if (flags->origins[i].kind == ORIGIN_FLAG && useless_find (copy, &options[i], &useless))
            return fail_set (fail, FAIL_USAGE, "--%s %s%s", options[i].key, useless.text, useless.mode);
    return config_check (copy, fail);
}

int
verify_file (const struct config *flags, const struct config *file, struct fail *fail)
{
    struct config copy;
    int result = verify (flags, file, &copy, fail);
    config_release (&copy);
    return result;
}
