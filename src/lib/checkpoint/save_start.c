/* SPDX-License-Identifier: Apache-2.0 */
/* accel_save_state_start() and what follows: the state is copied, and written by a thread while training continues.
 *
 * The thread never uses the communicator, which is the program's.  A rank's thread writes its own files, and says in
 * the folder that they are complete (shares.h).  That of rank 0 waits for the others, and commits.  The program learns
 * the result at the next collective call about saves; there, the ranks agree on it as after a synchronous save. */
#include <config.h>

#include <accel/checkpoint.h>
#include <accel/utility.h>

#include "lib/base/error.h"
#include "lib/checkpoint/agree.h"
#include "lib/checkpoint/background.h"
#include "lib/checkpoint/collected.h"
#include "lib/checkpoint/save.h"
#include "lib/checkpoint/shares.h"
#include "lib/comm/comm_object.h"
#include "lib/state/state_object.h"
#include "lib/train/sharding.h"
#include "lib/train/tensor_parallel.h"

#include <stdlib.h>

/* The thread's until it has ended. */
struct save_in_flight {
    struct accel *acc;
    struct comm_site site; /* of the start */
    struct save save;
    struct collected collected; /* whose tensors are in the part's snapshot */
    int share;                  /* of a rank other than 0: its locked file; -1: none */
    struct background *background; /* NULL: there was no thread for it, and it is over */
    enum accel_status status;
    struct accel_error err; /* of `status` */
    bool blames;            /* it is about other ranks, which may know more */
    bool is_reported;
};

/* ---- the thread ---- */

static enum accel_status
write_own (struct save_in_flight *flight, struct accel_error *err)
{
    struct save *save = &flight->save;
    return collected_write (&flight->collected, save->folder.temporary, &save->manifest, err);
}

static void
write_share (struct save_in_flight *flight)
{
    flight->status = write_own (flight, &flight->err);
    if (!flight->status)
        flight->status = share_write (flight->share, &flight->save.manifest, &flight->err);
    if (flight->status)
        share_fail (flight->save.folder.temporary, flight->save.rank);
    share_end (&flight->share);
}

static enum accel_status
write_whole (struct save_in_flight *flight, struct accel_error *err)
{
    struct save *save = &flight->save;
    const struct watch *watch = &flight->acc->world->watch;
    struct shares shares;
    enum accel_status status = shares_begin (&shares, save->folder.temporary, save->size, watch->source, err);
    if (!status)
        status = write_own (flight, err);
    if (!status) {
        status = shares_gather (&shares, &save->manifest, watch->timeout_ms, err);
        flight->blames = status == ACCEL_ERR_PEER || status == ACCEL_ERR_TIMEOUT;
    }
    shares_release (&shares);
    return status ? status : save_commit (save, err);
}

static void
write_state (void *user)
{
    struct save_in_flight *flight = user;
    if (flight->save.rank)
        write_share (flight);
    else
        flight->status = write_whole (flight, &flight->err);
    save_end (&flight->save);
}

/* ---- the end ---- */

static void
report (struct save_in_flight *flight)
{
    if (flight->is_reported)
        return;
    flight->is_reported = true;
    if (*flight->save.warning)
        accel_logger_log (flight->acc, ACCEL_LOG_WARNING, "accel_save_state_start: %s", flight->save.warning);
    if (!flight->status)
        return;
    accel_fail_in (&flight->err, flight->status, "accel_save_state_start at %s:%d", flight->site.file,
                   flight->site.line);
    comm_note_failure (flight->acc->world,
                       JOBSEG_FAILURE | JOBSEG_FAILURE_LOST | (flight->blames ? 0 : JOBSEG_FAILURE_OWN), 0,
                       flight->err.text);
    accel_logger_log (flight->acc, ACCEL_LOG_ERROR | ACCEL_LOG_EVERYWHERE, "%s", flight->err.text);
}

static void
report_at_exit (void *user)
{
    report (user);
}

static void
release (struct save_in_flight *flight)
{
    share_end (&flight->share);
    save_end (&flight->save);
    collected_release (&flight->collected);
    free (flight);
}

/* Forks have the parent's save neither in a thread nor to clean up after. */
static bool
join (struct save_in_flight *flight)
{
    if (flight->background && !background_join (flight->background))
        return false;
    flight->background = NULL;
    return true;
}

/* accel_close(), where other ranks may be elsewhere: a failure can only be logged, and reported to the launcher. */
static void
close_flight (struct save_in_flight *flight)
{
    if (!join (flight))
        return;
    report (flight);
    release (flight);
}

/* Whose own failure it is comes before what rank 0 has to say about that rank. */
static enum accel_status
agree (const struct save_in_flight *flight, struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    enum accel_status own = flight->blames ? ACCEL_OK : flight->status;
    *err = flight->err;
    enum accel_status status = checkpoint_agree (acc, site, own, err);
    if (status)
        return status;
    *err = flight->err;
    return checkpoint_agree (acc, site, flight->status, err);
}

enum accel_status
save_finish (struct accel *acc, const struct comm_site *site, struct accel_error *err)
{
    struct checkpoint_part *part = checkpoint_of (acc);
    struct save_in_flight *flight = part->flight;
    if (!flight)
        return ACCEL_OK;
    if (!join (flight))
        return accel_fail (err, ACCEL_ERR_INVALID, "this process is a fork of the one that started a save");
    part->flight = NULL;
    best_end_flight (acc);
    enum accel_status status = agree (flight, acc, site, err);
    if (!status)
        status = save_note (&flight->save, acc, site, err);
    else {
        best_cancel_save (acc, flight->save.best);
        accel_fail_in (err, status, "the save started at %s:%d", flight->site.file, flight->site.line);
    }
    release (flight);
    return status;
}

/* ---- the calls ---- */

static enum accel_status
prepare (struct save_in_flight *flight, struct accel *acc, const char *output_dir, struct accel_error *err)
{
    struct save *save = &flight->save;
    enum accel_status status = save_begin (save, acc, &flight->site, output_dir, err);
    if (status)
        return status;
    if (save->rank)
        status = share_begin (&flight->share, save->folder.temporary, save->rank, err);
    if (!status)
        status = collected_make (&flight->collected, acc, save->with_models,
                                 save->folder.is_sharded ? COLLECTED_SHARES : COLLECTED_MAIN, err);
    if (!status)
        status = collected_copy (&flight->collected, &checkpoint_of (acc)->snapshot, err);
    return checkpoint_agree (acc, &flight->site, status, err);
}

static enum accel_status
start (struct accel *acc, const struct comm_site *site, const char *output_dir, struct accel_error *err)
{
    struct checkpoint_part *part = checkpoint_of (acc);
    enum accel_status status = save_finish (acc, site, err);
    struct save_in_flight *flight = status ? NULL : calloc (1, sizeof *flight);
    if (!status)
        status = checkpoint_agree (acc, site, flight ? ACCEL_OK : accel_fail_nomem (err),
                                   err);
    if (status) {
        free (flight);
        return status;
    }
    *flight = (struct save_in_flight){ .acc = acc, .site = *site, .share = -1,
                                       .save = { .folder = CHECKPOINT_NO_FOLDER } };
    status = prepare (flight, acc, output_dir, err);
    cut_end_collect (acc);
    sharding_end_collect (acc);
    if (status) {
        best_cancel_save (acc, flight->save.best);
        release (flight);
        return status;
    }
    flight->save.keeps_former = true;
    best_begin_flight (acc, flight->save.best);
    part->flight = flight;
    part->close_flight = close_flight;
    flight->background = background_start (write_state, report_at_exit, flight);
    if (!flight->background) /* all ranks have begun by now; this one blocks its step */
        write_state (flight);
    return ACCEL_OK;
}

enum accel_status
accel_save_state_start_at (const char *file, int line, struct accel *acc, const char *output_dir,
                           struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_STATE_START };
    struct accel_error own = { 0 };
    if (!acc)
        return accel_fail_null (err, "accel_save_state_start", "acc");
    uint64_t entered = checkpoint_enter (acc, &site);
    return checkpoint_leave (acc, &site, entered, start (acc, &site, output_dir, &own), &own, err);
}

/* The memory of a save in flight is in use, and large enough for what was prepared when that began. */
enum accel_status
accel_save_state_reserve (struct accel *acc, struct accel_error *err)
{
    struct collected collected = { 0 };
    if (!acc)
        return accel_fail_null (err, "accel_save_state_reserve", "acc");
    struct checkpoint_part *part = checkpoint_of (acc);
    if (part->flight)
        return ACCEL_OK;
    struct accel_error own = { 0 };
    enum accel_status status = cut_reserve (acc, &own);
    if (!status)
        cut_show_reserved (acc);
    bool in_shares = checkpoint_is_sharded (part) && !cut_first (acc);
    if (!status)
        status = collected_make (&collected, acc, true, in_shares ? COLLECTED_SHARES : COLLECTED_MAIN, &own);
    if (!status)
        status = collected_reserve (&collected, &part->snapshot, &own);
    collected_release (&collected);
    cut_end_collect (acc);
    return status ? accel_fail (err, status, "accel_save_state_reserve: %s", own.text) : ACCEL_OK;
}

enum accel_status
accel_save_state_wait_at (const char *file, int line, struct accel *acc, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_STATE_WAIT };
    struct accel_error own = { 0 };
    if (!acc)
        return accel_fail_null (err, "accel_save_state_wait", "acc");
    uint64_t entered = checkpoint_enter (acc, &site);
    return checkpoint_leave (acc, &site, entered, save_finish (acc, &site, &own), &own, err);
}

/* Whether this rank's thread is over; in a fork, it never is. */
static bool
is_over (const struct save_in_flight *flight)
{
    return !flight->background || background_is_over (flight->background);
}

enum accel_status
accel_save_state_test_at (const char *file, int line, struct accel *acc, bool *done, struct accel_error *err)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_SAVE_STATE_TEST };
    struct accel_error own = { 0 };
    if (!acc || !done)
        return accel_fail_null (err, "accel_save_state_test", acc ? "done" : "acc");
    const struct save_in_flight *flight = checkpoint_of (acc)->flight;
    *done = !flight;
    if (!flight)
        return ACCEL_OK;
    int64_t over = is_over (flight), all = 0;
    enum accel_status status
        = comm_all_reduce (accel_world (acc), &site, &over, &all, 1, ACCEL_INT64, ACCEL_MIN, err);
    if (status || !all)
        return status;
    *done = true;
    uint64_t entered = checkpoint_enter (acc, &site);
    return checkpoint_leave (acc, &site, entered, save_finish (acc, &site, &own), &own, err);
}
