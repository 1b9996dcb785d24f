/* SPDX-License-Identifier: Apache-2.0 */
/* What killed processes of Open MPI leave behind: which folders and memory count as those of our own mpirun, and
 * what is removed. */
#include <config.h>

#include "hosts/mpi/mpi.h"
#include "tests/tap.h"
#include "util/cleanup.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { JOB_FAMILY = 4680, JOB = JOB_FAMILY << 16 | 0xfff1 };

/* @return whether a file was made in the folder, and in one inside it */
static bool
fill_folder (const char *folder)
{
    char path[160];
    bool good = !mkdir (folder, 0700);
    snprintf (path, sizeof path, "%s/inner", folder);
    good = good && !mkdir (path, 0700);
    snprintf (path, sizeof path, "%s/inner/file", folder);
    int fd = open (path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close (fd);
    return good && fd >= 0;
}

static void
read_ompi_session (struct ompi_session *session, int64_t pid, const char *comm, const char *folder, int64_t job)
{
    AUTO_STRLIST struct strlist given = { 0 };
    strlist_printf (&given, "PMIX_SERVER_TMPDIR=%s", folder);
    strlist_printf (&given, "OMPI_MCA_ess_base_jobid=%lld", (long long) job);
    ompi_session_read (session, pid, comm, &given);
}

/* Which folders and memory count as those of our own mpirun. */
static void
test_sessions (const char *parent)
{
    static const struct {
        const char *comm, *name;
        int64_t pid, job;
        bool is_ours;
    } cases[] = {
        { "orted", "jf.4680", 26, JOB, true },         { "mpirun", "pid.26", 26, JOB, true },
        { "mpiexec", "pid.26", 26, JOB, true },        { "orterun", "pid.26", 26, JOB, true },
        { "hydra_pmi_proxy", "jf.4680", 26, JOB, false }, { "mpiexec.hydra", "pid.26", 26, JOB, false },
        { "orted", "jf.4680", 26, 99 << 16, false },   { "mpirun", "pid.26", 27, JOB, false },
        { "orted", "pid.26", 26, JOB, false },         { "mpirun", "jf.4680", 4680, JOB, false },
        { "mpirun", "pid.27", 27, JOB, false }, /* there is none */
    };
    char folder[2][120];
    snprintf (folder[0], sizeof *folder, "%s/jf.4680", parent);
    snprintf (folder[1], sizeof *folder, "%s/pid.26", parent);
    ok (fill_folder (folder[0]) && fill_folder (folder[1]), "two folders of Open MPI");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ompi_session session;
        char path[120];
        snprintf (path, sizeof path, "%s/%s", parent, cases[i].name);
        read_ompi_session (&session, cases[i].pid, cases[i].comm, path, cases[i].job);
        ok (cases[i].is_ours ? session.folder && session.job == cases[i].job : !session.folder && !session.job,
            "%s of %s (%d): %s", cases[i].name, cases[i].comm, (int) cases[i].pid, cases[i].is_ours ? "ours" : "not");
        ompi_session_release (&session);
    }
}

static void
test_removal (const char *parent)
{
    char folder[120], aside[160], link[160], host[256] = "", own[320], other[320];
    struct ompi_session session;
    snprintf (folder, sizeof folder, "%s/jf.4680", parent);
    snprintf (aside, sizeof aside, "%s/aside", parent);
    gethostname (host, sizeof host - 1);
    snprintf (own, sizeof own, "/dev/shm/vader_segment.%s.%u.%x.0", host, (unsigned) geteuid (), (unsigned) JOB);
    snprintf (other, sizeof other, "/dev/shm/vader_segment.%sx.%u.%x.0", host, (unsigned) geteuid (), (unsigned) JOB);
    close (open (own, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close (open (other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    read_ompi_session (&session, 26, "orted", folder, JOB);
    bool good = !rename (folder, aside) && fill_folder (folder);
    ompi_session_remove (&session);
    ok (good && !access (folder, F_OK) && !access (own, F_OK), "a new folder of the same name, and its memory, stay");
    ompi_session_release (&session);
    read_ompi_session (&session, 26, "orted", folder, JOB);
    good = !chmod (folder, 0770);
    ompi_session_remove (&session);
    ok (good && !access (folder, F_OK), "a folder in which others can change something stays");
    ompi_session_release (&session);
    chmod (folder, 0700);
    read_ompi_session (&session, 26, "orted", folder, JOB);
    snprintf (aside, sizeof aside, "%s/aside2", parent);
    good = !rename (folder, aside) && !symlink ("aside2", folder);
    ompi_session_remove (&session);
    snprintf (aside, sizeof aside, "%s/aside2/inner/file", parent);
    ok (good && !access (aside, F_OK), "links are not followed");
    snprintf (aside, sizeof aside, "%s/aside2", parent);
    snprintf (link, sizeof link, "%s/link", folder);
    good = !unlink (folder) && !rename (aside, folder) && !symlink ("../aside", link);
    ompi_session_remove (&session);
    snprintf (aside, sizeof aside, "%s/aside/inner/file", parent);
    ok (good && access (folder, F_OK) && access (own, F_OK) && !access (aside, F_OK),
        "ours is removed, and its memory");
    ok (!access (other, F_OK) && !access (parent, F_OK), "what another host calls so stays");
    ompi_session_release (&session);
    unlink (other);
    unlink (own);
}

/* Open MPI 5: folders have the name and the number of the process, and shared memory that of the namespace. */
static const char namespace[] = "prterun-vm-49884@1"; /* whose memory is sm_segment.vm.0.1ff80001.0 */

static void
read_ompi_session_5 (struct ompi_session *session, int64_t pid, const char *comm, const char *folder, const char *name)
{
    AUTO_STRLIST struct strlist given = { 0 };
    strlist_printf (&given, "PMIX_SERVER_TMPDIR=%s", folder);
    strlist_printf (&given, "PMIX_NAMESPACE=%s", name);
    ompi_session_read (session, pid, comm, &given);
}

static void
test_sessions_5 (const char *base)
{
    static const struct {
        const char *comm, *name;
        int64_t pid;
        const char *namespace;
        uint32_t job; /* 0: not ours */
    } cases[] = {
        { "prterun", "prterun.vm.26", 26, namespace, 0x1ff80001 },
        { "prted", "prted.vm.26", 26, "prterun-vm-50181@1", 0x9df50001 },
        { "prted", "prted.node-1.example.26", 26, namespace, 0x1ff80001 },
        { "prted", "prted.vm.26", 27, namespace, 0 },
        { "prted", "prted.vm.26", 6, namespace, 0 },
        { "prted", "prterun.vm.26", 26, namespace, 0 },
        { "prted", "prted.26", 26, namespace, 0 },
        { "orted", "prted.vm.26", 26, namespace, 0 },
        { "prted", "prted.vm.26", 26, "prterun-vm-49884", 0 },
        { "prted", "prted.vm.26", 26, "prterun-vm-49884@65536", 0 },
        { "prted", "prted.other.26", 26, namespace, 0 }, /* there is none */
    };
    static const char *const folders[] = { "prterun.vm.26", "prted.vm.26", "prted.node-1.example.26", "prted.26" };
    char path[160];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf (path, sizeof path, "%s/%s.%u", base, folders[i], (unsigned) geteuid ());
        ok (fill_folder (path), "%s", folders[i]);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct ompi_session session;
        snprintf (path, sizeof path, "%s/%s.%u", base, cases[i].name, (unsigned) geteuid ());
        read_ompi_session_5 (&session, cases[i].pid, cases[i].comm, path, cases[i].namespace);
        ok (session.job == cases[i].job && !session.folder == !cases[i].job, "%s of %s (%d), %s: %x", cases[i].name,
            cases[i].comm, (int) cases[i].pid, cases[i].namespace, (unsigned) session.job);
        ompi_session_release (&session);
    }
}

static void
test_removal_5 (const char *base)
{
    char folder[160], own[320], other[320], host[256] = "";
    struct ompi_session session;
    snprintf (folder, sizeof folder, "%s/prted.vm.26.%u", base, (unsigned) geteuid ());
    gethostname (host, sizeof host - 1);
    /* No two tests at once have this rank. */
    snprintf (own, sizeof own, "/dev/shm/sm_segment.%s.%u.1ff80001.%d", host, (unsigned) geteuid (), (int) getpid ());
    snprintf (other, sizeof other, "/dev/shm/sm_segment.%s.%u.1ff80002.%d", host, (unsigned) geteuid (),
              (int) getpid ());
    close (open (own, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    close (open (other, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    read_ompi_session_5 (&session, 26, "prted", folder, namespace);
    bool good = !chmod (base, 0777);
    ompi_session_remove (&session);
    ok (good && !access (folder, F_OK) && !access (own, F_OK), "a folder that others can exchange stays");
    good = !chmod (base, 01777);
    ompi_session_remove (&session);
    ok (good && access (folder, F_OK) && access (own, F_OK), "ours is removed, as from /tmp, and its memory");
    ok (!access (other, F_OK), "that of another job stays");
    ompi_session_release (&session);
    unlink (other);
    unlink (own);
}

/* mpirun's own folder, by its number alone. */
static void
test_removal_of_mpirun (const char *base)
{
    char inner[120], five[420], four[420], above[380], host[256] = "";
    gethostname (host, sizeof host - 1);
    snprintf (inner, sizeof inner, "%s/tmp", base);
    snprintf (five, sizeof five, "%s/prterun.%s.26.%u", inner, host, (unsigned) geteuid ());
    snprintf (above, sizeof above, "%s/ompi.%s.%u", inner, host, (unsigned) geteuid ());
    snprintf (four, sizeof four, "%s/pid.26", above);
    bool good = !mkdir (inner, 0700) && !mkdir (above, 0700) && fill_folder (five) && fill_folder (four);
    setenv ("TMPDIR", inner, 1);
    ompi_session_remove_of (27);
    ok (good && !access (five, F_OK) && !access (four, F_OK), "the folders of another mpirun stay");
    setenv ("PRTE_MCA_prte_tmpdir_base", base, 1);
    ompi_session_remove_of (26);
    ok (!access (five, F_OK) && access (above, F_OK), "Open MPI 4: it is removed, and what holds it");
    unsetenv ("PRTE_MCA_prte_tmpdir_base");
    ompi_session_remove_of (26);
    ok (access (five, F_OK) && !access (inner, F_OK),
        "Open MPI 5: it is removed, but not the folder for temporary files");
}

static void
test_leftovers (void)
{
    char base[] = "/tmp/test_session.XXXXXX", parent[80], command[120];
    ok (mkdtemp (base) != NULL, "a folder");
    snprintf (parent, sizeof parent, "%s/ompi.host.%u", base, (unsigned) geteuid ());
    ok (!mkdir (parent, 0700), "and one of Open MPI in it");
    test_sessions (parent);
    test_removal (parent);
    test_sessions_5 (base);
    test_removal_5 (base);
    test_removal_of_mpirun (base);
    snprintf (command, sizeof command, "rm -rf %s", base);
    ok (!system (command), "and away");
}

int
main (void)
{
    test_leftovers ();
    return done_testing ();
}
