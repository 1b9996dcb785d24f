/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders that are given little, too much or nonsense, and that are left in the middle of what they do. */
#include <config.h>

#include "lib/data/loader.h"
#include "tests/tap.h"
#include "tests/unit/data/loaders.h"

#include <accel/loader.h>

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

static enum accel_status
read_number (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) err;
    if (user)
        usleep (*(unsigned *) user);
    memcpy (into[0], &(int64_t){ (int64_t) index }, sizeof (int64_t));
    return ACCEL_OK;
}

static const struct accel_field field = { "x", ACCEL_INT64, 0, { 0 } };
static struct accel_dataset set = { 0, &field, 1, read_number, NULL, NULL };

static bool
make_loader (struct accel_loader **loader, size_t samples, const struct accel_loader_options *options,
             struct accel_error *err)
{
    set.size = samples;
    return !accel_loader_create (loader, &set, options, err);
}

/* What is there, on one process and as rank 1 of 2. */
static const struct {
    size_t samples, batch_size;
    bool drop_last, uneven;
    const char *alone, *second;
} little[] = {
    { 0, 1, false, false, "-", "-" },   { 0, 5, true, false, "-", "-" },
    { 1, 1, false, false, "0", "0" },   { 1, 1, false, true, "0", "-" },
    { 1, 1, true, false, "0", "-" },    { 1, 4, false, false, "0", "0,0,0,0" },
    { 1, 4, true, false, "-", "-" },    { 3, 4, false, false, "0,1,2", "1,2,0,1" },
    { 3, 4, false, true, "0,1,2", "-" }, { 2, 1000, false, true, "0,1", "-" },
};

static void
test_little (void)
{
    for (size_t i = 0; i < sizeof little / sizeof *little; i++)
        for (unsigned form = 0; form < 8; form++) {
            struct accel_loader_options options = { .batch_size = little[i].batch_size,
                                                    .even_batches = little[i].uneven ? ACCEL_NO : ACCEL_YES,
                                                    .drop_last = little[i].drop_last, .workers = form & 3 };
            struct accel_loader *loader;
            struct accel_error err = { 0 };
            char got[64] = "", name[128];
            bool shared = form & 4;
            if (make_loader (&loader, little[i].samples, &options, &err)
                && (!shared || !loader_share (loader, NULL, 2, 1, &err)))
                for (int epoch = 0; epoch < 2; epoch++)
                    epoch_text (loader, got, sizeof got);
            snprintf (name, sizeof name, "%zu samples in batches of %zu%s%s, %s, %u workers", little[i].samples,
                      little[i].batch_size, little[i].drop_last ? ", drop_last" : "",
                      little[i].uneven ? ", uneven" : "", shared ? "rank 1 of 2" : "alone", options.workers);
            is_text (got, shared ? little[i].second : little[i].alone, name);
            ok (accel_loader_epoch (loader) == 2, "two epochs, whether or not there are batches");
            accel_loader_destroy (loader);
        }
}

static enum accel_status
next_batch (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    (void) user, (void) err;
    *indices = 0;
    *count = 1;
    return ACCEL_OK;
}

static const struct accel_batch_sampler no_next = { .length = 2, .batch_size = 1 };
static const struct accel_batch_sampler no_size = { .length = 2, .next = next_batch };
static const struct accel_batch_sampler huge = { .length = 2, .batch_size = SIZE_MAX / 4, .next = next_batch };
static const struct accel_batch_sampler endless = { .length = SIZE_MAX, .batch_size = 1, .next = next_batch };
static const struct accel_batch_sampler overflowing = { .length = SIZE_MAX / 2, .batch_size = 4, .next = next_batch };
static const struct accel_batch_sampler varying = { .length = 2, .most = 3, .next = next_batch };
static const struct accel_batch_sampler endlessly_varying = { .length = SIZE_MAX, .most = 3, .next = next_batch };

static const struct {
    const char *why;
    size_t samples;
    struct accel_loader_options options;
    const char *word;
} bad[] = {
    { "more samples than numbers", SIZE_MAX, { .batch_size = 1 }, "too large for its indices" },
    { "batches of all memory", 4, { .batch_size = SIZE_MAX }, "size overflows" },
    { "no such way to dispatch", 4, { .dispatch_batches = (enum accel_flag) 9 }, "dispatch_batches" },
    { "no such reader", 4, { .reader = (enum accel_reader) 3 }, "reader" },
    { "threads without workers", 4, { .reader = ACCEL_READER_THREADS }, "set workers" },
    { "too many workers", 4, { .workers = UINT_MAX }, "threads" },
    { "too much read ahead", 4, { .workers = 1, .prefetch = UINT_MAX }, "threads" },
    { "a batch sampler without a function", 4, { .batch_sampler = &no_next }, "needs a next function" },
    { "a batch sampler without a size", 4, { .batch_sampler = &no_size }, "a batch_size or most" },
    { "a batch sampler of huge batches", 4, { .batch_sampler = &huge }, "a batch_size or most" },
    { "a batch sampler without end", 4, { .batch_sampler = &endless }, "size overflows" },
    { "a batch sampler of too many samples", 4, { .batch_sampler = &overflowing }, "size overflows" },
    { "varying batches without end", 4, { .batch_sampler = &endlessly_varying }, "size overflows" },
    { "batch sampler and batch size", 4, { .batch_sampler = &varying, .batch_size = 2 }, "batch_sampler cannot" },
    { "batch sampler and shuffle", 4, { .batch_sampler = &varying, .shuffle = true }, "batch_sampler cannot" },
    { "varying batches, split", 4, { .batch_sampler = &varying, .split_batches = true }, "neither split nor" },
    { "varying batches, dispatched", 4, { .batch_sampler = &varying, .dispatch_batches = ACCEL_YES },
      "neither split nor" },
};

static void
test_refusals (void)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct accel_loader *loader = (void *) &set;
        struct accel_error err = { 0 };
        bool made = make_loader (&loader, bad[i].samples, &bad[i].options, &err);
        ok (!made && !loader && err.code && strstr (err.text, bad[i].word), "%s: %s", bad[i].why, err.text);
    }
    struct accel_loader *loader;
    struct accel_error err = { 0 };
    struct accel_loader_options split = { .batch_size = 4, .split_batches = true };
    bool made = make_loader (&loader, 4, &split, &err);
    ok (made && loader_share (loader, NULL, 3, 1, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "number of processes, 3"),
        "4 samples for 3 processes: %s", err.text);
    char got[64];
    epoch_text (loader, got, sizeof got);
    is_text (got, "0,1,2,3", "a loader that was not sharded is as it was");
    ok (loader_share (loader, NULL, SIZE_MAX / 2, 1, &err) == ACCEL_ERR_INVALID, "too many processes: %s", err.text);
    accel_loader_destroy (loader);
}

static enum accel_status
next_four (void *user, int64_t *indices, size_t *count, struct accel_error *err)
{
    (void) user, (void) err;
    for (int64_t i = 0; i < 4; i++)
        indices[i] = i;
    *count = 4;
    return ACCEL_OK;
}

/* A batch sampler says how large batches are, and batch_size nothing. */
static void
test_batches_sizes (void)
{
    static const struct accel_batch_sampler fours = { .length = 3, .batch_size = 4, .next = next_four };
    for (int form = 0; form < 4; form++) {
        struct accel_loader_options options = { .batch_sampler = &fours, .split_batches = form & 1,
                                                .dispatch_batches = form & 2 ? ACCEL_YES : ACCEL_NO };
        struct accel_loader_state state = { 0 };
        struct accel_loader *loader;
        struct accel_error err = { 0 };
        char got[64] = "";
        if (make_loader (&loader, 4, &options, &err))
            epoch_text (loader, got, sizeof got);
        ok (!strcmp (got, "0,1,2,3|0,1,2,3|0,1,2,3") && accel_loader_length (loader) == 3
                && accel_loader_total_batch_size (loader) == 4,
            "a batch sampler's 3 batches of 4%s%s: %zu of %zu, %s", form & 1 ? ", split" : "",
            form & 2 ? ", dispatched" : "", accel_loader_length (loader), accel_loader_total_batch_size (loader), got);
        const struct accel_batch *batch;
        ok (!accel_skip_first_batches (loader, 1, &err) && accel_loader_next (loader, &batch, &err)
                && !accel_loader_get_state (loader, &state, &err) && state.position == 8,
            "after 2 of them: %llu", (unsigned long long) state.position);
        accel_loader_destroy (loader);
    }
}

static struct accel_loader *
make_drawing (size_t samples, uint64_t seed, bool shuffle)
{
    struct accel_loader *loader;
    struct accel_error err;
    struct accel_loader_options options = { .batch_size = 4, .random_sampler = shuffle, .seed = seed };
    if (make_loader (&loader, samples, &options, &err))
        return loader;
    printf ("Bail out! %s\n", err.text);
    exit (99);
}

/* A state after @p steps batches. */
static struct accel_loader_state
make_state (size_t samples, uint64_t seed, size_t steps)
{
    struct accel_loader *loader = make_drawing (samples, seed, true);
    struct accel_loader_state state = { 0 };
    const struct accel_batch *batch;
    bool good = true;
    for (size_t i = 0; i < steps; i++)
        good = good && accel_loader_next (loader, &batch, NULL);
    ok (good && !accel_loader_get_state (loader, &state, NULL), "%zu batches, and a state", steps);
    accel_loader_destroy (loader);
    return state;
}

static void
refuses (struct accel_loader *loader, struct accel_loader_state state, enum accel_status wanted, const char *why)
{
    struct accel_error err = { 0 };
    const struct accel_batch *batch;
    set.size = 40;
    enum accel_status status = accel_loader_set_state (loader, &state, &err);
    ok (status == wanted && err.code == wanted, "a state %s: %s", why, err.text);
    bool more = accel_loader_next (loader, &batch, &err);
    if (!more && !err.code) /* that was the end of an epoch */
        more = accel_loader_next (loader, &batch, &err);
    ok (more && accel_batch_size (batch) == 4, "and the loader continues");
}

static void
test_states (void)
{
    struct accel_loader_state good = make_state (40, 6, 2), state = good;
    struct accel_loader *loader = make_drawing (40, 6, true), *sequential = make_drawing (40, 6, false);
    state.version++;
    refuses (loader, state, ACCEL_ERR_FORMAT, "from a different release");
    memset (&state, 0, sizeof state);
    refuses (loader, state, ACCEL_ERR_FORMAT, "of zeros");
    memset (&state, 0xff, sizeof state);
    refuses (loader, state, ACCEL_ERR_FORMAT, "of ones");
    for (size_t length = 0; length < sizeof state; length += 1000) {
        state = good;
        memset ((char *) &state + length, 0, sizeof state - length);
        refuses (loader, state, ACCEL_ERR_FORMAT, "whose file was cut short");
    }
    refuses (loader, make_state (40, 7, 2), ACCEL_ERR_INVALID, "of another seed");
    refuses (loader, make_state (80, 6, 15), ACCEL_ERR_INVALID, "of a larger data set");
    refuses (sequential, good, ACCEL_ERR_INVALID, "of another kind of order");
    ok (accel_loader_set_state (loader, NULL, NULL) == ACCEL_ERR_INVALID, "no state");
    ok (accel_loader_get_state (NULL, &state, NULL) == ACCEL_ERR_INVALID, "no loader");
    ok (!accel_loader_set_state (loader, &good, NULL), "and the good one is accepted");
    accel_loader_destroy (loader);
    accel_loader_destroy (sequential);
}

/* One byte changed, each in its turn. */
static void
test_garbage (void)
{
    struct accel_loader_state good = make_state (40, 6, 2);
    struct accel_loader *loader = make_drawing (40, 6, true);
    size_t refused = 0;
    for (size_t i = 0; i < sizeof good; i += i < 64 ? 1 : 61) {
        struct accel_loader_state state = good;
        ((unsigned char *) &state)[i] ^= 0x40;
        refused += accel_loader_set_state (loader, &state, NULL) == ACCEL_ERR_FORMAT;
    }
    size_t wanted = 64 + (sizeof good - 64 + 60) / 61;
    ok (refused == wanted, "%zu of %zu states with a wrong byte are refused", refused, wanted);
    accel_loader_destroy (loader);
}

/* Leave a loader whose threads are reading, after some batches. */
static void
test_leaving (void)
{
    static const char *const ways[] = { "destroyed", "ended", "sent to another epoch", "set to a state" };
    unsigned delay = 300;
    set.user = &delay;
    for (int way = 0; way < 4; way++) {
        bool good = true;
        for (size_t steps = 0; steps < 6; steps++) {
            struct accel_loader_options options = { .batch_size = 3, .workers = 3, .prefetch = 2, .shuffle = true };
            struct accel_loader *loader;
            struct accel_loader_state state;
            const struct accel_batch *batch;
            struct accel_error err;
            good = good && make_loader (&loader, 40, &options, &err);
            for (size_t i = 0; i < steps; i++)
                good = good && accel_loader_next (loader, &batch, &err);
            if (way == 1)
                accel_loader_end (loader);
            else if (way == 2)
                accel_loader_set_epoch (loader, 5);
            else if (way == 3)
                good = good && !accel_loader_get_state (loader, &state, &err)
                       && !accel_loader_set_state (loader, &state, &err);
            if (way)
                good = good && accel_loader_next (loader, &batch, &err) && accel_batch_size (batch) == 3;
            accel_loader_destroy (loader);
        }
        ok (good, "%s while threads read, after 0 to 5 batches", ways[way]);
    }
    set.user = NULL;
}

/* Sample 0 fails at once the first time, while others are being read, each into memory of its own. */
static atomic_bool failed;
static atomic_uint shared_targets;
static void *_Atomic targets[16];
static atomic_bool begun; /* sample 2, which takes long the first time */

static enum accel_status
read_slowly (void *user, size_t index, void *const *into, struct accel_error *err)
{
    (void) user, (void) err;
    if (!index && !atomic_exchange (&failed, true)) {
        for (int i = 0; i < 60000 && !atomic_load (&begun); i++)
            usleep (1000);
        return ACCEL_ERR_SYSTEM;
    }
    size_t mine = 16;
    for (size_t i = 0; i < 16; i++) {
        void *none = NULL;
        shared_targets += targets[i] == into[0];
        if (mine == 16 && atomic_compare_exchange_strong (&targets[i], &none, into[0]))
            mine = i;
    }
    usleep (index == 2 && !atomic_exchange (&begun, true) ? 200000 : 1000);
    memcpy (into[0], &(int64_t){ (int64_t) index }, sizeof (int64_t));
    if (mine < 16)
        targets[mine] = NULL;
    return ACCEL_OK;
}

static void
test_failing_beginning (void)
{
    struct accel_dataset slow = { 24, &field, 1, read_slowly, NULL, NULL };
    struct accel_loader_options options
        = { .batch_size = 2, .workers = 4, .dispatch_batches = ACCEL_YES };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    struct accel_error err;
    char got[128];
    ok (!accel_loader_create (&loader, &slow, &options, &err), "a loader that dispatches to itself");
    ok (!accel_loader_next (loader, &batch, &err) && err.code == ACCEL_ERR_CALLBACK, "its first batch fails");
    epoch_text (loader, got, sizeof got);
    is_text (got, "0,1|2,3|4,5|6,7|8,9|10,11|12,13|14,15|16,17|18,19|20,21|22,23", "the next attempt has all samples");
    ok (!shared_targets, "no two threads ever read into the same memory");
    accel_loader_destroy (loader);
}

/* A collate function is for batches, and there is none. */
static enum accel_status
collate_none (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    (void) indices, (void) count, (void) batch, (void) err;
    ++*(int *) user;
    return ACCEL_ERR_SYSTEM;
}

static void
test_nothing_to_collate (void)
{
    int calls = 0;
    struct accel_loader_options options = { .batch_size = 2, .collate = collate_none, .collate_user = &calls,
                                            .dispatch_batches = ACCEL_YES };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    struct accel_error err;
    ok (make_loader (&loader, 0, &options, &err) && !accel_skip_first_batches (loader, 1, &err)
            && !accel_loader_next (loader, &batch, &err) && !err.code && !calls,
        "a dispatched epoch without samples, begun late, collates nothing");
    accel_loader_destroy (loader);
}

/* Which fields the function gives memory to, and how many dimensions the second has. */
struct collating {
    unsigned fields;
    int ndim;
};

static enum accel_status
collate_some (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *err)
{
    const struct collating *collating = user;
    static const char *const names[] = { "x", "sum" };
    enum accel_status status = ACCEL_OK;
    for (int i = 0; i < 2 && !status; i++) {
        int64_t shape[1] = { (int64_t) count };
        void *memory;
        if (collating->fields & 1U << i)
            status = accel_batch_resize (batch, names[i], i ? collating->ndim : 1, shape, &memory, err);
        if (collating->fields & 1U << i && !status)
            memcpy (memory, indices, sizeof *indices);
    }
    return status;
}

/* Memory that a collate function never asked for holds anything; one number for a whole batch is fine. */
static void
test_collated_fields (void)
{
    static const struct accel_field fields[] = { { "x", ACCEL_INT64, 0, { 0 } }, { "sum", ACCEL_INT64, 0, { 0 } } };
    static const struct {
        struct collating collating;
        const char *text;
    } rows[] = {
        { { 3, 1 }, "0,1,2|3,4,5" },
        { { 3, 0 }, "0,1,2|3,4,5" },
        { { 1, 1 }, "the collate function did not call accel_batch_resize for field 'sum'" },
        { { 2, 1 }, "the collate function did not call accel_batch_resize for field 'x'" },
        { { 0, 1 }, "the collate function did not call accel_batch_resize for field 'x'" },
    };
    struct accel_dataset numbers = { 6, fields, 2, NULL, NULL, NULL };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (unsigned workers = 0; workers < 2; workers++) {
            struct collating collating = rows[i].collating;
            struct accel_loader_options options = { .batch_size = 3, .workers = workers, .collate = collate_some,
                                                    .collate_user = &collating };
            struct accel_loader *loader;
            struct accel_error err;
            char got[128];
            ok (!accel_loader_create (&loader, &numbers, &options, &err), "fields %u", collating.fields);
            epoch_text (loader, got, sizeof got);
            ok (!strcmp (got, rows[i].text), "collating fields %u of 3: %s", collating.fields, got);
            accel_loader_destroy (loader);
        }
}

static enum accel_status
next_sample (void *user, void *const *into, bool *end, struct accel_error *err)
{
    size_t *at = user;
    (void) err;
    *end = *at % 5 == 4;
    ++*at;
    if (!*end)
        *(char *) into[0] = 1;
    return ACCEL_OK;
}

static const struct accel_field large = { "x", ACCEL_UINT8, 1, { 1 << 20 } };

/* Every option about order is refused alone; so is what would be too large once sharded, which changes nothing. */
static void
test_streams (void)
{
    struct accel_sampler *sampler = NULL;
    struct accel_generator *generator = NULL;
    struct accel_error err;
    ok (!accel_sampler_create (&sampler, ACCEL_SAMPLER_SEQUENTIAL, 4, NULL, &err)
            && !accel_generator_create (&generator, 1, &err), "an order");
    const struct accel_loader_options refused[] = {
        { .shuffle = true }, { .random_sampler = true }, { .sampler = sampler }, { .generator = generator },
        { .batch_sampler = &varying }, { .collate = collate_some },
    };
    size_t at = 0;
    struct accel_dataset stream = { .fields = &large, .field_count = 1, .next = next_sample, .user = &at };
    struct accel_loader *loader;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        loader = (void *) &stream;
        ok (accel_loader_create (&loader, &stream, &refused[i], &err) == ACCEL_ERR_INVALID && !loader
                && strstr (err.text, "own order"), "a stream with option %zu: %s", i, err.text);
    }
    accel_sampler_destroy (sampler);
    accel_generator_destroy (generator);
    struct accel_dataset both = stream;
    both.read = read_number;
    ok (accel_loader_create (&loader, &both, NULL, &err) == ACCEL_ERR_INVALID && strstr (err.text, "either a read or"),
        "random access and an order of its own: %s", err.text);
    ok (!accel_loader_create (&loader, &stream, &(struct accel_loader_options){ .batch_size = 2 }, &err),
        "a stream");
    ok (loader_share (loader, NULL, (size_t) 1 << 50, 0, &err), "for 2^50 processes: %s", err.text);
    char got[64];
    epoch_text (loader, got, sizeof got);
    is_text (got, "0,1|2,3", "it is as it was");
    ok (accel_loader_total_batch_size (loader) == 2, "with all that belongs to it");
    accel_loader_destroy (loader);
}

/* Pages that this process has mapped. */
static long
count_pages (void)
{
    long pages = 0;
    FILE *file = fopen ("/proc/self/statm", "r");
    if (!file || fscanf (file, "%ld", &pages) != 1)
        pages = -1;
    if (file)
        fclose (file);
    return pages;
}

/* Loaders that read for all, and those of streams, have memory of their own. */
static void
test_memory (void)
{
    enum { LOADERS = 64 };
    size_t at = 0;
    struct accel_dataset stream = { .fields = &large, .field_count = 1, .next = next_sample, .user = &at };
    for (int dispatches = 0; dispatches < 2; dispatches++) {
        struct accel_loader_options options
            = { .batch_size = 2, .dispatch_batches = dispatches ? ACCEL_YES : ACCEL_NO };
        bool good = true;
        long before = 0;
        for (int i = 0; i < LOADERS; i++) {
            struct accel_loader *loader = NULL;
            struct accel_error err;
            char got[64];
            good = good && !accel_loader_create (&loader, &stream, &options, &err);
            at = 0;
            if (good)
                epoch_text (loader, got, sizeof got);
            good = good && !strcmp (got, "0,1|2,3");
            accel_loader_destroy (loader);
            before = i < LOADERS / 2 ? count_pages () : before;
        }
        long grown = (count_pages () - before) * (sysconf (_SC_PAGESIZE) / 1024);
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
        grown = 0; /* they keep what was freed, and look for leaks themselves */
#endif
        ok (good && grown < LOADERS / 2 * 1024, "%d loaders %s: %ld KiB more", LOADERS / 2,
            dispatches ? "that dispatch" : "of a stream", grown);
    }
}

int
main (void)
{
    test_collated_fields ();
    test_streams ();
    test_memory ();
    test_little ();
    test_refusals ();
    test_batches_sizes ();
    test_states ();
    test_garbage ();
    test_leaving ();
    test_failing_beginning ();
    test_nothing_to_collate ();
    return done_testing ();
}
