/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of parallel.sh: a small network whose layers are divided among the processes of a row of the grid.
 *
 *   parallel train TP STEPS TYPE LOAD SAVE   print losses and norms; LOAD and SAVE are folders of checkpoints, or "-"
 *            [STRATEGY [GROUP]]              of sharding, a number, with "s" if parameters are shared, "n" or "c" if
 *                                            all that can be is offloaded, to files or to host memory, "f" or
 *                                            "h" if only parameters are, "w" if the model stays whole; and
 *                                            `group_size`
 *   parallel pairs TP                        parts that are joined and cut, and losses of logits in parts
 *   parallel refused                         what cannot be cut, by 2 processes
 *   parallel halfway TP LOAD SAVE            gradients that are not averaged yet
 *
 * Compiled with ON_GPU, tensors are on GPUs, and what is added up, too.
 */
#include <config.h>

#ifdef ON_GPU
#include "lib/train/model_object.h"
#endif
#include "tests/conformance/check.h"
#include "tests/conformance/mirror.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The hidden units have gates: w1 is two matrices beside each other.  wte is used at both ends. */
/* Parts of matrices are large enough for 2 processes to divide them. */
enum { VOCAB = 80, WIDTH = 64, HIDDEN = 80, SAMPLES = 40, BATCH = 8 };
enum { WTE, W1, B1, W2, B2, FIXED, PARAMETERS };

#ifdef ON_GPU
#define ON_CPU false
#define IS_AT_HOME(model) ((model)->sharding.params_at_home)
#else
#define ON_CPU true
#define IS_AT_HOME(model) true
#endif

static struct accel_error err;
#define TRY(call) accel_check ((call), &err)

static struct net {
    struct accel_tensor data[PARAMETERS], grad[PARAMETERS];
    struct accel_parameter parameters[PARAMETERS];
    void *values[PARAMETERS], *gradients[PARAMETERS]; /* on the host, where this pass has them */
    void *copies[2 * PARAMETERS];
    struct accel_model *model;
    struct accel_comm *tp;
    struct accel_sharding_options sharding;
    bool stays_whole, leaves_one, has_no_optimizer; /* one parameter, that no optimizer changes; or all */
    bool is_unwrapped;                              /* before its models are saved */
    const int32_t *tokens, *labels;
    int rows, classes, hidden, first; /* of this process: samples, classes, hidden units, and its first class */
    float loss;
} net;

static const struct accel_partition plan[] = {
    { .match = "wte" }, { .match = "w1", .dim = 1, .blocks = 2 }, { .match = "b1", .blocks = 2 }, { .match = "w2" },
};

static void
make_net (enum accel_dtype dtype, bool cuts_first)
{
    static const char *const names[] = { "wte", "w1", "b1", "w2", "b2", "fixed" };
    static const int64_t shapes[][2]
        = { { VOCAB, WIDTH }, { WIDTH, 2 * HIDDEN }, { 2 * HIDDEN }, { HIDDEN, WIDTH }, { WIDTH }, { 2, 2 } };
    const struct accel_initializer rows[] = { { "w*", 0, 0.18 }, { "b*", 0.1, 0.1 } };
    for (int i = 0; i < PARAMETERS; i++) {
        int ndim = i == B1 || i == B2 ? 1 : 2;
        TRY (accel_tensor_init (&net.data[i], i == W1 || i == W2 ? dtype : ACCEL_FLOAT32, ndim, shapes[i], &err));
        TRY (accel_tensor_init (&net.grad[i], ACCEL_FLOAT32, ndim, shapes[i], &err));
        net.parameters[i] = (struct accel_parameter){ names[i], &net.data[i].dl, i == FIXED ? NULL : &net.grad[i].dl };
    }
    TRY (accel_model_create (&net.model, net.parameters, PARAMETERS, &err));
    if (cuts_first && !net.stays_whole)
        TRY (accel_model_set_tensor_parallel (net.model, acc, plan, 4, &err));
    TRY (accel_model_initialize (net.model, rows, 2, accel_default_generator (), &err));
    if (!cuts_first && !net.stays_whole)
        TRY (accel_model_set_tensor_parallel (net.model, acc, plan, 4, &err));
    const struct accel_file_name files[] = { { "w2", "second", true }, { "*", "*", false } };
    TRY (accel_model_set_file_names (net.model, files, 2, &err));
    net.tp = net.stays_whole ? NULL : accel_mesh_comm (accel_device_mesh (acc), "tp");
    net.classes = (int) net.data[WTE].dl.shape[0];
    net.hidden = (int) net.data[W2].dl.shape[0];
    net.first = net.tp ? accel_comm_rank (net.tp) * net.classes : 0;
}

static void
sum (float *values, size_t count)
{
    if (net.tp)
        TRY (mirror_sum (net.tp, accel_device (acc), values, count, &err));
}

/* What @tensor has, on the host; NULL: it has no memory now, being divided. */
static void *
fetch_tensor (void **copy, const DLTensor *tensor)
{
    (void) copy;
    return tensor->data ? mirror_get (copy, tensor) : NULL;
}

/* Bring parameters and gradients to the host. */
static void
fetch (void)
{
    for (int i = 0; i < PARAMETERS; i++) {
        net.values[i] = fetch_tensor (&net.copies[i], &net.data[i].dl);
        net.gradients[i] = i == FIXED ? NULL : fetch_tensor (&net.copies[PARAMETERS + i], &net.grad[i].dl);
    }
}

/* A gradient is complete. */
static enum accel_status
report (int parameter, struct accel_error *why)
{
    mirror_put (&net.grad[parameter].dl, net.gradients[parameter]);
    return accel_grad_ready (net.model, (size_t) parameter, why);
}

/* A weight, whatever its type. */
static float
weight (int parameter, int index)
{
    float value;
    enum accel_dtype dtype = accel_dtype_from_dl (net.data[parameter].dl.dtype);
    const char *from = (const char *) net.values[parameter] + (size_t) index * accel_dtype_bytes (dtype);
    TRY (accel_convert (from, dtype, &value, ACCEL_FLOAT32, 1, &err));
    return value;
}

static float *
gradient (int parameter)
{
    return net.gradients[parameter];
}

/* y = w2 ((w1a x + b1a) (w1b x + b1b)) + b2, with x the row of wte of the token, and logits = wte y. */
static float x[BATCH][WIDTH], gates[BATCH][2 * HIDDEN], y[BATCH][WIDTH], logits[BATCH * VOCAB];

static void
forward (void)
{
    size_t count = (size_t) net.rows * WIDTH;
    int hidden = net.hidden;
    for (int r = 0; r < net.rows; r++) {
        int own = net.tokens[r] - net.first;
        for (int i = 0; i < WIDTH; i++)
            x[r][i] = own >= 0 && own < net.classes ? weight (WTE, own * WIDTH + i) : 0;
    }
    sum (x[0], count);
    for (int r = 0; r < net.rows; r++) {
        for (int h = 0; h < 2 * hidden; h++) {
            gates[r][h] = weight (B1, h);
            for (int i = 0; i < WIDTH; i++)
                gates[r][h] += weight (W1, i * 2 * hidden + h) * x[r][i];
        }
        for (int i = 0; i < WIDTH; i++) {
            y[r][i] = 0;
            for (int h = 0; h < hidden; h++)
                y[r][i] += weight (W2, h * WIDTH + i) * gates[r][h] * gates[r][hidden + h];
        }
    }
    sum (y[0], count);
    for (int r = 0; r < net.rows; r++)
        for (int c = 0; c < net.classes; c++) {
            logits[r * net.classes + c] = 0;
            for (int i = 0; i < WIDTH; i++) /* b2 is whole: all add it */
                logits[r * net.classes + c] += weight (WTE, c * WIDTH + i) * (y[r][i] + weight (B2, i));
        }
}

/* From dy back to dx, which is still to be added up. */
static void
backward_units (float (*dx)[WIDTH], float (*dy)[WIDTH])
{
    int hidden = net.hidden;
    for (int at = 0; at < net.rows * hidden; at++) {
        int r = at / hidden, h = at % hidden;
        float unit = gates[r][h] * gates[r][hidden + h], back = 0;
        for (int i = 0; i < WIDTH; i++) {
            gradient (W2)[h * WIDTH + i] += unit * dy[r][i];
            back += dy[r][i] * weight (W2, h * WIDTH + i);
        }
        const float dgates[] = { back * gates[r][hidden + h], back * gates[r][h] };
        for (int block = 0; block < 2; block++) {
            int column = block * hidden + h;
            gradient (B1)[column] += dgates[block];
            for (int i = 0; i < WIDTH; i++) {
                gradient (W1)[i * 2 * hidden + column] += dgates[block] * x[r][i];
                dx[r][i] += dgates[block] * weight (W1, i * 2 * hidden + column);
            }
        }
    }
}

static enum accel_status
run_pass (float scale, struct accel_error *why)
{
    float losses[BATCH], dx[BATCH][WIDTH] = { 0 }, dy[BATCH][WIDTH] = { 0 };
    size_t count = (size_t) net.rows * WIDTH;
    fetch ();
    forward ();
    enum accel_status status
        = accel_parallel_cross_entropy (net.tp, net.labels, (size_t) net.rows, (size_t) net.classes,
                                        scale / (float) net.rows, logits, losses, why);
    if (status)
        return status;
    net.loss = 0;
    for (int r = 0; r < net.rows; r++) {
        net.loss += losses[r] / (float) net.rows;
        for (int c = 0; c < net.classes; c++)
            for (int i = 0; i < WIDTH; i++) {
                dy[r][i] += logits[r * net.classes + c] * weight (WTE, c * WIDTH + i);
                gradient (WTE)[c * WIDTH + i] += logits[r * net.classes + c] * (y[r][i] + weight (B2, i));
            }
    }
    sum (dy[0], count);
    for (int r = 0; r < net.rows; r++)
        for (int i = 0; i < WIDTH; i++)
            gradient (B2)[i] += dy[r][i];
    (void) report (B2, why);
    backward_units (dx, dy);
    for (int parameter = W1; parameter <= W2; parameter++)
        (void) report (parameter, why);
    sum (dx[0], count); /* while averages of the others are on their way */
    for (int r = 0; r < net.rows; r++) {
        int own = net.tokens[r] - net.first;
        for (int i = 0; i < WIDTH && own >= 0 && own < net.classes; i++)
            gradient (WTE)[own * WIDTH + i] += dx[r][i];
    }
    return report (WTE, why);
}

/* One layer, which is there while it is needed. */
static enum accel_status
pass (void *user, float scale, struct accel_error *why)
{
    static const size_t all[] = { WTE, W1, B1, W2, B2 };
    bool has_layers = accel_model_sharding (net.model) >= ACCEL_SHARDING_FULL_SHARD;
    (void) user;
    enum accel_status status = has_layers ? accel_layer_begin (net.model, all, 5, why) : ACCEL_OK;
    if (!status)
        status = run_pass (scale, why);
    return status || !has_layers ? status : accel_layer_end (net.model, all, 5, why);
}

static enum accel_status
read_sample (void *user, size_t index, void *const *into, struct accel_error *why)
{
    (void) user, (void) why;
    *(int32_t *) into[0] = (int32_t) (index * 5 % VOCAB);
    *(int32_t *) into[1] = index % 7 == 3 ? -1 : (int32_t) (index * index % VOCAB);
    return ACCEL_OK;
}

static const struct accel_field fields[] = { { "token", ACCEL_INT32, 0, { 0 } }, { "label", ACCEL_INT32, 0, { 0 } } };
static struct accel_dataset samples = { .size = SAMPLES, .read = read_sample, .fields = fields, .field_count = 2 };

static void
prepare (struct accel_optimizer **optimizer, struct accel_loader **loader)
{
    const struct accel_ddp_options ddp = { .overlap = ACCEL_OVERLAP_ALWAYS };
    const struct accel_param_group left = { .match = "w1", .skip = true };
    const struct accel_optimizer_options adamw
        = { .lr = 0.01, .weight_decay = 0.1, .groups = &left, .group_count = net.leaves_one };
    const struct accel_mesh *mesh = accel_device_mesh (acc);
    int dp = mesh ? accel_comm_size (accel_mesh_comm (mesh, "dp")) : size;
    const struct accel_loader_options options
        = { .batch_size = BATCH / (size_t) dp, .shuffle = true, .seed = 3, .drop_last = true };
    TRY (accel_model_set_ddp (net.model, &ddp, &err));
    if (net.sharding.strategy)
        TRY (accel_model_set_sharding (net.model, &net.sharding, &err));
    /* accel_prepare() takes what is whole from rank 0, and each part from the first process that has it. */
    ((float *) net.data[B2].dl.data)[0] += (float) rank;
    ((float *) net.data[WTE].dl.data)[0] += (float) (net.tp ? rank / accel_comm_size (net.tp) : rank);
    TRY (accel_optimizer_create (optimizer, net.model, ACCEL_ADAMW, &adamw, &err));
    TRY (accel_loader_create (loader, &samples, &options, &err));
    if (net.has_no_optimizer)
        TRY (accel_prepare (acc, &err, net.model, *loader));
    else
        TRY (accel_prepare (acc, &err, net.model, *optimizer, *loader));
    if (!rank)
        fprintf (stderr, "sharding: %d\n", (int) accel_model_sharding (net.model));
    check (accel_loader_total_batch_size (*loader) == BATCH, "%zu samples per pass",
           accel_loader_total_batch_size (*loader));
}

static bool
next_batch (struct accel_loader *loader)
{
    static void *tokens, *labels;
    const struct accel_batch *batch;
    if (!accel_loader_next (loader, &batch, &err))
        return TRY (err.code), false;
    (void) tokens, (void) labels;
    net.tokens = mirror_get (&tokens, accel_batch_tensor (batch, "token"));
    net.labels = mirror_get (&labels, accel_batch_tensor (batch, "label"));
    net.rows = (int) accel_batch_size (batch);
    return true;
}

/* What is offloaded is not on the GPU, if there is one. */
static void
check_offload (struct accel_optimizer *optimizer)
{
    const DLTensor *state = accel_optimizer_state_tensor (optimizer, W2, "exp_avg");
    check (!net.sharding.offload_optimizer_device || (state && state->device.device_type == kDLCPU),
           "states are not offloaded");
    check (!net.sharding.offload_param_device || IS_AT_HOME (net.model), "parameters are not offloaded");
}

static void
train (int steps, const char *load, const char *save)
{
    struct accel_optimizer *optimizer;
    struct accel_loader *loader;
    char folder[4096];
    prepare (&optimizer, &loader);
    if (strcmp (load, "-"))
        TRY (accel_load_state (acc, load, &err));
    while (!net.has_no_optimizer && (int) accel_optimizer_step_count (optimizer) < steps) {
        if (!next_batch (loader))
            continue;
        float norm;
        TRY (accel_backward (acc, net.model, 0, pass, NULL, &err));
        double loss = (double) net.loss;
        TRY (accel_reduce_number (acc, &loss, ACCEL_SUM, &err));
        TRY (accel_clip_grad_norm (net.model, 0.5, &norm, NULL, &err));
        TRY (accel_optimizer_step (optimizer, &err));
        TRY (accel_optimizer_zero_grad (optimizer, &err));
        accel_print (acc, "%d %.9g %.9g\n", (int) accel_optimizer_step_count (optimizer), loss / size, (double) norm);
    }
    if (!net.has_no_optimizer)
        check_offload (optimizer);
    if (strcmp (save, "-")) {
        TRY (accel_save_state_start (acc, save, &err)); /* what it needs is copied, and goes on changing */
        fetch ();
        memset (net.values[B2], 0, sizeof (float) * WIDTH);
        mirror_put (&net.data[B2].dl, net.values[B2]);
        TRY (accel_save_state_wait (acc, &err));
        TRY (accel_load_state (acc, save, &err));
        if (net.is_unwrapped)
            TRY (accel_unwrap_model (acc, net.model, &err));
        snprintf (folder, sizeof folder, "%s.model", save);
        TRY (accel_save_model (acc, net.model, folder, NULL, &err));
        const struct accel_save_model_options masters = { .precision = ACCEL_SAVE_MASTERS };
        snprintf (folder, sizeof folder, "%s.masters", save);
        TRY (accel_save_model (acc, net.model, folder, &masters, &err));
        TRY (accel_load_model (acc, net.model, folder, NULL, NULL, &err));
    }
    check (net.data[WTE].dl.shape[0] == net.classes, "a save has changed a shape");
    accel_loader_destroy (loader);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
    check (net.data[WTE].dl.shape[0] == VOCAB, "the program's shape is not there again");
}

/* ---- parts that are joined and cut ---- */

static void
check_pairs (void)
{
    struct accel_comm *tp = accel_mesh_comm (accel_device_mesh (acc), "tp");
    int parts = tp ? accel_comm_size (tp) : 1, own = tp ? accel_comm_rank (tp) : 0;
    void *copies[2] = { NULL };
    (void) copies;
    for (int dim = 0; dim < 3; dim++) {
        struct accel_tensor whole = { 0 }, part = { 0 }, joined = { 0 };
        int64_t shape[] = { 2, 3, 4 }, full[] = { 2, 3, 4 };
        full[dim] *= parts;
        float values[24 * 4], join[24 * 4], own_part[24];
        TRY (accel_tensor_init (&whole, ACCEL_FLOAT32, 3, full, &err));
        TRY (accel_tensor_init (&joined, ACCEL_FLOAT32, 3, full, &err));
        TRY (accel_tensor_init (&part, ACCEL_FLOAT32, 3, shape, &err));
        whole.dl.data = values;
        joined.dl.data = join;
        part.dl.data = own_part;
        for (size_t i = 0; i < accel_tensor_count (&whole.dl); i++)
            values[i] = (float) i;
        mirror_move (&whole.dl, accel_device (acc));
        mirror_move (&part.dl, accel_device (acc));
        mirror_move (&joined.dl, accel_device (acc));
        TRY (accel_parallel_scatter (tp, &whole.dl, &part.dl, dim, &err));
        const float *cut = mirror_get (&copies[0], &part.dl);
        for (int64_t i = 0; i < 24; i++) {
            int64_t at[] = { i / 12, i / 4 % 3, i % 4 };
            at[dim] += own * shape[dim];
            check (cut[i] == (float) ((at[0] * full[1] + at[1]) * full[2] + at[2]),
                   "element %d of a part along %d", (int) i, dim);
        }
        TRY (accel_parallel_gather (tp, &part.dl, &joined.dl, dim, &err));
        check (!memcmp (mirror_get (&copies[1], &joined.dl), values, accel_tensor_count (&whole.dl) * sizeof (float)),
               "joined along %d", dim);
        check (accel_parallel_scatter (tp, &whole.dl, &part.dl, 3, &err) == ACCEL_ERR_INVALID, "a dimension too high");
        check (parts == 1 || accel_parallel_gather (tp, &part.dl, &part.dl, dim, &err) == ACCEL_ERR_INVALID,
               "a part in place of the whole");
        mirror_end (&whole.dl);
        mirror_end (&part.dl);
        mirror_end (&joined.dl);
    }
    free (copies[0]);
    free (copies[1]);
}

#ifdef ON_GPU
#define IS_THERE(labels_are_there, losses_are_there) ((labels_are_there) && (losses_are_there))
#else
#define IS_THERE(labels_are_there, losses_are_there) false
#endif

/* A label that is no class: found by the host if it has labels or losses, and otherwise a loss that is NaN. */
static void
check_bad_label (struct accel_comm *tp, size_t columns, bool labels_are_there, bool losses_are_there)
{
    const DLDevice device = accel_device (acc);
    const int32_t labels[] = { 1, VOCAB };
    float values[2 * VOCAB] = { 0 }, losses[2] = { 0 };
    float *given = mirror_array (values, 2 * columns, device);
    void *on_device = labels_are_there ? mirror_array (labels, 2, device) : NULL;
    float *into = losses_are_there ? mirror_array (losses, 2, device) : losses;
    enum accel_status status = accel_parallel_cross_entropy (tp, on_device ? on_device : labels, 2, columns, 1, given,
                                                             into, &err);
    mirror_take (values, given, 2 * columns, device);
    if (losses_are_there)
        mirror_take (losses, into, 2, device);
    if (on_device)
        mirror_end_array (on_device, device);
    if (IS_THERE (labels_are_there, losses_are_there))
        check (!status && isfinite (losses[0]) && isnan (losses[1]) && isnan (values[columns]) && isfinite (values[0]),
               "losses of a label that is no class, on a GPU: %g %g", (double) losses[0], (double) losses[1]);
    else
        check (status == ACCEL_ERR_INVALID && strstr (err.text, "label 80 of row 1, but there are 80 classes"),
               "a label that is no class: %s", status ? err.text : "taken");
}

/* Rows without a label and, but for the last one, without a softmax: PyTorch's losses are 0 and its gradients NaN.
 * Logits of other processes decide, too. */
static void
check_without_softmax (struct accel_comm *tp, int columns)
{
    enum { ROWS = 4 };
    static const float odd[ROWS] = { NAN, INFINITY, -INFINITY, -INFINITY };
    const DLDevice device = accel_device (acc);
    const int32_t labels[ROWS] = { -100, -100, -100, -100 };
    float values[ROWS * VOCAB], losses[ROWS];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < columns; c++)
            values[r * columns + c] = r == 2 || (!c && (!tp || !accel_comm_rank (tp))) ? odd[r] : (float) c;
    size_t count = (size_t) (ROWS * columns);
    float *there = mirror_array (values, count, device);
    TRY (accel_parallel_cross_entropy (tp, labels, ROWS, (size_t) columns, 1, there, losses, &err));
    mirror_take (values, there, count, device);
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < columns; c++)
            check (losses[r] == 0 && (r < 3 ? isnan (values[r * columns + c]) : values[r * columns + c] == 0),
                   "loss %g, gradient %g of row %d without a label", (double) losses[r],
                   (double) values[r * columns + c], r);
}

/* Against losses and gradients in double precision; large logits, because exponentials must not overflow. */
static void
check_losses (bool labels_are_there, bool losses_are_there)
{
    enum { ROWS = 5 };
    struct accel_comm *tp = accel_mesh_comm (accel_device_mesh (acc), "tp");
    const DLDevice device = accel_device (acc);
    int parts = tp ? accel_comm_size (tp) : 1, own = tp ? accel_comm_rank (tp) : 0, columns = VOCAB / parts;
    const int32_t labels[ROWS] = { 0, VOCAB - 1, -100, 5, 7 };
    float parts_of[ROWS * VOCAB], losses[ROWS];
    double all[ROWS][VOCAB];
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < VOCAB; c++) {
            all[r][c] = 100 * r + (r * 7 + c * 5) % VOCAB;
            if (c / columns == own)
                parts_of[r * columns + c % columns] = (float) all[r][c];
        }
    size_t count = (size_t) (ROWS * columns);
    float *there = mirror_array (parts_of, count, device);
    void *on_device = labels_are_there ? mirror_array (labels, ROWS, device) : NULL;
    float *into = losses_are_there ? mirror_array (losses, ROWS, device) : losses;
    TRY (accel_parallel_cross_entropy (tp, on_device ? on_device : labels, ROWS, (size_t) columns, 0.5F, there, into,
                                       &err));
    mirror_take (parts_of, there, count, device);
    if (losses_are_there)
        mirror_take (losses, into, ROWS, device);
    if (on_device)
        mirror_end_array (on_device, device);
    for (int r = 0; r < ROWS; r++) {
        double sum_exp = 0, most = 100 * r;
        for (int c = 0; c < VOCAB; c++)
            sum_exp += exp (all[r][c] - most);
        double loss = labels[r] < 0 ? 0 : log (sum_exp) - (all[r][labels[r]] - most);
        check (fabs (losses[r] - loss) < 1e-5, "loss %g of row %d, not %g", (double) losses[r], r, loss);
        for (int c = own * columns; c < (own + 1) * columns; c++) {
            double grad = labels[r] < 0 ? 0 : 0.5 * (exp (all[r][c] - most) / sum_exp - (c == labels[r]));
            check (fabs (parts_of[r * columns + c % columns] - grad) < 1e-6, "gradient of row %d, class %d", r, c);
        }
    }
    check_bad_label (tp, (size_t) columns, labels_are_there, losses_are_there);
    check_without_softmax (tp, columns);
}

/* ---- what is refused ---- */

static void
refused (const struct accel_partition *row, const char *text)
{
    check (accel_model_set_tensor_parallel (net.model, acc, row, 1, &err) && strstr (err.text, text),
           "'%s' in place of '%s'", err.text, text);
}

static enum accel_status
step (void *user, const struct accel_update *update, struct accel_error *why)
{
    (void) user, (void) update, (void) why;
    return ACCEL_OK;
}

/* Parameters that cannot be cut, and a job that a model was not cut for. */
static void
check_kinds (void)
{
    static const int64_t shape[] = { HIDDEN, WIDTH };
    struct accel_tensor small = { 0 }, tied = { 0 };
    const struct accel_parameter parameters[]
        = { { "small", &small.dl, &net.grad[W2].dl }, { "first", &net.data[W2].dl, NULL }, { "tied", &tied.dl, NULL } };
    TRY (accel_tensor_init (&small, ACCEL_FLOAT8_E4M3FN, 2, shape, &err));
    TRY (accel_tensor_init (&net.data[W2], ACCEL_FLOAT32, 2, shape, &err));
    float memory[HIDDEN * WIDTH];
    tied = net.data[W2];
    tied.dl.shape = net.data[W2].dl.shape;
    tied.dl.data = net.data[W2].dl.data = memory;
    TRY (accel_model_create (&net.model, parameters, 3, &err));
    refused (&(struct accel_partition){ .match = "small" }, "'small' is of 8 bits");
    refused (&(struct accel_partition){ .match = "tied" }, "'tied' has the memory of 'first'");
    accel_model_destroy (net.model);
    TRY (accel_model_create (&net.model, &parameters[1], 1, &err));
    TRY (accel_model_set_tensor_parallel (net.model, acc, &(struct accel_partition){ .match = NULL }, 1, &err));
    accel_close (acc);
    TRY (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err));
    check (accel_prepare (acc, &err, net.model) == ACCEL_ERR_INVALID && strstr (err.text, "of 2 that divide its"),
           "another grid: %s", err.text);
    accel_model_destroy (net.model);
}

static void
check_refused (void)
{
    struct accel_optimizer *optimizer = NULL;
    struct accel_loader *loader = NULL;
    struct accel_local_sgd *sgd;
    struct accel_tensor out = { 0 };
    const struct accel_loader_options dispatches = { .batch_size = 2, .dispatch_batches = ACCEL_YES };
    const struct accel_custom_optimizer custom = { .step = step };
    struct accel_loader *dispatched = NULL;
    make_net (ACCEL_FLOAT32, true);
    refused (&plan[0], "the model has already been divided");
    check (accel_optimizer_create_custom (&optimizer, net.model, &custom, &err) == ACCEL_ERR_UNSUPPORTED, "custom: %s",
           err.text);
    prepare (&optimizer, &loader);
    refused (&plan[0], "the model is already prepared");
    check (accel_join_uneven_inputs (acc, ACCEL_DEFAULT, &err) == ACCEL_ERR_UNSUPPORTED, "uneven inputs");
    check (accel_loader_create (&dispatched, &samples, &dispatches, &err) == ACCEL_OK
               && accel_prepare (acc, &err, dispatched) == ACCEL_ERR_UNSUPPORTED, "batches that are dispatched");
    accel_loader_destroy (dispatched);
    check (accel_gather_for_metrics (&out, acc, &net.data[B2].dl, &err) == ACCEL_ERR_UNSUPPORTED, "metrics");
    TRY (accel_local_sgd_begin (&sgd, acc, net.model, 2, true, &err));
    TRY (accel_local_sgd_end (sgd, &err));
    accel_loader_destroy (loader);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
    TRY (accel_model_create (&net.model, net.parameters, PARAMETERS, &err));
    refused (&(struct accel_partition){ .match = "w3" }, "row 0: 'w3' matches no parameter");
    refused (&(struct accel_partition){ .match = "b1", .dim = 1 }, "'b1' has 1 dimensions, none of which is 1");
    refused (&(struct accel_partition){ .match = "w1", .dim = 1, .blocks = 3 },
             "dimension 1 of 'w1', 160 in 3 block(s), cannot be cut into 2 equal parts");
    TRY (accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 }, &err));
    refused (&plan[0], "the model already has an optimizer");
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
    check_kinds ();
}

/* Gradients that are not averaged yet are each process's own. */
static void
check_halfway (const char *load, const char *save)
{
    struct accel_optimizer *optimizer;
    struct accel_loader *loader;
    make_net (ACCEL_FLOAT32, true);
    prepare (&optimizer, &loader);
    if (strcmp (load, "-")) {
        enum accel_status status = accel_load_state (acc, load, &err);
        accel_print (acc, "%s\n", status ? err.text : "loaded");
    } else if (next_batch (loader)) {
        TRY (accel_backward (acc, net.model, 0, pass, NULL, &err));
        TRY (accel_save_state (acc, save, &err));
    }
    accel_loader_destroy (loader);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

static size_t
count_address_space (void)
{
    unsigned long pages = 0;
    FILE *file = fopen ("/proc/self/statm", "r");
    check (file && fscanf (file, "%lu", &pages) == 1, "/proc/self/statm");
    if (file)
        fclose (file);
    return pages * (size_t) sysconf (_SC_PAGESIZE);
}

enum { BIG_BYTES = 64 << 20, REST_BYTES = 16 << 20 };

/* Address space for so much more, of rank 0. */
static void
limit_memory (size_t bytes, const struct rlimit *before)
{
    const struct rlimit limit = { count_address_space () + bytes, before->rlim_max };
    if (!rank)
        check (!setrlimit (RLIMIT_AS, &limit), "setrlimit");
}

/* Rank 0 has no memory for whole tensors: a save fails, on all processes, and a later one does not. */
static void
check_starved (const char *folder)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    return; /* their shadows need more address space */
#endif
    const int64_t shape[] = { 2, BIG_BYTES / 2 / sizeof (float) };
    struct accel_tensor big = { 0 };
    const struct accel_parameter parameter = { "big", &big.dl, NULL };
    struct rlimit before;
    check (!getrlimit (RLIMIT_AS, &before), "getrlimit");
    TRY (accel_tensor_init (&big, ACCEL_FLOAT32, 2, shape, &err));
    TRY (accel_model_create (&net.model, &parameter, 1, &err));
    TRY (accel_model_set_tensor_parallel (net.model, acc, &(struct accel_partition){ .dim = 1 }, 1, &err));
    TRY (accel_prepare (acc, &err, net.model));
    for (int turn = 0; turn < 4; turn++) {
        const bool is_model = turn / 2, is_starved = turn % 2 == 0;
        if (is_starved)
            limit_memory (REST_BYTES, &before);
        enum accel_status status = is_model ? accel_save_model (acc, net.model, folder, NULL, &err)
                                            : accel_save_state (acc, folder, &err);
        check (!setrlimit (RLIMIT_AS, &before), "setrlimit");
        check (status == (is_starved ? ACCEL_ERR_NOMEM : ACCEL_OK), "turn %d: %s", turn, status ? err.text : "saved");
        check (!is_starved || strstr (err.text, "the whole of 'big'"), "turn %d: %s", turn, err.text);
    }
    TRY (accel_save_state_reserve (acc, &err)); /* the copy; a whole tensor and a part are needed while it is made */
    limit_memory (BIG_BYTES + BIG_BYTES / 2 + REST_BYTES, &before);
    enum accel_status started = accel_save_state_start (acc, folder, &err);
    check (!started, "the memory that was reserved is too little: %s", err.text);
    check (!setrlimit (RLIMIT_AS, &before), "setrlimit");
    TRY (accel_save_state_wait (acc, &err));
    accel_model_destroy (net.model);
}

/* Processes that divide tensors get the same samples, whatever each has drawn before; schedules count batches. */
static void
check_orders (void)
{
    const struct accel_scheduler_options warmup = { .schedule = ACCEL_SCHEDULE_CONSTANT, .warmup_steps = 100 };
    struct accel_optimizer *optimizer;
    struct accel_scheduler *scheduler;
    struct accel_loader *loader;
    TRY (accel_set_seed (acc, 5, true, &err)); /* another one on each process */
    make_net (ACCEL_FLOAT32, true);
    const int dp = size / accel_comm_size (net.tp);
    TRY (accel_optimizer_create (&optimizer, net.model, ACCEL_SGD, &(struct accel_optimizer_options){ .lr = 1 }, &err));
    TRY (accel_scheduler_create (&scheduler, optimizer, &warmup, &err));
    for (int synchronized = 0; synchronized < 2; synchronized++) {
        const struct accel_loader_options options
            = { .batch_size = 2, .shuffle = true, .random_sampler = true, .synchronize_rng = synchronized };
        TRY (accel_loader_create (&loader, &samples, &options, &err));
        if (synchronized)
            TRY (accel_prepare (acc, &err, loader));
        else
            TRY (accel_prepare (acc, &err, net.model, optimizer, scheduler, loader));
        for (bool is_first = !synchronized; next_batch (loader); is_first = false) {
            int32_t tokens[2] = { net.tokens[0], net.tokens[1] };
            TRY (accel_comm_broadcast (net.tp, tokens, 2, ACCEL_INT32, 0, &err));
            check (tokens[0] == net.tokens[0] && tokens[1] == net.tokens[1], "tokens %d %d, but %d %d in its row",
                   net.tokens[0], net.tokens[1], tokens[0], tokens[1]);
            if (!is_first)
                continue;
            TRY (accel_backward (acc, net.model, 0, pass, NULL, &err));
            double before = accel_optimizer_lr (optimizer);
            TRY (accel_optimizer_step (optimizer, &err));
            TRY (accel_scheduler_step (scheduler, &err));
            double advance = 100 * (accel_optimizer_lr (optimizer) - before);
            check (fabs (advance - dp) < 1e-6, "a schedule has advanced by %g steps, not %d", advance, dp);
        }
        accel_loader_destroy (loader);
    }
    accel_scheduler_destroy (scheduler);
    accel_optimizer_destroy (optimizer);
    accel_model_destroy (net.model);
}

/* The words STRATEGY and GROUP.  Parameters that are not divided cannot be offloaded from a GPU. */
static void
read_sharding (const char *way, const char *group)
{
    enum accel_offload all = strchr (way, 'n') ? ACCEL_OFFLOAD_NVME : strchr (way, 'c') ? ACCEL_OFFLOAD_CPU : 0;
    enum accel_offload only = strchr (way, 'f') ? ACCEL_OFFLOAD_NVME : strchr (way, 'h') ? ACCEL_OFFLOAD_CPU : all;
    enum accel_sharding strategy = (enum accel_sharding) atoi (way);
    net.sharding = (struct accel_sharding_options){
        .strategy = strategy, .share_parameters = strchr (way, 's'), .group_size = strtoul (group, NULL, 10),
        .offload_optimizer_device = all, .offload_optimizer_nvme_path = ".",
        .offload_param_device = strategy < ACCEL_SHARDING_FULL_SHARD ? ACCEL_OFFLOAD_DEFAULT : only,
        .offload_param_nvme_path = ".",
    };
    net.stays_whole = strchr (way, 'w');
    net.leaves_one = strchr (way, 'l');
    net.has_no_optimizer = strchr (way, 'p');
    net.is_unwrapped = strchr (way, 'u');
}

int
main (int argc, char **argv)
{
    const struct accel_options options
        = { .cpu = ON_CPU, .tp_size = argc > 2 ? strtoul (argv[2], NULL, 10) : 2, .timeout_ms = 60000 };
    TRY (accel_open (&acc, &options, &err));
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    TRY (accel_set_seed (acc, 5, false, &err));
    if (argc >= 7 && !strcmp (argv[1], "train")) {
        read_sharding (argc > 7 ? argv[7] : "0", argc > 8 ? argv[8] : "0");
        bool is_narrow = !strcmp (argv[4], "bf16"); /* first values come before parts, or after */
        make_net (is_narrow ? ACCEL_BFLOAT16 : ACCEL_FLOAT32, !is_narrow);
        train (atoi (argv[3]), argv[5], argv[6]);
    } else if (!strcmp (argv[1], "pairs")) {
        check_pairs ();
        for (int where = 0; where < 4; where++)
            check_losses (where & 1, where & 2);
    } else if (!strcmp (argv[1], "orders")) {
        check_orders ();
    } else if (!strcmp (argv[1], "refused")) {
        check_refused ();
    } else if (argc == 4 && !strcmp (argv[1], "starved")) {
        check_starved (argv[3]);
    } else if (argc == 5 && !strcmp (argv[1], "halfway")) {
        check_halfway (argv[3], argv[4]);
    }
    accel_close (acc);
    return wrong > 0;
}
