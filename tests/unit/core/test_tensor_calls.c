/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives on tensors and trees at their edges, with an engine of the test's own: what the engine gets, what ranks
 * compare, and what is left after a failure. */
#include <config.h>

#include "lib/collectives/tensors.h"
#include "lib/comm/coalesce.h"
#include "lib/memory/memory.h"
#include "lib/state/state_object.h"
#include "tests/balance.h"
#include "tests/unit/core/trial_engine.h"

#include <accel/collectives.h>
#include <accel/comm.h>
#include <accel/loader.h>
#include <accel/train.h>
#include <accel/work.h>

/* ---- the host's memory, counted ---- */

static struct memory counted_memory;
static int live;
static int creates_left = -1; /* the one after this many fails */

static void *
create (DLDevice device, size_t bytes, bool zeroed)
{
    if (creates_left >= 0 && creates_left-- == 0)
        return NULL;
    void *made = memory_host.create (device, bytes, zeroed);
    live += !!made;
    return made;
}

static void
destroy (DLDevice device, void *memory)
{
    live -= !!memory;
    memory_host.destroy (device, memory);
}

static void
count_memory (void)
{
    counted_memory = memory_host;
    counted_memory.create = create;
    counted_memory.destroy = destroy;
    memory_register (kDLCPU, &counted_memory);
}

/* ---- tensors ---- */

struct trial_tensor {
    DLTensor dl;
    int64_t shape[2], strides[2];
};

/* Without @second, of one dimension; without @stride, contiguous. */
static struct trial_tensor *
tensor (void *data, int64_t first, int64_t second, int64_t stride)
{
    static struct trial_tensor made[4];
    static unsigned next;
    struct trial_tensor *it = &made[next++ % 4];
    *it = (struct trial_tensor){
        .dl = { .data = data, .device = { .device_type = kDLCPU }, .ndim = second < 0 ? 1 : 2,
                .dtype = { .code = kDLFloat, .bits = 32, .lanes = 1 } },
        .shape = { first, second },
        .strides = { stride, 1 },
    };
    it->dl.shape = it->shape;
    it->dl.strides = stride ? it->strides : NULL;
    return it;
}

static struct accel_tree *
tree_of (DLTensor *first, DLTensor *second)
{
    struct accel_tree *list, *item;
    rank_must (accel_tree_create (&list, ACCEL_TREE_LIST, &err), &err);
    for (int i = 0; i < 2; i++) {
        rank_must (accel_tree_borrow_tensor (&item, i ? second : first, &err), &err);
        rank_must (accel_tree_append (list, item, &err), &err);
    }
    return list;
}

static void
test_forms (struct accel *acc)
{
    (void) acc;
    float values[16] = { 0 };
    right (comm_is_plain (&tensor (values, 0, 3, 7)->dl), "an empty tensor has to be contiguous");
    right (!comm_is_plain (&tensor (values, 2, 3, 7)->dl), "rows with room between them are contiguous");
    right (!comm_has_doubles (&tensor (values, 1, 3, 0)->dl), "a tensor without strides has doubles");
    struct trial_tensor *one = tensor (values, 1, 3, 1);
    one->strides[0] = 0;
    right (!comm_has_doubles (&one->dl), "a dimension of one has doubles");
    one->shape[0] = 2;
    right (comm_has_doubles (&one->dl), "a dimension of two with stride 0 has no doubles");
}

/* ---- gather ---- */

static void
test_gather (struct accel *acc)
{
    enum { ROWS = 2, COLUMNS = 3, STRIDE = 5, OFFSET = 4 };
    float values[32], small[1] = { 1 };
    int rank = accel_process_index (acc);
    struct accel_tensor out = { .owned_bytes = 0 };
    for (int i = 0; i < 32; i++)
        values[i] = (float) i;
    count_memory ();
    try_on (accel_world (acc), false);
    rank_must (accel_gather (&out, acc, &tensor (small, 1, -1, 0)->dl, &err), &err);
    right (live == 1, "%d outputs", live);
    DLTensor *strided = &tensor (values, ROWS, COLUMNS, STRIDE)->dl;
    strided->byte_offset = OFFSET * sizeof *values;
    rank_must (accel_gather (&out, acc, strided, &err), &err);
    right (live == 1, "%d outputs: the old one stays", live);
    const float *sent = trial_call.send;
    right (sent == (const float *) out.dl.data + rank * ROWS * COLUMNS, "rank %d sends another row", rank);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        int wanted = OFFSET + i / COLUMNS * STRIDE + i % COLUMNS;
        right ((int) sent[i] == wanted, "element %d is %g instead of %d", i, (double) sent[i], wanted);
    }
    right (trial_form.tensor == strided, "the shape is not compared");
    asked ("rr");
    DLTensor *huge = &tensor (values, INT64_MAX / 2 + 1, -1, 0)->dl;
    huge->dtype = (DLDataType){ .code = kDLUInt, .bits = 8, .lanes = 1 };
    rank_fails (accel_gather (&out, acc, huge, &err), ACCEL_ERR_INVALID, &err,
                "the result is too large: size overflows");
    accel_tensor_release (&out);
    out = (struct accel_tensor){ .dl = { .data = small } };
    rank_fails (accel_gather (&out, acc, strided, &err), ACCEL_ERR_INVALID, &err, "memory that it does not own");
    asked ("");
    right (!live, "%d outputs stay", live);
}

static void
test_metrics (struct accel *acc)
{
    float value[1] = { 1 };
    struct accel_tensor out = { .owned_bytes = 0 };
    try_on (accel_world (acc), false);
    rank_fails (accel_gather_for_metrics (&out, acc, NULL, &err), ACCEL_ERR_INVALID, &err,
                "accel_gather_for_metrics: tensor is NULL");
    rank_fails (accel_gather_for_metrics (NULL, acc, &tensor (value, 1, -1, 0)->dl, &err), ACCEL_ERR_INVALID, &err,
                "accel_gather_for_metrics: out is NULL");
    asked ("");
}

static enum accel_status
read_index (void *user, size_t index, void *const *into, struct accel_error *why)
{
    (void) user, (void) why;
    *(float *) into[0] = (float) index;
    return ACCEL_OK;
}

/* One row of each rank, where the last batches of the loader have seven. */
static void
test_fewer_rows (struct accel *acc)
{
    static const struct accel_field field = { "x", ACCEL_FLOAT32, 0, { 0 } };
    const struct accel_dataset dataset = { 7, &field, 1, read_index, NULL, NULL };
    const struct accel_loader_options options = { .batch_size = 4 };
    float value[1] = { 1 };
    struct accel_tensor out = { .owned_bytes = 0 };
    struct accel_loader *loader;
    const struct accel_batch *batch;
    rank_must (accel_loader_create (&loader, &dataset, &options, &err), &err);
    rank_must (accel_prepare (acc, &err, loader), &err);
    right (accel_loader_next (loader, &batch, &err) && accel_loader_remainder (loader) == 7, "no remainder of 7");
    rank_must (accel_gather_for_metrics (&out, acc, &tensor (value, 1, -1, 0)->dl, &err), &err);
    right (out.dl.shape[0] == 2, "%d rows of 2", (int) out.dl.shape[0]);
    accel_tensor_release (&out);
    accel_loader_destroy (loader);
}

/* ---- calls that belong together ---- */

static void
test_together (struct accel *acc)
{
    struct accel_comm *comm = accel_world (acc);
    const struct comm_site site = { __FILE__, __LINE__, JOBSEG_CALL_BROADCAST };
    struct comm_coalesced coalesced;
    uint8_t byte = 0;
    try_on (comm, true);
    comm_coalesce_begin (&coalesced, comm);
    for (int i = 0; i < COMM_COALESCE_MAX; i++) {
        rank_must (comm_broadcast (comm, comm_coalesce_site (&coalesced, &site), &byte, 1, ACCEL_UINT8, 0, &err), &err);
        asked ("s");
    }
    rank_must (comm_broadcast (comm, comm_coalesce_site (&coalesced, &site), &byte, 1, ACCEL_UINT8, 0, &err), &err);
    right (coalesced.count == 1, "%d calls in flight after the one for which there was no room", coalesced.count);
    right (strspn (journal, "w") == sizeof journal - 1, "not waited for: %s", journal); /* and the next call */
    memset (journal, 0, sizeof journal);
    rank_must (comm_coalesce_end (&coalesced, ACCEL_OK, &err), &err);
    asked ("w");
}

/* ---- in place ---- */

static void
test_in_place (struct accel *acc)
{
    float values[16] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    count_memory ();
    try_on (accel_world (acc), false);
    rank_must (accel_reduce (acc, &tensor (values, 2, -1, 0)->dl, ACCEL_SUM, 0.5, &err), &err);
    right ((int) (values[0] * 2) == 1 && (int) values[1] == 1, "scaled: %g, %g", (double) values[0],
           (double) values[1]);
    right (trial_form.argument == COMM_SCALE && (int) (trial_form.value * 2) == 1, "the scale is not compared");
    rank_must (accel_reduce (acc, &tensor (values, 2, 3, 5)->dl, ACCEL_SUM, 1, &err), &err);
    right (!live, "%d copies stay", live);
    rank_fails (accel_broadcast (acc, NULL, 0, &err), ACCEL_ERR_INVALID, &err, "accel_broadcast at ");
    asked ("rr");
    run_status = ACCEL_ERR_PEER;
    values[1] = 1;
    rank_fails (accel_reduce (acc, &tensor (values, 2, -1, 0)->dl, ACCEL_SUM, 0.5, &err), ACCEL_ERR_PEER, &err,
                "the trial fails");
    right ((int) values[1] == 1, "scaled after a failure: %g", (double) values[1]);
}

/* ---- trees ---- */

static void
test_no_memory (struct accel *acc)
{
    float values[2] = { 1, 2 };
    struct accel_tree *tree, *made;
    count_memory ();
    try_on (accel_world (acc), false);
    tree = tree_of (&tensor (values, 1, -1, 0)->dl, &tensor (values, 2, -1, 0)->dl);
    long before = blocks;
    creates_left = 1;
    rank_fails (accel_tree_gather (&made, acc, tree, &err), ACCEL_ERR_NOMEM, &err, "cannot allocate");
    asked ("r");
    right (!made && blocks == before, "%ld blocks of memory stay", blocks - before);
    rank_fails (accel_comm_barrier (accel_world (acc), &err), ACCEL_ERR_PEER, &err,
                "cannot allocate memory for a tensor");
    accel_tree_destroy (tree);
}

static void
test_tree_fails (struct accel *acc)
{
    float values[2] = { 1, 2 };
    struct accel_tree *tree, *made;
    try_on (accel_world (acc), false);
    run_status = ACCEL_ERR_PEER;
    tree = tree_of (&tensor (values, 1, -1, 0)->dl, &tensor (values, 2, -1, 0)->dl);
    rank_fails (accel_tree_reduce (&made, acc, tree, ACCEL_SUM, 1, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    long before = blocks;
    rank_fails (accel_tree_reduce (&made, acc, tree, ACCEL_SUM, 1, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    rank_fails (accel_tree_gather (&made, acc, tree, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    right (blocks == before, "%ld blocks of memory stay", blocks - before);
    accel_tree_destroy (tree);
}

/* With the ranks' own engine. */
static void
test_messages (struct accel *acc)
{
    float values[2] = { 1, 2 };
    long before = 0;
    for (int round = 0; round < 2; round++) {
        struct accel_tree *tree;
        before = blocks;
        if (accel_process_index (acc)) {
            rank_must (accel_tree_recv (&tree, acc, 0, &err), &err);
            right (accel_tree_length (tree) == 2, "%zu items", accel_tree_length (tree));
        } else {
            tree = tree_of (&tensor (values, 1, -1, 0)->dl, &tensor (values, 2, -1, 0)->dl);
            rank_must (accel_tree_send (acc, tree, 1, &err), &err);
        }
        accel_tree_destroy (tree);
    }
    right (blocks == before, "%ld blocks of memory stay", blocks - before);
}

/* ---- padding ---- */

static void
test_pad (struct accel *acc)
{
    float values[6] = { 1, 2, 3, 4, 5, 6 };
    struct accel_tensor out = { .owned_bytes = 0 };
    count_memory ();
    try_on (accel_world (acc), false);
    for (int round = 0; round < 2; round++) {
        rank_must (accel_pad_across_processes (&out, acc, &tensor (values, 2, 3, 0)->dl, 5, 0, false, &err), &err);
        right (out.dl.ndim == 2 && out.shape[1] == 3 && !memcmp (out.dl.data, values, sizeof values), "another tensor");
        right (live == 1, "%d outputs", live);
    }
    asked ("");
    accel_tensor_release (&out);
    out.dl.data = values;
    rank_fails (accel_pad_across_processes (&out, acc, &tensor (values, 2, 3, 0)->dl, 0, 0, false, &err),
                ACCEL_ERR_INVALID, &err, "the output holds memory that it does not own");
    asked ("");
}

/* ---- debug mode ---- */

static enum { GATHER, GATHER_FOR_METRICS, ALL_TO_ALL, TREE_GATHER, TREE_PAD } debugged;

/* What ranks compare are texts; padding compares nothing, and begins with sizes. */
static void
test_debug (struct accel *acc)
{
    float values[4] = { 1, 2, 3, 4 };
    DLTensor *it = &tensor (values, 4, -1, 0)->dl;
    struct accel_tensor out = { .owned_bytes = 0 };
    struct accel_tree *made, *tree = tree_of (it, it);
    enum accel_status status = ACCEL_OK;
    acc->debug = true;
    run_status = ACCEL_ERR_PEER;
    try_on (accel_world (acc), false);
    switch (debugged) {
    case GATHER: status = accel_gather (&out, acc, it, &err); break;
    case GATHER_FOR_METRICS: status = accel_gather_for_metrics (&out, acc, it, &err); break;
    case ALL_TO_ALL: status = accel_all_to_all (&out, acc, it, &err); break;
    case TREE_GATHER: status = accel_tree_gather (&made, acc, tree, &err); break;
    case TREE_PAD: status = accel_tree_pad_across_processes (&made, acc, tree, 0, 0, false, &err); break;
    }
    rank_fails (status, ACCEL_ERR_PEER, &err, "the trial fails");
    asked ("r");
    right (trial_call.dtype != ACCEL_FLOAT32, "the data come first");
    right ((trial_form.argument == COMM_DIM) == (debugged == TREE_PAD), "it begins with argument %d",
           (int) trial_form.argument);
    accel_tensor_release (&out);
    accel_tree_destroy (tree);
}

/* ---- who goes first ---- */

static void
run (void *user)
{
    (void) user;
    note ('x');
}

/* All are the first of their host here. */
static void
test_first (struct accel *acc)
{
    bool main = !accel_process_index (acc);
    acc->identity.local_rank = 0;
    try_on (accel_world (acc), false);
    rank_must (accel_main_process_first (acc, run, NULL, &err), &err);
    asked (main ? "xr" : "rx");
    rank_must (accel_local_main_process_first (acc, run, NULL, &err), &err);
    asked ("xr");
    run_status = ACCEL_ERR_PEER;
    rank_fails (accel_main_process_first (acc, run, NULL, &err), ACCEL_ERR_PEER, &err, "the trial fails");
    asked (main ? "xr" : "r");
}

/* ---- starts ---- */

static void
test_no_place (struct accel *acc)
{
    struct accel_comm *world = accel_world (acc);
    float values[4] = { 1, 2, 3, 4 }, more[4];
    try_on (world, false);
    rank_fails (accel_comm_broadcast_start (NULL, world, values, 2, ACCEL_FLOAT32, 0, &err), ACCEL_ERR_INVALID, &err,
                "accel_comm_broadcast_start at ");
    rank_fails (accel_comm_all_to_all_start (NULL, world, values, more, 2, ACCEL_FLOAT32, &err), ACCEL_ERR_INVALID,
                &err, "accel_comm_all_to_all_start at ");
    asked ("");
}

int
main (void)
{
    setenv (ENV_TIMEOUT_MS, "300000", 1);
    as_ranks (1, "forms of tensors", test_forms);
    as_ranks (2, "gather", test_gather);
    as_ranks (2, "gather for metrics of nothing", test_metrics);
    as_ranks (2, "gather for metrics of fewer rows than remain", test_fewer_rows);
    as_ranks (2, "more calls together than there is room for", test_together);
    as_ranks (2, "reductions in place", test_in_place);
    as_ranks (2, "a tree without memory for its second tensor", test_no_memory);
    as_ranks (2, "what a failure leaves of a tree", test_tree_fails);
    as_ranks (2, "what messages leave", test_messages);
    as_ranks (2, "padding along a dimension that does not exist", test_pad);
    static const char *const names[] = { "gather", "gather for metrics", "all-to-all", "trees", "trees to be padded" };
    for (debugged = GATHER; debugged <= TREE_PAD; debugged++)
        as_ranks (2, names[debugged], test_debug);
    as_ranks (2, "who goes first", test_first);
    as_ranks (2, "starts without a place for the work", test_no_place);
    return done_testing ();
}
