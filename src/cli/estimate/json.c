/* SPDX-License-Identifier: Apache-2.0 */
/* estimate-memory: the same as one JSON object, in bytes. */
#include <config.h>

#include "cli/estimate/estimate.h"
#include "config/text/json_text.h"

#include <jansson.h>
#include <stdlib.h>

static json_t *
number (double bytes)
{
    return bytes == (double) (json_int_t) bytes ? json_integer ((json_int_t) bytes) : json_real (bytes);
}

/* Append a row. @return NULL, with the list released, without memory */
static json_t *
with_row (json_t *list, json_t *row)
{
    if (!json_array_append_new (list, row)) /* also fails if either is NULL */
        return list;
    json_decref (list);
    return NULL;
}

static json_t *
loading (const struct estimate_report *report)
{
    json_t *list = json_array ();
    const struct strlist *dtypes = &report->settings->dtypes;
    bool is_total = report->model->is_total;
    for (size_t i = 0; i < dtypes->count && list; i++) {
        const char *dtype = dtypes->items[i];
        double divisor = 8.0 * estimate_divisor (dtype);
        uint64_t training = estimate_adam (report->sizes.total / 8, dtype);
        json_t *largest = is_total ? json_null () : number ((double) report->sizes.largest / divisor);
        json_t *row = json_pack ("{s:s, s:o, s:o, s:o}", "dtype", dtype, "largest_layer", largest, "total",
                                 number ((double) report->sizes.total / divisor), "training_adam",
                                 training ? number ((double) training) : json_null ());
        list = with_row (list, row);
    }
    return list;
}

/* @return NULL with @p fail set, also without memory */
static json_t *
inference (const struct estimate_report *report, struct fail *fail)
{
    json_t *list = json_array ();
    size_t count = estimate_kinds (report);
    for (size_t i = 0; i < count && list; i++) {
        struct estimate_inference needs;
        if (estimate_infer (report, i, &needs, fail)) {
            json_decref (list);
            return NULL;
        }
        list = with_row (list, json_pack ("{s:s, s:o, s:o, s:o}", "dtype", needs.dtype, "weights",
                                          number (needs.weights), "keys_and_values", number (needs.cache), "total",
                                          number (needs.weights + needs.cache)));
    }
    if (!list)
        fail_nomem (fail);
    return list;
}

static json_t *
training (const struct estimate_report *report)
{
    const struct settings *settings = report->settings;
    int64_t processes = settings->num_processes ? settings->num_processes : 1;
    json_t *list = json_array ();
    for (size_t i = 0; estimate_optimizers[i].name; i++)
        for (size_t j = 0; estimate_precisions[j].name && list; j++) {
            struct estimate_training needs = estimate_train (report->sizes.parameters, &estimate_optimizers[i],
                                                             &estimate_precisions[j], settings->zero_stage, processes);
            uint64_t each = needs.weights + needs.gradients + needs.optimizer;
            json_t *row = json_pack ("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "optimizer",
                                     estimate_optimizers[i].name, "mixed_precision", estimate_precisions[j].name,
                                     "zero_stage", (json_int_t) settings->zero_stage, "processes",
                                     (json_int_t) processes, "weights", (json_int_t) needs.weights, "gradients",
                                     (json_int_t) needs.gradients, "optimizer_states", (json_int_t) needs.optimizer,
                                     "each_process", (json_int_t) each);
            list = with_row (list, row);
        }
    return list;
}

static json_t *
sharding (const struct estimate_report *report)
{
    const struct settings *settings = report->settings;
    json_t *list = json_array ();
    for (struct estimate_sharding row = { 0 }; list && estimate_next_sharding (report, &row);)
        list = with_row (list, json_pack ("{s:I, s:i, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I}", "processes",
                                          (json_int_t) row.processes, "zero_stage", row.stage, "mixed_precision",
                                          settings->mixed_precision, "float32_gradients",
                                          settings->float32_gradients, "share_parameters",
                                          settings->share_parameters && row.stage, "weights",
                                          (json_int_t) row.share.weights, "gradients",
                                          (json_int_t) row.share.gradients, "optimizer_states",
                                          (json_int_t) row.share.optimizer, "each_process", (json_int_t) row.each,
                                          "all_processes", (json_int_t) row.all));
    return list;
}

/* @return 0, or -1 with @p fail set */
static int
add_more (json_t *json, const struct estimate_report *report, struct fail *fail)
{
    const struct settings *settings = report->settings;
    bool has_failed = false;
    if (settings->context_length) {
        json_t *list = inference (report, fail);
        if (!list)
            return -1;
        has_failed = json_object_set_new (json, "batch_size", json_integer ((json_int_t) settings->batch_size))
                     || json_object_set_new (json, "context_length",
                                             json_integer ((json_int_t) settings->context_length));
        has_failed |= json_object_set_new (json, "inference", list) != 0;
    }
    if (report->wants_training)
        has_failed |= json_object_set_new (json, "training", training (report)) != 0;
    if (settings->sharding)
        has_failed |= json_object_set_new (json, "sharding", sharding (report)) != 0;
    return has_failed ? fail_nomem (fail) : 0;
}

int
estimate_show_json (const struct estimate_report *report, struct strbuf *out, struct fail *fail)
{
    json_t *json = json_pack ("{s:s, s:s, s:s?, s:s?, s:I, s:I, s:o}", "model", report->name, "source",
                              report->model->source, "library", report->model->library, "quantization",
                              report->model->quantization, "parameters", (json_int_t) report->sizes.parameters,
                              "stored_bytes", (json_int_t) report->sizes.stored, "loading", loading (report));
    if (!json)
        return fail_nomem (fail);
    if (add_more (json, report, fail)) {
        json_decref (json);
        return -1;
    }
    return json_add (out, json, JSON_INDENT (2)) ? fail_nomem (fail) : 0;
}
