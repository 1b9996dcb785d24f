/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of Hugging Face Accelerate's save_state(); see python_state.h. */
#include <config.h>

#include "lib/checkpoint/python_state.h"

#include "files/checkpoints.h"
#include "lib/base/error.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/python_optimizer.h"
#include "util/cleanup.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { DEPTH = 16, MOST_VALUES = 10000 }; /* of what a registered object has saved */

static const char pickled_model[] = "pytorch_";

static bool
has_file (const char *folder, const char *name)
{
    AUTO_FREE char *path = NULL;
    if (asprintf (&path, "%s/%s", folder, name) < 0)
        return path = NULL, false;
    return !access (path, F_OK);
}

size_t
python_state_count_custom (const char *folder)
{
    char name[64];
    size_t count = 0;
    do
        snprintf (name, sizeof name, CUSTOM_FILE "_%zu.pkl", count);
    while (has_file (folder, name) && ++count);
    return count;
}

static enum accel_status
seal_and_load (struct accel_state_dict *state, struct torch_archive *archive, const struct checkpoint_item *item,
               struct accel_error *err)
{
    enum accel_status status = state_dict_seal (state, &archive->source, err);
    return status ? status : checkpoint_item_load (item, state, err);
}

/* ---- models ---- */

static enum accel_status
load_pickled_model (struct torch_archive *archive, const struct checkpoint_item *item, struct accel_error *err)
{
    const struct pickle_value *root = archive->pickle.root;
    struct accel_state_dict state;
    enum accel_status status = ACCEL_OK;
    if (root->type != PICKLE_DICT)
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: not the state of a model", archive->source.path);
    state_dict_init (&state);
    for (size_t i = 0; !status && i + 1 < root->count; i += 2) {
        AUTO_FREE char *name = pickle_copy_text (root->items[i]);
        if (!name || !torch_is_tensor (root->items[i + 1]))
            status = accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%.100s' is not a tensor", archive->source.path,
                                 name ? name : "?");
        else
            status = python_add_tensor (&state, name, archive, root->items[i + 1], err);
    }
    if (!status)
        status = seal_and_load (&state, archive, item, err);
    state_dict_release (&state);
    return status;
}

static enum accel_status
load_model (const char *folder, const struct checkpoint_item *item, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    AUTO_FREE char *pickled = NULL;
    struct source source = SOURCE_CLOSED;
    struct torch_archive archive = TORCH_ARCHIVE_NONE;
    struct accel_state_dict state;
    if (asprintf (&path, "%s/%s" CHECKPOINT_TENSORS, folder, item->name) < 0)
        return path = NULL, accel_fail_nomem (err);
    if (asprintf (&pickled, "%s/%s%s.bin", folder, pickled_model, item->name) < 0)
        return pickled = NULL, accel_fail_nomem (err);
    if (access (path, F_OK) && access (pickled, F_OK))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "%s has neither %s" CHECKPOINT_TENSORS " nor %s%s.bin: states of FSDP, DeepSpeed and "
                           "Megatron-LM are not loaded; for FSDP's, use accelerate merge-weights and accel_load_model",
                           folder, item->name, pickled_model, item->name);
    enum accel_status status;
    if (access (path, F_OK)) {
        status = torch_archive_open (&archive, pickled, err);
        if (!status)
            status = load_pickled_model (&archive, item, err);
        torch_archive_close (&archive);
        return status;
    }
    state_dict_init (&state);
    status = source_open (&source, path, err);
    if (!status)
        status = state_dict_open (&state, &source, err);
    if (!status)
        status = checkpoint_item_load (item, &state, err);
    state_dict_release (&state);
    return status;
}

/* ---- parts ---- */

static enum accel_status
load_random (struct torch_archive *archive, const struct checkpoint_item *item, struct strlist *left_out,
             struct accel_error *err)
{
    static const char name[] = "torch_manual_seed";
    const struct pickle_value *seed = pickle_find (archive->pickle.root, name);
    struct accel_state_dict state;
    if (!torch_is_tensor (seed))
        return accel_fail (err, ACCEL_ERR_FORMAT, "%s: '%s' is missing", archive->source.path, name);
    strlist_add (left_out, "the random numbers of Python, NumPy and GPUs");
    state_dict_init (&state);
    enum accel_status status = python_add_tensor (&state, name, archive, seed, err);
    if (!status)
        status = seal_and_load (&state, archive, item, err);
    state_dict_release (&state);
    return status;
}

/* ---- values by name ---- */

static void
set_value (struct accel_state_dict *state, const char *name, const struct pickle_value *value, struct strlist *left_out)
{
    AUTO_FREE char *text = NULL;
    switch (value->type) {
    case PICKLE_NONE: return; /* as if it were missing */
    case PICKLE_BOOL: state_dict_add_bool (state, name, value->integer); return;
    case PICKLE_INT: accel_state_dict_set_int64 (state, name, value->integer); return;
    case PICKLE_FLOAT: accel_state_dict_set_double (state, name, value->real); return;
    case PICKLE_STR:
        text = pickle_copy_text (value);
        if (text) {
            accel_state_dict_set_text (state, name, text);
            return;
        }
        break;
    default: break;
    }
    strlist_printf (left_out, "'%.100s' of a registered object", name);
}

struct values {
    struct accel_state_dict state;
    struct torch_archive *archive;
    struct strlist *left_out;
    size_t count;
};

static enum accel_status set_values (struct values *values, const char *prefix, const struct pickle_value *value,
                                     int depth, struct accel_error *err);

/* What is within a dict or list gets the names of all, with dots: "ema.decay", "losses.0". */
static enum accel_status
set_inner (struct values *values, const char *prefix, const struct pickle_value *value, int depth,
           struct accel_error *err)
{
    bool is_dict = value->type == PICKLE_DICT;
    enum accel_status status = ACCEL_OK;
    for (size_t i = 0; !status && i + is_dict < value->count; i += is_dict ? 2 : 1) {
        AUTO_STRBUF struct strbuf name = { 0 };
        AUTO_FREE char *key = is_dict ? pickle_copy_text (value->items[i]) : NULL;
        strbuf_printf (&name, "%s%s", prefix, *prefix ? "." : "");
        if (key)
            strbuf_add (&name, key);
        else
            strbuf_printf (&name, "%lld",
                           is_dict && value->items[i]->type == PICKLE_INT ? (long long) value->items[i]->integer
                                                                          : (long long) i);
        status = name.failed ? accel_fail_nomem (err)
                             : set_values (values, name.text, value->items[i + is_dict], depth + 1, err);
    }
    return status;
}

/* A value may contain itself, or another one a thousand times. */
static enum accel_status
set_values (struct values *values, const char *prefix, const struct pickle_value *value, int depth,
            struct accel_error *err)
{
    bool is_inner = value->type == PICKLE_DICT || value->type == PICKLE_LIST || value->type == PICKLE_TUPLE;
    if (depth == DEPTH || values->count++ == MOST_VALUES)
        return accel_fail (err, ACCEL_ERR_UNSUPPORTED, "%s: more than %d values, or %d levels of them",
                           values->archive->source.path, MOST_VALUES, DEPTH);
    if (is_inner)
        return set_inner (values, prefix, value, depth, err);
    const char *name = *prefix ? prefix : "value";
    if (torch_is_tensor (value))
        return python_add_tensor (&values->state, name, values->archive, value, err);
    set_value (&values->state, name, value, values->left_out);
    return ACCEL_OK;
}

static enum accel_status
load_values (struct torch_archive *archive, const struct checkpoint_item *item, struct strlist *left_out,
             struct accel_error *err)
{
    struct values values = { .archive = archive, .left_out = left_out };
    state_dict_init (&values.state);
    enum accel_status status = set_values (&values, "", archive->pickle.root, 0, err);
    if (!status)
        status = seal_and_load (&values.state, archive, item, err);
    state_dict_release (&values.state);
    return status;
}

/* ---- what there is ---- */

static enum accel_status
load_optimizer (struct torch_archive *archive, const struct checkpoint_item *item, struct strlist *left_out,
                struct accel_error *err)
{
    (void) left_out;
    return python_load_optimizer (archive, item, err);
}

static enum accel_status
load_scheduler (struct torch_archive *archive, const struct checkpoint_item *item, struct strlist *left_out,
                struct accel_error *err)
{
    (void) left_out;
    return python_load_scheduler (archive, item, err);
}

/* The kinds of items, by the names of their files. */
static const struct {
    const char *file, *end;
    enum accel_status (*load) (struct torch_archive *archive, const struct checkpoint_item *item,
                               struct strlist *left_out, struct accel_error *err);
    const char *without; /* what is not restored without this file; NULL: an error, or none that matters */
} kinds[] = {
    { "optimizer", ".bin", load_optimizer, NULL },
    { "scheduler", ".bin", load_scheduler, NULL },
    { "random_states", ".pkl", load_random, "the random numbers of ranks that did not save" },
    { "scaler", ".pt", load_values, NULL },
    { CUSTOM_FILE, ".pkl", load_values, NULL },
};

/* Of parts, what is empty between two steps.  Of loaders, Accelerate saves samplers as Python objects, with the data
 * set in them, and positions only if they are loaders of torchdata. */
static enum accel_status
leave_out (const struct checkpoint_item *item, struct strlist *left_out)
{
    if (item->object)
        strlist_add (left_out, "samplers and positions of loaders, which begin with epoch 0");
    return ACCEL_OK;
}

enum accel_status
python_state_load (const char *folder, const struct checkpoint_item *item, struct strlist *left_out,
                   struct accel_error *err)
{
    const char *file = item->object ? item->object->kind->file : item->part ? item->part->kind->file : CUSTOM_FILE;
    struct torch_archive archive = TORCH_ARCHIVE_NONE;
    AUTO_FREE char *path = NULL;
    size_t i = 0;
    if (!strcmp (file, "model"))
        return load_model (folder, item, err);
    while (i < sizeof kinds / sizeof *kinds && strcmp (kinds[i].file, file))
        i++;
    if (i == sizeof kinds / sizeof *kinds)
        return leave_out (item, left_out);
    if (asprintf (&path, "%s/%s%s", folder, item->name, kinds[i].end) < 0)
        return path = NULL, accel_fail_nomem (err);
    if (item->part && access (path, F_OK) && errno == ENOENT) {
        if (kinds[i].without)
            strlist_add (left_out, kinds[i].without);
        return checkpoint_item_load (item, NULL, err);
    }
    enum accel_status status = torch_archive_open (&archive, path, err);
    if (!status)
        status = kinds[i].load (&archive, item, left_out, err);
    torch_archive_close (&archive);
    return status;
}
