/* SPDX-License-Identifier: Apache-2.0 */
/* A program as users write it.  tests/unit/core/sized.sh compiles it with headers whose structs are shorter or longer,
 * and runs it with today's library.  Its structs end where a page begins that cannot be read. */
#include <accel/accel.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PLACES = 8 };

static unsigned char *
last_bytes (size_t size)
{
    static unsigned char *places[PLACES];
    static unsigned turn;
    size_t page = (size_t) sysconf (_SC_PAGESIZE);
    unsigned char **place = &places[turn++ % PLACES];
    if (!*place) {
        *place = mmap (NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (*place == MAP_FAILED || mprotect (*place + page, page, PROT_NONE))
            exit (99);
    }
    return *place + page - size;
}

/* A copy of the struct before the end of a page. */
#define AT_END(what) memcpy (last_bytes (sizeof what), &what, sizeof what)

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    memcpy (into[0], &(int64_t){ (int64_t) index }, sizeof (int64_t));
    return ACCEL_OK;
}

static void
load (struct accel *acc)
{
    static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
    struct accel_error err;
    struct accel_loader *loader;
    const struct accel_batch *batch;
    const struct accel_dataset set = { .size = 5, .fields = &field, .field_count = 1, .read = read_number };
    const struct accel_loader_options options = { .batch_size = 2, .shuffle = true, .seed = 3 };
    size_t samples = 0, batches = 0;
    accel_check (accel_loader_create (&loader, AT_END (set), AT_END (options), &err), &err);
    accel_check (accel_prepare (acc, &err, loader), &err);
    for (; accel_loader_next (loader, &batch, &err); batches++)
        samples += accel_batch_size (batch);
    accel_check (err.code, &err);
    accel_loader_destroy (loader);
    printf ("%zu samples in %zu batches\n", samples, batches);
}

static void
train (struct accel *acc)
{
    static float data[6] = { 1, 1, 1, 1, 1, 1 }, grad[6] = { 1, 1, 1, 1, 1, 1 };
    struct accel_error err;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    const struct accel_array array = { .data = data, .grad = grad };
    const struct accel_array_row rows[]
        = { { .name = "one", .ndim = 1, .shape = { 4 } }, { .name = "two", .ndim = 1, .shape = { 2 } } };
    const struct accel_param_group groups[] = { { .match = "one", .lr = 0.5 }, { .match = "two", .lr = 0.25 } };
    const struct accel_optimizer_options sgd = { .lr = 1, .groups = AT_END (groups), .group_count = 2 };
    const struct accel_scheduler_options halve
        = { .schedule = ACCEL_SCHEDULE_STEP, .step_size = 1, .gamma = 0.5 };
    struct accel_param_group *numbers = (void *) last_bytes (sizeof *numbers);
    accel_check (accel_model_from_array (&model, AT_END (array), AT_END (rows), 2, &err), &err);
    accel_check (accel_optimizer_create (&optimizer, model, ACCEL_SGD, AT_END (sgd), &err), &err);
    accel_check (accel_scheduler_create (&scheduler, optimizer, AT_END (halve), &err), &err);
    accel_check (accel_prepare (acc, &err, model, optimizer, scheduler), &err);
    accel_check (accel_optimizer_step (optimizer, &err), &err);
    accel_check (accel_scheduler_step (scheduler, &err), &err);
    accel_check (accel_optimizer_get_group (optimizer, 1, numbers, &err), &err);
    printf ("parameters %g and %g, next rates %g and %g\n", (double) data[0], (double) data[5],
            accel_optimizer_lr (optimizer), numbers->lr);
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (model);
}

int
main (void)
{
    struct accel_error err;
    struct accel *acc;
    struct accel_grad_scaler scaler = { .init_scale = 2 };
    struct accel_options options = { .cpu = true, .mixed_precision = "fp16", .grad_scaler = AT_END (scaler) };
#ifdef NEWEST
    options.newest = 1;
#endif
    accel_check (accel_open (&acc, AT_END (options), &err), &err);
    printf ("loss scale %g\n", (double) accel_loss_scale (acc));
    load (acc);
    train (acc);
    accel_close (acc);
    return 0;
}
