/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of reducer_faults.sh: `reducer_faults SCENARIO`; rank 1 of 3 dies, fails or hangs in its backward pass.  A
 * rank that gets the error of the table prints "rank N: as expected"; the launcher's SIGTERM is ignored, so that all
 * have their say.  ACCEL_TIMEOUT_MS replaces the timeout where it hangs: the start of all ranks has to fit into it. */
#include <config.h>

#include "tests/fault/meet.h"

#include <accel/accel.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LAYERS = 6, ROWS = 40, VICTIM = 1, DEADLINE_S = 900, AT = 3 };

enum fate { DIES, FAILS, FORGETS, HANGS, SPOILS, SPOILS_UNREPORTED };

static const struct scenario {
    const char *name;
    enum fate fate;
    int at; /* layer; LAYERS: before the pass */
    enum accel_overlap overlap;
    enum accel_comm_hook hook;
    bool early; /* the others get the error from accel_grad_ready() */
    const char *text; /* of the others' error, beside the victim's rank */
} scenarios[] = {
    { "dies-before", DIES, LAYERS, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, false, "killed" },
    { "dies-in-flight", DIES, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, false, "killed" },
    { "dies-in-flight-early", DIES, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, true, "killed" },
    { "dies-half", DIES, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_FP16, true, "killed" },
    { "dies-power-sgd", DIES, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_POWER_SGD, true, "killed" },
    { "dies-no-thread", DIES, AT, ACCEL_OVERLAP_NEVER, ACCEL_COMM_HOOK_NONE, false, "killed" },
    { "fails", FAILS, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, true, "disk on fire" },
    { "fails-no-thread", FAILS, AT, ACCEL_OVERLAP_NEVER, ACCEL_COMM_HOOK_BF16, false, "disk on fire" },
    { "forgets", FORGETS, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, false, "'layer 3' was not reported" },
    { "spoils", SPOILS, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, false,
      "the gradient of 'layer 3' is NaN at element 1205 on rank 1, before averaging" },
    { "spoils-unreported", SPOILS_UNREPORTED, AT, ACCEL_OVERLAP_NEVER, ACCEL_COMM_HOOK_BF16, false,
      "'layer 3' is NaN at element 1205 on rank 1, before averaging (the first of 2 such gradients among 6)" },
    { "hangs", HANGS, AT, ACCEL_OVERLAP_ALWAYS, ACCEL_COMM_HOOK_NONE, true, "" },
};

static const struct scenario *scenario;
static struct accel_model *model;
static bool is_victim, armed, told_early;
static int rank;

static enum accel_status
meet_fate (struct accel_error *err)
{
    usleep (100000); /* the buckets before this one are reduced, the others wait in the next */
    if (scenario->fate == DIES)
        raise (SIGKILL);
    if (scenario->fate == HANGS) {
        meet_wait ("told", 3, VICTIM);
        _exit (0);
    }
    snprintf (err->text, sizeof err->text, "disk on fire");
    return ACCEL_ERR_SYSTEM;
}

static enum accel_status
backward (void *user, float scale, struct accel_error *err)
{
    DLTensor *grads = user;
    (void) scale;
    for (int i = LAYERS; i-- > 0;) {
        for (int j = 0; j < ROWS * ROWS; j++)
            ((float *) grads[i].data)[j] = (float) (i + j % 7);
        if (armed && is_victim && scenario->fate == SPOILS_UNREPORTED && i == LAYERS - 1)
            ((float *) grads[i].data)[7] = INFINITY; /* the second that is named nowhere, only counted */
        if (armed && is_victim && i == scenario->at) {
            meet_wait ("pass", 3, VICTIM);
            if (scenario->fate == SPOILS || scenario->fate == SPOILS_UNREPORTED)
                ((float *) grads[i].data)[1205] = NAN;
            else if (scenario->fate != FORGETS)
                return meet_fate (err);
            else
                continue;
        }
        if (armed && !is_victim && i == scenario->at)
            meet_come ("pass", rank);
        /* Who computes for a while learns of it from a report: the first, or on a busy machine one after it. */
        if (armed && scenario->early && i < scenario->at)
            usleep (i ? 600000 : 10000000);
        if (scenario->fate == SPOILS_UNREPORTED)
            continue;
        enum accel_status status = accel_grad_ready (model, (size_t) i, err);
        if (status) {
            told_early = true;
            return status;
        }
    }
    return ACCEL_OK;
}

static bool
is_as_expected (enum accel_status status, const struct accel_error *err)
{
    enum accel_status wanted = scenario->fate == HANGS ? ACCEL_ERR_TIMEOUT : ACCEL_ERR_PEER;
    if (is_victim)
        wanted = scenario->fate == FORGETS || scenario->fate >= SPOILS ? ACCEL_ERR_INVALID : ACCEL_ERR_CALLBACK;
    /* Who waits later than another may hear that the other gave up, before its own time is over; and of a death before
     * the launcher knows its cause. */
    if (scenario->fate == HANGS && status == ACCEL_ERR_PEER && strstr (err->text, "gave up: "))
        wanted = status;
    bool is_told = strstr (err->text, scenario->text)
                   || (scenario->fate == DIES && strstr (err->text, "rank 1 ended (process"));
    return status == wanted && err->code == status && strstr (err->text, "rank 1") && is_told;
}

int
main (int argc, char **argv)
{
    static int64_t shape[] = { ROWS, ROWS };
    char names[LAYERS][16];
    DLTensor data[LAYERS], grads[LAYERS];
    struct accel_parameter parameters[LAYERS];
    struct accel_error err = { 0 };
    struct accel *acc;
    setvbuf (stdout, NULL, _IOLBF, 0);
    signal (SIGTERM, SIG_IGN);
    alarm (DEADLINE_S);
    setrlimit (RLIMIT_CORE, &(struct rlimit){ 0 });
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (argc > 1 && !strcmp (argv[1], scenarios[i].name))
            scenario = &scenarios[i];
    if (!scenario)
        return 99;
    for (int i = 0; i < LAYERS; i++) {
        snprintf (names[i], sizeof names[i], "layer %d", i);
        data[i] = (DLTensor){ .device = { kDLCPU, 0 }, .ndim = 2, .shape = shape,
                              .dtype = accel_dtype_to_dl (ACCEL_FLOAT32) };
        grads[i] = data[i];
        parameters[i] = (struct accel_parameter){ names[i], &data[i], &grads[i] };
    }
    struct accel_ddp_options options = { .bucket_cap_mb = 0.001, .overlap = scenario->overlap,
                                         .comm_hook = scenario->hook, .start_iter = 1 };
    uint32_t timeout_ms = scenario->fate != HANGS ? 200000 : getenv ("ACCEL_TIMEOUT_MS") ? 0 : 1000;
    const struct accel_options open = { .timeout_ms = timeout_ms, .check_gradients = scenario->fate == SPOILS };
    if (scenario->fate == SPOILS_UNREPORTED)
        setenv ("ACCEL_CHECK_GRADIENTS", "1", 1);
    if (accel_open (&acc, &open, &err)
        || accel_model_create (&model, parameters, LAYERS, &err) || accel_model_set_ddp (model, &options, &err)
        || accel_prepare (acc, &err, model) || accel_backward (acc, model, 0, backward, grads, &err)) {
        printf ("at first: WRONG: %s\n", err.text);
        return 3;
    }
    rank = accel_process_index (acc);
    is_victim = rank == VICTIM;
    armed = true;
    meet_come ("first", rank);
    if (is_victim && scenario->at == LAYERS) {
        meet_wait ("first", 3, VICTIM); /* a death now must not spoil their first pass */
        raise (SIGKILL);
    }
    enum accel_status status = accel_backward (acc, model, 0, backward, grads, &err);
    bool good = is_as_expected (status, &err) && accel_wait_for_everyone (acc, NULL);
    if (!is_victim && scenario->early)
        good = good && told_early;
    if (!is_victim)
        meet_come ("told", rank);
    accel_model_destroy (model);
    accel_close (acc);
    printf ("rank %d: %s: status %d: %s\n", rank, good ? "as expected" : "WRONG", (int) status, err.text);
    return 0;
}
