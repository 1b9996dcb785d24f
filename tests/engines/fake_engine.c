/* SPDX-License-Identifier: Apache-2.0 */
/* A module that connects one process, and is wrong in the way that FAKE_ENGINE says: what modules.sh loads. */
#include <accel/engine.h>

#include <stdlib.h>
#include <string.h>

static const struct accel_engine_helpers *helpers;

static enum accel_status
fake_probe (const struct accel_engine_job *job, struct accel_error *err)
{
    return job->world_size == 1 ? ACCEL_OK : job->helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "is for one process");
}

static enum accel_status
fake_open (void **transport, struct accel_engine_job *job, struct accel_error *err)
{
    static char anything;
    (void) err;
    helpers = job->helpers;
    *transport = &anything;
    return ACCEL_OK;
}

static void
fake_close (void *transport)
{
    (void) transport;
}

static void
fake_give_up (void *transport, const char *reason)
{
    (void) transport, (void) reason;
}

static enum accel_status
fake_alloc (void *transport, void **memory, size_t bytes, struct accel_error *err)
{
    (void) transport;
    *memory = NULL;
    return posix_memalign (memory, 64, bytes + 1) ? helpers->fail (err, ACCEL_ERR_NOMEM, "no memory") : ACCEL_OK;
}

static void
fake_free (void *transport, void *memory)
{
    (void) transport;
    free (memory);
}

static enum accel_status
fake_make_group (void *transport, int size, int64_t *group_id, struct accel_error *err)
{
    (void) transport, (void) size, (void) err;
    *group_id = 0;
    return ACCEL_OK;
}

static enum accel_status
fake_join_group (void *transport, const int *ranks, int size, int rank, int64_t group_id, void **group,
                 struct accel_error *err)
{
    (void) ranks, (void) size, (void) rank, (void) group_id, (void) err;
    *group = transport;
    return ACCEL_OK;
}

static enum accel_status
fake_run (void *transport, const struct accel_engine_call *call, struct accel_error *err)
{
    (void) transport;
    if ((unsigned) call->kind >= ACCEL_ENGINE_KIND_COUNT)
        return helpers->fail (err, ACCEL_ERR_UNSUPPORTED, "engine fake: unknown kind %d", (int) call->kind);
    if (call->kind == ACCEL_ENGINE_ALL_REDUCE)
        call->helpers->reduce (call->dtype, call->op, &call->send, 1, call->recv, call->count);
    return ACCEL_OK;
}

/* No caller has these: a process alone has nothing in flight. */
static enum accel_status
fake_start (void *transport, const struct accel_engine_call *call, void **work, struct accel_error *err)
{
    (void) transport, (void) call, (void) work, (void) err;
    abort ();
}

static bool
fake_test (void *transport, void *work)
{
    (void) transport, (void) work;
    abort ();
}

static enum accel_status
fake_wait (void *transport, void *work, struct accel_error *err)
{
    (void) transport, (void) work, (void) err;
    abort ();
}

static bool
fake_awaits (void *transport, int rank)
{
    (void) transport, (void) rank;
    abort ();
}

static void
fake_group (void *transport)
{
    (void) transport;
    abort ();
}

/* As a later release of libaccel would have it: members that this one does not know. */
struct longer {
    struct accel_engine known;
    uint64_t unknown[8];
};

__attribute__ ((visibility ("default"))) struct longer accel_engine = {
    .known = {
        .abi = ACCEL_ENGINE_ABI,
        .size = sizeof (struct accel_engine),
        .name = "fake",
        .kinds = ACCEL_ENGINE_BITS (ACCEL_ENGINE_SEND) & ~ACCEL_ENGINE_BIT (ACCEL_ENGINE_BROADCAST),
        .reduces = ACCEL_ENGINE_BIT (ACCEL_FLOAT32) | ACCEL_ENGINE_BIT (ACCEL_FLOAT64),
        .devices = ACCEL_ENGINE_BIT (kDLCPU),
        .probe = fake_probe,
        .open = fake_open,
        .close = fake_close,
        .give_up = fake_give_up,
        .alloc = fake_alloc,
        .free = fake_free,
        .make_group = fake_make_group,
        .join_group = fake_join_group,
        .run = fake_run,
    },
    .unknown = { 1, 2, 3 },
};

/* A table that ends where @end is; what comes after it is not ours. */
static void
shorten (size_t end)
{
    struct accel_engine *engine = &accel_engine.known;
    memset ((char *) engine + end, 1, sizeof *engine - end);
    engine->size = (uint32_t) end;
}

__attribute__ ((constructor)) static void
spoil (void)
{
    struct accel_engine *engine = &accel_engine.known;
    const char *how = getenv ("FAKE_ENGINE");
    if (!how)
        return;
    if (!strcmp (how, "other-abi"))
        engine->abi++;
    else if (!strcmp (how, "longer"))
        engine->size = sizeof accel_engine;
    else if (!strcmp (how, "first")) /* as version 1 had it */
        shorten (offsetof (struct accel_engine, awaits));
    else if (!strcmp (how, "blocking")) /* before start() and the rest were added */
        shorten (offsetof (struct accel_engine, start));
    else if (!strcmp (how, "too-short"))
        shorten (offsetof (struct accel_engine, run));
    else if (!strcmp (how, "other-name"))
        engine->name = "other";
    else if (!strcmp (how, "no-name"))
        engine->name = NULL;
    else if (!strcmp (how, "no-open"))
        engine->open = NULL;
    else if (!strcmp (how, "half"))
        engine->alloc = NULL;
    else if (!strcmp (how, "half-group"))
        engine->coalesce_begin = fake_group;
    else if (!strncmp (how, "start", 5)) { /* lacks what the rest of the word says */
        engine->start = fake_start;
        engine->test = strcmp (how, "start-no-test") ? fake_test : NULL;
        engine->wait = strcmp (how, "start-no-wait") ? fake_wait : NULL;
        engine->awaits = strcmp (how, "start-no-awaits") ? fake_awaits : NULL;
        engine->give_up = strcmp (how, "start-no-give_up") ? fake_give_up : NULL;
    }
}
