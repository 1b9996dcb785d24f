/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 3 gathers layers while the program computes others: an observer of collectives sees which thread gathers what,
 * and when.  It lets no gathering of a layer ahead return before the program has ended the layer that it computes, so a
 * library that waits for it any sooner does not come to that end.  No speed matters.
 *
 * Without arguments, in forked ranks.  `test_layers_ahead job` is one rank of a job that is there, such as mpirun's. */
#include <config.h>

#include "lib/comm/comm_object.h"
#include "tests/ranks.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

enum { LAYERS = 4, PLACES = 2 * LAYERS, STEPS = 3, PATIENCE_S = 60, LATE_US = 5000 };

static const int64_t counts[LAYERS] = { 12288, 9216, 16384, 7000 };

static const struct row {
    const char *name;
    enum accel_sharding strategy; /* 0: the launcher's */
    uint64_t prefetch_layers;
    enum accel_overlap overlap;
    const char *variable; /* FSDP_BACKWARD_PREFETCH */
    int depth; /* layers that are gathered ahead */
} rows[] = {
    { "the layer that comes next", ACCEL_SHARDING_FULL_SHARD, 0, ACCEL_OVERLAP_ALWAYS, NULL, 1 },
    { "2 layers", ACCEL_SHARDING_FULL_SHARD, 2, ACCEL_OVERLAP_ALWAYS, NULL, 2 },
    { "BACKWARD_PRE", ACCEL_SHARDING_DEFAULT, 0, ACCEL_OVERLAP_ALWAYS, "BACKWARD_PRE", 1 },
    { "none: prefetch_layers", ACCEL_SHARDING_FULL_SHARD, ACCEL_NONE, ACCEL_OVERLAP_ALWAYS, NULL, 0 },
    { "none: NO_PREFETCH", ACCEL_SHARDING_DEFAULT, 0, ACCEL_OVERLAP_ALWAYS, "NO_PREFETCH", 0 },
    { "none: no overlap", ACCEL_SHARDING_FULL_SHARD, 2, ACCEL_OVERLAP_NEVER, NULL, 0 },
};

static const struct row *row;
static struct accel_error err;

static struct {
    struct accel *acc;
    struct accel_model *model;
    DLTensor data[LAYERS], grad[LAYERS];
    int64_t shape[LAYERS];
    int step, place; /* of the program's thread, which changes them with the lock below */
} net;

/* What the observer sees. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t program;
    bool is_beginning; /* the program is in accel_layer_begin() */
    int held;          /* the layer whose gathering does not return; -1: none */
    bool is_held;      /* it has come to that */
    bool is_whole[LAYERS];
    int gathered, elsewhere; /* of a step: all, and by other threads */
    bool is_late;      /* by the program's thread, but not where a layer begins */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .held = -1 };

/* Until *flag is @wanted, or what is wrong is known.  With the lock. */
static void
await (const bool *flag, bool wanted, const char *what)
{
    struct timespec deadline;
    int code = 0;
    clock_gettime (CLOCK_REALTIME, &deadline);
    deadline.tv_sec += PATIENCE_S;
    while (*flag != wanted && code != ETIMEDOUT && !*ranks_texts[ranks_self])
        code = pthread_cond_timedwait (&seen.changed, &seen.lock, &deadline);
    right (*flag == wanted, "step %d, place %d: %s", net.step, net.place, what);
}

static void
note (struct comm_observer *observer, const struct accel_engine_call *call, int64_t begin_ns)
{
    int layer = 0;
    (void) observer, (void) begin_ns;
    while (layer < LAYERS && call->recv != net.data[layer].data)
        layer++;
    if (call->kind != ACCEL_ENGINE_ALL_GATHER || layer == LAYERS)
        return;
    bool is_own = pthread_equal (pthread_self (), seen.program);
    pthread_mutex_lock (&seen.lock);
    if (seen.held == layer && !is_own) {
        seen.is_held = true;
        pthread_cond_broadcast (&seen.changed);
        await (&seen.is_held, false, "the library waits for a layer that it gathers ahead");
        pthread_mutex_unlock (&seen.lock);
        usleep (LATE_US); /* the layer begins now, and has to wait */
        pthread_mutex_lock (&seen.lock);
    }
    seen.is_whole[layer] = true;
    seen.gathered++;
    seen.elsewhere += !is_own;
    seen.is_late |= is_own && !seen.is_beginning;
    pthread_mutex_unlock (&seen.lock);
}

static void
end_observer (struct comm_observer *observer)
{
    (void) observer;
}

/* Forwards, then backwards. */
static int
layer_at (int place)
{
    return place < LAYERS ? place : PLACES - 1 - place;
}

static bool
is_between (int first, int last, int layer)
{
    bool found = false;
    for (int place = first; place <= last && place < PLACES; place++)
        found |= layer_at (place) == layer;
    return found;
}

static float
first_value (size_t element)
{
    return (float) (element % 64) / 64;
}

/* Gradients are 1, and the rate 1/4: that is exact. */
static void
compute (int layer)
{
    const float *data = net.data[layer].data;
    size_t wrong = 0, count = (size_t) counts[layer];
    for (size_t i = 0; i < count; i++)
        wrong += data[i] + 0.25F * (float) net.step != first_value (i);
    right (!wrong, "step %d, place %d: %zu wrong elements", net.step, net.place, wrong);
}

/* The layer that is gathered while this one is computed is on its way, and stays so until this one has ended. */
static enum accel_status
visit (enum accel_status (*act) (size_t layer, struct accel_error *error), struct accel_error *error)
{
    int place = net.place, layer = layer_at (place), ahead = place + row->depth;
    bool is_known = row->depth && net.step && ahead < PLACES && !is_between (place, ahead - 1, layer_at (ahead));
    const size_t index = (size_t) layer;
    pthread_mutex_lock (&seen.lock);
    seen.held = is_known ? layer_at (ahead) : -1;
    seen.is_beginning = true;
    pthread_mutex_unlock (&seen.lock);
    enum accel_status status = accel_layer_begin (net.model, &index, 1, error);
    pthread_mutex_lock (&seen.lock);
    seen.is_beginning = false;
    right (!net.step || seen.is_whole[layer], "step %d, place %d begins without its layer", net.step, place);
    if (is_known)
        await (&seen.is_held, true, "no layer is gathered ahead");
    pthread_mutex_unlock (&seen.lock);
    compute (layer);
    status = status || !act ? status : act (index, error);
    status = status ? status : accel_layer_end (net.model, &index, 1, error);
    pthread_mutex_lock (&seen.lock);
    right (seen.is_held == is_known, "step %d, place %d has ended with a layer that it does not use", net.step, place);
    seen.is_whole[layer] &= is_between (place + 1, ahead, layer);
    seen.held = -1;
    seen.is_held = false;
    net.place++;
    pthread_cond_broadcast (&seen.changed);
    pthread_mutex_unlock (&seen.lock);
    return status;
}

static enum accel_status
differentiate (size_t layer, struct accel_error *error)
{
    float *grad = net.grad[layer].data;
    for (int64_t i = 0; i < counts[layer]; i++)
        grad[i] = 1;
    return accel_grad_ready (net.model, layer, error);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    enum accel_status status = ACCEL_OK;
    (void) user, (void) scale;
    while (net.place < PLACES && !status)
        status = visit (differentiate, error);
    return status;
}

/* Layer 3 is computed twice in a row, so it is gathered once if it is known to come again. */
static void
step (struct accel_optimizer *optimizer)
{
    pthread_mutex_lock (&seen.lock);
    seen.gathered = seen.elsewhere = 0;
    memset (seen.is_whole, 0, sizeof seen.is_whole);
    net.place = 0;
    pthread_mutex_unlock (&seen.lock);
    while (net.place < LAYERS)
        rank_must (visit (NULL, &err), &err);
    rank_must (accel_backward (net.acc, net.model, 0, backward, NULL, &err), &err);
    rank_must (accel_optimizer_step (optimizer, &err), &err);
    pthread_mutex_lock (&seen.lock);
    int gathered = row->depth ? PLACES - 1 : PLACES, elsewhere = row->depth ? gathered : 0;
    right (!net.step || (seen.gathered == gathered && seen.elsewhere == elsewhere && !seen.is_late),
           "step %d: %d layers are gathered, %d of them by a thread%s; expected %d and %d", net.step, seen.gathered,
           seen.elsewhere, seen.is_late ? ", and some after they began" : "", gathered, elsewhere);
    net.step++;
    pthread_mutex_unlock (&seen.lock);
}

static void
run (struct accel *acc)
{
    static struct comm_observer observer = { .note = note, .end = end_observer };
    static const char *const names[LAYERS] = { "w0", "w1", "w2", "w3" };
    const struct accel_sharding_options sharding = { .strategy = row->strategy,
                                                     .prefetch_layers = row->prefetch_layers };
    const struct accel_ddp_options ddp = { .overlap = row->overlap };
    const struct accel_optimizer_options options = { .lr = 0.25 };
    struct accel_parameter parameters[LAYERS];
    struct accel_optimizer *optimizer;
    memcpy (net.shape, counts, sizeof counts);
    for (int i = 0; i < LAYERS; i++) {
        net.data[i] = net.grad[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = &net.shape[i],
                                                .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        parameters[i] = (struct accel_parameter){ names[i], &net.data[i], &net.grad[i] };
    }
    net.acc = acc;
    net.step = 0;
    seen.program = pthread_self ();
    rank_must (accel_model_create (&net.model, parameters, LAYERS, &err), &err);
    rank_must (accel_model_set_sharding (net.model, &sharding, &err), &err);
    rank_must (accel_model_set_ddp (net.model, &ddp, &err), &err);
    rank_must (accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &options, &err), &err);
    for (int i = 0; i < LAYERS; i++)
        for (int64_t j = 0; j < counts[i]; j++)
            ((float *) net.data[i].data)[j] = first_value ((size_t) j);
    rank_must (accel_prepare (acc, &err, net.model, optimizer), &err);
    accel_world (acc)->observer = &observer;
    while (net.step < STEPS)
        step (optimizer);
    accel_world (acc)->observer = NULL;
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

static void
choose (size_t number)
{
    row = &rows[number];
    setenv (ENV_USE_FSDP, row->variable ? "true" : "false", 1);
    setenv (ENV_FSDP_BACKWARD_PREFETCH, row->variable ? row->variable : "", 1);
}

/* All rows in a job that is there. */
static int
run_job (void)
{
    static char texts[RANKS_MOST][RANKS_TEXT];
    struct accel *acc;
    bool good = true;
    ranks_texts = texts;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && good; i++) {
        choose (i);
        accel_check (accel_open (&acc, NULL, &err), &err);
        ranks_self = accel_process_index (acc);
        run (acc);
        accel_close (acc);
        good = !*texts[ranks_self];
        printf ("rank %d, %s: %s\n", ranks_self, row->name, good ? "good" : texts[ranks_self]);
    }
    return !good;
}

int
main (int argc, char **argv)
{
    if (argc > 1 && !strcmp (argv[1], "job"))
        return run_job ();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        choose (i);
        as_ranks (2 + (int) i % 2, row->name, run);
    }
    return done_testing ();
}
