/* SPDX-License-Identifier: Apache-2.0 */
/* What to say when ranks do not call the same thing.  All ranks compare in the same order, so they say the same. */
#include <config.h>

#include "lib/comm/watch/watch_object.h"

#include "lib/base/error.h"
#include "lib/base/tensor.h"

#include <stdio.h>
#include <string.h>

/* The end of a long path, as in the ledger. */
static const char *
tail (const char *file)
{
    size_t length = strlen (file);
    return length < JOBSEG_FILE_NAME ? file : file + length - (JOBSEG_FILE_NAME - 1);
}

void
watch_describe_site (const struct comm_site *site, char *text, size_t size)
{
    snprintf (text, size, "%s at %s:%d", jobseg_call_name (site->call), tail (site->file), site->line);
}

/* "accel_gather (float32 x 64)" */
static void
describe_call (const struct jobseg_record *record, char *text, size_t size)
{
    const char *name = jobseg_call_name (record->call);
    if (record->kind == ACCEL_ENGINE_BARRIER)
        snprintf (text, size, "%s", name);
    else
        snprintf (text, size, "%s (%s x %llu)", name, accel_dtype_name (record->dtype),
                  (unsigned long long) record->count);
}

static const char *
device_name (const struct jobseg_record *record)
{
    return tensor_device_name ((DLDevice){ .device_type = record->device ? record->device : kDLCPU });
}

static const char *
op_name (unsigned op)
{
    static const char *const names[] = {
#define X(name, text) text,
        ACCEL_OP_MAP (X)
#undef X
    };
    return op < ACCEL_OP_COUNT ? names[op] : "?";
}

/* "[2, 3]".  Another process wrote the form, so its bounds are checked. */
static void
write_shape (const struct jobseg_form *form, char *text, size_t size)
{
    size_t length = 0;
    for (int i = 0; i < form->ndim && i < JOBSEG_MAX_DIMS && length < size; i++)
        length += (size_t) snprintf (text + length, size - length, "%s%lld", i ? ", " : "[",
                                     (long long) form->shape[i]);
    if (length < size)
        snprintf (text + length, size - length, "%s", length ? "]" : "[]");
}

/* A record without a hash has no form, whatever an older record left there. */
static struct jobseg_form
form_of (const struct watch_entry *entry)
{
    return entry->record.form ? entry->form : (struct jobseg_form){ 0 };
}

/* @return what differs in the form of two calls. */
static const char *
write_forms (const struct watch_entry *entry_a, char *text_a, const struct watch_entry *entry_b, char *text_b,
             size_t size)
{
    struct jobseg_form a = form_of (entry_a), b = form_of (entry_b);
    if (a.ndim != b.ndim || memcmp (a.shape, b.shape, (a.ndim % (JOBSEG_MAX_DIMS + 1)) * sizeof *a.shape)) {
        write_shape (&a, text_a, size);
        write_shape (&b, text_b, size);
        return "shapes";
    }
    /* So many digits that numbers which differ are not written alike. */
    snprintf (text_a, size, "%.17g", a.value);
    snprintf (text_b, size, "%.17g", b.value);
    return a.argument == COMM_SCALE ? "scales" : a.argument == COMM_DIM ? "dimensions" : "arguments";
}

static bool
is_same_call (const struct jobseg_record *a, const struct jobseg_record *b)
{
    return a->kind == b->kind && jobseg_call_that_blocks (a->call) == jobseg_call_that_blocks (b->call);
}

bool
watch_agree (const struct jobseg_record *a, const struct jobseg_record *b)
{
    return is_same_call (a, b) && a->dtype == b->dtype && a->count == b->count && a->op == b->op
           && a->root == b->root && a->form == b->form && a->device == b->device;
}

enum accel_status
watch_report_mismatch (const struct watch *watch, int rank_a, const struct watch_entry *entry_a, int rank_b,
                       const struct watch_entry *entry_b, struct accel_error *err)
{
    const struct jobseg_record *a = &entry_a->record, *b = &entry_b->record;
    char text_a[192], text_b[192];
    const char *what = NULL;
    if (!is_same_call (a, b)) {
        describe_call (a, text_a, sizeof text_a);
        describe_call (b, text_b, sizeof text_b);
        return accel_fail (err, ACCEL_ERR_PEER, "rank %d is waiting in %s at %s while rank %d is in %s at %s",
                           watch_world_rank (watch, rank_b), text_b, entry_b->location,
                           watch_world_rank (watch, rank_a), text_a, entry_a->location);
    }
    if (a->device != b->device) {
        what = "devices";
        snprintf (text_a, sizeof text_a, "%s", device_name (a));
        snprintf (text_b, sizeof text_b, "%s", device_name (b));
    } else if (a->dtype != b->dtype) {
        what = "element types";
        snprintf (text_a, sizeof text_a, "%s", accel_dtype_name (a->dtype));
        snprintf (text_b, sizeof text_b, "%s", accel_dtype_name (b->dtype));
    } else if (a->count != b->count) {
        what = "counts";
        snprintf (text_a, sizeof text_a, "%llu", (unsigned long long) a->count);
        snprintf (text_b, sizeof text_b, "%llu", (unsigned long long) b->count);
    } else if (a->op != b->op) {
        what = "operations";
        snprintf (text_a, sizeof text_a, "%s", op_name (a->op));
        snprintf (text_b, sizeof text_b, "%s", op_name (b->op));
    } else if (a->root != b->root) {
        what = "roots";
        snprintf (text_a, sizeof text_a, "%d", a->root);
        snprintf (text_b, sizeof text_b, "%d", b->root);
    } else
        what = write_forms (entry_a, text_a, entry_b, text_b, sizeof text_a);
    return accel_fail (err, ACCEL_ERR_PEER, "%s differ in %s: %s on rank %d at %s, %s on rank %d at %s", what,
                       jobseg_call_name (a->call), text_a, watch_world_rank (watch, rank_a), entry_a->location, text_b,
                       watch_world_rank (watch, rank_b), entry_b->location);
}
