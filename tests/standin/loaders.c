/* SPDX-License-Identifier: Apache-2.0 */
/* Loaders whose batches are on a GPU: they are those of loaders whose batches stay on the host, whatever the program
 * does with the loader, and the program never waits for the GPU before it continues.
 * usage: loaders walk | ranks N | rules | fail | threads */
#include <config.h>

#include "lib/memory/memory.h"
#include "tests/ranks.h"
#include "tests/must.h"

#include <accel/accel.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { SAMPLES = 43, BATCH = 4, WIDTH = 300, MOST = 2000, NOTES = 1 << 16 };

static DLDevice gpu = { .device_type = kDLCUDA }; /* of this rank */
static struct accel *acc;

static struct {
    __typeof__ (&cudaStreamCreateWithFlags) create;
    __typeof__ (&cudaMemcpyAsync) copy;
    __typeof__ (&cudaSetDevice) set;
} cuda;

static void
find_cuda (void)
{
    char path[4096];
    if (!memory_of (gpu))
        must (ACCEL_ERR_UNSUPPORTED, "a GPU");
    snprintf (path, sizeof path, "%s/accel_device_cuda.so", getenv ("ACCEL_ENGINE_PATH"));
    void *module = dlopen (path, RTLD_NOW | RTLD_NOLOAD);
    *(void **) &cuda.create = dlsym (module, "cudaStreamCreateWithFlags");
    *(void **) &cuda.copy = dlsym (module, "cudaMemcpyAsync");
    *(void **) &cuda.set = dlsym (module, "cudaSetDevice");
}

static void
begin (const struct accel_options *options)
{
    MUST (accel_open (&acc, options, &err));
    find_cuda ();
}

/* ---- data ---- */

static const struct accel_field fields[] = {
    { .name = "number", .dtype = ACCEL_INT64 },
    { .name = "row", .dtype = ACCEL_FLOAT32, .ndim = 1, .shape = { WIDTH } },
};
static int fails_at = -1; /* the sample that cannot be read the next time */
static int64_t at;        /* of the stream */

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *error)
{
    (void) user;
    int failing = (int) index;
    if (__atomic_compare_exchange_n (&fails_at, &failing, -1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        snprintf (error->text, sizeof error->text, "sample %zu is not there yet", index);
        return error->code = ACCEL_ERR_SYSTEM;
    }
    *(int64_t *) into[0] = (int64_t) index;
    for (size_t i = 0; i < WIDTH; i++)
        ((float *) into[1])[i] = (float) (index * WIDTH + i);
    return ACCEL_OK;
}

static enum accel_status
start_stream (void *user, uint64_t epoch, struct accel_error *error)
{
    (void) user, (void) epoch, (void) error;
    at = 0;
    return ACCEL_OK;
}

static enum accel_status
next_of_stream (void *user, void *const *into, bool *end, struct accel_error *error)
{
    *end = at == SAMPLES;
    if (*end)
        return ACCEL_OK;
    enum accel_status status = read_sample (user, (size_t) at, into, error);
    at += !status;
    return status;
}

/* Rows as long as the largest number of the batch says. */
static enum accel_status
collate (void *user, const int64_t *indices, size_t count, struct accel_batch *batch, struct accel_error *error)
{
    int64_t most = 0, number_shape[] = { (int64_t) count }, row_shape[] = { (int64_t) count, 0 };
    void *numbers, *rows;
    for (size_t i = 0; i < count; i++)
        most = indices[i] > most ? indices[i] : most;
    row_shape[1] = most * 7 % WIDTH;
    enum accel_status status = accel_batch_resize (batch, "number", 1, number_shape, &numbers, error);
    if (!status)
        status = accel_batch_resize (batch, "row", 2, row_shape, &rows, error);
    for (size_t i = 0; i < count && !status; i++) {
        float row[WIDTH];
        status = read_sample (user, (size_t) indices[i], (void *[]){ (int64_t *) numbers + i, row }, error);
        memcpy ((float *) rows + i * (size_t) row_shape[1], row, (size_t) row_shape[1] * sizeof *row);
    }
    return status;
}

enum kind { MAP, STREAM, COLLATED, KINDS };

static struct accel_loader *
make_loader (enum kind kind, const struct accel_loader_options *given)
{
    static const struct accel_dataset dataset
        = { .size = SAMPLES, .fields = fields, .field_count = 2, .read = read_sample };
    static const struct accel_dataset stream
        = { .fields = fields, .field_count = 2, .start = start_stream, .next = next_of_stream };
    struct accel_loader_options options = *given;
    struct accel_loader *loader;
    options.batch_size = BATCH;
    options.shuffle = kind != STREAM;
    options.collate = kind == COLLATED ? collate : NULL;
    MUST (accel_loader_create (&loader, kind == STREAM ? &stream : &dataset, &options, &err));
    MUST (accel_prepare (acc, &err, loader));
    return loader;
}

/* ---- what a program sees of a loader ---- */

struct seen {
    bool placed;
    cudaStream_t stream;
    void *fields[2];      /* [MOST] batches' elements, on the device of the batches */
    size_t elements[2], batches;
    char notes[NOTES];    /* all that is not an element */
    size_t length, wrong;
};

/* The program uses the batch, and does not wait. */
static void
use (struct seen *seen, const struct accel_loader *loader, const struct accel_batch *batch)
{
    struct accel_loader_state state;
    MUST (accel_loader_get_state (loader, &state, &err));
    seen->length += (size_t) snprintf (seen->notes + seen->length, NOTES - seen->length,
                                       "%zu samples, position %llu, epoch %llu, last %d, remainder %zu, index %lld:",
                                       accel_batch_size (batch), (unsigned long long) state.position,
                                       (unsigned long long) accel_loader_epoch (loader),
                                       accel_loader_end_of_dataloader (loader), accel_loader_remainder (loader),
                                       (long long) accel_batch_indices (batch)[0]);
    for (int f = 0; f < 2; f++) {
        const DLTensor *tensor = accel_batch_tensor (batch, fields[f].name);
        size_t size = accel_dtype_bytes (fields[f].dtype), count = accel_tensor_count (tensor);
        char *to = (char *) seen->fields[f] + seen->elements[f] * size;
        seen->elements[f] += count;
        seen->wrong += tensor->device.device_type != (seen->placed ? kDLCUDA : kDLCPU);
        seen->length += (size_t) snprintf (seen->notes + seen->length, NOTES - seen->length, " %lld x %zu%c",
                                           (long long) tensor->shape[0], count, f ? '\n' : ',');
        if (seen->placed && count)
            cuda.copy (to, tensor->data, count * size, cudaMemcpyDeviceToDevice, seen->stream);
        else if (count)
            memcpy (to, tensor->data, count * size);
    }
}

/* @p most batches, or all that there are; what fails is tried again. */
static void
walk (struct seen *seen, struct accel_loader *loader, size_t most)
{
    const struct accel_batch *batch;
    for (size_t i = 0; i < most; i++) {
        if (accel_loader_next (loader, &batch, &err)) {
            seen->batches++;
            use (seen, loader, batch);
            continue;
        }
        seen->length += (size_t) snprintf (seen->notes + seen->length, NOTES - seen->length, "%d %s\n", (int) err.code,
                                           err.code ? err.text : "end");
        if (!err.code)
            return;
    }
}

static void
walk_all (struct seen *seen, enum kind kind, const struct accel_loader_options *options)
{
    struct accel_loader *loader = make_loader (kind, options);
    struct accel_loader_state state;
    fails_at = -1;
    walk (seen, loader, MOST);
    walk (seen, loader, 3);
    accel_loader_end (loader);
    fails_at = 13;
    walk (seen, loader, MOST);
    MUST (accel_skip_first_batches (loader, 2, &err));
    walk (seen, loader, MOST);
    walk (seen, loader, 2);
    MUST (accel_loader_get_state (loader, &state, &err));
    accel_loader_set_epoch (loader, 7);
    walk (seen, loader, 5);
    MUST (accel_loader_set_state (loader, &state, &err));
    fails_at = 30;
    walk (seen, loader, MOST);
    walk (seen, loader, 1);
    accel_loader_destroy (loader);
}

static void
make_room (struct seen *seen)
{
    const size_t bytes[] = { MOST * sizeof (int64_t), (size_t) MOST * WIDTH * sizeof (float) };
    for (int f = 0; f < 2; f++)
        seen->fields[f] = seen->placed ? memory_of (gpu)->create (gpu, bytes[f], true) : calloc (1, bytes[f]);
}

static bool
is_same (struct seen *host, struct seen *there)
{
    bool same = host->length == there->length && !memcmp (host->notes, there->notes, host->length);
    for (int f = 0; f < 2; f++) {
        size_t bytes = host->elements[f] * accel_dtype_bytes (fields[f].dtype);
        void *got = malloc (bytes);
        same = same && host->elements[f] == there->elements[f];
        MUST (memory_of (gpu)->read (gpu, got, there->fields[f], bytes, &err));
        for (size_t i = 0; i < bytes; i++)
            if (((char *) got)[i] != ((char *) host->fields[f])[i]) {
                printf ("# %s: byte %zu of %zu differs\n", fields[f].name, i, bytes);
                same = false;
                break;
            }
        free (got);
        memory_of (gpu)->destroy (gpu, there->fields[f]);
        free (host->fields[f]);
    }
    return same;
}

typedef void judge (bool good, const char *name);

static void
compare (judge *tell, enum kind kind, struct accel_loader_options options, cudaStream_t stream)
{
    static struct seen host, there;
    memset (&host, 0, sizeof host);
    memset (&there, 0, sizeof there);
    there.placed = true;
    there.stream = stream;
    make_room (&host);
    make_room (&there);
    walk_all (&there, kind, &options);
    options.device_placement = ACCEL_NO;
    walk_all (&host, kind, &options);
    bool same = is_same (&host, &there);
    size_t ranks = (size_t) accel_num_processes (acc);
    char name[100];
    snprintf (name, sizeof name, "kind %d, %u workers, %s%s: %zu batches", kind, options.workers,
              options.dispatch_batches == ACCEL_YES ? "dispatched, " : "",
              options.non_blocking ? "non-blocking" : "blocking", there.batches);
    /* where each rank reads its own samples, the one that cannot be read is not each rank's */
    bool meets = ranks > 1 || strstr (host.notes, "not there yet");
    tell (same && !host.wrong && !there.wrong && host.batches > 40 / ranks && meets, name);
    if (!same && ranks == 1)
        printf ("# --- host\n# %s# --- GPU\n# %s", host.notes, there.notes);
}

/* Every kind of data, read by the program or by threads, with and without a wait, on each kind of stream. */
static void
walk_kinds (judge *tell)
{
    cudaStream_t stream = NULL;
    cuda.create (&stream, cudaStreamNonBlocking);
    for (int turn = 0; turn < 4; turn++) {
        cudaStream_t own = turn % 2 ? stream : NULL;
        MUST (accel_set_stream (gpu, own, &err));
        for (enum kind kind = MAP; kind < KINDS; kind++) {
            struct accel_loader_options options = { .non_blocking = turn % 2 || turn == 2,
                                                    .workers = turn > 1 ? 2 : 0 };
            compare (tell, kind, options, own);
            options.dispatch_batches = ACCEL_YES;
            if (kind != COLLATED) /* whose rows differ in length */
                compare (tell, kind, options, own);
        }
    }
    MUST (accel_set_stream (gpu, NULL, &err));
}

static void
tell_tap (bool good, const char *name)
{
    ok (good, "%s", name);
}

static void
walk_alone (void)
{
    begin (NULL);
    walk_kinds (tell_tap);
    accel_close (acc);
}

static void
tell_parent (bool good, const char *name)
{
    right (good, "%s", name);
}

/* In each rank, with its own GPU. */
static void
walk_rank (struct accel *job)
{
    acc = job;
    gpu = accel_device (acc);
    bool on_own = gpu.device_type == kDLCUDA && gpu.device_id == accel_process_index (acc);
    if (!right (on_own, "not on the GPU of its number"))
        return;
    find_cuda ();
    cuda.set (gpu.device_id);
    walk_kinds (tell_parent);
}

/* ---- where batches are ---- */

static DLDeviceType
device_of (struct accel_loader *loader)
{
    const struct accel_batch *batch;
    if (!accel_loader_next (loader, &batch, &err))
        must (err.code ? err.code : ACCEL_ERR_INVALID, "a batch");
    DLDeviceType type = accel_batch_tensor (batch, "row")->device.device_type;
    accel_loader_end (loader);
    return type;
}

static bool
has (const DLTensor *tensor, const int64_t *wanted, size_t count)
{
    int64_t *values = calloc (count + 1, sizeof *values);
    bool same = accel_tensor_count (tensor) == count && tensor->device.device_type == kDLCUDA
                && !memory_of (gpu)->read (gpu, values, memory_data (tensor), count * sizeof *values, &err)
                && !memcmp (values, wanted, count * sizeof *values);
    free (values);
    return same;
}

/* Collectives on batches, in a job of one process. */
static void
collect (struct accel_loader *loader)
{
    const struct accel_batch *batch;
    const int64_t wanted[] = { 40, 41, 42 };
    struct accel_tensor all = { .owned_bytes = 0 }, padded = { .owned_bytes = 0 }, metrics = { .owned_bytes = 0 };
    struct accel_tree *tree, *gathered, *host, *joined, *longer;
    while (accel_loader_next (loader, &batch, &err) && !accel_loader_end_of_dataloader (loader))
        ;
    const DLTensor *numbers = accel_batch_tensor (batch, "number");
    ok (has (numbers, wanted, 3), "the last batch");
    ok (!accel_gather (&all, acc, numbers, &err) && has (&all.dl, wanted, 3), "gathered: %s", err.text);
    ok (!accel_gather_for_metrics (&metrics, acc, numbers, &err) && has (&metrics.dl, wanted, 3), "for metrics: %s",
        err.text);
    ok (!accel_pad_across_processes (&padded, acc, numbers, 0, 0, false, &err) && has (&padded.dl, wanted, 3),
        "padded: %s", err.text);
    MUST (accel_batch_tree (&tree, batch, &err));
    ok (!accel_tree_gather_for_metrics (&gathered, acc, tree, &err)
            && has (accel_tree_tensor (accel_tree_get (gathered, "number")), wanted, 3),
        "the tree of a batch: %s", err.text);
    accel_tree_destroy (gathered);
    ok (!accel_tree_pad_across_processes (&gathered, acc, tree, 0, 0, false, &err)
            && has (accel_tree_tensor (accel_tree_get (gathered, "number")), wanted, 3),
        "padded: %s", err.text);
    ok (!accel_send_to_device (&host, gathered, (DLDevice){ .device_type = kDLCPU }, NULL, &err)
            && ((float *) accel_tree_tensor (accel_tree_get (host, "row"))->data)[WIDTH] == 41 * WIDTH,
        "sent to the host");
    accel_tree_destroy (host);
    const struct accel_tree *both[] = { tree, gathered };
    const int64_t twice[] = { 40, 41, 42, 40, 41, 42 }, five[] = { -7, -7, 40, 41, 42 };
    ok (!accel_tree_concatenate (&joined, both, 2, 0, &err)
            && has (accel_tree_tensor (accel_tree_get (joined, "number")), twice, 6),
        "concatenated: %s", err.text);
    ok (!accel_tree_pad (&longer, tree, 0, 5, -7, true, &err)
            && has (accel_tree_tensor (accel_tree_get (longer, "number")), five, 5),
        "made longer: %s", err.text);
    accel_tree_destroy (joined);
    MUST (accel_send_to_device (&host, tree, (DLDevice){ .device_type = kDLCPU }, NULL, &err));
    both[0] = host;
    ok (accel_tree_concatenate (&joined, both, 2, 0, &err) == ACCEL_ERR_INVALID
            && strstr (err.text, "tree 1 is on cuda:0, but tree 0 is on cpu:0"),
        "not with one on the host: %s", err.text);
    accel_tree_destroy (longer);
    accel_tree_destroy (tree);
    accel_tree_destroy (gathered);
    accel_tree_destroy (host);
    accel_tensor_release (&all);
    accel_tensor_release (&padded);
    accel_tensor_release (&metrics);
    accel_loader_end (loader);
}

static void
rules (void)
{
    const struct accel_options off = { .device_placement = ACCEL_NO };
    const struct accel_dataset dataset
        = { .size = SAMPLES, .fields = fields, .field_count = 2, .read = read_sample };
    struct accel_loader *loader, *other;
    begin (NULL);
    MUST (accel_loader_create (&loader, &dataset, &(struct accel_loader_options){ .batch_size = BATCH }, &err));
    ok (device_of (loader) == kDLCPU, "before accel_prepare(), batches are on the host");
    MUST (accel_prepare (acc, &err, loader));
    ok (device_of (loader) == kDLCUDA, "then on the GPU");
    collect (loader);
    other = make_loader (MAP, &(struct accel_loader_options){ .device_placement = ACCEL_NO });
    ok (device_of (other) == kDLCPU, "unless the loader says otherwise");
    accel_loader_destroy (other);
    const struct accel_batch *batch;
    struct accel_tree *copy;
    if (!accel_loader_next (loader, &batch, &err))
        must (err.code, "a batch");
    MUST (accel_tree_copy_tensor (&copy, accel_batch_tensor (batch, "number"), &err));
    accel_loader_end (loader);
    ok (has (accel_tree_tensor (copy), (int64_t[]){ 0, 1, 2, 3 }, 4), "a copy of a batch's tensor is on the GPU");
    accel_tree_destroy (copy);
    if (!accel_loader_next (loader, &batch, &err))
        must (err.code, "a batch");
    accel_close (acc);
    ok (!accel_batch_tensor (batch, "row"), "a batch is gone with its job");
    ok (device_of (loader) == kDLCPU, "then batches are on the host again");
    accel_loader_destroy (loader);
    begin (&off);
    ok (accel_device (acc).device_type == kDLCUDA, "a job with a GPU");
    other = make_loader (MAP, &(struct accel_loader_options){ .workers = 1 });
    ok (device_of (other) == kDLCPU, "that leaves batches on the host");
    accel_loader_destroy (other);
    accel_close (acc);
}

/* ---- what fails ---- */

/* A whole pass that meets the error of STANDIN_FAIL, and prints what it was. */
static void
fail (void)
{
    struct seen seen = { .placed = true };
    const struct accel_batch *batch;
    begin (NULL);
    struct accel_loader_options options = { .batch_size = BATCH, .workers = 1 };
    const struct accel_dataset dataset
        = { .size = SAMPLES, .fields = fields, .field_count = 2, .read = read_sample };
    struct accel_loader *loader;
    MUST (accel_loader_create (&loader, &dataset, &options, &err));
    if (accel_prepare (acc, &err, loader))
        printf ("# accel_prepare: %s\n", err.text);
    else
        for (int turn = 0; turn < 3; turn++) {
            while (accel_loader_next (loader, &batch, &err))
                seen.batches++;
            if (!err.code)
                break;
            printf ("# accel_loader_next: %s\n", err.text);
        }
    printf ("# %zu batches\n", seen.batches);
    accel_loader_destroy (loader);
    accel_close (acc);
    ok (true, "no crash");
}

/* ---- threads ---- */

static void *
send_and_train (void *user)
{
    const DLDevice device = { .device_type = kDLCUDA, .device_id = *(int *) user % 2 };
    struct accel_error error;
    float values[WIDTH];
    size_t wrong = 0;
    for (int turn = 0; turn < 10; turn++) {
        const int64_t shape[] = { WIDTH };
        struct accel_tensor tensor;
        struct accel_tree *leaf, *there, *back;
        for (int i = 0; i < WIDTH; i++)
            values[i] = (float) (i + turn);
        wrong += accel_tensor_init (&tensor, ACCEL_FLOAT32, 1, shape, &error) != 0;
        tensor.dl.data = values;
        wrong += accel_tree_borrow_tensor (&leaf, &tensor.dl, &error) != 0;
        wrong += accel_send_to_device (&there, leaf, device, NULL, &error) != 0;
        memory_of (device)->scale (device, accel_tree_tensor (there)->data, ACCEL_FLOAT32, WIDTH, 2);
        wrong += accel_send_to_device (&back, there, (DLDevice){ .device_type = kDLCPU }, NULL, &error) != 0;
        for (int i = 0; i < WIDTH; i++)
            wrong += ((float *) accel_tree_tensor (back)->data)[i] != 2 * values[i];
        wrong += accel_set_stream (device, turn % 2 ? (void *) 2 : NULL, &error) != 0;
        accel_tree_destroy (leaf);
        accel_tree_destroy (there);
        accel_tree_destroy (back);
    }
    return wrong ? user : NULL;
}

/* With two GPUs: the first calls of all threads come at once. */
static void
threads (void)
{
    enum { THREADS = 6 };
    pthread_t all[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create (&all[i], NULL, send_and_train, &numbers[i]))
            abort ();
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join (all[i], &wrong);
        ok (!wrong, "thread %d", i);
    }
}

int
main (int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run) (void);
    } all[] = { { "walk", walk_alone }, { "rules", rules }, { "fail", fail }, { "threads", threads } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (argc > 1 && !strcmp (argv[1], all[i].name))
            all[i].run ();
    if (argc > 2 && !strcmp (argv[1], "ranks"))
        as_ranks ((int) strtol (argv[2], NULL, 10), "batches on GPUs", walk_rank);
    return done_testing ();
}
