/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints on disks that fail: each call to the file system fails once, and what was there loads.
 *
 *   checkpoint_faults save | save-async | load | replace    with `all` after it: once for each reason; each call, not
 *                                                           each third one, is the last */
#include <config.h>

#include "tests/fault/checkpoint_world.h"

enum { MOST_CALLS = 1000 };

static int culprit;
static const int reasons[] = { EIO, ENOSPC, EACCES };
enum { REASONS = sizeof reasons / sizeof *reasons };
static int passes = 1; /* over all calls; REASONS: each of them fails for each reason */
static int stride = 5; /* of calls that are the last */

static int
count_entries (const char *path, const char *words)
{
    int count = 0;
    DIR *stream = __real_opendir (path);
    for (const struct dirent *entry; stream && (entry = readdir (stream));)
        count += strstr (entry->d_name, words) != NULL;
    if (stream)
        closedir (stream);
    return count;
}

/* The culprit's call fails from now on, or none (-1). */
static void
let_fail (long call, int reason)
{
    disk_left = ranks_self == culprit ? call : -1;
    disk_errno = reason;
}

/* @return whether the culprit has made fewer calls: all of them have failed once */
static bool
stop_failing (struct accel *acc)
{
    struct accel_error err = { 0 };
    int32_t over[] = { disk_left >= 0 };
    disk_left = -1;
    rank_must (accel_comm_broadcast (accel_world (acc), over, 1, ACCEL_INT32, culprit, &err), &err);
    return over[0];
}

/* All ranks have the same error, of one line, that names the rank. */
static void
check_error (long call, enum accel_status status, const struct accel_error *err, const char *function)
{
    const char *blamed = culprit ? "rank 1: " : "rank 0: ";
    right ((status == ACCEL_ERR_SYSTEM || status == ACCEL_ERR_FORMAT || status == ACCEL_ERR_INVALID)
               && err->code == status && !strncmp (err->text, function, strlen (function))
               && !strchr (err->text, '\n') && (ranks_self == culprit || strstr (err->text, blamed)),
           "call %ld, %s: status %d: %s", call, strerror (disk_errno), (int) status, err->text);
}

/* Every call of a save fails once: both ranks get the same error, and what was there loads. */
static void
let_saves_fail (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char checkpoints[PATH_ROOM + 16];
    int good = 0, failed = 0;
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    snprintf (checkpoints, sizeof checkpoints, "%s/checkpoints", project);
    fill (&world, 0);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    disk_reads = true;
    for (int i = 0; i < passes; i++)
        for (long call = 0; call < MOST_CALLS; call++) {
            int before = (int) accel_get_project_configuration (acc)->iteration - 1;
            fill (&world, (float) before + 1);
            let_fail (call, reasons[(call + i) % REASONS]);
            enum accel_status status = save (acc, &world, &err);
            bool over = stop_failing (acc);
            failed += status != ACCEL_OK;
            good += !status;
            if (status)
                check_error (call, status, &err, in_background ? "accel_save_state_" : "accel_save_state at");
            rank_must (accel_load_state (acc, NULL, &err), &err);
            int value = read_value (&world);
            right (value == before + !status || (status && value == before + 1), "call %ld: loaded %d after %d", call,
                   value, before);
            right (ranks_self || count_entries (checkpoints, ".tmp-") <= 2, "call %ld: temporary folders stay", call);
            right (call != MOST_CALLS - 1, "there are more calls");
            if (over)
                break;
        }
    right (failed > 10 && good > 0, "%d failed, %d went well", failed, good);
    fill (&world, 9999);
    rank_must (accel_save_state (acc, NULL, &err), &err);
    right (ranks_self || !count_entries (checkpoints, ".tmp-"), "temporary folders stay after a good save");
    accel_model_destroy (world.model);
}

/* Every call of a load fails once: an error on all ranks, or the checkpoint before; and then it loads. */
static void
let_loads_fail (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    int failed = 0, passed = 0;
    make_world (&world, acc);
    accel_set_log_level (ACCEL_LOG_CRITICAL);
    for (int i = 0; i < 2; i++) {
        fill (&world, (float) i);
        rank_must (accel_save_state (acc, NULL, &err), &err);
    }
    disk_reads = true;
    for (int i = 0; i < passes; i++)
        for (long call = 0; call < MOST_CALLS; call++) {
            fill (&world, -2);
            let_fail (call, reasons[(call + i) % REASONS]);
            enum accel_status status = accel_load_state (acc, NULL, &err);
            bool over = stop_failing (acc);
            int value = read_value (&world);
            failed += status != ACCEL_OK;
            passed += !status && value == 0;
            if (status)
                check_error (call, status, &err, "accel_load_state at");
            right (status || value == 0 || value == 1, "call %ld: loaded %d", call, value);
            rank_must (accel_load_state (acc, NULL, &err), &err);
            right (read_value (&world) == 1, "call %ld: then loaded %d", call, read_value (&world));
            right (call != MOST_CALLS - 1, "there are more calls");
            if (over)
                break;
        }
    right (failed > 2 && (culprit || passed), "%d failed, %d times the checkpoint before", failed, passed);
    accel_model_destroy (world.model);
}

static void
test_calls (void (*act) (struct accel *acc), const char *what)
{
    char text[96];
    for (culprit = 0; culprit < 2; culprit++) {
        start_round (false);
        snprintf (text, sizeof text, "each call of rank %d fails once while it %s", culprit, what);
        as_ranks (2, text, act);
    }
}

/* ---- a checkpoint that is replaced ---- */

static int saves;
static long fatal;

static void
replace (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char path[PATH_ROOM + 16];
    make_world (&world, acc);
    rank_must (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err), &err);
    snprintf (path, sizeof path, "%s/state", project);
    int from = 0;
    if (!accel_load_state (acc, path, &err))
        from = read_value (&world) + 1;
    right (from > shared->committed, "loaded %d, but %d was complete: %s", from - 1, (int) shared->committed, err.text);
    disk_left = fatal;
    for (int i = from; i < from + saves; i++) {
        fill (&world, (float) i);
        shared->trying = i;
        rank_must (accel_save_state (acc, path, &err), &err);
        shared->committed = i;
    }
    shared->calls[0] = disk_calls;
    accel_model_destroy (world.model);
}

static void
look (struct accel *acc)
{
    struct world world;
    struct accel_error err = { 0 };
    char path[PATH_ROOM];
    make_world (&world, acc);
    rank_must (accel_set_project_configuration (acc, &(struct accel_project_configuration){ 0 }, &err), &err);
    for (int i = 0; i < LOSSES; i++) {
        snprintf (path, sizeof path, "%s/recovered%d/state", scratch_folder (), i);
        enum accel_status status = accel_load_state (acc, path, &err);
        int value = status ? -1 : read_value (&world);
        right (shared->committed < 0 || (value >= shared->committed && value <= shared->trying),
               "without power: loaded %d, but %d was complete: %s", value, (int) shared->committed,
               status ? err.text : "");
    }
    accel_model_destroy (world.model);
}

/* One folder that is saved to again and again: whichever call is the last, it can be loaded. */
static void
test_replacing (void)
{
    for (int lacks = 0; lacks < 2; lacks++) {
        bool good = true;
        start_round (true);
        disk_lacks_exchange = lacks;
        saves = 2;
        fatal = -1;
        good = run_ranks (1, replace);
        long most = shared->calls[0];
        for (fatal = lacks; good && fatal <= most; fatal += stride) {
            srandom ((unsigned) fatal);
            good = run_ranks (1, replace);
            lose_power ();
            good = run_ranks (1, look) && good;
            if (!good)
                diag ("killed at call %ld, %s", fatal, shared->last);
        }
        ok (good, "a folder that is saved to again can be loaded, whichever of %ld calls kills the process%s", most,
            lacks ? " (on a file system without exchange)" : "");
    }
}

/* A process was killed when nothing was at the place; the next one is killed, too, at any call. */
static void
test_between (void)
{
    char place[PATH_ROOM + 16], beside[PATH_ROOM + 32];
    bool good = true;
    long call = 0, most = 1;
    saves = 1;
    for (; good && call <= most; call += stride) {
        start_round (false);
        snprintf (place, sizeof place, "%s/state", project);
        snprintf (beside, sizeof beside, "%s.tmp-00000000", place);
        fatal = -1;
        good = run_ranks (1, replace) && !__real_rename (place, beside);
        fatal = call;
        good = good && run_ranks (1, replace);
        fatal = -1;
        good = good && run_ranks (1, replace); /* what was complete is there */
        most = shared->calls[0];
    }
    ok (good && most > 20, "nothing was at the place, and then a kill at each of %ld calls", most);
}

int
main (int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    ranks_texts = mmap (NULL, RANKS_MOST * RANKS_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared = mmap (NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    scratch_folder ();
    if (argc > 2 && !strcmp (argv[2], "all")) {
        passes = REASONS;
        stride = 1;
    }
    in_background = !strcmp (what, "save-async");
    if (!strncmp (what, "save", 4))
        test_calls (let_saves_fail, in_background ? "saves in the background" : "saves");
    else if (!strcmp (what, "load"))
        test_calls (let_loads_fail, "loads");
    else {
        test_replacing ();
        test_between ();
    }
    return done_testing ();
}
