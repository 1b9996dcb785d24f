/* SPDX-License-Identifier: Apache-2.0 */
/* Learns to read digits, as examples/digits does, with the model on the CPU and on a GPU, where accel_prepare() places
 * it: the losses and the bits of the parameters are the same.  The network computes on the host, with copies of the
 * parameters.
 * usage: gpu [short | stream | device | choice | send | visits | contexts | rocm] */
#include <config.h>

#include "examples/digits.h"
#include "lib/data/batch.h"
#include "lib/memory/device.h"
#include "lib/memory/memory.h"
#include "tests/must.h"
#include "tests/tap.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

enum { BATCH = 64, EPOCHS = 2, PARAMETERS = 4 };

struct run {
    struct accel *acc;
    DLDevice device;
    struct network network; /* on the host */
    struct accel_tensor *mirrors[PARAMETERS], *mirror_grads[PARAMETERS];
    struct accel_tensor data[PARAMETERS], grads[PARAMETERS]; /* where the model is */
    float losses[EPOCHS];
    double accuracy;
};

static size_t
bytes_of (const struct accel_tensor *tensor)
{
    return accel_tensor_count (&tensor->dl) * (tensor->dl.dtype.bits / 8U);
}

static void *own_stream; /* on which the program works; NULL: the default one */

/* ---- a network whose model is elsewhere ---- */

static void
make_tensor (struct accel_tensor *tensor, enum accel_dtype dtype, int ndim, int64_t first, int64_t second)
{
    const int64_t shape[] = { first, second };
    MUST (accel_tensor_init (tensor, dtype, ndim, shape, &err));
    tensor->dl.data = calloc (accel_tensor_count (&tensor->dl), accel_dtype_bytes (dtype));
}

static void
make_layer (struct layer *layer, size_t index, int in, int out, enum accel_dtype dtype,
            struct accel_generator *generator)
{
    size_t count = (size_t) in * (size_t) out;
    layer->in = in;
    layer->out = out;
    layer->index = index;
    layer->widened = calloc (count, sizeof *layer->widened);
    make_tensor (&layer->weight, dtype, 2, in, out);
    make_tensor (&layer->weight_grad, ACCEL_FLOAT32, 2, in, out);
    make_tensor (&layer->bias, ACCEL_FLOAT32, 1, out, 0);
    make_tensor (&layer->bias_grad, ACCEL_FLOAT32, 1, out, 0);
    for (size_t i = 0; i < count; i++)
        layer->widened[i] = (2 * accel_generator_uniform (generator) - 1) / sqrtf ((float) in);
    MUST (accel_convert (layer->widened, ACCEL_FLOAT32, layer->weight.dl.data, dtype, count, &err));
}

static struct accel_tensor
copy_of (const struct accel_tensor *host)
{
    struct accel_tensor copy;
    MUST (memory_clone (&copy, &host->dl, &err));
    return copy;
}

static void
make_model (struct run *run, enum accel_dtype dtype)
{
    static const char *const names[] = { "hidden.weight", "hidden.bias", "output.weight", "output.bias" };
    struct network *network = &run->network;
    struct layer *layers[] = { &network->hidden, &network->output };
    struct accel_parameter parameters[PARAMETERS];
    struct accel_generator *generator;
    MUST (accel_generator_create (&generator, 1, &err));
    make_layer (&network->hidden, 0, PIXELS, HIDDEN, dtype, generator);
    make_layer (&network->output, 2, HIDDEN, CLASSES, dtype, generator);
    accel_generator_destroy (generator);
    for (int i = 0; i < PARAMETERS; i++) {
        struct layer *layer = layers[i / 2];
        run->mirrors[i] = i % 2 ? &layer->bias : &layer->weight;
        run->mirror_grads[i] = i % 2 ? &layer->bias_grad : &layer->weight_grad;
        run->data[i] = copy_of (run->mirrors[i]);
        run->grads[i] = copy_of (run->mirror_grads[i]);
        run->data[i].dl.shape = run->data[i].shape;
        run->grads[i].dl.shape = run->grads[i].shape;
        parameters[i] = (struct accel_parameter){ names[i], &run->data[i].dl, &run->grads[i].dl };
    }
    MUST (accel_model_create (&network->model, parameters, PARAMETERS, &err));
    network->activations = calloc (BATCH * HIDDEN, sizeof *network->activations);
    network->probabilities = calloc (BATCH * CLASSES, sizeof *network->probabilities);
}

static void
fetch_parameters (struct run *run)
{
    const struct memory *memory = memory_of (run->device);
    for (int i = 0; i < PARAMETERS; i++)
        MUST (memory->read (run->device, run->mirrors[i]->dl.data, run->data[i].dl.data, bytes_of (run->mirrors[i]),
                            &err));
}

/* What a program's own kernels would do. */
static enum accel_status
backward (void *user, float scale, struct accel_error *error)
{
    struct run *run = user;
    const struct memory *memory = memory_of (run->device);
    for (int i = 0; i < PARAMETERS; i++)
        memset (run->mirror_grads[i]->dl.data, 0, bytes_of (run->mirror_grads[i]));
    enum accel_status status = network_backward (&run->network, scale, error);
    for (int i = 0; i < PARAMETERS; i++)
        memory->write (run->device, run->grads[i].dl.data, run->mirror_grads[i]->dl.data,
                       bytes_of (run->mirror_grads[i]));
    return status;
}

/* Batches are on the GPU, too; the network gets one of the host's. */
static const struct accel_batch *
fetch_batch (const struct run *run, const struct accel_batch *batch)
{
    static struct accel_tensor fields[2];
    static struct accel_batch mirror;
    const struct memory *memory = memory_of (run->device);
    if (memory->host)
        return batch;
    mirror = *batch;
    mirror.fields = fields;
    for (size_t i = 0; i < batch->field_count; i++) {
        const struct accel_tensor *field = &batch->fields[i];
        void *data = fields[i].dl.data ? fields[i].dl.data : malloc (bytes_of (field));
        if (field->dl.device.device_type != kDLCUDA)
            must (ACCEL_ERR_INVALID, "a batch is not on the GPU");
        fields[i] = *field;
        fields[i].dl.data = data;
        MUST (memory->read (run->device, data, field->dl.data, bytes_of (field), &err));
    }
    return &mirror;
}

/* ---- training ---- */

static void
train_epochs (struct run *run, struct accel_loader *loader, struct accel_optimizer *optimizer)
{
    struct network *network = &run->network;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const struct accel_batch *batch;
        double sum = 0;
        while (accel_loader_next (loader, &batch, &err)) {
            fetch_parameters (run);
            float loss = network_forward (network, fetch_batch (run, batch)), norm;
            MUST (accel_backward (run->acc, network->model, loss, backward, run, &err));
            MUST (accel_clip_grad_norm (network->model, 1, &norm, NULL, &err));
            MUST (accel_optimizer_step (optimizer, &err));
            MUST (accel_optimizer_zero_grad (optimizer, &err));
            sum += (double) loss;
        }
        MUST (err.code);
        run->losses[epoch] = (float) sum;
    }
    fetch_parameters (run);
}

static void
train (struct run *run, const char *precision, enum accel_dtype dtype, bool gpu)
{
    static const struct accel_csv_field fields[] = {
        { .field = { "image", ACCEL_FLOAT32, 1, { PIXELS } }, .scale = 1.0 / 16, .max = 16 },
        { .field = { "label", ACCEL_INT32, 0, { 0 } }, .max = CLASSES - 1 },
    };
    const struct accel_csv_options csv = { .fields = fields, .field_count = 2 };
    const struct accel_options options = { .mixed_precision = precision,
                                           .device_placement = gpu ? ACCEL_YES : ACCEL_NO };
    const struct accel_loader_options loading = { .batch_size = BATCH, .shuffle = true, .seed = 1, .drop_last = true };
    const struct accel_optimizer_options adamw = { .lr = 0.01, .weight_decay = 0.01 };
    struct accel_dataset *digits;
    struct accel_loader *loader;
    struct accel_optimizer *optimizer;
    memset (run, 0, sizeof *run);
    MUST (accel_dataset_open_csv (&digits, EXAMPLE_DATA "/digits.csv", &csv, &err));
    MUST (accel_open (&run->acc, &options, &err));
    run->device = gpu ? accel_device (run->acc) : (DLDevice){ .device_type = kDLCPU };
    if (gpu)
        MUST (accel_set_stream (run->device, own_stream, &err));
    make_model (run, dtype);
    MUST (accel_loader_create (&loader, digits, &loading, &err));
    MUST (accel_optimizer_create (&optimizer, run->network.model, ACCEL_ADAMW, &adamw, &err));
    MUST (accel_prepare (run->acc, &err, run->network.model, optimizer, loader));
    for (int i = 0; i < PARAMETERS; i++)
        if (run->data[i].dl.device.device_type != run->device.device_type
            || run->grads[i].dl.device.device_type != run->device.device_type)
            must (ACCEL_ERR_INVALID, "the model is not where it is to be");
    train_epochs (run, loader, optimizer);
    accel_loader_destroy (loader);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (run->network.model);
    accel_close (run->acc);
    accel_dataset_close (digits);
    for (int i = 0; i < PARAMETERS; i++) {
        if (memcmp (run->data[i].dl.data, run->mirrors[i]->dl.data, bytes_of (run->mirrors[i])))
            must (ACCEL_ERR_INVALID, "the program's memory does not have the parameters at the end");
        accel_tensor_release (&run->data[i]);
        accel_tensor_release (&run->grads[i]);
    }
}

static void
drop (struct run *run)
{
    for (int i = 0; i < PARAMETERS; i++) {
        free (run->mirrors[i]->dl.data);
        free (run->mirror_grads[i]->dl.data);
    }
    free (run->network.hidden.widened);
    free (run->network.output.widened);
    free (run->network.activations);
    free (run->network.probabilities);
}

static void
compare (const char *precision, enum accel_dtype dtype)
{
    struct run host, gpu;
    train (&host, precision, dtype, false);
    train (&gpu, precision, dtype, true);
    ok (gpu.device.device_type == kDLCUDA, "%s: on a GPU", precision);
    for (int epoch = 0; epoch < EPOCHS; epoch++)
        ok (host.losses[epoch] == gpu.losses[epoch] && host.losses[epoch] > 0, "%s: the loss of epoch %d: %.9g, %.9g",
            precision, epoch, (double) host.losses[epoch], (double) gpu.losses[epoch]);
    ok (host.losses[1] < host.losses[0] / 2, "%s: something is learnt", precision);
    for (int i = 0; i < PARAMETERS; i++)
        ok (!memcmp (host.mirrors[i]->dl.data, gpu.mirrors[i]->dl.data, bytes_of (host.mirrors[i])),
            "%s: parameter %d", precision, i);
    drop (&host);
    drop (&gpu);
}

/* ---- tensors from one device to another ---- */

static struct accel_tree *
leaf_of (float *values, int64_t rows, int64_t columns, bool transposed)
{
    const int64_t shape[] = { transposed ? columns : rows, transposed ? rows : columns };
    int64_t strides[] = { 1, columns };
    struct accel_tensor tensor;
    struct accel_tree *leaf;
    MUST (accel_tensor_init (&tensor, ACCEL_FLOAT32, 2, shape, &err));
    tensor.dl.data = values;
    tensor.dl.strides = transposed ? strides : NULL;
    MUST (accel_tree_borrow_tensor (&leaf, &tensor.dl, &err));
    return leaf;
}

static void
send (void)
{
    enum { ROWS = 300, COLUMNS = 1000 };
    const DLDevice host = { .device_type = kDLCPU }, gpus[] = { { kDLCUDA, 0 }, { kDLCUDA, 1 } };
    float *values = malloc (ROWS * COLUMNS * sizeof *values);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float) i;
    for (int transposed = 0; transposed < 2; transposed++) {
        struct accel_tree *leaf = leaf_of (values, ROWS, COLUMNS, transposed), *there, *further, *back;
        MUST (accel_send_to_device (&there, leaf, gpus[0], NULL, &err));
        MUST (accel_send_to_device (&further, there, gpus[1], NULL, &err));
        const DLTensor *moved = accel_tree_tensor (there);
        ok (moved->device.device_type == kDLCUDA && accel_tree_tensor (further)->device.device_id == 1,
            "a tensor is on the GPU, and on another one");
        accel_tree_destroy (there); /* the copy may still be on its way */
        MUST (accel_send_to_device (&back, further, host, NULL, &err));
        const DLTensor *got = accel_tree_tensor (back);
        size_t wrong = 0;
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                wrong += ((float *) got->data)[transposed ? j * ROWS + i : i * COLUMNS + j] != values[i * COLUMNS + j];
        ok (!wrong, "it comes back, %stransposed: %zu are wrong", transposed ? "" : "not ", wrong);
        accel_tree_destroy (leaf);
        accel_tree_destroy (further);
        accel_tree_destroy (back);
    }
    free (values);
}

/* ---- what else a program does with CUDA ---- */

static struct {
    int (*get) (int *device);
    int (*set) (int device);
    int (*last_error) (void);
    int (*create_stream) (void **stream, unsigned flags);
    int (*context_state) (int device, unsigned *flags, int *active);
    int (*pointer_attributes) (unsigned count, const int *attributes, void **values, unsigned long long address);
} runtime;

/* The module's, which it has loaded. */
static void
find_runtime (void)
{
    char path[4096];
    memory_of ((DLDevice){ .device_type = kDLCUDA });
    snprintf (path, sizeof path, "%s/accel_device_cuda.so", getenv ("ACCEL_ENGINE_PATH"));
    void *module = dlopen (path, RTLD_NOW | RTLD_NOLOAD);
    if (!module)
        must (ACCEL_ERR_SYSTEM, "the module is not loaded");
    *(void **) &runtime.get = dlsym (module, "cudaGetDevice");
    *(void **) &runtime.set = dlsym (module, "cudaSetDevice");
    *(void **) &runtime.last_error = dlsym (module, "cudaGetLastError");
    *(void **) &runtime.create_stream = dlsym (module, "cudaStreamCreateWithFlags");
    *(void **) &runtime.context_state = dlsym (module, "standin_context_state");
    *(void **) &runtime.pointer_attributes = dlsym (module, "standin_pointer_attributes");
}

static int
present (void)
{
    int device = -1;
    runtime.get (&device);
    return device;
}

/* A copy within the GPU, by a kernel. */
static enum accel_status
rearrange (const struct memory *memory)
{
    const DLDevice device = { .device_type = kDLCUDA };
    int64_t shape[] = { 2, 2 }, strides[] = { 1, 2 };
    void *data = memory->create (device, 32, true);
    DLTensor to = { .data = data, .device = device, .ndim = 2, .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    DLTensor from = to;
    from.data = (char *) data + 16;
    from.strides = strides;
    memory->copy_tensor (&to, &from);
    memory->destroy (device, data);
    return memory_check (device, &err);
}

static enum accel_status
send_to (int device)
{
    float value = 1;
    struct accel_tree *leaf = leaf_of (&value, 1, 1, false), *there = NULL;
    enum accel_status status
        = accel_send_to_device (&there, leaf, (DLDevice){ .device_type = kDLCUDA, .device_id = device }, NULL, &err);
    accel_tree_destroy (there);
    accel_tree_destroy (leaf);
    return status;
}

/* The way back of the losses, which the host has: labels go there before. */
static void
lose_logits (const struct memory *memory)
{
    const DLDevice device = { .device_type = kDLCUDA };
    const int32_t label = 1;
    float loss = 0, *logits = memory->create (device, 4 * sizeof *logits, true);
    setenv ("STANDIN_FAIL", "cudaMemcpyAsync:7:2", true); /* the second */
    enum accel_status status = accel_parallel_cross_entropy (NULL, &label, 1, 4, 1, logits, &loss, &err);
    unsetenv ("STANDIN_FAIL");
    ok (status == ACCEL_ERR_NOMEM, "a loss that does not come from the GPU is an error: %s", err.text);
    memory->destroy (device, logits);
}

/* With one of cuBLAS, which is for ever. */
static void
tell_both (const struct memory *memory)
{
    const DLDevice device = { .device_type = kDLCUDA };
    float *values = memory->create (device, 4 * sizeof *values, true);
    MUST (memory->products->open (device, &err));
    setenv ("STANDIN_FAIL", "cublasSgemm_v2:8:13", true);
    memory->products->multiply (device, values, values + 1, values + 2, 1, 1, 1);
    unsetenv ("STANDIN_FAIL");
    ok (runtime.set (9) && send_to (0) && strstr (err.text, "CUBLAS_STATUS_EXECUTION_FAILED; and the program's own"),
        "an error of the program's beside one of cuBLAS: %s", err.text);
    memory->destroy (device, values);
}

/* With three devices. */
static void
visits (void)
{
    find_runtime ();
    const struct memory *memory = memory_of ((DLDevice){ .device_type = kDLCUDA });
    ok (!send_to (0) && !send_to (1) && present () == 0,
        "a call on another GPU leaves the thread's device as it was");
    ok (send_to (7) == ACCEL_ERR_SYSTEM && present () == 0 && !runtime.last_error (),
        "so does one on a GPU that does not exist: %s", err.text);
    ok (!send_to (0) && !send_to (1), "which is not an error of the others");
    ok (send_to (7) == ACCEL_ERR_SYSTEM && present () == 0, "a second time, too");
    ok (!memory->create ((DLDevice){ kDLCUDA, 8 }, 1, false) && !runtime.last_error (), "nor one of the program's");
    ok (runtime.set (9) && send_to (0) == ACCEL_ERR_SYSTEM
            && strstr (err.text, "cuda:0: the program's own CUDA work failed before this call: ")
            && strstr (err.text, "cudaErrorInvalidDevice"),
        "an error that the program has not seen is told: %s", err.text);
    ok (!send_to (0) && !runtime.last_error (), "once");
    runtime.set (9);
    memory->zero ((DLDevice){ .device_type = kDLCUDA }, &memory, 0); /* which tells nothing */
    const char *told = runtime.set (9) && send_to (0) ? strstr (err.text, "the program's own") : NULL;
    ok (told && !strstr (told + 1, "the program's own"), "and one of two that are the same: %s", err.text);
    static const char *const states[] = { "cudaSetDevice:1:600", "cudaSetDevice:2:704", "cudaSetDevice:3:712" };
    for (int i = 0; i < 3; i++) {
        setenv ("STANDIN_FAIL", states[i], true);
        bool is_told = runtime.set (0);
        unsetenv ("STANDIN_FAIL");
        ok (is_told && !send_to (0), "%s is no error, but how things are", states[i]);
    }
    setenv ("STANDIN_FAIL", "cudaHostAlloc:4:2", true); /* all failures are counted */
    ok (send_to (2) == ACCEL_ERR_NOMEM && present () == 0,
        "a GPU that is not ready leaves the thread's device as it was");
    unsetenv ("STANDIN_FAIL");
    ok (!send_to (2) && present () == 0 && !send_to (1), "and may be tried again");
    setenv ("STANDIN_FAIL", "cudaLaunchKernel:5:2", true);
    ok (rearrange (memory) == ACCEL_ERR_NOMEM && strstr (err.text, "cuda:0: a kernel: out of memory"),
        "a kernel that is loaded when it is first launched may lack memory: %s", err.text);
    unsetenv ("STANDIN_FAIL");
    ok (!rearrange (memory), "and may be tried again, too");
    lose_logits (memory);
    tell_both (memory);
}

/* With three devices, and a driver that asks the stand-in. */
static void
contexts (void)
{
    unsigned flags;
    int active;
    void *driver = dlopen (getenv ("STANDIN_LIBCUDA"), RTLD_NOW);
    find_runtime ();
    if (!driver)
        must (ACCEL_ERR_SYSTEM, "STANDIN_LIBCUDA");
    memcpy (dlsym (driver, "context_state"), &runtime.context_state, sizeof runtime.context_state);
    ok (!send_to (1) && present () == 1, "a thread without a context stays on the GPU of the call");
    runtime.context_state (0, &flags, &active);
    ok (!active, "and the first GPU has no context");
    ok (!send_to (2) && present () == 1, "a thread with one goes back to it");
    ok (!runtime.set (0) && !send_to (1) && present () == 0, "also to the first GPU");

    /* The runtime's answer, and without it the driver's. */
    const DLDevice device = { .device_type = kDLCUDA, .device_id = 1 };
    char *data = memory_of (device)->create (device, 32, true);
    ok (memory_locate (data + 16).device_id == 1 && !memory_locate (&flags).device_type, "where an address is");
    memcpy (dlsym (driver, "pointer_attributes"), &runtime.pointer_attributes, sizeof runtime.pointer_attributes);
    setenv ("STANDIN_FAIL", "cudaPointerGetAttributes:1:1", true);
    ok (memory_locate (data + 16).device_id == 1 && !memory_locate (&flags).device_type, "by one call");
    memory_of (device)->destroy (device, data);
}

static void
to_another_maker (void)
{
    float value = 1;
    struct accel_tree *leaf = leaf_of (&value, 1, 1, false), *there, *further;
    MUST (accel_send_to_device (&there, leaf, (DLDevice){ .device_type = kDLCUDA }, NULL, &err));
    ok (accel_send_to_device (&further, there, (DLDevice){ .device_type = kDLROCM }, NULL, &err)
                == ACCEL_ERR_UNSUPPORTED
            && strstr (err.text, "this libaccel has no code for it"),
        "from a GPU to another maker's: %s", err.text);
    accel_tree_destroy (there);
    accel_tree_destroy (leaf);
}

/* Which GPU a process has, or would have with an engine for GPUs. */
static int
print_device (bool choice)
{
    struct accel *acc;
    enum accel_status status = accel_open (&acc, NULL, &err);
    char why[ACCEL_ERROR_TEXT_SIZE];
    DLDevice device = choice ? device_choose (accel_local_process_index (acc), false, why) : accel_device (acc);
    if (status)
        printf ("%s\n", err.text);
    else if (device.device_type == kDLCPU)
        printf ("cpu: %s\n", choice ? why : device_refusal ());
    else
        printf ("cuda:%d\n", (int) device.device_id);
    accel_close (acc);
    return 0;
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "train";
    static const struct {
        const char *name;
        void (*run) (void);
    } others[] = { { "send", send }, { "visits", visits },
                   { "contexts", contexts }, { "rocm", to_another_maker } };
    if (!strcmp (what, "device") || !strcmp (what, "choice"))
        return print_device (!strcmp (what, "choice"));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp (what, others[i].name)) {
            others[i].run ();
            return done_testing ();
        }
    if (!strcmp (what, "stream")) {
        find_runtime ();
        runtime.create_stream (&own_stream, 1);
    }
    compare ("no", ACCEL_FLOAT32);
    if (!strcmp (what, "short"))
        return done_testing ();
    compare ("bf16", ACCEL_BFLOAT16);
    compare ("fp16", ACCEL_FLOAT16);
    return done_testing ();
}
