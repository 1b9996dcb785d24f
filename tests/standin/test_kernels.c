/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels give the processor's bits in every type, whatever runs them: the stand-in, as compiled for the host or from
 * nvcc's PTX, or a card.  A NaN is equal to any other.  pow() of a card is not the processor's: norms that need it are
 * compared in a run of their own, which allows the last bit.
 * usage: test_kernels [most-elements [without-power | power]], or test_kernels far (only on the stand-in), or
 * test_kernels huge [elements] (on a card; 2^31 and some by default) */
#include <config.h>

#include "cuda/kernels.h"
#include "lib/kernels/floats.h"
#include "lib/memory/lists.h"
#include "lib/memory/memory.h"
#include "tests/standin/huge.h"
#include "tests/standin/packs.h"
#include "tests/standin/twins.h"
#include "tests/tap.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <stdlib.h>

enum { CUDA_STRIDE = 256 }; /* a divisor of the number of threads */

static const DLDevice host = { .device_type = kDLCPU };
static size_t size;
static bool has_power, only_power;
static void *scratch;

/* ---- what each kernel is compared in ---- */

static const enum accel_dtype floats[]
    = { ACCEL_FLOAT32, ACCEL_FLOAT16, ACCEL_BFLOAT16, ACCEL_FLOAT8_E4M3FN, ACCEL_FLOAT8_E5M2 };
enum { WIDE = 1, HALVES = 3, ALL = 5 };

static void
compare_update (enum rule rule, enum accel_dtype grad_dtype, enum accel_dtype narrow_dtype)
{
#define X(NAME, name, states) #NAME,
    static const char *const names[RULE_COUNT] = { RULES (X) };
#undef X
    struct rule_numbers numbers = { .sign = 1, .decay = 0.01F, .keep = 0.999F, .minus_size = -0.0123F, .beta1 = 0.9F,
                                    .weight1 = rule == RULE_AMSGRAD ? 0.6F : 0.1F, .beta2 = 0.999F,
                                    .weight2 = 0.001F, .root = 0.0316F, .eps = 1e-8F, .momentum = 0.9F,
                                    .fresh = 0.8F, .nesterov = grad_dtype == ACCEL_FLOAT16 };
    struct twin parameter = make (ACCEL_FLOAT32, size, 1, 1e30F), grad = make (grad_dtype, size, 1, NAN), narrow;
    struct twin states[RULE_STATES];
    struct memory_update update = { .rule = rule, .numbers = &numbers, .factor = 1.0F / 3, .count = size };
    struct cuda_update device = { .rule = rule, .numbers = numbers, .factor = 1.0F / 3, .count = size };
    bool narrows = narrow_dtype != ACCEL_FLOAT32;
    for (int s = 0; s < RULE_STATES; s++) {
        states[s] = make (ACCEL_FLOAT32, size, 0, 1e-20F);
        for (size_t i = 0; i < size; i++) /* squares are not negative */
            ((float *) states[s].host)[i] = fabsf (((float *) states[s].host)[i]);
        MUST (cudaMemcpyAsync (states[s].device, states[s].host, size * 4, cudaMemcpyHostToDevice, stream));
        update.state[s] = states[s].host;
        device.state[s] = states[s].device;
    }
    MUST (cudaStreamSynchronize (stream));
    narrow = make (narrow_dtype, size, 1, 0);
    update.parameter = parameter.host;
    update.grad = grad.host;
    update.narrow = narrows ? narrow.host : NULL;
    device.parameter = parameter.device;
    device.grad = grad.device;
    device.narrow = narrows ? narrow.device : NULL;
    update.grad_dtype = device.grad_dtype = grad_dtype;
    update.narrow_dtype = device.narrow_dtype = narrow_dtype;
    memory_host.update (host, &update);
    cuda_update (&device, stream);
    equal (&parameter, "%s", names[rule]);
    equal (&narrow, "%s: rounded", names[rule]);
    for (int s = 0; s < RULE_STATES; s++) {
        equal (&states[s], "%s: a state", names[rule]);
        drop (&states[s]);
    }
    drop (&parameter);
    drop (&grad);
    drop (&narrow);
}

static void
updates (void)
{
    for (int rule = 0; rule < RULE_COUNT; rule++)
        for (int type = 0; type < HALVES; type++)
            compare_update ((enum rule) rule, floats[type], floats[(type + rule) % HALVES]);
}

static void
simple (enum accel_dtype dtype)
{
    struct twin a = make (dtype, size, 100, INFINITY);
    memory_host.scale (host, a.host, dtype, size, 1.0 / 3);
    cuda_scale (a.device, dtype, size, 1.0 / 3, stream);
    equal (&a, "scaled");
    if (dtype != ACCEL_FLOAT64) {
        fill (&a, 2, NAN);
        memory_host.clamp (host, a.host, dtype, size, 0.5F);
        cuda_clamp (a.device, dtype, size, 0.5F, stream);
        equal (&a, "clamped");
    }
    drop (&a);
}

static void
add (void)
{
    struct twin a = make (ACCEL_FLOAT32, size, 1, 1e30F), b = make (ACCEL_FLOAT32, size, 1, NAN);
    memory_host.add (host, a.host, b.host, size);
    cuda_add (a.device, b.device, size, stream);
    equal (&a, "added");
    drop (&a);
    drop (&b);
}

/* From one array, from none, or not at all, because of a byte that is one of several. */
static void
copy_unless (enum accel_dtype dtype)
{
    struct twin a = make (dtype, size, 1, 0), b = make (dtype, size, 1, 0), marks = make (ACCEL_FLOAT8_E5M2, 3, 0, 0);
    const uint8_t *mark = marks.device;
    MUST (cudaMemsetAsync (marks.device, 0, 3, stream));
    MUST (cudaMemsetAsync (marks.device, 1, 1, stream));
    cuda_copy_unless (a.device, NULL, bytes_of (&a), mark, stream);
    equal (&a, "not copied");
    memory_host.copy_unless (host, a.host, b.host, bytes_of (&a), (const uint8_t[]){ 0 });
    cuda_copy_unless (a.device, b.device, bytes_of (&a), mark + 1, stream);
    equal (&a, "copied");
    memory_host.copy_unless (host, b.host, NULL, bytes_of (&b), (const uint8_t[]){ 0 });
    cuda_copy_unless (b.device, NULL, bytes_of (&b), mark + 2, stream);
    equal (&b, "zeros");
    drop (&a);
    drop (&b);
    drop (&marks);
}

/* One value is not finite, or none.  The byte is one of four; its neighbours stay. */
static void
unscale (enum accel_dtype dtype, float rare, size_t place)
{
    struct twin a = make (dtype, size, 1, 0), found = make (ACCEL_FLOAT8_E5M2, 8, 0, 0);
    floats_narrow (a.host, dtype, &rare, 1);
    MUST (cudaMemcpyAsync (a.device, a.host, bytes_of (&a), cudaMemcpyHostToDevice, stream));
    memset (found.host, 0x20, 8);
    ((uint8_t *) found.host)[place] = 0;
    MUST (cudaMemcpyAsync (found.device, found.host, 8, cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    memory_host.unscale (host, a.host, dtype, size, 1.0F / 3, (uint8_t *) found.host + place);
    cuda_unscale (a.device, dtype, size, 1.0F / 3, (uint8_t *) found.device + place, stream);
    equal (&a, "unscaled");
    equal (&found, "unscaled: what was found%s", isfinite (rare) ? "" : ", something");
    drop (&a);
    drop (&found);
}

/* One number: the same, or a neighbour of it. */
static void
close_to (const struct twin *twin, const char *name)
{
    float wanted = *(const float *) twin->host, got;
    MUST (cudaMemcpyAsync (&got, twin->device, sizeof got, cudaMemcpyDeviceToHost, stream));
    MUST (cudaStreamSynchronize (stream));
    tell (got == wanted || got == nextafterf (wanted, got), "%s: %.9g, wanted %.9g", name, (double) got,
          (double) wanted);
}

/* Sums have another order than the processor's, but are made in double and rounded to float32, which gives the same
 * bits for these numbers. */
static void
norm (enum accel_dtype dtype, size_t count, double p, float rare)
{
    struct twin a = make (dtype, count, 3, rare), result = make (ACCEL_FLOAT32, 1, 0, 0);
    char name[60];
    snprintf (name, sizeof name, "norm of p %g of %zu", p, count);
    memory_host.norm (host, a.host, dtype, count, 1.0F / 7, p, result.host);
    cuda_norm (a.device, dtype, count, 1.0F / 7, p, result.device, scratch, stream);
    if (only_power)
        close_to (&result, name);
    else
        equal (&result, "%s", name);
    drop (&a);
    drop (&result);
}

static void
norms (void)
{
    const double kinds[] = { 2, 1, 0, INFINITY, 3, 0.5 };
    for (size_t k = only_power ? 4 : 0; k < (has_power ? 6 : 4); k++)
        for (int type = 0; type < HALVES; type++) {
            norm (floats[type], size, kinds[k], 0.25F);
            norm (floats[type], 1, kinds[k], 0);
        }
    if (only_power)
        return;
    norm (ACCEL_FLOAT32, size, 2, NAN);
    norm (ACCEL_FLOAT32, size, INFINITY, NAN);
    norm (ACCEL_BFLOAT16, size, INFINITY, INFINITY);
    norm (ACCEL_FLOAT32, 0, 2, 0);
}

/* The sums of blocks, which are in scratch memory, have the same bits wherever an array begins. */
static void
norm_order (enum accel_dtype dtype)
{
    static double aligned[CUDA_SCRATCH / sizeof (double) / 2], other[sizeof aligned / sizeof *aligned];
    const size_t count = 40009;
    struct twin a = make (dtype, count + 3, 3, 1e-3F), result = make (ACCEL_FLOAT32, 1, 0, 0);
    for (size_t begin = 0; begin < 4; begin++) {
        size_t each = accel_dtype_bytes (dtype);
        MUST (cudaMemcpyAsync ((char *) a.device + begin * each, a.host, count * each, cudaMemcpyHostToDevice, stream));
        cuda_norm ((char *) a.device + begin * each, dtype, count, 1, 2, result.device, scratch, stream);
        MUST (cudaMemcpyAsync (begin ? other : aligned, scratch, cuda_item_blocks (count) * sizeof *other,
                               cudaMemcpyDeviceToHost, stream));
        MUST (cudaStreamSynchronize (stream));
        if (begin)
            tell (!memcmp (aligned, other, cuda_item_blocks (count) * sizeof *other),
                  "sums of blocks of %s that begin %zu late", accel_dtype_name (dtype), begin);
    }
    drop (&a);
    drop (&result);
}

static void
find (enum accel_dtype dtype, float rare)
{
    struct twin a = make (dtype, size, 1, rare);
    struct cuda_place *place, got;
    float value = 0;
    for (size_t i = 3; rare != 0 && i < size; i += CUDA_STRIDE) /* one thread has several */
        floats_narrow ((char *) a.host + i * accel_dtype_bytes (dtype), dtype, &rare, 1);
    MUST (cudaMemcpyAsync (a.device, a.host, bytes_of (&a), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    size_t wanted = memory_host.find_nonfinite (host, a.host, dtype, size, &value);
    MUST (cudaMalloc ((void **) &place, sizeof *place));
    cuda_find_nonfinite (a.device, dtype, size, place, stream);
    MUST (cudaMemcpyAsync (&got, place, sizeof got, cudaMemcpyDeviceToHost, stream));
    MUST (cudaStreamSynchronize (stream));
    tell (got.index == wanted && (wanted == SIZE_MAX || !memcmp (&got.value, &value, 4) || isnan (value)),
        "the first of %s that is not finite: %zu", accel_dtype_name (dtype), wanted);
    MUST (cudaFree (place));
    drop (&a);
}

static void
conversions (enum accel_dtype to, enum accel_dtype from)
{
    struct twin a = make (from, size, 300, INFINITY), b = make (to, size, 0, 0);
    for (float divisor = 3; divisor > 0; divisor -= 2) {
        memory_host.convert (host, b.host, to, a.host, from, size, divisor);
        cuda_convert (b.device, to, a.device, from, size, divisor, stream);
        equal (&b, "converted from %s", accel_dtype_name (from));
    }
    if (from == ACCEL_FLOAT32) {
        memory_host.narrow (host, b.host, to, a.host, size);
        cuda_narrow (b.device, to, a.device, size, 1, false, stream);
        equal (&b, "narrowed");
    }
    static const float factors[] = { 1.0F / 3, 1, 0 };
    for (int i = 0; to == ACCEL_FLOAT32 && i < 3; i++) {
        memory_host.widen (host, b.host, a.host, from, size, factors[i]);
        cuda_widen (b.device, a.device, from, size, factors[i], stream);
        equal (&b, "widened, and multiplied by %g", factors[i]);
    }
    drop (&a);
    drop (&b);
}

static void
narrow_scaled (enum accel_dtype dtype, float rare)
{
    struct twin a = make (ACCEL_FLOAT32, size, 1e6F, rare), b = make (dtype, size, 0, 0);
    float scale = memory_host.narrow_scaled (host, b.host, dtype, a.host, size), most = 0;
    unsigned bits, *largest;
    MUST (cudaMalloc ((void **) &largest, sizeof *largest));
    MUST (cudaMemsetAsync (largest, 0, sizeof *largest, stream));
    cuda_largest (a.device, size, largest, stream);
    MUST (cudaMemcpyAsync (&bits, largest, sizeof bits, cudaMemcpyDeviceToHost, stream));
    MUST (cudaStreamSynchronize (stream));
    for (size_t i = 0; i < size; i++)
        most = fmaxf (most, fabsf (((float *) a.host)[i]));
    tell (!memcmp (&bits, &most, sizeof bits), "the largest magnitude");
    cuda_narrow (b.device, dtype, a.device, size, 1 / scale, true, stream);
    equal (&b, "narrowed with a scale");
    MUST (cudaFree (largest));
    drop (&a);
    drop (&b);
}

static void
products (size_t n, size_t m, size_t rank, float rare)
{
    struct twin values = make (ACCEL_FLOAT32, n * m, 1, rare), p = make (ACCEL_FLOAT32, n * rank, 1, 0);
    struct twin q = make (ACCEL_FLOAT32, m * rank, 1, 0), error = make (ACCEL_FLOAT32, n * m, 0, 0);
    memory_host.multiply (host, p.host, values.host, q.host, n, m, rank);
    cuda_multiply (p.device, values.device, q.device, n, m, rank, stream);
    equal (&p, "product");
    for (size_t j = 0; j < rank; j++) {
        memory_host.orthogonalise (host, p.host, n, rank, j, NULL);
        cuda_orthogonalise (p.device, n, rank, j, NULL, scratch, stream);
        equal (&p, "column %zu of %zu made orthogonal", j, rank);
    }
    memory_host.multiply_transposed (host, q.host, values.host, p.host, n, m, rank);
    cuda_multiply_transposed (q.device, values.device, p.device, n, m, rank, stream);
    equal (&q, "transposed product");
    memory_host.expand (host, values.host, error.host, p.host, q.host, n, m, rank);
    cuda_expand (values.device, error.device, p.device, q.device, n, m, rank, stream);
    equal (&values, "expanded");
    equal (&error, "expanded: the error");
    drop (&values);
    drop (&p);
    drop (&q);
    drop (&error);
}

/* Products of columns that cancel but for what rounding leaves, so that another order of the sum shows. */
static void
columns_that_cancel (size_t rows)
{
    struct twin columns = make (ACCEL_FLOAT32, 2 * rows, 3e7F, 0.25F);
    float *values = columns.host;
    for (size_t i = 0; i < rows / 2; i++) {
        values[2 * (rows - 1 - i)] = values[2 * i];
        values[2 * (rows - 1 - i) + 1] = -values[2 * i + 1];
    }
    MUST (cudaMemcpyAsync (columns.device, values, bytes_of (&columns), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    memory_host.orthogonalise (host, values, rows, 2, 1, NULL);
    cuda_orthogonalise (columns.device, rows, 2, 1, NULL, scratch, stream);
    equal (&columns, "columns of %zu that cancel", rows);
    drop (&columns);
}

/* Of three columns the second would become 0, and the last one is not finite. */
static void
useless_columns (size_t rows, bool draws)
{
    struct twin columns = make (ACCEL_FLOAT32, 3 * rows, 1, 0);
    float *values = columns.host;
    const uint64_t drawn = rows * 1000003, *seed = draws ? &drawn : NULL;
    for (size_t i = 0; i < rows; i++)
        values[3 * i + 1] = values[3 * i];
    values[2] = INFINITY;
    MUST (cudaMemcpyAsync (columns.device, values, bytes_of (&columns), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    for (size_t j = 0; j < 3; j++) {
        memory_host.orthogonalise (host, values, rows, 3, j, seed);
        cuda_orthogonalise (columns.device, rows, 3, j, seed, scratch, stream);
    }
    equal (&columns, "useless columns of %zu%s", rows, draws ? ", drawn anew" : "");
    tell ((values[1] != 0) == draws && isfinite (values[2]) == draws, "both of %zu%s", rows, draws ? " are drawn" : "");
    drop (&columns);
}

static void
layouts (enum accel_dtype dtype, size_t n, size_t m)
{
    struct twin a = make (dtype, n * m, 1, 0), b = make (dtype, n * m, 0, 0);
    size_t each = accel_dtype_bytes (dtype);
    struct cuda_layout layout = { .ndim = 2, .shape = { (int64_t) n, (int64_t) m }, .to = { (int64_t) m, 1 },
                                  .from = { 1, (int64_t) n } };
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            memcpy ((char *) b.host + (i * m + j) * each, (char *) a.host + (j * n + i) * each, each);
    cuda_copy_layout (b.device, a.device, &layout, each, stream);
    equal (&b, "transposed");
    drop (&a);
    drop (&b);
}

static struct vocabulary_rows
rows_of (const struct twin *logits, const struct twin *losses, const struct twin *sums, const struct twin *labels,
         bool on_device)
{
    const int64_t columns = (int64_t) (losses->count ? logits->count / losses->count : 0);
#define OF(twin) (on_device ? (twin)->device : (twin)->host)
    return (struct vocabulary_rows){ { columns, columns, 3 * columns }, losses->count, OF (labels), OF (logits),
                                     OF (losses), OF (sums), 0.3F };
#undef OF
}

/* The second of three parts of logits, labels of all of them, of none, and one that is no class.  Sums are those of
 * norms: made in double, in another order than the processor's. */
static void
losses (size_t count, size_t columns, float rare)
{
    struct twin logits = make (ACCEL_FLOAT32, count * columns, 30, rare), losses = make (ACCEL_FLOAT32, count, 0, 0);
    struct twin sums = make (ACCEL_FLOAT32, 2 * count, 0, 0), labels = make (ACCEL_FLOAT32, count, 0, 0);
    for (size_t r = 0; r < count; r++)
        ((int32_t *) labels.host)[r] = r % 5 == 3 ? -100 : (int32_t) (r == 7 ? 3 * columns : r * 11 % (3 * columns));
    MUST (cudaMemcpyAsync (labels.device, labels.host, bytes_of (&labels), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    const struct vocabulary_rows on_host = rows_of (&logits, &losses, &sums, &labels, false);
    const struct vocabulary_rows on_device = rows_of (&logits, &losses, &sums, &labels, true);
    memory_host.vocabulary->find_largest (host, &on_host);
    cuda_vocabulary_find_largest (&on_device, stream);
    if (!isnan (rare))
        equal (&losses, "largest logits of %zu", columns);
    memory_host.vocabulary->add_up (host, &on_host);
    cuda_vocabulary_add_up (&on_device, stream);
    equal (&sums, "sums of %zu exponentials%s", columns, isnan (rare) ? ", some of which are NaN" : "");
    memory_host.vocabulary->finish (host, &on_host);
    cuda_vocabulary_finish (&on_device, stream);
    equal (&losses, "losses of %zu logits", columns);
    equal (&logits, "gradients of rows of %zu", columns);
    tell (count < 8 || isnan (((const float *) losses.host)[7]), "the loss of a label that is no class");
    drop (&logits);
    drop (&losses);
    drop (&sums);
    drop (&labels);
}

/* Tokens of the second of three parts of a table, of the others, and of none; most of them several times. */
static void
embeddings (size_t count, size_t rows, size_t width)
{
    struct twin table = make (ACCEL_FLOAT32, rows * width, 3, INFINITY);
    struct twin values = make (ACCEL_FLOAT32, count * width, 1, 0), tokens = make (ACCEL_FLOAT32, count, 0, 0);
    for (size_t i = 0; i < count; i++)
        ((int32_t *) tokens.host)[i] = i % 9 == 4 ? -1 : (int32_t) (i == 7 ? 3 * rows : rows + i * i % (rows + 1));
    MUST (cudaMemcpyAsync (tokens.device, tokens.host, bytes_of (&tokens), cudaMemcpyHostToDevice, stream));
    MUST (cudaStreamSynchronize (stream));
    const int64_t own = (int64_t) rows;
    const struct vocabulary_tokens on_host
        = { { own, own, 3 * own }, count, width, tokens.host, table.host, values.host };
    const struct vocabulary_tokens on_device
        = { { own, own, 3 * own }, count, width, tokens.device, table.device, values.device };
    memory_host.vocabulary->look_up (host, &on_host);
    cuda_vocabulary_look_up (&on_device, stream);
    equal (&values, "rows of a table of %zu", rows);
    fill (&values, 2, 0);
    memory_host.vocabulary->add_back (host, &on_host);
    cuda_vocabulary_add_back (&on_device, stream);
    equal (&table, "gradients of a table of %zu", rows);
    drop (&table);
    drop (&values);
    drop (&tokens);
}

/* ---- lists of arrays ---- */

enum { ARRAYS = 7 };

/* Arrays of all lengths, also none, as a table of the device and as a list of the host. */
struct lists {
    struct twin data[ARRAYS], grads[ARRAYS], narrows[ARRAYS], states[ARRAYS][RULE_STATES];
    struct memory_item items[ARRAYS];
    struct cuda_item given[ARRAYS];
    struct memory_list list;
    struct cuda_table table;
};

/* @param types   of data: this many of `floats`
 * @param narrow  the first type of `floats` that the smaller copy has, out of @p narrows; 0: no such copies */
static void
lists_make (struct lists *lists, int types, int narrow, int narrows, float rare)
{
    const size_t counts[ARRAYS] = { size, 1, size / 2 + 1, 0, 257, size / 3 + 1, size };
    unsigned blocks = 0;
    memset (lists, 0, sizeof *lists);
    for (int i = 0; i < ARRAYS; i++) {
        struct twin *data = &lists->data[i], *grad = &lists->grads[i], *copy = &lists->narrows[i];
        *data = make (floats[i % types], counts[i], 3, rare);
        *grad = make (floats[(i + 1) % HALVES], counts[i], 1, NAN);
        *copy = make (floats[narrow + i % narrows], counts[i], 1, 0);
        struct memory_item *item = &lists->items[i];
        struct cuda_item *given = &lists->given[i];
        *item = (struct memory_item){ data->host, counts[i], grad->host, { NULL }, narrow ? copy->host : NULL,
                                      data->dtype, grad->dtype, copy->dtype, 0 };
        *given = (struct cuda_item){ data->device, counts[i], grad->device, { NULL }, narrow ? copy->device : NULL,
                                     data->dtype, grad->dtype, copy->dtype, blocks, cuda_item_blocks (counts[i]),
                                     (unsigned) i };
        for (int s = 0; s < RULE_STATES; s++) {
            struct twin *state = &lists->states[i][s];
            *state = make (ACCEL_FLOAT32, counts[i], 0, 1e-20F);
            for (size_t j = 0; j < counts[i]; j++) /* squares are not negative */
                ((float *) state->host)[j] = fabsf (((float *) state->host)[j]);
            MUST (cudaMemcpyAsync (state->device, state->host, bytes_of (state), cudaMemcpyHostToDevice, stream));
            item->state[s] = state->host;
            given->state[s] = state->device;
        }
        blocks += given->blocks;
    }
    lists->list = (struct memory_list){ .items = lists->items, .count = ARRAYS, .room = ARRAYS };
    lists->table = (struct cuda_table){ .host = lists->given, .count = ARRAYS, .blocks = blocks };
    MUST (cudaMalloc ((void **) &lists->table.items, sizeof lists->given));
    MUST (cudaMalloc ((void **) &lists->table.sums, (blocks + 1) * sizeof (double)));
    MUST (cudaMemcpyAsync ((void *) lists->table.items, lists->given, sizeof lists->given, cudaMemcpyHostToDevice,
                           stream));
    MUST (cudaStreamSynchronize (stream));
}

static void
lists_equal (struct lists *lists, const char *name)
{
    for (int i = 0; i < ARRAYS; i++)
        equal (&lists->data[i], "%s: array %d", name, i);
}

static void
lists_drop (struct lists *lists)
{
    for (int i = 0; i < ARRAYS; i++) {
        drop (&lists->data[i]);
        drop (&lists->grads[i]);
        drop (&lists->narrows[i]);
        for (int s = 0; s < RULE_STATES; s++)
            drop (&lists->states[i][s]);
    }
    MUST (cudaFree ((void *) lists->table.items));
    MUST (cudaFree (lists->table.sums));
}

static void
list_simple (void)
{
    struct lists lists;
    lists_make (&lists, ALL, 0, 1, INFINITY);
    cuda_list_zero (&lists.table, stream);
    memory_list_zero (&lists.list, &memory_host, host);
    lists_equal (&lists, "zeroed in a list");
    lists_drop (&lists);
    for (int only_float32 = 0; only_float32 < 2; only_float32++) {
        lists_make (&lists, HALVES, 0, 1, NAN);
        memory_list_scale (&lists.list, &memory_host, host, 1.0F / 3, only_float32);
        cuda_list_scale (&lists.table, 1.0F / 3, NULL, only_float32, stream);
        lists_equal (&lists, only_float32 ? "float32 scaled in a list" : "scaled in a list");
        memory_list_clamp (&lists.list, &memory_host, host, 0.5F, (struct memory_factor){ .value = 2 });
        cuda_list_clamp (&lists.table, 0.5F, 2, NULL, stream);
        lists_equal (&lists, "clamped in a list");
        lists_drop (&lists);
    }
}

static void
list_unscale (float rare)
{
    const struct memory_factor third = { .value = 1.0F / 3 };
    struct lists lists;
    struct twin found = make (ACCEL_FLOAT8_E5M2, 8, 0, 0);
    lists_make (&lists, HALVES, 0, 1, rare);
    memset (found.host, 0, 8);
    MUST (cudaMemsetAsync (found.device, 0, 8, stream));
    memory_list_unscale (&lists.list, &memory_host, host, third, (uint8_t *) found.host + 2);
    cuda_list_unscale (&lists.table, third.value, NULL, (uint8_t *) found.device + 2, stream);
    lists_equal (&lists, "unscaled in a list");
    equal (&found, "unscaled in a list: what was found%s", isfinite (rare) ? "" : ", something");
    lists_drop (&lists);
    drop (&found);
}

/* Norms, and the factor that makes the norm of all of them 1.5 */
static void
list_norms (double p, float rare)
{
    struct lists lists;
    struct twin norms = make (ACCEL_FLOAT32, ARRAYS, 0, 0), factor = make (ACCEL_FLOAT32, 1, 0, 0);
    float total, result;
    lists_make (&lists, HALVES, 0, 1, rare);
    memory_list_norm (&lists.list, &memory_host, host, (struct memory_factor){ .value = 1.0F / 7 }, p, norms.host);
    tell (cuda_list_norm (&lists.table, 1.0F / 7, NULL, p, norms.device, stream), "norms of p %g", p);
    equal (&norms, "norms of p %g of a list", p);
    if (p == 2 || isinf (p)) {
        memory_host.norm (host, norms.host, ACCEL_FLOAT32, ARRAYS, 1, p, &total);
        result = 1.0F / (total + 1e-6F) * 1.5F;
        *(float *) factor.host = result > 1 ? 1 : result;
        cuda_clip_factor (norms.device, ARRAYS, p, 1.5F, factor.device, NULL, stream);
        equal (&factor, "the factor that clips a list, p %g", p);
        memory_list_scale (&lists.list, &memory_host, host, *(const float *) factor.host, false);
        cuda_list_scale (&lists.table, 1, factor.device, false, stream);
        lists_equal (&lists, "clipped in a list");
    }
    lists_drop (&lists);
    drop (&norms);
    drop (&factor);
}

static void
list_updates (enum rule rule)
{
    struct lists lists;
    const struct rule_numbers numbers = { .sign = 1, .decay = 0.01F, .keep = 0.999F, .minus_size = -0.0123F,
                                          .beta1 = 0.9F, .weight1 = rule == RULE_AMSGRAD ? 0.6F : 0.1F,
                                          .beta2 = 0.999F, .weight2 = 0.001F, .root = 0.0316F, .eps = 1e-8F,
                                          .momentum = 0.9F, .fresh = 0.8F, .nesterov = true };
    lists_make (&lists, WIDE, 1, HALVES - 1, 1e30F);
    for (int i = 0; i < ARRAYS; i++) {
        const struct memory_item *item = &lists.items[i];
        struct memory_update update = { .rule = rule, .numbers = &numbers, .parameter = item->data, .grad = item->grad,
                                        .grad_dtype = item->grad_dtype, .factor = 1.0F / 3, .narrow = item->narrow,
                                        .narrow_dtype = item->narrow_dtype, .count = item->count };
        memcpy (update.state, item->state, sizeof update.state);
        memory_host.update (host, &update);
    }
    const struct cuda_list_step step = { .numbers = &numbers, .factor = 1.0F / 3 };
    cuda_list_update (&lists.table, 0, 3, rule, &step, stream); /* as two groups */
    cuda_list_update (&lists.table, 3, ARRAYS - 3, rule, &step, stream);
    lists_equal (&lists, "a step of a list");
    for (int i = 0; i < ARRAYS; i++) {
        equal (&lists.narrows[i], "a step of a list: rounded");
        for (int s = 0; s < RULE_STATES; s++)
            equal (&lists.states[i][s], "a step of a list: a state");
    }
    lists_drop (&lists);
}

static void
list_narrows (float rare)
{
    struct lists lists;
    struct twin scales = make (ACCEL_FLOAT32, ARRAYS, 0, 0);
    lists_make (&lists, WIDE, 1, ALL - 1, rare);
    memory_list_narrow (&lists.list, &memory_host, host);
    cuda_list_narrow (&lists.table, stream);
    for (int i = 0; i < ARRAYS; i++)
        equal (&lists.narrows[i], "narrowed in a list");
    lists_drop (&lists);
    lists_make (&lists, WIDE, HALVES, ALL - HALVES, rare);
    for (int i = 0; i < ARRAYS; i++)
        ((float *) scales.host)[i] = memory_host.narrow_scaled (host, lists.items[i].narrow,
                                                                lists.items[i].narrow_dtype, lists.items[i].data,
                                                                lists.items[i].count);
    cuda_list_narrow_scaled (&lists.table, scales.device, stream);
    equal (&scales, "scales of a list");
    for (int i = 0; i < ARRAYS; i++)
        equal (&lists.narrows[i], "narrowed with scales in a list");
    lists_drop (&lists);
    drop (&scales);
}

static void
all_lists (void)
{
    list_simple ();
    list_unscale (1);
    list_unscale (INFINITY);
    list_norms (2, 0.25F);
    list_norms (1, 0.25F);
    list_norms (0, 0);
    list_norms (INFINITY, NAN);
    for (int rule = 0; rule < RULE_COUNT; rule++)
        list_updates ((enum rule) rule);
    list_narrows (0);
    list_narrows (INFINITY);
    list_narrows (200); /* half of what the smallest type has, so that values become twice as large */
}

static void
all_of_size (void)
{
    norms ();
    if (only_power)
        return;
    updates ();
    all_lists ();
    add ();
    simple (ACCEL_FLOAT64);
    layouts (ACCEL_FLOAT64, 7, 1 + size / 7);
    for (int to = 0; to < ALL; to++) {
        copy_unless (floats[to]);
        if (to < HALVES) {
            simple (floats[to]);
            unscale (floats[to], 1, 0);
            unscale (floats[to], to ? NAN : INFINITY, (size_t) to + 1);
            find (floats[to], to ? INFINITY : NAN);
            find (floats[to], 0);
        } else {
            narrow_scaled (floats[to], 0);
            narrow_scaled (floats[to], INFINITY);
        }
        layouts (floats[to], 1 + size / 9, 9);
        for (int from = 0; from < ALL; from++)
            conversions (floats[to], floats[from]);
    }
    products (1 + size / 11, 11, 3, 1e10F);
    products (3, 1 + size / 5, 2, INFINITY);
    products (5, size / 8 * 4, 3, 0.5F); /* rows of packs */
    losses (1 + size / 7, 7, -200);
    losses (9, 1 + size / 9, -INFINITY);
    losses (0, 3, 0);
    embeddings (1 + size / 300, 70, 300);
    embeddings (20, 1 + size / 7, 7);
    embeddings (0, 4, 3);
    embeddings (3, 4, 0); /* no block is an error of CUDA's */
}

/* Around the borders of packs and of what a block has at once; each comparison is not a case of its own. */
static void
borders (size_t most)
{
    const struct {
        size_t size;
        int late;
    } runs[] = { { 3, 0 },    { 4, EACH_OTHER }, { 15, 0 },         { 16, 1 },   { 17, EACH_OTHER }, { 33, 2 },
                 { 1024, 3 }, { 4095, 0 },       { 4096, EACH_OTHER }, { 4099, 0 }, { 8209, 1 },        { 30011, 0 } };
    is_many = true;
    for (size_t i = 0; i < sizeof runs / sizeof *runs && runs[i].size <= most; i++) {
        size = runs[i].size;
        late = runs[i].late;
        many = many_wrong = 0;
        all_of_size ();
        MUST (cudaGetLastError ());
        ok (!many_wrong, "%zu elements, arrays that begin %s: %u comparisons", size,
            late == EACH_OTHER ? "anywhere" : late ? "late" : "aligned", many);
    }
    is_many = false;
    late = 0;
}

int
main (int argc, char **argv)
{
    const size_t sizes[] = { 1, 31, 1027, 10007, 300001 };
    bool is_far = argc > 1 && !strcmp (argv[1], "far"), is_huge = argc > 1 && !strcmp (argv[1], "huge");
    size_t most = is_far || is_huge ? 0 : argc > 1 ? strtoull (argv[1], NULL, 10) : 1027;
    has_power = argc < 3 || !strcmp (argv[2], "power");
    only_power = argc > 2 && has_power;
    MUST (cudaStreamCreateWithFlags (&stream, cudaStreamNonBlocking));
    MUST (cudaMalloc (&scratch, CUDA_SCRATCH));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= most; i++) {
        size = sizes[i];
        all_of_size ();
        MUST (cudaGetLastError ());
    }
    if (is_far)
        far_blocks (stream);
    else if (is_huge)
        huge (argc > 2 ? strtoull (argv[2], NULL, 10) : ((size_t) 1 << 31) + 4099, scratch, stream);
    else if (!only_power) {
        for (int type = 0; type < ALL; type++)
            norm_order (floats[type]);
        /* Of one block; of several; and whose stretches have more rows than a block has threads. */
        for (size_t rows = 700; rows < 40000; rows = 7 * rows + 1) {
            columns_that_cancel (rows);
            useless_columns (rows, true);
            useless_columns (rows, false);
        }
        borders (most < 1027 ? most : 30011);
        packs (scratch, stream);
    }
    MUST (cudaFree (scratch));
    MUST (cudaStreamDestroy (stream));
    return done_testing ();
}
