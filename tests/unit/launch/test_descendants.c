/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a sweep signals: processes that are files of a scratch folder, in the order in which /proc may list them. */
#include <config.h>

#include "launch/process/process.h"
#include "tests/scratch.h"
#include "tests/tap.h"
#include "util/cleanup.h"
#include "util/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { SELF = 500 };

static struct strbuf said;
static bool has_proc;
static int children[4]; /* that waitid() knows, the first ones are alive */
static int forked, kills, kills_wanted, zombies;

static int
fake_kill (int pid, int signal)
{
    if (pid == SELF)
        return -1;
    strbuf_printf (&said, "%s %d ", sigabbrev_np (signal), pid);
    kills++;
    return 0;
}

static int
fake_open (const char *path)
{
    char name[128];
    int pid;
    if (sscanf (path, "/proc/%d/stat", &pid) != 1)
        return -1;
    snprintf (name, sizeof name, "proc/%d", pid);
    return open (name, O_RDONLY | O_CLOEXEC);
}

static ssize_t
fake_readlink (char *text, size_t size)
{
    return has_proc ? snprintf (text, size, "%d", SELF) : -1;
}

static int
fake_waitid (int pid)
{
    for (size_t i = 0; i < sizeof children / sizeof *children; i++)
        if (pid && children[i] == pid)
            return 0;
    errno = ECHILD;
    return -1;
}

/* Children end when they have been killed often enough; then they are zombies until they are reaped. */
static pid_t
fake_waitpid (void)
{
    if (kills < kills_wanted)
        return 0;
    if (zombies-- > 0)
        return 1;
    errno = ECHILD;
    return -1;
}

#define getpid() SELF
#define kill(pid, signal) fake_kill (pid, signal)
#define open(path, flags) fake_open (path)
#define opendir(path) opendir (&(path)[1])
#define readlink(path, text, size) fake_readlink (text, size)
#define waitid(type, pid, info, options) ((void) (info), fake_waitid ((int) (pid)))
#define waitpid(pid, status, options) fake_waitpid ()
#define fork() (forked)
#define nanosleep(pause, rest) ((void) (pause))
#include "launch/process/descendants.c"
#include "util/procfs.c"
#undef kill
#undef open
#undef opendir

static void
put_process (int pid, const char *name, char state, int parent)
{
    char path[64];
    snprintf (path, sizeof path, "proc/%d", pid);
    AUTO_FILE FILE *file = fopen (path, "w");
    if (!file || fprintf (file, "%d (%s) %c %d 1 1 0", pid, name, state, parent) < 0)
        ok (false, "%s cannot be written", path);
}

static void
remove_processes (void)
{
    DIR *dir = opendir ("proc");
    char path[300];
    for (const struct dirent *item; dir && (item = readdir (dir));) {
        snprintf (path, sizeof path, "proc/%s", item->d_name);
        unlink (path);
    }
    closedir (dir);
}

static bool
has_said (const char *words)
{
    return said.text && strstr (said.text, words);
}

static void
begin (void)
{
    strbuf_truncate (&said, 0);
    strbuf_add (&said, " ");
    kills = kills_wanted = zombies = 0;
}

/* Each the child of the one before, in every order of their numbers, with names that look like the rest of the line. */
static void
test_families (void)
{
    static const int chains[][4] = { { 600, 700, 800, 900 }, { 900, 800, 700, 600 }, { 20, 900, 10, 700 } };
    char words[32];
    has_proc = true;
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        begin ();
        for (int j = 0; j < 4; j++)
            put_process (chains[i][j], j % 2 ? "a) R 1 (b" : "sh", 'S', j ? chains[i][j - 1] : SELF);
        put_process (SELF, "accelerate", 'S', 1);
        put_process (2000, "another", 'S', 1);
        put_process (2001, "500", 'S', 2000);
        put_process (2002, "zombie", 'Z', SELF);
        descendants_signal (SIGTERM);
        bool all = true;
        for (int j = 0; j < 4; j++) {
            snprintf (words, sizeof words, " TERM %d ", chains[i][j]);
            all &= has_said (words);
        }
        ok (all && kills == 4, "descendants from %d to %d, and no others:%s", chains[i][0], chains[i][3], said.text);
        remove_processes ();
    }
    begin ();
    for (int i = 0; i < 1000; i++)
        put_process (1000 + i, "child", 'S', i % 2 ? 1000 + i - 1 : SELF);
    descendants_signal (SIGKILL);
    ok (kills == 1000, "1000 descendants");
    remove_processes ();
}

/* Without /proc only children can be tried: those since us, and all numbers where these have begun again. */
static void
test_without_proc (void)
{
    static const struct {
        int children[4], newest;
        const char *wanted;
    } cases[] = {
        { { 501, 510, 599, 0 }, 600, " TERM 501 TERM 510 TERM 599 " },
        { { 7, 400, 0, 0 }, 600, " TERM 7 TERM 400 " },
        { { 7, 510, 0, 0 }, 20, " TERM 7 TERM 510 " },
    };
    has_proc = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin ();
        memcpy (children, cases[i].children, sizeof children);
        forked = cases[i].newest;
        descendants_signal (SIGTERM);
        is_text (said.text, cases[i].wanted, "children without /proc");
    }
    has_proc = true;
}

static void
test_kills (void)
{
    begin ();
    put_process (600, "child", 'S', SELF);
    kills_wanted = 5;
    zombies = 3;
    ok (descendants_kill (1000) && kills == 5, "what comes up again is killed again, five times: %d", kills);
    begin ();
    kills_wanted = 1000;
    ok (!descendants_kill (50) && kills == 50 / DESCENDANTS_PAUSE_MS, "but not longer than it may take: %d", kills);
    begin ();
    zombies = 3;
    ok (descendants_reap () && !kills, "all zombies are reaped at once");
    remove_processes ();
}

int
main (void)
{
    const char *folder = scratch_enter ();
    if (mkdir ("proc", 0700))
        return 99;
    test_families ();
    test_without_proc ();
    test_kills ();
    strbuf_release (&said);
    if (rmdir ("proc") || chdir ("/") || rmdir (folder))
        ok (false, "nothing is left behind");
    return done_testing ();
}
