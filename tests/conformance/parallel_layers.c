/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of parallel.sh: layers whose weights are divided among all processes have the bits of the whole ones.  All
 * numbers are small integers, so sums are exact in any order.
 *
 * Compiled with ON_GPU, arrays are on GPUs. */
#include <config.h>

#include "tests/conformance/check.h"
#include "tests/conformance/mirror.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, IN = 8, OUT = 12, VOCAB = 12, WIDTH = 5, TOKENS = 7 };

#ifdef ON_GPU
#define IS_ON_HOST false
#else
#define IS_ON_HOST true
#endif

static struct accel_error err;
#define TRY(call) accel_check ((call), &err)

static float
number (int seed, int i)
{
    return (float) ((i * 7 + seed * 5) % 11 - 5);
}

/* ---- products of the program's own ---- */

static int products;
static struct accel_comm *group; /* of all: the world is for what products send */
static bool overlaps, fails;

static float *
view (DLTensor *tensor, int64_t *shape, void **copy, const float *data, size_t count)
{
    *shape = (int64_t) count;
    *tensor = (DLTensor){ .data = (void *) (uintptr_t) data, .device = accel_device (acc), .ndim = 1,
                          .dtype = { kDLFloat, 32, 1 }, .shape = shape };
    (void) copy;
    return mirror_get (copy, tensor);
}

/* Rank 0 is in its weight's product before the last rank sends gradients of the input, and until that has all of them:
 * so rank 0 neither waits for them before the product, nor sends its own after it. */
static enum accel_status
product (void *user, bool a_transposed, bool b_transposed, size_t m, size_t n, size_t k, const float *a, const float *b,
         float beta, float *c, struct accel_error *why)
{
    void *copies[3] = { NULL };
    DLTensor tensors[3];
    int64_t shapes[3];
    if (fails)
        return why->code = ACCEL_ERR_SYSTEM;
    const float *left = view (&tensors[0], &shapes[0], &copies[0], a, m * k);
    const float *right = view (&tensors[1], &shapes[1], &copies[1], b, k * n);
    float *into = view (&tensors[2], &shapes[2], &copies[2], c, m * n), token = 0;
    check (user == &products, "the argument of a product");
    products++;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = beta != 0 ? into[i * n + j] : 0;
            for (size_t p = 0; p < k; p++)
                sum += left[a_transposed ? p * m + i : i * k + p] * right[b_transposed ? j * k + p : p * n + j];
            into[i * n + j] = sum;
        }
    mirror_put (&tensors[2], into);
    if (overlaps && beta != 0 && !rank)
        TRY (accel_comm_send (accel_world (acc), &token, 1, ACCEL_FLOAT32, size - 1, why));
    if (overlaps && beta == 0 && rank == size - 1)
        TRY (accel_comm_recv (accel_world (acc), &token, 1, ACCEL_FLOAT32, 0, why));
    if (overlaps && beta != 0 && !rank)
        TRY (accel_comm_recv (accel_world (acc), &token, 1, ACCEL_FLOAT32, size - 1, why));
    for (int i = 0; i < 3; i++)
        free (copies[i]);
    return ACCEL_OK;
}

/* ---- linear layers ---- */

/* Of all processes: x [ROWS, ins], weight [ins, outs], dy [ROWS, outs], and what they give. */
struct whole {
    int ins, outs;
    float x[ROWS * 4 * IN], weight[4 * IN * OUT], dy[ROWS * 4 * OUT], y[ROWS * 4 * OUT], dx[ROWS * 4 * IN],
        grad[4 * IN * OUT];
};

static void
compute_whole (struct whole *w, int ins, int outs)
{
    *w = (struct whole){ .ins = ins, .outs = outs };
    for (int i = 0; i < ROWS * ins; i++)
        w->x[i] = number (1, i);
    for (int i = 0; i < ins * outs; i++)
        w->weight[i] = number (2, i);
    for (int i = 0; i < ROWS * outs; i++)
        w->dy[i] = number (3, i);
    for (int r = 0; r < ROWS; r++)
        for (int i = 0; i < ins; i++)
            for (int o = 0; o < outs; o++) {
                w->y[r * outs + o] += w->x[r * ins + i] * w->weight[i * outs + o];
                w->dx[r * ins + i] += w->dy[r * outs + o] * w->weight[i * outs + o];
                w->grad[i * outs + o] += w->x[r * ins + i] * w->dy[r * outs + o];
            }
}

/* Some columns of a matrix of @rows rows. */
static void
columns_of (float *to, const float *from, int rows, int columns, int first, int count)
{
    for (int i = 0; i < rows * count; i++)
        to[i] = from[i / count * columns + first + i % count];
}

static void
transpose (float *matrix, int rows, int columns)
{
    float copy[4 * IN * OUT];
    memcpy (copy, matrix, (size_t) (rows * columns) * sizeof *copy);
    for (int i = 0; i < rows * columns; i++)
        matrix[i % columns * rows + i / columns] = copy[i];
}

/* The part of the weight, or of its gradient, that this process has. */
static void
part_of (float *part, const struct accel_parallel_linear *layer, const float *matrix, int ins, int outs)
{
    bool is_row = layer->kind == ACCEL_ROW_PARALLEL;
    columns_of (part, is_row ? matrix + rank * IN * outs : matrix, is_row ? IN : ins, outs, is_row ? 0 : rank * OUT,
                is_row ? outs : OUT);
    if (layer->transposed)
        transpose (part, (int) layer->in, (int) layer->out);
}

static bool
same (const float *a, const float *b, int count)
{
    return !memcmp (a, b, (size_t) count * sizeof *a);
}

/* @param has_parts  of what is divided: y, or x */
static void
check_linear (enum accel_parallel_kind kind, bool has_parts, bool transposed, bool is_own)
{
    static struct whole w;
    const DLDevice device = accel_device (acc);
    bool is_row = kind == ACCEL_ROW_PARALLEL;
    float weight[4 * IN * OUT], grad[4 * IN * OUT], x[ROWS * 4 * IN], dx[ROWS * 4 * IN], y[ROWS * 4 * OUT];
    float dy[ROWS * 4 * OUT], wanted[4 * IN * OUT], want_y[ROWS * 4 * OUT], want_dx[ROWS * 4 * IN];
    compute_whole (&w, is_row ? IN * size : IN, is_row ? OUT : OUT * size);
    int ins = is_row && has_parts ? IN : w.ins, outs = !is_row && has_parts ? OUT : w.outs;
    struct accel_parallel_linear layer = {
        .comm = size > 1 ? group : NULL, .in = IN, .out = OUT, .matmul = is_own ? product : NULL,
        .user = &products, .gather_output = !has_parts, .input_is_parallel = has_parts, .transposed = transposed,
        .kind = kind };
    const size_t elements = IN * OUT;
    part_of (weight, &layer, w.weight, w.ins, w.outs);
    part_of (wanted, &layer, w.grad, w.ins, w.outs);
    for (size_t i = 0; i < elements; i++) {
        grad[i] = number (4, (int) i);
        wanted[i] += grad[i];
    }
    columns_of (x, w.x, ROWS, w.ins, ins < w.ins ? rank * IN : 0, ins);
    columns_of (want_dx, w.dx, ROWS, w.ins, ins < w.ins ? rank * IN : 0, ins);
    columns_of (dy, w.dy, ROWS, w.outs, outs < w.outs ? rank * OUT : 0, outs);
    columns_of (want_y, w.y, ROWS, w.outs, outs < w.outs ? rank * OUT : 0, outs);
    const size_t x_count = (size_t) (ROWS * ins), y_count = (size_t) (ROWS * outs);
    float *there = mirror_array (weight, elements, device), *x_there = mirror_array (x, x_count, device);
    float *dy_there = mirror_array (dy, y_count, device), *y_there = mirror_array (y, y_count, device);
    float *dx_there = mirror_array (dx, x_count, device), spare[2 * ROWS * OUT];
    layer.room = mirror_array (spare, sizeof spare / sizeof *spare, device);
    layer.device = device;
    layer.weight = there;
    layer.grad = mirror_array (grad, elements, device);
    products = 0;
    TRY (accel_parallel_linear (&layer, x_there, y_there, ROWS, &err));
    check (products == (is_own ? 1 : 0), "products of a forward pass: %d", products);
    overlaps = !is_row && size > 1;
    TRY (accel_parallel_linear_backward (&layer, x_there, dy_there, dx_there, ROWS, &err));
    check (products == (is_own ? 3 : 0), "products of both passes: %d", products);
    if (is_own && overlaps && rank == size - 1)
        TRY (accel_comm_send (accel_world (acc), weight, 1, ACCEL_FLOAT32, 0, &err));
    overlaps = false;
    mirror_take (y, y_there, y_count, device);
    mirror_take (dx, dx_there, x_count, device);
    mirror_take (grad, layer.grad, elements, device);
    mirror_end_array (layer.room, device);
    mirror_end_array (there, device);
    mirror_end_array (x_there, device);
    mirror_end_array (dy_there, device);
    const char *name = is_row ? "row" : "column";
    check (same (y, want_y, (int) y_count), "y of a %s-parallel layer, parts %d, transposed %d", name, has_parts,
           transposed);
    check (same (dx, want_dx, (int) x_count), "dx of a %s-parallel layer, parts %d, transposed %d", name, has_parts,
           transposed);
    check (same (grad, wanted, (int) elements), "the gradient of a %s-parallel layer, parts %d, transposed %d", name,
           has_parts, transposed);
}

/* A layer that is not trained, at the beginning of a network; products that fail; and what is missing. */
static void
check_arguments (void)
{
    float number = 1;
    struct accel_parallel_linear layer = { .in = 1, .out = 1, .weight = &number, .grad = &number, .matmul = product,
                                           .user = &products };
    fails = true;
    check (accel_parallel_linear (&layer, &number, &number, 1, &err) == ACCEL_ERR_SYSTEM, "a product that fails");
    check (accel_parallel_linear_backward (&layer, &number, &number, NULL, 1, &err) == ACCEL_ERR_SYSTEM, "of a weight");
    fails = false;
    layer.grad = NULL;
    products = 0;
    TRY (accel_parallel_linear_backward (&layer, &number, &number, NULL, 1, &err));
    check (!products, "products of a layer that is not trained: %d", products);
    check (accel_parallel_embedding (NULL, NULL, 1, 1, &(int32_t){ 0 }, 1, &number, &err) == ACCEL_ERR_INVALID,
           "no weight");
    check (accel_parallel_embedding_backward (NULL, 1, 1, &(int32_t){ 0 }, 1, NULL, &number, &err) == ACCEL_ERR_INVALID
               && strstr (err.text, "accel_parallel_embedding_backward") && strstr (err.text, "dy"),
           "no dy: %s", err.text);
    layer.comm = group;
    layer.device = accel_device (acc);
    layer.gather_output = true;
    check (accel_parallel_linear (&layer, &number, &number, 1, &err) == ACCEL_ERR_INVALID, "no room for a part of y");
    layer.kind = ACCEL_ROW_PARALLEL;
    check (accel_parallel_linear (&layer, &number, &number, 1, &err) == ACCEL_ERR_INVALID
               && accel_parallel_linear_backward (&layer, &number, &number, &number, 1, &err) == ACCEL_ERR_INVALID,
           "no room for a part of x");
}

/* ---- embeddings ---- */

static void
check_embedding (void)
{
    const int32_t tokens[TOKENS] = { 0, VOCAB - 1, 5, 0, 7, 5, 0 }, bad[TOKENS] = { 1, VOCAB, 2 };
    const DLDevice device = accel_device (acc);
    struct accel_comm *comm = size > 1 ? accel_world (acc) : NULL;
    float weight[VOCAB * WIDTH], grad[VOCAB * WIDTH], wanted[VOCAB * WIDTH], y[TOKENS * WIDTH], dy[TOKENS * WIDTH];
    int rows = VOCAB / size;
    const size_t elements = (size_t) (rows * WIDTH), count = TOKENS * WIDTH;
    for (int i = 0; i < rows * WIDTH; i++) {
        weight[i] = number (5, rank * rows * WIDTH + i);
        grad[i] = wanted[i] = number (6, i);
    }
    for (int i = 0; i < TOKENS * WIDTH; i++) {
        int row = tokens[i / WIDTH] - rank * rows;
        dy[i] = number (7, i);
        if (row >= 0 && row < rows)
            wanted[row * WIDTH + i % WIDTH] += dy[i];
    }
    float *there = mirror_array (weight, elements, device), *grad_there = mirror_array (grad, elements, device);
    float *y_there = mirror_array (y, count, device), *dy_there = mirror_array (dy, count, device);
    void *tokens_there = mirror_array (tokens, TOKENS, device), *bad_there = mirror_array (bad, TOKENS, device);
    float *bad_y = mirror_array (y, count, device);
    TRY (accel_parallel_embedding (comm, there, (size_t) rows, WIDTH, tokens_there, TOKENS, y_there, &err));
    TRY (accel_parallel_embedding_backward (comm, (size_t) rows, WIDTH, tokens_there, TOKENS, dy_there, grad_there,
                                            &err));
    mirror_take (y, y_there, count, device);
    for (int i = 0; i < TOKENS * WIDTH; i++)
        check (y[i] == number (5, tokens[i / WIDTH] * WIDTH + i % WIDTH), "element %d of embeddings: %g", i,
               (double) y[i]);
    enum accel_status status
        = accel_parallel_embedding (comm, there, (size_t) rows, WIDTH, bad_there, TOKENS, bad_y, &err);
    mirror_take (y, bad_y, count, device);
#ifdef ON_GPU
    check (!status && isnan (y[WIDTH]) && isfinite (y[0]), "a token that is in no row: %d, %g", (int) status,
           (double) y[WIDTH]);
    status = accel_parallel_embedding (comm, there, (size_t) rows, WIDTH, tokens, TOKENS, dy_there, &err);
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "tokens is in host memory, but weight is on cuda:"),
           "tokens of the host: %s", status ? err.text : "taken");
    status = accel_parallel_embedding_backward (comm, (size_t) rows, WIDTH, tokens_there, TOKENS, dy, grad_there, &err);
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "dy is in host memory, but grad is on cuda:"),
           "dy of the host: %s", status ? err.text : "taken");
#else
    check (status == ACCEL_ERR_INVALID && strstr (err.text, "token 1 is 12, but there are 12 rows"), "a token: %s",
           status ? err.text : "taken");
#endif
    mirror_take (grad, grad_there, elements, device);
    check (same (grad, wanted, rows * WIDTH), "gradients of embeddings");
    mirror_end_array (there, device);
    mirror_end_array (dy_there, device);
    mirror_end_array (tokens_there, device);
    mirror_end_array (bad_there, device);
}

int
main (void)
{
    const struct accel_options options = { .cpu = IS_ON_HOST, .timeout_ms = 20000 };
    TRY (accel_open (&acc, &options, &err));
    rank = accel_process_index (acc);
    size = accel_num_processes (acc);
    TRY (accel_comm_split (&group, accel_world (acc), 0, 0, &err));
    for (int i = 0; i < 16; i++)
        check_linear (i & 8 ? ACCEL_ROW_PARALLEL : ACCEL_COLUMN_PARALLEL, i & 1, i & 2, i & 4 || !IS_ON_HOST);
    check_arguments ();
    check_embedding ();
    accel_comm_destroy (group);
    accel_close (acc);
    return wrong > 0;
}
