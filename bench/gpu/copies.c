/* SPDX-License-Identifier: Apache-2.0 */
/* Batches from the host to a GPU, against cudaMemcpyAsync() from pinned memory: by accel_send_to_device(), and by a
 * prepared loader if its batches come on the GPU.  In turns; medians.  usage: copies small|full */
#include "bench/gpu/gpu.h"

struct sizes {
    size_t batch, width, batches; /* samples of each batch, floats of each sample */
    size_t bytes;                 /* of a batch */
};

static double
pinned (const struct sizes *sizes, void *to, const void *from)
{
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (size_t i = 0; i < sizes->batches; i++)
        CUDA (cudaMemcpyAsync (to, from, sizes->bytes, cudaMemcpyHostToDevice, NULL));
    CUDA (cudaDeviceSynchronize ());
    return (double) (sizes->bytes * sizes->batches) / (seconds () - begin);
}

static double
sent (const struct sizes *sizes, const struct accel_tree *leaf)
{
    const DLDevice gpu = { .device_type = kDLCUDA };
    const struct accel_send_options options = { .non_blocking = true };
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    for (size_t i = 0; i < sizes->batches; i++) {
        struct accel_tree *there;
        MUST (accel_send_to_device (&there, leaf, gpu, &options, &err));
        accel_tree_destroy (there);
    }
    CUDA (cudaDeviceSynchronize ());
    return (double) (sizes->bytes * sizes->batches) / (seconds () - begin);
}

/* @return 0: batches stay on the host */
static double
loaded (const struct sizes *sizes, struct accel_loader *loader)
{
    const struct accel_batch *batch;
    bool there = false;
    size_t count = 0;
    CUDA (cudaDeviceSynchronize ());
    double begin = seconds ();
    while (accel_loader_next (loader, &batch, &err)) {
        there = accel_batch_tensor (batch, "x")->device.device_type == kDLCUDA;
        count++;
    }
    MUST (err.code);
    CUDA (cudaDeviceSynchronize ());
    return there ? (double) (sizes->bytes * count) / (seconds () - begin) : 0;
}

static struct accel_tree *
leaf_of (float *values, const struct sizes *sizes, struct accel_tensor *tensor)
{
    const int64_t shape[] = { (int64_t) sizes->batch, (int64_t) sizes->width };
    struct accel_tree *leaf;
    MUST (accel_tensor_init (tensor, ACCEL_FLOAT32, 2, shape, &err));
    tensor->dl.data = values;
    MUST (accel_tree_borrow_tensor (&leaf, &tensor->dl, &err));
    return leaf;
}

static struct accel_loader *
loader_of (struct accel *acc, float *values, const struct sizes *sizes, struct accel_dataset **set)
{
    const struct accel_field field = { "x", ACCEL_FLOAT32, 1, { (int64_t) sizes->width } };
    const void *arrays[] = { values };
    const struct accel_loader_options options = { .batch_size = sizes->batch, .drop_last = true };
    struct accel_loader *loader;
    MUST (accel_dataset_from_arrays (set, &field, arrays, 1, sizes->batch * sizes->batches, &err));
    MUST (accel_loader_create (&loader, *set, &options, &err));
    MUST (accel_prepare (acc, &err, loader));
    return loader;
}

static void
measure (struct accel *acc, const struct sizes *sizes)
{
    float *values = calloc (sizes->batch * sizes->batches, sizes->width * sizeof *values);
    void *host, *device = gpu_memory (sizes->bytes);
    struct accel_tensor tensor;
    struct accel_dataset *set;
    CUDA (cudaHostAlloc (&host, sizes->bytes, cudaHostAllocDefault));
    memset (host, 0, sizes->bytes);
    struct accel_tree *leaf = leaf_of (values, sizes, &tensor);
    struct accel_loader *loader = loader_of (acc, values, sizes, &set);
    double copied[ROUNDS], trees[ROUNDS], batches[ROUNDS];
    pinned (sizes, device, host); /* the GPU wakes up */
    for (int round = 0; round < rounds; round++) {
        copied[round] = pinned (sizes, device, host);
        trees[round] = sent (sizes, leaf);
        batches[round] = loaded (sizes, loader);
    }
    double limit = median (copied, rounds), tree = median (trees, rounds), batch = median (batches, rounds);
    printf ("copies of %zu bytes, cudaMemcpyAsync from pinned memory: %.2f GB/s\n", sizes->bytes, limit * 1e-9);
    printf ("copies of %zu bytes, accel_send_to_device: %.2f GB/s, %.1f %%\n", sizes->bytes, tree * 1e-9,
            tree / limit * 100);
    if (batch > 0)
        printf ("copies of %zu bytes, batches of a loader: %.2f GB/s, %.1f %%\n", sizes->bytes, batch * 1e-9,
                batch / limit * 100);
    else
        printf ("copies of %zu bytes, batches of a loader: left out, they stay on the host\n", sizes->bytes);
    accel_loader_destroy (loader);
    accel_dataset_close (set);
    accel_tree_destroy (leaf);
    CUDA (cudaFree (device));
    CUDA (cudaFreeHost (host));
    free (values);
}

int
main (int argc, char **argv)
{
    struct accel *acc = open_on_gpu (NULL);
    const size_t widths[] = { 1024, 65536 }; /* 256 KiB, 16 MiB */
    for (size_t i = 0; i < 2; i++) {
        struct sizes sizes = { .batch = 64, .width = widths[i], .batches = 32 };
        if (is_small (argc, argv))
            sizes = (struct sizes){ .batch = 4, .width = 8 + 100 * i, .batches = 3 };
        sizes.bytes = sizes.batch * sizes.width * sizeof (float);
        measure (acc, &sizes);
    }
    accel_close (acc);
    return 0;
}
