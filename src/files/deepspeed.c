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

#define MOST 9e15 /* which a double holds exactly, and 64 bits as well */

enum kind { KIND_STAGE, KIND_COUNT, KIND_STEPS, KIND_NORM, KIND_TRUTH, KIND_DEVICE, KIND_FOLDER };

static const struct {
    char expected[31];
    double least, most; /* of a number */
} kinds[] = {
    [KIND_STAGE] = { "a stage from 0 to 3", 0, 3 },
    [KIND_COUNT] = { "a number of parameters", 0, MOST },
    [KIND_STEPS] = { "a number of steps, at least 1", 1, UINT32_MAX },
    [KIND_NORM] = { "a norm", 0, INFINITY },
    [KIND_TRUTH] = { "true or false", 0, 0 },
    [KIND_DEVICE] = { "none, cpu or nvme", 0, 0 },
    [KIND_FOLDER] = { "a folder", 0, 0 },
};

/* A key is a path through objects: what comes before a full stop is one.  No pointers: they would be relocations of the
 * library. */
static const struct row {
    char key[55];
    unsigned char kind;
} rows[DEEPSPEED_KEYS] = {
    [DEEPSPEED_STAGE] = { "zero_optimization.stage", KIND_STAGE },
    [DEEPSPEED_OPTIMIZER_DEVICE] = { "zero_optimization.offload_optimizer.device", KIND_DEVICE },
    [DEEPSPEED_OPTIMIZER_PATH] = { "zero_optimization.offload_optimizer.nvme_path", KIND_FOLDER },
    [DEEPSPEED_PARAM_DEVICE] = { "zero_optimization.offload_param.device", KIND_DEVICE },
    [DEEPSPEED_PARAM_PATH] = { "zero_optimization.offload_param.nvme_path", KIND_FOLDER },
    [DEEPSPEED_MAX_LIVE] = { "zero_optimization.stage3_max_live_parameters", KIND_COUNT },
    [DEEPSPEED_PERSISTENCE] = { "zero_optimization.stage3_param_persistence_threshold", KIND_COUNT },
    [DEEPSPEED_STEPS] = { "gradient_accumulation_steps", KIND_STEPS },
    [DEEPSPEED_CLIPPING] = { "gradient_clipping", KIND_NORM },
    [DEEPSPEED_FP16] = { "fp16.enabled", KIND_TRUTH },
    [DEEPSPEED_BF16] = { "bf16.enabled", KIND_TRUTH },
};

/* @return the place of @text among @words, of 5 bytes each; -1: it is not there */
static int
find_word (const char *text, const char (*words)[5], int count)
{
    while (count-- > 0 && strcmp (text, words[count]) != 0)
        continue;
    return count;
}

/* @return whether @text, as it is in the file without quotes, is a value of this kind */
static bool
understand (enum kind kind, bool is_string, const char *text, double *number)
{
    static const char devices[][5] = { "none", "cpu", "nvme" };
    if (kind == KIND_TRUTH)
        return *number = !strcmp (text, "true"), !is_string && (*number > 0 || !strcmp (text, "false"));
    if (kind == KIND_DEVICE)
        return *number = find_word (text, devices, 3), is_string && *number >= 0;
    return kind == KIND_FOLDER ? is_string
                               : !is_string
                                 && parse_double (text, kinds[kind].least, kinds[kind].most, number) == PARSE_OK
                                 && (kind == KIND_NORM || (double) (int64_t) *number == *number);
}

static enum accel_status
take_value (struct json_reader *json, size_t key, struct deepspeed_value *value)
{
    enum kind kind = rows[key].kind;
    enum accel_status status;
    bool is_string = json_reader_peek (json) == '"';
    size_t start = json->at;
    char *text = NULL;
    if (value->is)
        return json_reader_fail (json, "duplicate %s", rows[key].key);
    status = is_string ? json_reader_string (json, &text, "a string") : json_reader_skip (json);
    if (!status && !is_string && !(text = strndup (json->text + start, json->at - start)))
        status = accel_fail_nomem (json->err);
    if (status)
        return status;
    value->text = text; /* freed with it */
    value->is = is_string && !strcmp (text, "auto") ? DEEPSPEED_AUTO : DEEPSPEED_SET;
    if (value->is == DEEPSPEED_AUTO || understand (kind, is_string, text, &value->number))
        return ACCEL_OK;
    json->at = start;
    return json_reader_fail (json, "%s is %.40s, but must be %s, or \"auto\"", rows[key].key, text,
                             kinds[kind].expected);
}

/* @return whether the key of @row is in the object with the path @name. */
static bool
is_inside (const struct row *row, const char *name)
{
    size_t length = strlen (name);
    return !strncmp (row->key, name, length) && row->key[length] == '.';
}

/* @return whether @name is the path of an object with keys that we read. */
static bool
is_section (const char *name)
{
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        if (is_inside (&rows[i], name))
            return true;
    return false;
}

/* As in Accelerate, fp16 and bf16 are off if their sections are there but do not say it, whatever an option says. */
static void
set_absent_truths (struct deepspeed_file *file, const char *name)
{
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        if (rows[i].kind == KIND_TRUTH && is_inside (&rows[i], name) && file->values[i].is == DEEPSPEED_ABSENT)
            file->values[i].is = DEEPSPEED_SET;
}

__attribute__ ((cold)) static enum accel_status take_object (struct json_reader *json, struct deepspeed_file *file,
                                                             const char *name);

static enum accel_status
take_member (struct json_reader *json, struct deepspeed_file *file, const char *name)
{
    if (json_reader_word (json, "null") || json_reader_word (json, "Infinity"))
        return ACCEL_OK; /* the latter is no limit */
    for (size_t i = 0; i < DEEPSPEED_KEYS; i++)
        if (!strcmp (rows[i].key, name))
            return take_value (json, i, &file->values[i]);
    if (!is_section (name))
        return json_reader_skip (json);
    file->is_read = file->is_read || !strcmp (name, "zero_optimization");
    if (json_reader_peek (json) != '{')
        return json_reader_fail (json, "%s is not an object", name);
    enum accel_status status = take_object (json, file, name);
    set_absent_truths (file, name);
    return status;
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
    struct json_reader json = { .text = text, .length = length, .err = err, .is_python = true };
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

static bool
is_object (const char *text, size_t length)
{
    size_t at = 0;
    while (at < length && text[at] && strchr (" \t\r\n", text[at]))
        at++;
    return at < length && text[at] == '{';
}

/* What is not the name of a file may be the text itself, or its base64, also that which is safe in addresses. */
enum accel_status
deepspeed_read (struct deepspeed_file *file, const char *name, struct accel_error *err)
{
    AUTO_FREE char *text = NULL;
    AUTO_STRBUF struct strbuf decoded = { 0 };
    size_t length;
    struct fail fail;
    *file = (struct deepspeed_file){ 0 };
    if (access (name, F_OK) && is_object (name, strlen (name)))
        return parse (file, "DeepSpeed's configuration", name, strlen (name), err);
    AUTO_FREE char *plain = strdup (name);
    for (char *at = plain; at && *at; at++)
        *at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
    if (plain && access (name, F_OK) && base64_decode (&decoded, plain, strlen (plain)) && decoded.text
        && is_object (decoded.text, decoded.length))
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
