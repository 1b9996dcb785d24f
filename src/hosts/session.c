/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers of Open MPI; see session.h.  Its folders are TMPDIR/ompi.HOST.UID/pid.PID of mpirun, and .../jf.JOB of a
 * daemon; the memory that ranks share is /dev/shm/vader_segment.HOST.UID.JOB.RANK. */
#include <config.h>

#include "hosts/session.h"

#include "util/cleanup.h"
#include "util/parse.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TREE_DESCRIPTORS = 16 };

static const char shared_memory[] = "/dev/shm";

static const char *
find (const struct strlist *variables, const char *name)
{
    size_t length = strlen (name);
    for (size_t i = 0; i < variables->count; i++)
        if (!strncmp (variables->items[i], name, length) && variables->items[i][length] == '=')
            return variables->items[i] + length + 1;
    return NULL;
}

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
    return kind && last[kind] && !last[kind + strspn (last + kind, "0123456789")] && !strncmp (parent, "ompi.", 5);
}

void
session_read (struct session *session, const struct strlist *variables)
{
    const char *folder = find (variables, "PMIX_SERVER_TMPDIR"), *job = find (variables, "OMPI_MCA_ess_base_jobid");
    int64_t number = 0;
    *session = (struct session){ 0 };
    if (folder && is_of_open_mpi (folder))
        session->folder = strdup (folder);
    if (job && parse_int64 (job, 1, UINT32_MAX, &number) == PARSE_OK)
        session->job = (uint32_t) number;
}

static int
remove_one (const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void) info, (void) type, (void) place;
    remove (path);
    return 0;
}

/* Nobody else can change what is in it. */
static bool
is_private (const char *folder)
{
    struct stat info;
    return !lstat (folder, &info) && S_ISDIR (info.st_mode) && info.st_uid == geteuid ()
           && !(info.st_mode & (S_IWGRP | S_IWOTH));
}

static void
remove_folder (const char *folder)
{
    char parent[PATH_MAX];
    size_t length = (size_t) (strrchr (folder, '/') - folder);
    if (length >= sizeof parent)
        return;
    memcpy (parent, folder, length);
    parent[length] = '\0';
    if (!is_private (parent) || !is_private (folder))
        return;
    nftw (folder, remove_one, TREE_DESCRIPTORS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    rmdir (parent); /* unless another job uses it, as mpirun does */
}

/* vader_segment.HOST.UID.JOB.RANK */
static bool
is_segment (const char *name, const char *middle)
{
    const char *at = strncmp (name, "vader_segment.", 14) ? NULL : strrchr (name, '.');
    size_t length = strlen (middle);
    return at && (size_t) (at - name) > length && !strncmp (at - length, middle, length);
}

static void
remove_segments (uint32_t job)
{
    char middle[40];
    snprintf (middle, sizeof middle, ".%u.%x", (unsigned) geteuid (), (unsigned) job);
    DIR *dir = opendir (shared_memory);
    if (!dir)
        return;
    for (const struct dirent *entry; (entry = readdir (dir));) {
        struct stat info;
        if (is_segment (entry->d_name, middle) && !fstatat (dirfd (dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW)
            && S_ISREG (info.st_mode) && info.st_uid == geteuid ())
            unlinkat (dirfd (dir), entry->d_name, 0);
    }
    closedir (dir);
}

void
session_remove (const struct session *session)
{
    if (session->folder)
        remove_folder (session->folder);
    if (session->job)
        remove_segments (session->job);
}

/* As Open MPI looks for it; names of hosts are used without their domain. */
void
session_remove_of (pid_t pid)
{
    static const char *const names[] = { "OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base", "TMPDIR",
                                         "TEMP", "TMP" };
    const char *base = NULL;
    char host[256] = "", folder[PATH_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names && (!base || !*base); i++)
        base = getenv (names[i]);
    gethostname (host, sizeof host - 1);
    for (int domain = 0; domain < 2; domain++) {
        int length = snprintf (folder, sizeof folder, "%s/ompi.%.*s.%u/pid.%d", base && *base ? base : "/tmp",
                               (int) (domain ? strlen (host) : strcspn (host, ".")), host, (unsigned) geteuid (),
                               (int) pid);
        if (length < (int) sizeof folder && is_of_open_mpi (folder))
            remove_folder (folder);
    }
}

void
session_release (struct session *session)
{
    free (session->folder);
    *session = (struct session){ 0 };
}
