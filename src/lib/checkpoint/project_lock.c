/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a project; see project_lock.h. */
#include <config.h>

#include "lib/checkpoint/project_lock.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/envnames.h"
#include "util/io.h"
#include "util/printable.h"
#include "util/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HOLDER_SIZE = 256, WAIT_MS = 1000, PAUSE_MS = 10 };

/* "anna, process 4711 on host node3, job 5f2c" */
static void
describe_self (struct strbuf *text)
{
    char host[HOST_NAME_MAX + 1] = "";
    const char *user = getenv ("USER"), *job = getenv (ENV_JOB_ID);
    gethostname (host, sizeof host - 1);
    if (user && *user)
        printable_add (text, user);
    else
        strbuf_printf (text, "user %lu", (unsigned long) geteuid ());
    strbuf_printf (text, ", process %ld on host ", (long) getpid ());
    printable_add (text, host);
    if (job && *job) {
        strbuf_add (text, ", job ");
        printable_add (text, job);
    }
    strbuf_add_char (text, '\n');
}

static enum accel_status
write_holder (const struct project_lock *lock, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf text = { 0 };
    describe_self (&text);
    if (text.failed)
        return accel_fail_nomem (err);
    if (ftruncate (lock->fd, 0) || io_write_all (lock->fd, text.text, text.length))
        return accel_fail_errno (err, "%s", lock->path);
    return ACCEL_OK;
}

/* Who has it.  For a moment, the file of a job that has just locked it still names the former holder, or is empty; then
 * the kernel knows the process. */
static enum accel_status
fail_held (const struct project_lock *lock, const char *folder, struct accel_error *err)
{
    AUTO_STRBUF struct strbuf shown = { 0 };
    char text[HOLDER_SIZE];
    struct flock other = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    ssize_t length = pread (lock->fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    text[strcspn (text, "\n")] = '\0';
    printable_add (&shown, text);
    if (!*text && !fcntl (lock->fd, F_GETLK, &other) && other.l_type != F_UNLCK)
        strbuf_printf (&shown, "process %ld", (long) other.l_pid);
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "another job is saving to %s: %s; stop it, set another project_dir, or set read_only to only "
                       "load", folder, shown.text && *shown.text ? shown.text : "an unknown process");
}

/* Another process may have removed the file, or the folder, since; others would lock another one. */
static bool
is_held (const struct project_lock *lock, const char *path)
{
    struct stat ours, there;
    return lock->path && !strcmp (lock->path, path) && !fstat (lock->fd, &ours) && !stat (path, &there)
           && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

/* The job that this one continues may have been killed just now.  @return 0, or -1 with errno */
static int
lock_soon (int fd)
{
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    for (int64_t end = clock_ms () + WAIT_MS; fcntl (fd, F_SETLK, &all);) {
        if ((errno != EACCES && errno != EAGAIN) || clock_ms () >= end)
            return -1;
        nanosleep (&(struct timespec){ .tv_nsec = PAUSE_MS * 1000000 }, NULL);
    }
    return 0;
}

enum accel_status
project_lock_take (struct project_lock *lock, const char *folder, struct accel_error *err)
{
    AUTO_FREE char *path = NULL;
    enum accel_status status = ACCEL_OK;
    if (asprintf (&path, "%s/" PROJECT_LOCK_NAME, folder) < 0) {
        path = NULL;
        return accel_fail_nomem (err);
    }
    if (is_held (lock, path))
        return ACCEL_OK;
    project_lock_release (lock);
    struct project_lock made = { path, open (path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666) };
    struct stat above;
    if (made.fd < 0)
        return accel_fail_errno (err, "%s", path);
    if (!stat (folder, &above)) /* who may write to the folder may lock it; it fails if the file is not ours */
        (void) fchmod (made.fd, above.st_mode & 0666);
    if (!lock_soon (made.fd))
        status = write_holder (&made, err);
    else if (errno == EACCES || errno == EAGAIN)
        status = fail_held (&made, folder, err);
    if (status) {
        close (made.fd);
        return status;
    }
    *lock = made;
    path = NULL;
    return ACCEL_OK;
}

void
project_lock_release (struct project_lock *lock)
{
    if (lock->path)
        close (lock->fd);
    free (lock->path);
    *lock = (struct project_lock){ 0 };
}
