/* SPDX-License-Identifier: Apache-2.0 */
/* The other ranks' parts of an asynchronous save; see shares.h. */
#include <config.h>

#include "lib/checkpoint/shares.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NAME_ROOM = PATH_MAX + 32, SHARE_MOST = 256 << 20, FIRST_PAUSE_MS = 2, LONGEST_PAUSE_MS = 100 };

enum state { WRITES, WRITES_UNSEEN, TAKEN, UNREAD, ENDED };

static void
name_of (char name[NAME_ROOM], const char *folder, int rank)
{
    snprintf (name, NAME_ROOM, "%s/.rank-%d", folder, rank);
}

/* ---- other ranks ---- */

/* The lock is one of fcntl(): it ends with this process, even if children that it has forked still have the file open.
 * If locks do not exist, the deadline has to do. */
enum accel_status
share_begin (int *fd, const char *folder, int rank, struct accel_error *err)
{
    char name[NAME_ROOM];
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    name_of (name, folder, rank);
    *fd = open (name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (*fd < 0)
        return accel_fail_errno (err, "%s", name);
    (void) fcntl (*fd, F_SETLK, &all);
    return ACCEL_OK;
}

enum accel_status
share_write (int fd, const struct manifest *manifest, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    manifest_write (manifest, &text);
    if (text.failed)
        return accel_fail (err, ACCEL_ERR_NOMEM, "cannot allocate memory for the manifest");
    return io_write_all (fd, text.text, text.length) ? accel_fail_errno (err, "cannot write a manifest") : ACCEL_OK;
}

/* To remove a name needs no space, even if that is what failed. */
void
share_fail (const char *folder, int rank)
{
    char name[NAME_ROOM];
    name_of (name, folder, rank);
    (void) unlink (name);
}

void
share_end (int *fd)
{
    if (*fd >= 0)
        close (*fd);
    *fd = -1;
}

/* ---- rank 0 ---- */

/* A file that exists and cannot be opened now says nothing about its rank, which is given the time it has. */
static bool
is_locked (const char *name)
{
    struct flock other = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
    AUTO_CLOSE int fd = open (name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? errno != ENOENT : fcntl (fd, F_GETLK, &other) || other.l_type != F_UNLCK;
}

/* Take the manifest of a file.
 * @return TAKEN; ENDED: it is missing or incomplete, which only means something if its rank no longer writes; UNREAD:
 *         this process failed to read it, as @p why says */
static enum state
take (const char *name, struct manifest *manifest, struct fail *why)
{
    AUTO_FREE char *text = NULL;
    struct accel_error cause;
    size_t length;
    if (io_read_file (name, SHARE_MOST, &text, &length, why))
        return access (name, F_OK) && errno == ENOENT ? ENDED : UNREAD;
    enum accel_status status = length ? manifest_take_text (manifest, text, length, &cause) : ACCEL_ERR_FORMAT;
    if (status == ACCEL_ERR_NOMEM)
        fail_nomem (why);
    return !status ? TAKEN : status == ACCEL_ERR_NOMEM ? UNREAD : ENDED;
}

static bool
is_gone (const struct shares *shares, int rank, char *how, size_t size)
{
    return shares->source && watch_source_is_gone (shares->source, rank, how, size);
}

/* A rank that cannot use the communicator any more may still write; so the lock is the better witness. */
static bool
still_writes (const struct shares *shares, int rank, const char *name)
{
    char how[128];
    if (shares->states[rank] == WRITES)
        return is_locked (name);
    return !access (name, F_OK) && !is_gone (shares, rank, how, sizeof how);
}

/* A rank unlocks its file when it is complete: what was not complete before may be now. */
static enum state
look_at (const struct shares *shares, int rank, struct manifest *manifest)
{
    char name[NAME_ROOM];
    struct fail why;
    name_of (name, shares->folder, rank);
    if (take (name, manifest, &why) == TAKEN)
        return TAKEN;
    return still_writes (shares, rank, name) ? (enum state) shares->states[rank] : take (name, manifest, &why);
}

enum accel_status
shares_begin (struct shares *shares, const char *folder, int size, struct watch_source *source,
              struct accel_error *err)
{
    *shares = (struct shares){ .folder = folder, .size = size, .source = source };
    shares->states = calloc ((size_t) size, 1);
    if (!shares->states)
        return accel_fail_nomem (err);
    for (int rank = 1; rank < size; rank++) {
        char name[NAME_ROOM];
        name_of (name, folder, rank);
        shares->states[rank] = is_locked (name) ? WRITES : WRITES_UNSEEN;
    }
    return ACCEL_OK;
}

/* @return how many ranks still write */
static int
look_at_all (struct shares *shares, struct manifest *manifest)
{
    int left = 0;
    for (int rank = 1; rank < shares->size; rank++) {
        if (shares->states[rank] <= WRITES_UNSEEN)
            shares->states[rank] = (unsigned char) look_at (shares, rank, manifest);
        left += shares->states[rank] <= WRITES_UNSEEN;
    }
    return left;
}

static enum accel_status
remove_all (const struct shares *shares, struct accel_error *err)
{
    char name[NAME_ROOM];
    for (int rank = 1; rank < shares->size; rank++) {
        name_of (name, shares->folder, rank);
        if (unlink (name))
            return accel_fail_errno (err, "cannot remove %s", name);
    }
    return ACCEL_OK;
}

/* A read that failed says nothing about the rank, so it is made once more; if it fails again, that is our own error. */
static enum accel_status
check_rank (const struct shares *shares, int rank, struct manifest *manifest, uint32_t timeout_ms,
            struct accel_error *err)
{
    char name[NAME_ROOM], how[128] = "";
    struct fail why;
    enum state before = shares->states[rank];
    name_of (name, shares->folder, rank);
    enum state now = before == TAKEN || before == ENDED ? before : take (name, manifest, &why);
    if (now == TAKEN)
        return ACCEL_OK;
    if (now == UNREAD)
        return accel_fail (err, ACCEL_ERR_SYSTEM, "cannot read what rank %d has written: %s", rank, why.text);
    if (before <= WRITES_UNSEEN)
        return accel_fail (err, ACCEL_ERR_TIMEOUT,
                           "timed out after %u ms, waiting for rank %d to write its checkpoint files",
                           timeout_ms, rank);
    bool gone = is_gone (shares, rank, how, sizeof how);
    return accel_fail (err, ACCEL_ERR_PEER, "rank %d did not write its checkpoint files%s%s", rank,
                       gone ? ": it " : "", gone ? how : "");
}

enum accel_status
shares_gather (struct shares *shares, struct manifest *manifest, uint32_t timeout_ms, struct accel_error *err)
{
    int64_t end = clock_ns () + (int64_t) timeout_ms * 1000000;
    long pause_ms = FIRST_PAUSE_MS;
    while (look_at_all (shares, manifest) && clock_ns () < end) {
        nanosleep (&(struct timespec){ .tv_nsec = pause_ms * 1000000 }, NULL);
        pause_ms = pause_ms * 2 < LONGEST_PAUSE_MS ? pause_ms * 2 : LONGEST_PAUSE_MS;
    }
    enum accel_status status = ACCEL_OK;
    for (int rank = 1; !status && rank < shares->size; rank++)
        status = check_rank (shares, rank, manifest, timeout_ms, err);
    return status ? status : remove_all (shares, err);
}

void
shares_release (struct shares *shares)
{
    free (shares->states);
    shares->states = NULL;
}
