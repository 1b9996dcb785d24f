/* SPDX-License-Identifier: Apache-2.0 */
/* DeepSpeed's configuration file; see deepspeed.h. */
#include <config.h>

#include "files/deepspeed.h"

#include "files/json_reader.h"
#include "util/base64.h"
#include "util/cleanup.h"
#include "util/io.h"
#include "util/parse.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 1 << 20 };

enum kind { KIND_WHOLE, KIND_NUMBER, KIND_TRUTH, KIND_DEVICE, KIND_PATH };

#define MOST 9e15 /* which a double holds exactly, and 64 bits as well */

/* A key is a path through objects: what comes before a full stop is one. */
static const struct row {
    const char *key;
    enum kind kind;
    double least, most;
    const char *expected;
} rows[DEEPSPEED_KEYS] = {
    [DEEPSPEED_STAGE] = { "zero_optimization.stage", KIND_WHOLE, 0, 3, "a stage from 0 to 3" },
    [DEEPSPEED_OPTIMIZER_DEVICE]
    = { "zero_optimization.offload_optimizer.device", KIND_DEVICE, 0, 0, "none, cpu or nvme" },
    [DEEPSPEED_OPTIMIZER_PATH] = { "zero_optimization.offload_optimizer.nvme_path", KIND_PATH, 0, 0, "a folder" },
    [DEEPSPEED_PARAM_DEVICE] = { "zero_optimization.offload_param.device", KIND_DEVICE, 0, 0, "none, cpu or nvme" },
    [DEEPSPEED_PARAM_PATH] = { "zero_optimization.offload_param.nvme_path", KIND_PATH, 0, 0, "a folder" },
    [DEEPSPEED_MAX_LIVE]
    = { "zero_optimization.stage3_max_live_parameters", KIND_WHOLE, 0, MOST, "a number of parameters" },
    [DEEPSPEED_PERSISTENCE]
    = { "zero_optimization.stage3_param_persistence_threshold", KIND_WHOLE, 0, MOST, "a number of parameters" },
    [DEEPSPEED_STEPS] = { "gradient_accumulation_steps", KIND_WHOLE, 1, UINT32_MAX, "a number of steps, at least 1" },
    [DEEPSPEED_CLIPPING] = { "gradient_clipping", KIND_NUMBER, 0, INFINITY, "a norm" },
    [DEEPSPEED_FP16] = { "fp16.enabled", KIND_TRUTH, 0, 0, "true or false" },
    [DEEPSPEED_BF16] = { "bf16.enabled", KIND_TRUTH, 0, 0, "true or false" },
};

/* @return whether @text, as it is in the file without quotes, is a value of @row, which may take it over. */
static bool
understand (const struct row *row, bool is_string, char **text, struct deepspeed_value *value)
{
    static const char *const devices[] = { "none", "cpu", "nvme" };
    value->is = DEEPSPEED_SET;
    if (is_string && !strcmp (*text, "auto"))
        return value->is = DEEPSPEED_AUTO, true;
    if (is_string && row->kind == KIND_PATH)
        return value->text = *text, *text = NULL, true;
    for (size_t i = 0; is_string && row->kind == KIND_DEVICE && i < sizeof devices / sizeof *devices; i++)
        if (!strcmp (*text, devices[i]))
            return value->number = (double) i, true;
    if (row->kind == KIND_TRUTH)
        return value->number = !strcmp (*text, "true"), !is_string && (value->number > 0 || !strcmp (*text, "false"));
    return !is_string && row->kind <= KIND_NUMBER
           && parse_double (*text, row->least, row->most, &value->number) == PARSE_OK
           && (row->kind == KIND_NUMBER || trunc (value->number) == value->number);
}

static enum accel_status
take_value (struct json_reader *json, const struct row *row, struct deepspeed_value *value)
{
    AUTO_FREE char *text = NULL;
    enum accel_status status;
    bool is_string = json_reader_peek (json) == '"';
    size_t start = json->at;
    if (value->is)
        return json_reader_fail (json, "duplicate %s", row->key);
    if (json_reader_word (json, "null"))
        return ACCEL_OK;
    status = is_string ? json_reader_string (json, &text, "a string") : json_reader_skip (json);
    if (!status && !is_string && !(text = strndup (json->text + start, json->at - start)))
        status = accel_fail_nomem (json->err);
    if (status || understand (row, is_string, &text, value))
        return status;
    json->at = start;
    return json_reader_fail (json, "%s is %.40s, but must be %s, or \"auto\"", row->key, text, row->expected);
}

/* @return whether @name is the path of an object with keys that we read. */
static bool
is_section (const char *name)
{
    size_t length = strlen (name);
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        if (!strncmp (rows[i].key, name, length) && rows[i].key[length] == '.')
            return true;
    return false;
}

static enum accel_status take_object (struct json_reader *json, struct deepspeed_file *file, const char *name);

static enum accel_status
take_member (struct json_reader *json, struct deepspeed_file *file, const char *name)
{
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        if (!strcmp (rows[i].key, name))
            return take_value (json, &rows[i], &file->values[i]);
    if (json_reader_word (json, "null") || json_reader_word (json, "Infinity"))
        return ACCEL_OK; /* the latter is not JSON, but Python writes it, as where Accelerate has filled in a file */
    if (!is_section (name))
        return json_reader_skip (json);
    file->is_read = file->is_read || !strcmp (name, "zero_optimization");
    return json_reader_peek (json) == '{' ? take_object (json, file, name)
                                          : json_reader_fail (json, "%s is not an object", name);
}

/* @name: its path, "" for the whole file */
static enum accel_status
take_object (struct json_reader *json, struct deepspeed_file *file, const char *name)
{
    bool first = true, more;
    enum accel_status status = json_reader_take (json, '{', "an object");
    while (!status && !(status = json_reader_next (json, '}', &first, &more)) && more) {
        AUTO_FREE char *key = NULL, *path = NULL;
        status = json_reader_key (json, &key);
        if (status)
            break;
        if (asprintf (&path, "%s%s%s", name, *name ? "." : "", key) < 0) {
            path = NULL;
            return accel_fail_nomem (json->err);
        }
        status = strchr (key, '.') ? json_reader_skip (json) : take_member (json, file, path);
    }
    return status;
}

static enum accel_status
parse (struct deepspeed_file *file, const char *name, const char *text, size_t length, struct accel_error *err)
{
    struct json_reader json = { .text = text, .length = length, .err = err };
    int line = 1;
    enum accel_status status = json_reader_begin (&json);
    if (!status)
        status = take_object (&json, file, "");
    if (!status)
        status = json_reader_end (&json);
    if (!status && !file->is_read)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: zero_optimization is missing: DeepSpeed's file must say how "
                           "much is divided", name);
    for (size_t i = 0; status && i < json.at && i < length; i++)
        line += text[i] == '\n';
    return status ? accel_fail_in (err, status, "%s:%d", name, line) : ACCEL_OK;
}

/* Base64 of an object begins with e, and names of files seldom consist of its characters alone. */
enum accel_status
deepspeed_read (struct deepspeed_file *file, const char *name, struct accel_error *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_STRBUF struct strbuf decoded = { 0 };
    size_t length;
    struct fail fail;
    *file = (struct deepspeed_file){ 0 };
    bool is_file = !access (name, F_OK);
    if (!is_file && *name == '{')
        return parse (file, "DeepSpeed's configuration", name, strlen (name), err);
    if (!is_file && *name == 'e' && base64_decode (&decoded, name, strlen (name)) && decoded.text)
        return parse (file, "DeepSpeed's configuration", decoded.text, decoded.length, err);
    if (io_read_file (name, MAX_BYTES, &text, &length, &fail))
        return accel_fail (err, ACCEL_ERR_SYSTEM, "DeepSpeed's configuration file: %s", fail.text);
    return parse (file, name, text, length, err);
}

void
deepspeed_release (struct deepspeed_file *file)
{
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        free (file->values[i].text);
    *file = (struct deepspeed_file){ 0 };
}
