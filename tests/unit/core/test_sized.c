/* SPDX-License-Identifier: Apache-2.0 */
/* Structs of programs that were compiled with other headers: shorter ones are not read beyond their end; longer ones
 * are accepted if the bytes beyond ours are 0, and refused if not.  Each function that takes such a struct has a row;
 * tests/lint/sized.py compares the rows with the headers. */
#include <config.h>

#include "lib/base/sized.h"
#include "tests/samples.h"
#include "tests/scratch.h"
#include "tests/tap.h"

#include <accel/accel.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MORE = 16 /* bytes that a longer struct has more */ };

static struct accel_error err;
static struct accel *acc;
static struct accel_model *model;
static struct accel_optimizer *optimizer;
static float values[2][8], gradients[2][8];
static struct accel_tensor tensors[4];
static unsigned char *page_end; /* nothing can be read from here on */

static bool
make_page (void)
{
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    unsigned char *pages = mmap (NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page_end = pages == MAP_FAILED ? NULL : pages + page;
    return page_end && !mprotect (page_end, page, PROT_NONE);
}

static bool
write_file (const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen (name, "w");
    size_t written = file ? fwrite (bytes, 1, length, file) : 0;
    return file && !fclose (file) && written == length;
}

static void
describe (struct accel_tensor *tensor, float *data)
{
    if (accel_tensor_init (tensor, ACCEL_FLOAT32, 1, (int64_t[]){ 8 }, NULL))
        exit (99);
    tensor->dl.data = data;
}

static enum accel_status
next_number (void *user, void *const *into, bool *end, struct accel_error *why)
{
    (void) user, (void) into, (void) why;
    *end = true;
    return ACCEL_OK;
}

static enum accel_status
next_index (void *user, int64_t *index, struct accel_error *why)
{
    (void) user, (void) why;
    *index = 0;
    return ACCEL_OK;
}

static enum accel_status
next_batch (void *user, int64_t *indices, size_t *count, struct accel_error *why)
{
    (void) user, (void) why;
    indices[0] = 0;
    *count = 1;
    return ACCEL_OK;
}

static enum accel_status
step (void *user, const struct accel_update *update, struct accel_error *why)
{
    (void) user, (void) update, (void) why;
    return ACCEL_OK;
}

static enum accel_status
compute (void *user, struct accel_error *why)
{
    (void) user, (void) why;
    return ACCEL_OK;
}

static double
halve (void *user, uint64_t at)
{
    (void) user;
    return at ? 0.5 : 1;
}

static const struct accel_field number = { "x", ACCEL_INT64, 0, { 0 } };
static const struct accel_dataset numbers = { .size = 4, .fields = &number, .field_count = 1, .read = sample_is_index };
static const char *const tokens = "tokens", *const csv = "csv", *const idx = "idx";

/* Each calls its function with a struct of `size` bytes, and destroys what it has made. */
#define CALL(name) static enum accel_status call_##name (size_t size, const void *given)
#define DATASET(name, ...)                                   \
    CALL (name)                                              \
    {                                                        \
        struct accel_dataset *set = NULL;                    \
        enum accel_status status = accel_dataset_##__VA_ARGS__; \
        accel_dataset_close (set);                           \
        return status;                                       \
    }
#define OPTIMIZER(name, ...)                                   \
    CALL (name)                                                \
    {                                                          \
        struct accel_optimizer *made = NULL;                   \
        enum accel_status status = accel_##__VA_ARGS__;        \
        accel_optimizer_destroy (made);                        \
        return status;                                         \
    }
#define SAMPLER(name, ...)                                \
    CALL (name)                                           \
    {                                                     \
        struct accel_sampler *made = NULL;                \
        enum accel_status status = accel_sampler_##__VA_ARGS__; \
        accel_sampler_destroy (made);                     \
        return status;                                    \
    }
#define SCHEDULER(name, ...)                                \
    CALL (name)                                             \
    {                                                       \
        struct accel_scheduler *made = NULL;                \
        enum accel_status status = accel_scheduler_##__VA_ARGS__; \
        accel_scheduler_destroy (made);                     \
        return status;                                      \
    }
#define MODEL(name, ...)                              \
    CALL (name)                                       \
    {                                                 \
        struct accel_model *made = NULL;              \
        enum accel_status status = accel_model_##__VA_ARGS__; \
        accel_model_destroy (made);                   \
        return status;                                \
    }
#define LOADER(name, ...)                              \
    CALL (name)                                        \
    {                                                  \
        struct accel_loader *made = NULL;              \
        enum accel_status status = accel_loader_##__VA_ARGS__; \
        accel_loader_destroy (made);                   \
        return status;                                 \
    }
#define OPEN(name, ...)                                  \
    CALL (name)                                          \
    {                                                    \
        struct accel *made = NULL;                       \
        enum accel_status status = accel_##__VA_ARGS__;  \
        accel_close (made);                              \
        return status;                                   \
    }

#define GA sizeof (struct accel_gradient_accumulation)
#define GS sizeof (struct accel_grad_scaler)
#define OO sizeof (struct accel_options)
#define LO sizeof (struct accel_loader_options)
#define BS sizeof (struct accel_batch_sampler)
#define PG sizeof (struct accel_param_group)

OPEN (options, open_sized (size, GA, GS, &made, given, &err))
OPEN (accumulation,
      open_sized (OO, size, GS, &made, &(struct accel_options){ .gradient_accumulation_plugin = given }, &err))
OPEN (scaler, open_sized (OO, GA, size, &made, &(struct accel_options){ .grad_scaler = given }, &err))
DATASET (tokens, open_tokens_sized (size, &set, &tokens, 1, given, &err))
DATASET (csv, open_csv_sized (size, sizeof (struct accel_csv_field), &set, csv, given, &err))
DATASET (csv_field, open_csv_sized (sizeof (struct accel_csv_options), size, &set, csv,
                                    &(struct accel_csv_options){ .fields = given, .field_count = 1 }, &err))
DATASET (idx, open_idx_sized (size, &set, idx, NULL, given, &err))
MODEL (array, from_array_sized (size, sizeof (struct accel_array_row), &made, given,
                                &(struct accel_array_row){ .name = "w", .ndim = 1, .shape = { 2 } }, 1, &err))
MODEL (row, from_array_sized (sizeof (struct accel_array), size, &made, &(struct accel_array){ .data = NULL }, given, 1,
                              &err))
MODEL (parameter, create_sized (size, &made, given, 1, &err))
LOADER (dataset, create_sized (size, LO, BS, &made, given, NULL, &err))
LOADER (loader, create_sized (sizeof numbers, size, BS, &made, &numbers, given, &err))
LOADER (batches, create_sized (sizeof numbers, LO, size, &made, &numbers,
                               &(struct accel_loader_options){ .batch_sampler = given }, &err))
OPTIMIZER (optimizer, optimizer_create_sized (size, PG, &made, model, ACCEL_SGD, given, &err))
OPTIMIZER (optimizer_group, optimizer_create_sized (sizeof (struct accel_optimizer_options), size, &made, model,
                                                    ACCEL_ADAM, &(struct accel_optimizer_options){
                                                        .groups = given, .group_count = 1 }, &err))
OPTIMIZER (custom, optimizer_create_custom_sized (size, PG, &made, model, given, &err))
OPTIMIZER (custom_group, optimizer_create_custom_sized (sizeof (struct accel_custom_optimizer), size, &made, model,
                                              &(struct accel_custom_optimizer){
                                                  .lr = 1, .step = step, .groups = given, .group_count = 1 },
                                              &err))
SAMPLER (sampler, create_sized (size, &made, ACCEL_SAMPLER_RANDOM, 4, given, &err))
SAMPLER (calls, create_custom_sized (size, &made, given, &err))
CALL (choice)
{
    struct accel_generator *generator = NULL;
    size_t chosen;
    if (accel_generator_create (&generator, 1, &err))
        exit (99);
    enum accel_status status = accel_generator_choose_sized (size, generator, values[0], 8, &chosen, given, &err);
    accel_generator_destroy (generator);
    return status;
}
CALL (argument)
{
    char *help;
    int64_t field;
    return accel_arguments_parse_sized (size, &help, &field, given, 1, 0, NULL, &err);
}
CALL (argument_to_json)
{
    const int64_t field = 0;
    return accel_arguments_write_json_sized (size, &field, given, 1, "written", &err);
}
CALL (argument_json)
{
    int64_t field;
    return accel_arguments_read_json_sized (size, &field, given, 1, "json", &err);
}
SCHEDULER (scheduler, create_sized (size, &made, optimizer, given, &err))
SCHEDULER (sequential, create_sequential_sized (size, &made, optimizer, given, 1, NULL, &err))
SCHEDULER (chained, create_chained_sized (size, &made, optimizer, given, 1, &err))
static enum accel_status
save_nothing (void *user, struct accel_state_dict *state, struct accel_error *why)
{
    (void) user, (void) state, (void) why;
    return ACCEL_OK;
}

static enum accel_status
load_nothing (void *user, const struct accel_state_dict *state, struct accel_error *why)
{
    (void) user, (void) state, (void) why;
    return ACCEL_OK;
}

CALL (outlier_watch) { return accel_outlier_watch_sized (size, acc, given, &err); }
CALL (project) { return accel_set_project_configuration_sized (size, acc, given, &err); }
CALL (save_model) { return accel_save_model_at (ACCEL_HERE, size, acc, model, "saved", given, &err); }
CALL (load_model) { return accel_load_model_at (ACCEL_HERE, size, acc, model, "saved", NULL, given, &err); }
CALL (safetensors)
{
    struct accel_safetensors *made = NULL;
    enum accel_status status = accel_safetensors_open_sized (size, &made, "saved", given, &err);
    accel_safetensors_close (made);
    return status;
}
CALL (checkpoint_object) { return accel_register_for_checkpointing_sized (size, acc, given, &err); }
CALL (trackers)
{
    return accel_init_trackers_sized (size, sizeof (struct accel_tracker_calls), acc, "p", NULL, 0, given, &err);
}
CALL (tracker_calls)
{
    struct accel_tracker_options options = { .trackers = given, .tracker_count = 1 };
    return accel_init_trackers_sized (sizeof options, size, acc, "p", NULL, 0, &options, &err);
}
CALL (ddp) { return accel_model_set_ddp_sized (size, model, given, &err); }
CALL (sharding) { return accel_model_set_sharding_sized (size, model, given, &err); }
CALL (partition)
{
    struct accel_model *cut = NULL;
    const struct accel_parameter parameter = { "w", &tensors[0].dl, NULL };
    enum accel_status status = accel_model_create (&cut, &parameter, 1, &err);
    if (!status)
        status = accel_model_set_tensor_parallel_sized (size, cut, acc, given, 1, &err);
    accel_model_destroy (cut);
    return status;
}
CALL (segment)
{
    struct accel_segment *made = NULL;
    enum accel_status status = accel_segment_create_sized (size, &made, given, &err);
    accel_segment_destroy (made);
    return status;
}
CALL (subset)
{
    struct accel_dataset *made = NULL;
    enum accel_status status = accel_dataset_subset_sized (size, &made, given, 0, 2, &err);
    accel_dataset_close (made);
    return status;
}
CALL (initializer)
{
    return accel_model_initialize_sized (size, model, given, 1, accel_default_generator (), &err);
}
CALL (file_names) { return accel_model_set_file_names_sized (size, model, given, 1, &err); }
CALL (set_group) { return accel_optimizer_set_group_sized (size, optimizer, 0, given, &err); }

CALL (layout)
{
    const struct {
        const char *name;
        float *data;
        int64_t shape;
    } structs[] = { { "w", values[0], 8 } };
    struct accel_struct_layout layout = { sizeof *structs, 0, false, sizeof (char *), ACCEL_NO_FIELD,
                                          2 * sizeof (char *), .ndim = ACCEL_NO_FIELD, .dims = 1 };
    struct accel_model *made = NULL;
    /* What the table has is only as long; its contents are these. */
    memcpy ((void *) given, &layout, size < sizeof layout ? size : sizeof layout);
    enum accel_status status = accel_model_from_structs_sized (size, &made, structs, 1, given, &err);
    accel_model_destroy (made);
    return status;
}

CALL (llmc)
{
    struct accel_dataset *set = NULL;
    struct accel_sampler *made = NULL;
    enum accel_status status
        = accel_dataset_open_tokens (&set, &tokens, 1, &(struct accel_tokens_options){ .sequence_length = 2 }, &err);
    if (!status)
        status = accel_sampler_create_llmc_sized (size, &made, set, given, &err);
    accel_sampler_destroy (made);
    accel_dataset_close (set);
    return status;
}

CALL (send)
{
    struct accel_tree *tree = NULL, *sent = NULL;
    enum accel_status status = accel_tree_create (&tree, ACCEL_TREE_LIST, &err);
    if (!status)
        status = accel_send_to_device_sized (size, &sent, tree, (DLDevice){ kDLCPU, 0 }, given, &err);
    accel_tree_destroy (sent);
    accel_tree_destroy (tree);
    return status;
}

CALL (clip)
{
    return accel_clip_grad_norm_at (__FILE__, __LINE__, size, model, 1, NULL, given, &err);
}

CALL (profile)
{
    enum accel_status status = accel_profile_start_at (__FILE__, __LINE__, size, acc, given, &err);
    return status ? status : accel_profile_stop (acc, NULL) == ACCEL_OK ? ACCEL_OK : ACCEL_ERR_SYSTEM;
}

#define ROW(function, of, last, call, ...)                                                        \
    { "accel_" #function, #of, sizeof (struct accel_##of), offsetof (struct accel_##of, last),   \
      _Alignof (struct accel_##of), call_##call,       &(struct accel_##of){ __VA_ARGS__ } }

static struct {
    const char *function, *of;
    size_t size, last; /* bytes, and where the last fields begin, which the struct does not need */
    size_t alignment;
    enum accel_status (*call) (size_t size, const void *given);
    void *given;
} rows[] = {
    ROW (open, options, check_gradients, options, .cpu = true),
    ROW (open, gradient_accumulation, sync_with_dataloader, accumulation, .num_steps = 2),
    ROW (open, grad_scaler, growth_interval, scaler, .init_scale = 2),
    ROW (set_project_configuration, project_configuration, iteration, project, .project_dir = "x"),
    ROW (register_for_checkpointing, checkpoint_object, user, checkpoint_object, save_nothing, load_nothing, NULL),
    ROW (init_trackers, tracker_options, flops_per_step, trackers, .run_name = "x"),
    ROW (init_trackers, tracker_calls, finish, tracker_calls, .name = "x"),
    ROW (save_model, save_model_options, precision, save_model, .max_shard_size = "1GB"),
    ROW (load_model, load_model_options, follow_links, load_model, .strict = ACCEL_NO),
    ROW (safetensors_open, safetensors_options, follow_links, safetensors, .in_memory = true),
    ROW (dataset_open_tokens, tokens_options, open_files, tokens, .sequence_length = 2),
    ROW (dataset_open_csv, csv_options, dtype, csv, .separator = ','),
    ROW (dataset_open_csv, csv_field, max, csv_field, .field = { .name = "x" }),
    ROW (dataset_open_idx, idx_options, scale, idx, .image_name = "x"),
    ROW (model_from_array, array, dtype, array, .count = 2),
    ROW (model_from_array, array_row, frozen, row, .name = "w", .ndim = 1, .shape = { 2 }),
    ROW (model_from_structs, struct_layout, dtype, layout, .stride_bytes = 0),
    ROW (model_create, parameter, grad, parameter, .name = "w", .data = &tensors[0].dl),
    ROW (model_set_ddp, ddp_options, use_error_feedback, ddp, .bucket_cap_mb = 1),
    ROW (model_set_sharding, sharding_options, offload_param_nvme_path, sharding, .strategy = ACCEL_SHARDING_NONE),
    ROW (model_set_tensor_parallel, partition, blocks, partition, .match = "*"),
    ROW (segment_create, segment_options, activation_bytes, segment, .forward = compute),
    ROW (model_initialize, initializer, std, initializer, .mean = 1),
    ROW (model_set_file_names, file_name, transposed, file_names, .ours = "*", .theirs = "*"),
    ROW (dataset_subset, dataset, read_many, subset, 4, &number, 1, sample_is_index),
    ROW (loader_create, dataset, read_many, dataset, 4, &number, 1, sample_is_index),
    ROW (loader_create, loader_options, synchronize_rng, loader, .batch_size = 2),
    ROW (loader_create, batch_sampler, user, batches, .length = 1, .batch_size = 1, .next = next_batch),
    ROW (loader_create, dataset, skip, dataset, .fields = &number, .field_count = 1, .next = next_number),
    ROW (optimizer_create, optimizer_options, threads, optimizer, .lr = 1),
    ROW (optimizer_create, param_group, min_ndim, optimizer_group, .lr = 1),
    ROW (optimizer_create_custom, custom_optimizer, group_count, custom, .lr = 1, .step = step),
    ROW (optimizer_create_custom, param_group, min_ndim, custom_group, .lr = 1),
    ROW (optimizer_set_group, param_group, min_ndim, set_group, .lr = 1),
    ROW (generator_choose, choice_options, top_k, choice, .temperature = 1),
    ROW (arguments_parse, argument, max, argument, .name = "x"),
    ROW (arguments_read_json, argument, max, argument_json, .name = "x"),
    ROW (arguments_write_json, argument, max, argument_to_json, .name = "x"),
    ROW (sampler_create, sampler_options, weights, sampler, .num_samples = 2),
    ROW (sampler_create_llmc, sampler_options, seed, llmc, .shuffle = ACCEL_YES),
    ROW (sampler_create_custom, sampler_calls, user, calls, .length = 1, .next = next_index),
    ROW (scheduler_create, scheduler_options, group, scheduler, .schedule = ACCEL_SCHEDULE_LAMBDA, .lambda = halve),
    ROW (scheduler_create_sequential, scheduler_options, group, sequential, .schedule = ACCEL_SCHEDULE_LAMBDA,
         .lambda = halve),
    ROW (scheduler_create_chained, scheduler_options, group, chained, .schedule = ACCEL_SCHEDULE_LAMBDA,
         .lambda = halve),
    ROW (send_to_device, send_options, non_blocking, send, .skip_keys = NULL),
    ROW (clip_grad_norm, clip_options, other_count, clip, .norm_type = 1),
    ROW (outlier_watch, outlier_options, skip_steps, outlier_watch, .window = 2),
    ROW (profile_start, profile_options, max_events, profile, .path = NULL),
};

/* A struct of @p size bytes at the end of the page: what @p given has of them, then zeros. */
static void *
place (const void *given, size_t have, size_t size)
{
    unsigned char *at = page_end - size;
    memset (at, 0, size);
    return memcpy (at, given, have < size ? have : size);
}

static bool
is_refusal (enum accel_status status, const char *function, const char *words)
{
    size_t length = strlen (function);
    return status == ACCEL_ERR_UNSUPPORTED && err.code == status && !strncmp (err.text, function, length)
           && err.text[length] == ':' && strstr (err.text, words);
}

static void
test_row (size_t i)
{
    const char *function = rows[i].function, *of = rows[i].of;
    size_t size = rows[i].size, shorter = rows[i].last / rows[i].alignment * rows[i].alignment;
    memset (&err, 0, sizeof err);
    enum accel_status status = rows[i].call (shorter, place (rows[i].given, size, shorter));
    ok (!status, "%s: accel_%s of %zu bytes instead of %zu is enough: %s", function, of, shorter, size, err.text);
    status = rows[i].call (size + MORE, place (rows[i].given, size, size + MORE));
    ok (!status, "%s: accel_%s with more that is 0: %s", function, of, err.text);
    unsigned char *longer = place (rows[i].given, size, size + MORE);
    longer[size + MORE - 1] = 1;
    status = rows[i].call (size + MORE, longer);
    ok (is_refusal (status, function, "sets a field"), "%s: accel_%s with more that is set: %s", function, of,
        err.text);
    longer = place (rows[i].given, size, size + MORE);
    longer[size] = 1;
    ok (rows[i].call (size + MORE, longer) == ACCEL_ERR_UNSUPPORTED, "%s: its first byte", function);
    if (strcmp (of, "struct_layout")) /* the contents of which depend on the size */
        ok (is_refusal (rows[i].call (0, rows[i].given), function, "size"), "%s: accel_%s of 0 bytes", function, of);
}

/* More than one element, each of another size than ours. */
static void
test_arrays (void)
{
    const size_t shorter = offsetof (struct accel_param_group, nesterov) / 8 * 8;
    const struct accel_param_group groups[] = { { .match = "one", .lr = 0.25 }, { .match = "two", .lr = 0.5 } };
    for (int longer = 0; longer < 2; longer++) {
        size_t size = longer ? sizeof *groups + MORE : shorter;
        unsigned char *at = page_end - 2 * size;
        memset (at, 0, 2 * size);
        for (size_t i = 0; i < 2; i++)
            memcpy (at + i * size, &groups[i], longer ? sizeof *groups : size);
        struct accel_optimizer_options options = { .lr = 1, .groups = (void *) at, .group_count = 2 };
        struct accel_optimizer *made = NULL;
        enum accel_status status = accel_optimizer_create_sized (sizeof options, size, &made, model, ACCEL_SGD,
                                                                 &options, &err);
        struct accel_param_group first = { .lr = 0 }, second = { .lr = 0 };
        ok (!status && !accel_optimizer_get_group (made, 0, &first, &err) && first.lr == 0.25
                && !accel_optimizer_get_group (made, 1, &second, &err) && second.lr == 0.5,
            "two groups of %zu bytes each", size);
        accel_optimizer_destroy (made);
        if (!longer)
            continue;
        at[2 * size - 1] = 1;
        made = NULL;
        ok (accel_optimizer_create_sized (sizeof options, size, &made, model, ACCEL_SGD, &options,
                                          &err) == ACCEL_ERR_UNSUPPORTED
                && !made && strstr (err.text, "'groups'"),
            "and the second sets what is unknown: %s", err.text);
    }
}

/* The library fills in no more than the program has. */
static void
test_output (void)
{
    const size_t size = sizeof (struct accel_param_group), shorter = offsetof (struct accel_param_group, beta1);
    struct accel_param_group whole;
    ok (!accel_optimizer_get_group (optimizer, 0, &whole, &err), "a group's numbers");
    unsigned char *at = page_end - shorter;
    ok (!accel_optimizer_get_group_sized (shorter, optimizer, 0, (void *) at, &err) && !memcmp (at, &whole, shorter),
        "accel_optimizer_get_group: no more than %zu bytes", shorter);
    at = page_end - size - MORE;
    memset (at, 1, size + MORE);
    ok (!accel_optimizer_get_group_sized (size + MORE, optimizer, 0, (void *) at, &err) && !memcmp (at, &whole, size)
            && !at[size] && !at[size + MORE - 1],
        "accel_optimizer_get_group: what is unknown is 0");
}

static unsigned destroyed;

static void
destroy (void *user)
{
    (void) user;
    destroyed++;
}

/* What is longer and refused is destroyed all the same, as after every failure. */
static void
test_custom (void)
{
    struct {
        struct accel_custom_optimizer options;
        uint64_t more;
    } longer = { { .lr = 1, .step = step, .destroy = destroy }, 1 };
    struct accel_optimizer *made = NULL;
    ok (accel_optimizer_create_custom_sized (sizeof longer, PG, &made, model, &longer.options, &err)
                == ACCEL_ERR_UNSUPPORTED
            && destroyed == 1,
        "accel_optimizer_create_custom: a refused optimizer is destroyed once");
    ok (accel_optimizer_create_custom_sized (sizeof longer, PG, &made, NULL, &longer.options, &err)
                == ACCEL_ERR_INVALID
            && strstr (err.text, "model is NULL") && destroyed == 2,
        "accel_optimizer_create_custom: of two mistakes, the first is reported");
}

/* A loader keeps the data set, the stream and the batches, not a pointer to a copy that is gone. */
static void
test_kept (void)
{
    const size_t shorter = offsetof (struct accel_dataset, read_many);
    const struct accel_dataset *set = place (&numbers, sizeof numbers, shorter);
    struct accel_loader *loader = NULL;
    const struct accel_batch *batch = NULL;
    size_t count = 0;
    void *memory = malloc (offsetof (struct accel_batch_sampler, user)); /* gcc 14 warns of one that is too small */
    struct accel_batch_sampler *batches = memory;
    if (!batches)
        exit (99);
    memcpy (batches, &(struct accel_batch_sampler){ .length = 3, .batch_size = 1, .next = next_batch },
            offsetof (struct accel_batch_sampler, user));
    struct accel_loader_options options = { .batch_sampler = batches };
    ok (!accel_loader_create_sized (shorter, sizeof options, offsetof (struct accel_batch_sampler, user), &loader, set,
                                    &options, &err),
        "a loader over a shorter data set and shorter batches: %s", err.text);
    while (loader && accel_loader_next (loader, &batch, &err))
        count += accel_batch_size (batch);
    ok (count == 3 && !err.code, "and a pass over it: %zu samples", count);
    accel_loader_destroy (loader);
    free (batches);
}

static bool
set_up (void)
{
    uint16_t some[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    const unsigned char images[] = { 0, 0, 8, 1, 0, 0, 0, 2, 1, 2 };
    const struct accel_parameter parameters[] = { { "one", &tensors[0].dl, &tensors[1].dl },
                                                  { "two", &tensors[2].dl, &tensors[3].dl } };
    for (size_t i = 0; i < 4; i++)
        describe (&tensors[i], i % 2 ? gradients[i / 2] : values[i / 2]);
    scratch_enter ();
    return make_page () && write_file (tokens, some, sizeof some) && write_file (csv, "1\n2\n", 4)
           && write_file (idx, images, sizeof images) && write_file ("json", "{}", 2) && !accel_open (&acc, NULL, &err)
           && !accel_model_create (&model, parameters, 2, &err)
           && !accel_optimizer_create (&optimizer, model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 },
                                       &err);
}

int
main (void)
{
    if (!ok (set_up (), "everything that is needed: %s", err.text))
        return done_testing ();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        test_row (i);
    test_arrays ();
    test_output ();
    test_custom ();
    test_kept ();
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
    accel_close (acc);
    return done_testing ();
}
