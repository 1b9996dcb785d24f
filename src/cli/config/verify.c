/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a file that is not written yet; see verify.h. */
#include <config.h>

#include "cli/config/verify.h"

#include "config/check.h"
#include "config/conditions.h"
#include "config/effect.h"
#include "config/file.h"
#include "config/file_keys.h"
#include "config/mode.h"
#include "config/text/tree.h"
#include "config/write.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

#define NEW_FILE "the new file" /* its name in messages: what it will be called says nothing about its content */

/* The value as text; a list that is not empty counts as one, too. */
static int
format_value (const struct config *config, const struct option *row, struct strbuf *out, struct fail *fail)
{
    option_types[row->type].format (option_field_const (row, &config->settings), out);
    return out->failed ? fail_nomem (fail) : 0;
}

/* Of a switch that is not a key: the mode that the file chooses says whether it counts. */
static bool
is_lost_switch (const struct config *file, const struct option *row)
{
    const struct settings *settings = &file->settings;
    if (!strcmp (row->key, "cpu"))
        return !settings->use_cpu || settings->use_megatron_lm;
    if (!strcmp (row->key, "multi_gpu"))
        return !mode_fits (row->key, settings->distributed_type);
    bool is_request = row->group == GROUP_GENERAL || row->group == GROUP_OURS; /* --yes and similar */
    return !is_request && !*(const bool *) option_field_const (row, settings);
}

/* Whether what the flag says is missing in the file; its own default need not be there. */
static int
find_lost (const struct config *flags, const struct config *file, const struct option *row, bool *is_lost,
           struct fail *fail)
{
    AUTO_STRBUF struct strbuf given = { 0 }, kept = { 0 };
    *is_lost = false;
    if (!(row->properties & PROPERTY_FILE)) {
        *is_lost = row->type == OPTION_FLAG && config_is_on (flags, row->key, ORIGIN_FLAG)
                   && is_lost_switch (file, row);
        return 0;
    }
    if (file->origins[row - options].kind != ORIGIN_DEFAULT)
        return 0;
    if (format_value (flags, row, &given, fail) || format_value (file, row, &kept, fail))
        return -1;
    *is_lost = given.length && (!kept.length || strcmp (given.text, kept.text) != 0);
    return 0;
}

/* A key that files of the other kind have: the reader would refuse it, but the flag is what is wrong. */
static bool
is_for_other_kind (const struct option *row, const struct settings *settings)
{
    const char *key = row->section ? row->section : row->key;
    return (row->properties & PROPERTY_FILE) && !file_has_key (when_sagemaker (settings), key);
}

static int
refuse_flag (const struct option *row, struct fail *fail)
{
    return fail_set (fail, FAIL_USAGE, "--%s has no effect with these answers", row->key);
}

static int
check_flags (const struct config *flags, const struct config *file, struct fail *fail)
{
    struct no_effect why;
    bool is_lost;
    for (size_t i = 0; i < option_count; i++) {
        if (flags->origins[i].kind != ORIGIN_FLAG)
            continue;
        if (effect_is_missing (file, &options[i], &why))
            return fail_set (fail, FAIL_USAGE, "--%s %s%s", options[i].key, why.text, why.mode);
        if (find_lost (flags, file, &options[i], &is_lost, fail))
            return -1;
        if (is_lost)
            return refuse_flag (&options[i], fail);
    }
    return 0;
}

/* As launch would read it.  Its lines mean nothing to the user yet. */
static int
read_back (struct config *copy, const struct strbuf *text, bool is_json, struct fail *fail)
{
    AUTO_FILEDOC struct filedoc doc = { .path = NEW_FILE };
    int result = (is_json ? json_read : yaml_read) (&doc, text->text, text->length, fail);
    result = result || filedoc_apply (copy, &doc, fail) ? -1 : 0;
    for (size_t i = 0; i < option_count; i++)
        copy->origins[i].line = 0;
    return result;
}

int
verify_kind (const struct config *flags, const struct settings *file, struct fail *fail)
{
    for (size_t i = 0; i < option_count; i++)
        if (flags->origins[i].kind == ORIGIN_FLAG && is_for_other_kind (&options[i], file))
            return refuse_flag (&options[i], fail);
    return 0;
}

int
verify_text (const struct config *flags, const struct strbuf *text, bool is_json, struct fail *fail)
{
    AUTO_CONFIG struct config copy = { 0 };
    if (config_init (&copy, fail))
        return -1;
    copy.file = strdup (NEW_FILE);
    if (!copy.file)
        return fail_nomem (fail);
    if (read_back (&copy, text, is_json, fail) || config_resolve (&copy, fail) || check_flags (flags, &copy, fail))
        return -1;
    return config_check (&copy, fail);
}

int
verify_file (const struct config *flags, const struct config *file, struct fail *fail)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    if (verify_kind (flags, &file->settings, fail) || config_write_text (file, false, &text, fail))
        return -1;
    return verify_text (flags, &text, false, fail);
}
