/* SPDX-License-Identifier: Apache-2.0 */
/* Leftovers of Open MPI; see mpi.h.  The folders of Open MPI 4 are TMPDIR/ompi.HOST.UID/pid.PID of mpirun, and
 * .../jf.JOB of a daemon; the memory that ranks share is /dev/shm/vader_segment.HOST.UID.JOB.RANK.  With Open MPI 5,
 * they are TMPDIR/prterun.HOST.PID.UID, TMPDIR/prted.HOST.PID.UID and /dev/shm/sm_segment.HOST.UID.JOB.RANK. */
#include <config.h>

#include "hosts/mpi/mpi.h"

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

/* ".../prterun.HOST.PID.UID" or ".../prted.HOST.PID.UID", of that process */
static bool
is_of_prrte (const char *folder, int64_t pid, const char *comm)
{
    char end[48];
    const char *last = strrchr (folder, '/') + 1;
    size_t begin = strlen (comm), length = strlen (last);
    size_t end_length = (size_t) snprintf (end, sizeof end, ".%lld.%u", (long long) pid, (unsigned) geteuid ());
    return *folder == '/' && !strstr (folder, "/..") && !strncmp (last, comm, begin) && last[begin] == '.'
           && length > begin + 1 + end_length && !strcmp (last + length - end_length, end);
}

/* Which of several words; -1: none */
static int
find_word (const char *const *words, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp (words[i], word))
            return (int) i;
    return -1;
}
#define FIND_WORD(words, word) find_word (words, sizeof words / sizeof *(words), word)

/* Of Open MPI 4.  mpirun's folder has its process's number, a daemon's the upper half of its job's.  Other folders
 * belong to a job in which this one runs, whose variables it has inherited. */
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
    return FIND_WORD (heads, comm) >= 0 && *kind == 'p' && number == pid;
}

/* How Open MPI 5 makes a number of "NAME@JOB": Jenkins's one-at-a-time hash of NAME, its halves combined, above that of
 * the job (opal_pmix_convert_nspace).  @return 0: it has no such form */
static uint32_t
job_of_namespace (const char *name)
{
    const char *at = strrchr (name, '@');
    int64_t job;
    uint32_t hash = 0;
    if (!at || parse_int64 (at + 1, 0, UINT16_MAX, &job) != PARSE_OK)
        return 0;
    for (; name < at; name++) {
        hash += (unsigned char) *name;
        hash += hash << 10;
        hash ^= hash >> 6;
    }
    hash += hash << 3;
    hash ^= hash >> 11;
    hash += hash << 15;
    return (hash ^ hash >> 16) << 16 | (uint32_t) job;
}

/* @return the job's number in the names of shared memory; 0: the folder does not belong to that process */
static uint32_t
find_job (const char *folder, int64_t pid, const char *comm, const struct strlist *variables)
{
    static const char *const prrte[] = { "prted", "prterun" };
    const char *job = strlist_variable (variables, "OMPI_MCA_ess_base_jobid");
    const char *name = strlist_variable (variables, "PMIX_NAMESPACE");
    int64_t number = 0;
    if (FIND_WORD (prrte, comm) >= 0)
        return name && is_of_prrte (folder, pid, comm) ? job_of_namespace (name) : 0;
    if (!job || !is_of_open_mpi (folder) || parse_int64 (job, 1, UINT32_MAX, &number) != PARSE_OK)
        return 0;
    return is_of_daemon (folder, pid, comm, number) ? (uint32_t) number : 0;
}

void
ompi_session_read (struct ompi_session *session, int64_t pid, const char *comm, const struct strlist *variables)
{
    const char *folder = strlist_variable (variables, "PMIX_SERVER_TMPDIR");
    uint32_t job = folder && *folder == '/' ? find_job (folder, pid, comm, variables) : 0;
    struct stat info;
    *session = (struct ompi_session){ 0 };
    if (!job || lstat (folder, &info))
        return;
    session->folder = strdup (folder);
    session->job = job;
    session->device = info.st_dev;
    session->inode = info.st_ino;
}

/* @return a folder in which no other user can change anything; -1: it is not one */
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

/* What holds the folders: one in which no other user can exchange them, such as /tmp, or Open MPI's own.
 * @return -1: it is not one */
static int
open_base (const char *name, bool is_own)
{
    struct stat info;
    if (is_own)
        return open_private (AT_FDCWD, name, &info);
    int fd = open (name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_known = fd >= 0 && !fstat (fd, &info);
    bool is_ours = is_known && (info.st_uid == geteuid () || info.st_uid == 0);
    if (is_ours && (info.st_mode & S_ISVTX || !(info.st_mode & (S_IWGRP | S_IWOTH))))
        return fd;
    if (fd >= 0)
        close (fd);
    return -1;
}

/* No path is walked twice: what is at a name may change.
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
remove_folder (const char *folder, const struct ompi_session *session)
{
    const char *name = strrchr (folder, '/') + 1;
    AUTO_FREE char *parent = strndup (folder, (size_t) (name - 1 - folder));
    bool has_own = is_of_open_mpi (folder);
    struct stat info;
    AUTO_CLOSE int outer = parent ? open_base (*parent ? parent : "/", has_own) : -1;
    int inner = outer >= 0 ? open_private (outer, name, &info) : -1;
    if (inner < 0)
        return false;
    if (session && (info.st_dev != session->device || info.st_ino != session->inode)) {
        close (inner);
        return false;
    }
    empty_folder (inner, info.st_dev, MOST_DEPTH);
    unlinkat (outer, name, AT_REMOVEDIR);
    if (has_own)
        rmdir (parent); /* unless another job uses it, as mpirun does */
    return true;
}

/* HOST may lack its domain. */
static int
host_length (const char *host, bool has_domain)
{
    return (int) (has_domain ? strlen (host) : strcspn (host, "."));
}

/* "vader_segment.HOST.UID.JOB.RANK", or "sm_segment..." */
static bool
is_segment (const char *name, const char *host, uint32_t job)
{
    static const char *const kinds[] = { "vader", "sm" };
    char own[300];
    for (int i = 0; i < 4; i++) {
        int length = snprintf (own, sizeof own, "%s_segment.%.*s.%u.%x.", kinds[i / 2], host_length (host, i % 2), host,
                               (unsigned) geteuid (), (unsigned) job);
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
ompi_session_remove (const struct ompi_session *session)
{
    if (session->folder && remove_folder (session->folder, session))
        remove_segments (session->job);
}

/* As Open MPI looks for it.  @names  of variables, up to a NULL */
static const char *
find_base (const char *const *names)
{
    const char *base = NULL;
    for (; *names && (!base || !*base); names++)
        base = getenv (*names);
    return base && *base ? base : "/tmp";
}

/* Which of the two has run is not known. */
void
ompi_session_remove_of (pid_t pid)
{
    static const char *const names[][6] = {
        { "OMPI_MCA_orte_tmpdir_base", "OMPI_MCA_orte_local_tmpdir_base", "TMPDIR", "TEMP", "TMP" },
        { "PRTE_MCA_prte_tmpdir_base", "PRTE_MCA_prte_local_tmpdir_base", "TMPDIR", "TEMP", "TMP" },
    };
    char host[HOST_BYTES] = "", folder[PATH_MAX];
    unsigned user = geteuid ();
    gethostname (host, sizeof host - 1);
    for (int i = 0; i < 2; i++) {
        int length = host_length (host, i);
        if (snprintf (folder, sizeof folder, "%s/ompi.%.*s.%u/pid.%d", find_base (names[0]), length, host, user,
                      (int) pid) < (int) sizeof folder && is_of_open_mpi (folder))
            remove_folder (folder, NULL);
        if (snprintf (folder, sizeof folder, "%s/prterun.%.*s.%d.%u", find_base (names[1]), length, host, (int) pid,
                      user) < (int) sizeof folder && is_of_prrte (folder, pid, "prterun"))
            remove_folder (folder, NULL);
    }
}

void
ompi_session_release (struct ompi_session *session)
{
    free (session->folder);
    *session = (struct ompi_session){ 0 };
}
