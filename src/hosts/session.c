/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers of Open MPI; see session.h.  Its folders are TMPDIR/ompi.HOST.UID/pid.PID of mpirun, and .../jf.JOB of a
 * daemon; the memory that ranks share is /dev/shm/vader_segment.HOST.UID.JOB.RANK. */
#include <config.h>

#include "hosts/session.h"

#include "util/cleanup.h"
#include "util/parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_DEPTH = 16,
    HOST_BYTES = 256,
};

#define DIGITS "0123456789"

static const char shared_memory[] = "/dev/shm";

/* ".../ompi.HOST.UID/pid.PID" or ".../ompi.HOST.UID/jf.JOB" */
static bool
is_of_open_mpi (const char *folder)
{
    const char *last = strrchr (folder, '/');
    if (*folder != '/' || last == folder || strstr (folder, "/.."))
        return false;
    const char *parent = last;
    while (parent[-1] != '/')
        parent--;
    size_t kind = !strncmp (last, "/pid.", 5) ? 5 : !strncmp (last, "/jf.", 4) ? 4 : 0;
    return kind && last[kind] && !last[kind + strspn (last + kind, DIGITS)] && !strncmp (parent, "ompi.", 5);
}

/* mpirun's folder has its process's number, a daemon's the upper half of its job's.  Other folders belong to a job in
 * which this one runs, whose variables it has inherited. */
static bool
is_of_daemon (const char *folder, int64_t pid, const char *comm, int64_t job)
{
    static const char *const heads[] = { "mpirun", "mpiexec", "orterun" };
    const char *kind = strrchr (folder, '/') + 1, *digits = strchr (kind, '.') + 1;
    int64_t number = 0;
    if (parse_int64 (digits, 0, INT64_MAX, &number) != PARSE_OK)
        return false;
    if (!strcmp (comm, "orted"))
        return *kind == 'j' && number == job >> 16;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        if (!strcmp (comm, heads[i]))
            return *kind == 'p' && number == pid;
    return false;
}

void
session_read (struct session *session, int64_t pid, const char *comm, const struct strlist *variables)
{
    const char *folder = strlist_variable (variables, "PMIX_SERVER_TMPDIR");
    const char *job = strlist_variable (variables, "OMPI_MCA_ess_base_jobid");
    int64_t number = 0;
    struct stat info;
    *session = (struct session){ 0 };
    if (!folder || !job || !is_of_open_mpi (folder) || parse_int64 (job, 1, UINT32_MAX, &number) != PARSE_OK
        || !is_of_daemon (folder, pid, comm, number) || lstat (folder, &info))
        return;
    session->folder = strdup (folder);
    session->job = (uint32_t) number;
    session->device = info.st_dev;
    session->inode = info.st_ino;
}

/* @return a folder in which nobody else can change anything; -1: it is not one */
static int
open_private (int at, const char *name, struct stat *info)
{
    int fd = openat (at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && !fstat (fd, info) && info->st_uid == geteuid () && !(info->st_mode & (S_IWGRP | S_IWOTH)))
        return fd;
    if (fd >= 0)
        close (fd);
    return -1;
}

/* No path is walked twice: what stands at a name may change.
 * @fd  is closed; other file systems in it stay */
static void
empty_folder (int fd, dev_t device, int depth)
{
    DIR *dir = fdopendir (fd);
    if (!dir) {
        close (fd);
        return;
    }
    for (const struct dirent *entry; (entry = readdir (dir));) {
        const char *name = entry->d_name;
        struct stat info;
        if (!strcmp (name, ".") || !strcmp (name, "..") || !unlinkat (fd, name, 0) || !depth)
            continue;
        int inner = open_private (fd, name, &info);
        if (inner >= 0 && info.st_dev == device) {
            empty_folder (inner, device, depth - 1);
            unlinkat (fd, name, AT_REMOVEDIR);
        } else if (inner >= 0)
            close (inner);
    }
    closedir (dir);
}

/* @session  that has noted it; NULL: it was not noted  @return whether it was that one */
static bool
remove_folder (const char *folder, const struct session *session)
{
    const char *name = strrchr (folder, '/') + 1;
    AUTO_FREE char *parent = strndup (folder, (size_t) (name - 1 - folder));
    struct stat info;
    AUTO_CLOSE int outer = parent ? open_private (AT_FDCWD, parent, &info) : -1;
    int inner = outer >= 0 ? open_private (outer, name, &info) : -1;
    if (inner < 0)
        return false;
    if (session && (info.st_dev != session->device || info.st_ino != session->inode)) {
        close (inner);
        return false;
    }
    empty_folder (inner, info.st_dev, MOST_DEPTH);
    unlinkat (outer, name, AT_REMOVEDIR);
    rmdir (parent); /* unless another job uses it, as mpirun does */
    return true;
}

/* vader_segment.HOST.UID.JOB.RANK; HOST may lack its domain. */
static bool
is_segment (const char *name, const char *host, uint32_t job)
{
    char own[300];
    for (int domain = 0; domain < 2; domain++) {
        int length = snprintf (own, sizeof own, "vader_segment.%.*s.%u.%x.",
                               (int) (domain ? strlen (host) : strcspn (host, ".")), host, (unsigned) geteuid (),
                               (unsigned) job);
        const char *rank = strncmp (name, own, (size_t) length) ? "" : name + length;
        if (*rank && !rank[strspn (rank, DIGITS)])
            return true;
    }
    return false;
}

static void
remove_segments (uint32_t job)
{
    char host[HOST_BYTES] = "";
    gethostname (host, sizeof host - 1);
    DIR *dir = opendir (shared_memory);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir (dir));) {
        struct stat info;
        if (is_segment (entry->d_name, host, job) && !fstatat (dirfd (dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW)
            && S_ISREG (info.st_mode) && info.st_uid == geteuid ())
            unlinkat (dirfd (dir), entry->d_name, 0);
    }
    closedir (dir);
}

void
session_remove (const struct session *session)
{
    if (session->folder && remove_folder (session->folder, session))
        remove_segments (session->job);
}

/* As Open MPI looks for it; names of hosts are used without their domain. */
void
session_remove_of (pid_t pid)
{
    static const char *const names[] = { "OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base", "TMPDIR",
                                         "TEMP", "TMP" };
    const char *base = NULL;
    char host[HOST_BYTES] = "", folder[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names && (!base || !*base); i++)
        base = getenv (names[i]);
    gethostname (host, sizeof host - 1);
    for (int domain = 0; domain < 2; domain++) {
        int length = snprintf (folder, sizeof folder, "%s/ompi.%.*s.%u/pid.%d", base && *base ? base : "/tmp",
                               (int) (domain ? strlen (host) : strcspn (host, ".")), host, (unsigned) geteuid (),
                               (int) pid);
        if (length < (int) sizeof folder && is_of_open_mpi (folder))
            remove_folder (folder, NULL);
    }
}

void
session_release (struct session *session)
{
    free (session->folder);
    *session = (struct session){ 0 };
}
