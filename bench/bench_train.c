/* SPDX-License-Identifier: Apache-2.0 */
/* Training with libaccel, compared with the same loop by hand.
 *
 *   bench_train step PARAMETERS BLOCKS [malloc]     one process: what a step costs beyond the loop by hand
 *   bench_train several PARAMETERS STEPS            under accelerate launch: whole steps, as mpi_train makes them
 *   bench_train adamw PARAMETERS STEPS THREADS      AdamW alone, compared with plain loops and their memory accesses
 *   bench_train overlap PARAMETERS STEPS            under accelerate launch: averaging during the pass, or after it
 *
 * Prints a line for each peer: name, parameters, microseconds of every step. */
#include <config.h>

#include <accel/accel.h>

#include "bench/train.h"
#include "bench/turns.h"

#include <pthread.h>
#include <sys/mman.h>

enum { BLOCK_US = 20000, TURN_STEPS = 4, PAGE = 4096, HUGE_PAGE = 2 << 20, STAGGER = 1088 };

#define CHECK(call) check ((call), &err, #call)

static void
check (enum accel_status status, const struct accel_error *err, const char *what)
{
    if (!status)
        return;
    fprintf (stderr, "bench_train: %s: %s\n", what, err->text);
    exit (EXIT_FAILURE);
}

/* Step @step of @steps begins, or, as the last one of all, is over: every @every steps the other build has its turn. */
static void
take_turn (struct accel *acc, int step, int steps, int every)
{
    struct accel_error err;
    bool over = step % every == 0 || step == steps;
    if (!turns.shared || !over)
        return;
    if (step)
        CHECK (accel_comm_barrier (accel_world (acc), &err));
    if (step && accel_is_main_process (acc))
        turns_end ();
    if (step < steps)
        turns_begin ();
}

/* A network that is trained by libaccel. */
struct own {
    struct network network;
    struct accel *acc;
    struct accel_model *model;
    struct accel_optimizer *optimizer;
    struct accel_dataset *data;
    struct accel_loader *loader;
    DLTensor value[TENSORS], grad[TENSORS];
    int64_t shape[TENSORS];
    const struct accel_batch *batch;
    float loss;
    double computed_us; /* the time inside the program's own functions */
};

/* A network that is trained by hand. */
struct hand {
    struct network network;
    float *memory; /* of the four arrays */
    float *value, *grad, *mean, *square, *input, *target;
    int step;
    float loss;
};

static void
make_model (struct own *own)
{
    struct network *network = &own->network;
    struct accel_parameter parameters[TENSORS];
    struct accel_error err;
    static const char *const names[TENSORS] = { "0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias" };
    for (int i = 0; i < TENSORS; i++) {
        own->shape[i] = (int64_t) network->count[i];
        own->value[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .dtype = accel_dtype_to_dl (ACCEL_FLOAT32),
                                    .shape = &own->shape[i] };
        own->grad[i] = own->value[i];
        parameters[i] = (struct accel_parameter){ names[i], &own->value[i], &own->grad[i] };
    }
    CHECK (accel_model_create (&own->model, parameters, TENSORS, &err));
    for (int i = 0; i < TENSORS; i++)
        network->value[i] = own->value[i].data;
    network_start (network);
}

/* The update of the loop by hand, as an optimizer of the program's own. */
static enum accel_status
update_by_hand (void *user, const struct accel_update *update, struct accel_error *err)
{
    (void) user;
    (void) err;
    adamw_o3 (update->parameter->data->data, update->parameter->grad->data, update->states[0]->data,
              update->states[1]->data, accel_tensor_count (update->parameter->data), (float) update->lr,
              (int) update->step);
    return ACCEL_OK;
}

static void
make_own (struct own *own, struct accel *acc, size_t parameters, bool same_update, unsigned threads)
{
    static const char *const states[] = { "mean", "square" };
    struct accel_error err;
    *own = (struct own){ .acc = acc };
    struct network *network = &own->network;
    network_make (network, parameters);
    make_model (own);
    const struct accel_custom_optimizer custom
        = { .lr = 1e-3, .state_names = states, .state_count = 2, .step = update_by_hand };
    if (same_update)
        CHECK (accel_optimizer_create_custom (&own->optimizer, own->model, &custom, &err));
    else
        CHECK (accel_optimizer_create (&own->optimizer, own->model, ACCEL_ADAMW,
                                       &(struct accel_optimizer_options){ .threads = threads }, &err));
    const struct accel_field fields[] = {
        { .name = "input", .dtype = ACCEL_FLOAT32, .ndim = 1, .shape = { network->width[0] } },
        { .name = "target", .dtype = ACCEL_FLOAT32, .ndim = 1, .shape = { network->width[LAYERS] } },
    };
    const void *const arrays[] = { network->inputs, network->targets };
    const struct accel_loader_options options = { .batch_size = (size_t) network->batch };
    CHECK (accel_dataset_from_arrays (&own->data, fields, arrays, 2, SAMPLES, &err));
    CHECK (accel_loader_create (&own->loader, own->data, &options, &err));
    CHECK (accel_prepare (acc, &err, own->model, own->optimizer, own->loader));
    for (int i = 0; i < TENSORS; i++)
        network->grad[i] = own->grad[i].data;
}

static void
free_own (struct own *own)
{
    accel_loader_destroy (own->loader);
    accel_dataset_close (own->data);
    accel_optimizer_destroy (own->optimizer);
    accel_model_destroy (own->model);
    network_free (&own->network);
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    struct own *own = user;
    (void) err;
    double began = now_us ();
    own->loss = network_gradients (&own->network, accel_batch_tensor (own->batch, "input")->data,
                                   accel_batch_tensor (own->batch, "target")->data, own->network.batch, scale);
    own->computed_us += now_us () - began;
    return ACCEL_OK;
}

/* @return the microseconds that averaging took */
static double
step_own (struct own *own)
{
    struct accel_error err;
    if (!accel_loader_next (own->loader, &own->batch, &err) && !err.code)
        accel_loader_next (own->loader, &own->batch, &err); /* the next epoch */
    check (err.code, &err, "accel_loader_next");
    double began = now_us (), computed = own->computed_us;
    CHECK (accel_backward (own->acc, own->model, own->loss, backward, own, &err));
    double took = now_us () - began - (own->computed_us - computed);
    CHECK (accel_optimizer_step (own->optimizer, &err));
    CHECK (accel_optimizer_zero_grad (own->optimizer, &err));
    return took;
}

/* The four arrays of a loop by hand: as malloc() places them, or as libaccel does, in huge pages and each at another
 * place of a page. */
static void
place_hand (struct hand *hand, size_t count, bool by_malloc)
{
    if (by_malloc) {
        hand->value = floats (count);
        hand->grad = floats (count);
        hand->mean = floats (count);
        hand->square = floats (count);
        return;
    }
    size_t each = (count * sizeof (float) + PAGE - 1) / PAGE * PAGE + STAGGER, bytes = 4 * each;
    void *memory = NULL;
    if (posix_memalign (&memory, HUGE_PAGE, bytes))
        abort ();
    if (count * sizeof (float) >= HUGE_PAGE)
        (void) madvise (memory, bytes, MADV_HUGEPAGE);
    hand->memory = memset (memory, 0, bytes);
    hand->value = hand->memory;
    hand->grad = hand->value + each / sizeof (float);
    hand->mean = hand->grad + each / sizeof (float);
    hand->square = hand->mean + each / sizeof (float);
}

static void
make_hand (struct hand *hand, size_t parameters, bool by_malloc)
{
    *hand = (struct hand){ 0 };
    struct network *network = &hand->network;
    network_make (network, parameters);
    size_t all = network->parameters, at = 0;
    place_hand (hand, all, by_malloc);
    hand->input = floats ((size_t) network->batch * (size_t) network->width[0]);
    hand->target = floats ((size_t) network->batch * (size_t) network->width[LAYERS]);
    for (int i = 0; i < TENSORS; at += network->count[i++]) {
        network->value[i] = hand->value + at;
        network->grad[i] = hand->grad + at;
    }
    network_start (network);
}

static void
free_hand (struct hand *hand)
{
    float *arrays[] = { hand->value, hand->grad, hand->mean, hand->square };
    for (size_t i = 0; !hand->memory && i < sizeof arrays / sizeof *arrays; i++)
        free (arrays[i]);
    free (hand->memory);
    free (hand->input);
    free (hand->target);
    network_free (&hand->network);
}

static void
step_hand (struct hand *hand)
{
    struct network *network = &hand->network;
    size_t in = (size_t) network->width[0], out = (size_t) network->width[LAYERS], batch = (size_t) network->batch;
    size_t first = (size_t) hand->step * batch % SAMPLES;
    for (size_t s = 0; s < batch; s++) { /* a batch is copied together, because its samples are scattered */
        memcpy (hand->input + s * in, network->inputs + (first + s) * in, in * sizeof (float));
        memcpy (hand->target + s * out, network->targets + (first + s) * out, out * sizeof (float));
    }
    hand->loss = network_gradients (network, hand->input, hand->target, network->batch, 1);
    hand->step++;
    adamw_o3 (hand->value, hand->grad, hand->mean, hand->square, network->parameters, 1e-3F, hand->step);
    memset (hand->grad, 0, network->parameters * sizeof (float));
}

/* Blocks of some 20 ms by all three in turns, in each of the six orders as often, so that whatever else the machine
 * does hits all of them, and what one leaves in the caches is found by each other as often. */
static void
measure_blocks (struct hand *hand, struct own *own, struct own *same, int steps, int blocks, double *const *times)
{
    static const int orders[][3] = { { 0, 1, 2 }, { 2, 1, 0 }, { 1, 2, 0 }, { 0, 2, 1 }, { 2, 0, 1 }, { 1, 0, 2 } };
    for (int block = 0; block < blocks; block++) {
        take_turn (own->acc, block, blocks, 1);
        for (int i = 0; i < 3; i++) {
            int peer = orders[block % 6][i];
            double began = now_us ();
            for (int step = 0; step < steps; step++)
                if (!peer)
                    step_hand (hand);
                else
                    step_own (peer == 1 ? own : same);
            times[peer][block] = (now_us () - began) / steps;
        }
    }
    take_turn (own->acc, blocks, blocks, 1);
}

static void
measure_step (struct accel *acc, size_t parameters, int blocks, bool by_malloc)
{
    struct own own, same;
    struct hand hand;
    make_own (&own, acc, parameters, false, 0);
    make_own (&same, acc, parameters, true, 0);
    make_hand (&hand, parameters, by_malloc);
    size_t count = hand.network.parameters;
    double *times[3], began = now_us ();
    for (int i = 0; i < 3; i++)
        times[i] = must (calloc ((size_t) blocks + 1, sizeof **times));
    step_hand (&hand);
    int steps = (int) (BLOCK_US / (now_us () - began)) + 1;
    for (int i = 1; i < steps; i++)
        step_hand (&hand);
    for (int i = 0; i < steps; i++) {
        step_own (&own);
        step_own (&same);
    }
    measure_blocks (&hand, &own, &same, steps, blocks, times);
    print_times ("hand", count, times[0], (size_t) blocks);
    print_times ("own", count, times[1], (size_t) blocks);
    print_times ("same-update", count, times[2], (size_t) blocks);
    printf ("loss-hand %zu %.7g\nloss-own %zu %.7g\nloss-same-update %zu %.7g\n", count, (double) hand.loss, count,
            (double) own.loss, count, (double) same.loss);
    for (int i = 0; i < 3; i++)
        free (times[i]);
    free_own (&own);
    free_own (&same);
    free_hand (&hand);
}

static void
measure_several (struct accel *acc, size_t parameters, int steps)
{
    struct own own;
    struct accel_error err;
    double *times = must (calloc ((size_t) steps + 1, sizeof *times)), reduced = 0;
    make_own (&own, acc, parameters, false, 0);
    for (int step = 0; step < steps; step++) {
        take_turn (acc, step, steps, TURN_STEPS);
        double began = now_us ();
        reduced += step_own (&own);
        times[step] = now_us () - began;
    }
    take_turn (acc, steps, steps, TURN_STEPS);
    CHECK (accel_comm_all_reduce (accel_world (acc), &own.loss, &own.loss, 1, ACCEL_FLOAT32, ACCEL_AVG, &err));
    size_t count = own.network.parameters;
    if (accel_is_main_process (acc)) {
        print_times ("own", count, times + 2, (size_t) steps - 2);
        printf ("loss-own %zu %.7g\nreduce-own %zu %.3f\n", count, (double) own.loss, count, reduced / steps);
    }
    free (times);
    free_own (&own);
}

/* The memory accesses of AdamW and nothing else: no loop that reads four arrays and writes three is faster. */
__attribute__ ((noinline)) static void
only_memory (float *restrict value, const float *restrict grad, float *restrict mean, float *restrict square,
             size_t count)
{
    typedef float lanes __attribute__ ((vector_size (16), aligned (4), may_alias));
    for (size_t i = 0; i + 4 <= count; i += 4) {
        lanes g = *(const lanes *) (grad + i);
        *(lanes *) (mean + i) += g;
        *(lanes *) (square + i) += g;
        *(lanes *) (value + i) += g;
    }
}

struct stretch {
    struct hand *hand;
    size_t begin, end;
};

static void *
touch_stretch (void *user)
{
    struct stretch *s = user;
    only_memory (s->hand->value + s->begin, s->hand->grad + s->begin, s->hand->mean + s->begin,
                 s->hand->square + s->begin, s->end - s->begin);
    return NULL;
}

/* By as many threads as libaccel and torch have, which begin with each step. */
static void
touch_all (struct hand *hand, size_t count, int threads)
{
    enum { MOST = 64 };
    pthread_t started[MOST];
    struct stretch all[MOST];
    if (threads > MOST)
        threads = MOST;
    for (int i = threads; i-- > 0;) {
        all[i] = (struct stretch){ hand, count / (size_t) threads * (size_t) i,
                                   i + 1 < threads ? count / (size_t) threads * (size_t) (i + 1) : count };
        if (i && pthread_create (&started[i], NULL, touch_stretch, &all[i]))
            abort ();
    }
    touch_stretch (&all[0]);
    for (int i = 1; i < threads; i++)
        pthread_join (started[i], NULL);
}

enum { OWN, O3, NATIVE, FAST, MEMORY, PEERS };

/* Gradients differ from step to step; they come from the cache as far as they fit, as after a backward pass. */
static void
fill (float *grad, size_t count, int step)
{
    for (size_t i = 0; i < count; i++)
        grad[i] = (float) ((i + (size_t) step * 7) % 61) * 1e-3F - 0.03F;
}

static void
measure_adamw (struct accel *acc, size_t parameters, int steps, int threads)
{
    static const char *const names[PEERS] = { "own", "plain-O3", "plain-native", "plain-fast-math", "memory-only" };
    static plain_adamw *const plain[PEERS] = { NULL, adamw_o3, adamw_native, adamw_fast, NULL };
    struct own own;
    struct hand hand;
    struct accel_error err;
    double *times[PEERS];
    make_own (&own, acc, parameters, false, (unsigned) threads);
    make_hand (&hand, parameters, false);
    size_t count = hand.network.parameters;
    for (int i = 0; i < PEERS; i++)
        times[i] = must (calloc ((size_t) steps + 2, sizeof **times));
    for (int step = 0; step < steps + 2; step++) {
        take_turn (acc, step, steps + 2, TURN_STEPS);
        for (int i = 0; i < PEERS; i++) {
            int peer = (step + i) % PEERS;
            for (int t = 0; peer == OWN && t < TENSORS; t++)
                fill (own.network.grad[t], own.network.count[t], step);
            if (peer != OWN)
                fill (hand.grad, count, step);
            double began = now_us ();
            if (peer == OWN)
                CHECK (accel_optimizer_step (own.optimizer, &err));
            else if (peer == MEMORY)
                touch_all (&hand, count, threads);
            else
                plain[peer] (hand.value, hand.grad, hand.mean, hand.square, count, 1e-3F, step + 1);
            times[peer][step] = now_us () - began;
        }
    }
    take_turn (acc, steps + 2, steps + 2, TURN_STEPS);
    for (int i = 0; i < PEERS; i++) {
        print_times (names[i], count, times[i] + 2, (size_t) steps);
        free (times[i]);
    }
    free_own (&own);
    free_hand (&hand);
}

/* ---- a backward pass on something else than this processor, as a GPU is: it only takes time ---- */

enum { LAYERS_OVERLAPPED = 40, LAYER_NS = 1000000 };

struct elsewhere {
    struct accel_model *model;
    DLTensor value[LAYERS_OVERLAPPED], grad[LAYERS_OVERLAPPED];
    int64_t shape;
};

static enum accel_status
compute_elsewhere (void *user, float scale, struct accel_error *err)
{
    struct elsewhere *elsewhere = user;
    for (int i = LAYERS_OVERLAPPED; i-- > 0;) {
        nanosleep (&(struct timespec){ .tv_nsec = LAYER_NS }, NULL);
        *(float *) elsewhere->grad[i].data = scale;
        enum accel_status status = elsewhere->model ? accel_grad_ready (elsewhere->model, (size_t) i, err) : ACCEL_OK;
        if (status)
            return status;
    }
    return ACCEL_OK;
}

static void
make_elsewhere (struct elsewhere *elsewhere, struct accel *acc, size_t parameters, enum accel_overlap overlap)
{
    struct accel_parameter list[LAYERS_OVERLAPPED];
    static char names[LAYERS_OVERLAPPED][8];
    const struct accel_ddp_options options = { .overlap = overlap };
    struct accel_error err;
    elsewhere->shape = (int64_t) (parameters / LAYERS_OVERLAPPED);
    for (int i = 0; i < LAYERS_OVERLAPPED; i++) {
        snprintf (names[i], sizeof names[i], "%d", i);
        elsewhere->value[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 1, .shape = &elsewhere->shape,
                                          .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        elsewhere->grad[i] = elsewhere->value[i];
        list[i] = (struct accel_parameter){ names[i], &elsewhere->value[i], &elsewhere->grad[i] };
    }
    CHECK (accel_model_create (&elsewhere->model, list, LAYERS_OVERLAPPED, &err));
    CHECK (accel_model_set_ddp (elsewhere->model, &options, &err));
    CHECK (accel_prepare (acc, &err, elsewhere->model));
}

/* In turns: the pass alone, averaging during it, and averaging after it. */
static void
measure_overlap (struct accel *acc, size_t parameters, int steps)
{
    static const char *const names[] = { "pass-alone", "during", "after" };
    enum { WAYS = 3 };
    struct elsewhere ways[WAYS] = { { NULL } };
    double *times[WAYS];
    struct accel_error err;
    make_elsewhere (&ways[1], acc, parameters, ACCEL_OVERLAP_ALWAYS);
    make_elsewhere (&ways[2], acc, parameters, ACCEL_OVERLAP_NEVER);
    memcpy (ways[0].grad, ways[1].grad, sizeof ways[0].grad);
    for (int i = 0; i < WAYS; i++)
        times[i] = must (calloc ((size_t) steps + 1, sizeof **times));
    for (int step = 0; step < steps; step++) {
        take_turn (acc, step, steps, TURN_STEPS);
        for (int i = 0; i < WAYS; i++) {
            int way = (step + i) % WAYS;
            CHECK (accel_comm_barrier (accel_world (acc), &err));
            double began = now_us ();
            if (!way)
                CHECK (compute_elsewhere (&ways[0], 1, &err));
            else
                CHECK (accel_backward (acc, ways[way].model, 0, compute_elsewhere, &ways[way], &err));
            times[way][step] = now_us () - began;
        }
    }
    take_turn (acc, steps, steps, TURN_STEPS);
    for (int i = 0; i < WAYS; i++) {
        if (accel_is_main_process (acc))
            print_times (names[i], parameters, times[i] + 1, (size_t) steps - 1);
        free (times[i]);
        accel_model_destroy (ways[i].model);
    }
}

int
main (int argc, char **argv)
{
    struct accel *acc;
    struct accel_error err;
    size_t parameters = argc > 2 ? strtoul (argv[2], NULL, 10) : 0;
    int steps = argc > 3 ? atoi (argv[3]) : 0, threads = argc > 4 ? atoi (argv[4]) : 1;
    bool by_malloc = argc > 4 && !strcmp (argv[4], "malloc");
    static const char *const modes[] = { "step", "several", "adamw", "overlap" };
    int mode = 0;
    while (mode < 4 && steps && strcmp (argv[1], modes[mode]))
        mode++;
    if (steps < 3 || mode == 4) {
        fprintf (stderr, "usage: bench_train step|several|adamw|overlap PARAMETERS STEPS [THREADS|malloc]\n");
        return 2;
    }
    turns_open ();
    CHECK (accel_open (&acc, &(struct accel_options){ .cpu = true }, &err));
    if (turns.shared && mode == 1)
        turns_bind (accel_process_index (acc));
    if (mode == 0)
        measure_step (acc, parameters, steps, by_malloc);
    else if (mode == 1)
        measure_several (acc, parameters, steps);
    else if (mode == 3)
        measure_overlap (acc, parameters, steps);
    else
        measure_adamw (acc, parameters, steps, threads);
    accel_close (acc);
    return 0;
}
