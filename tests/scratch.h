/* SPDX-License-Identifier: Apache-2.0 */
/* A folder for the files of a C test, which goes when the program ends. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRATCH_SIZE = 256, SCRATCH_DESCRIPTORS = 16 };

static char scratch_path[SCRATCH_SIZE];
static pid_t scratch_maker;

static int
scratch_remove_one (const char *path, const struct stat *info, int kind, struct FTW *ftw)
{
    (void) info, (void) kind, (void) ftw;
    return remove (path);
}

static void
scratch_remove (void)
{
    if (getpid () == scratch_maker) /* and not a child of the test */
        nftw (scratch_path, scratch_remove_one, SCRATCH_DESCRIPTORS, FTW_DEPTH | FTW_PHYS);
}

/** @return a new folder in TMPDIR, or in /tmp; the same one at each call.  Ends the test if it cannot be made. */
static const char *
scratch_folder (void)
{
    const char *parent = getenv ("TMPDIR");
    if (scratch_maker)
        return scratch_path;
    int length = snprintf (scratch_path, sizeof scratch_path, "%s/accel-test.XXXXXX",
                           parent && *parent == '/' ? parent : "/tmp");
    if (length >= SCRATCH_SIZE || !mkdtemp (scratch_path) || atexit (scratch_remove)) {
        printf ("Bail out! no scratch folder %s\n", scratch_path);
        exit (99);
    }
    scratch_maker = getpid ();
    return scratch_path;
}

/** Make it the current folder too. */
__attribute__ ((unused)) static const char *
scratch_enter (void)
{
    if (chdir (scratch_folder ())) {
        printf ("Bail out! cannot enter %s\n", scratch_path);
        exit (99);
    }
    return scratch_path;
}

/** @param folder  NULL: the scratch folder  @return how many files are in it */
__attribute__ ((unused)) static size_t
scratch_count (const char *folder)
{
    DIR *dir = opendir (folder ? folder : scratch_folder ());
    size_t count = 0;
    for (struct dirent *entry; dir && (entry = readdir (dir)); )
        count += strcmp (entry->d_name, ".") && strcmp (entry->d_name, "..");
    if (dir)
        closedir (dir);
    return count;
}

/** @return how many bytes were read; 0: it is empty, or there is none */
__attribute__ ((unused)) static size_t
scratch_read (const char *path, char *bytes, size_t room)
{
    FILE *file = fopen (path, "r");
    size_t length = file ? fread (bytes, 1, room, file) : 0;
    if (file)
        fclose (file);
    return length;
}

/** @return how many bytes two files have if they are the same; -1 if they are not, or if one cannot be read */
__attribute__ ((unused)) static long
scratch_same (const char *a, const char *b)
{
    FILE *files[] = { fopen (a, "rb"), fopen (b, "rb") };
    bool same = files[0] && files[1];
    long size = -1;
    for (int c = 0; same && c != EOF; size++) {
        c = getc (files[0]);
        same = c == getc (files[1]) && !ferror (files[0]) && !ferror (files[1]);
    }
    for (int i = 0; i < 2; i++)
        if (files[i])
            fclose (files[i]);
    return same ? size : -1;
}

__attribute__ ((unused)) static bool
path_exists (const char *path)
{
    return !access (path, F_OK);
}

__attribute__ ((unused)) static void
scratch_write (const char *path, const char *text)
{
    FILE *file = fopen (path, "w");
    if (!file || fputs (text, file) < 0 || fclose (file))
        exit (99);
}

#endif
