/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fails: the program is linked with --wrap for each of these functions.  The call with a given number kills
 * the process, after half of it where it is a write, or fails.  What would have survived a loss of power is noted in a
 * shadow folder: the content of files and folders when they were last synced. */
#ifndef TESTS_FAULT_DISK_H
#define TESTS_FAULT_DISK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

ssize_t __real_write (int fd, const void *bytes, size_t length);
ssize_t __real_pwrite (int fd, const void *bytes, size_t length, off_t offset);
int __real_fsync (int fd);
int __real_rename (const char *from, const char *to);
int __real_renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int __real_mkdir (const char *path, mode_t mode);
int __real_remove (const char *path);
int __real_unlink (const char *path);
int __real_fallocate (int fd, int mode, off_t offset, off_t length);
ssize_t __wrap_write (int fd, const void *bytes, size_t length);
ssize_t __wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset);
int __wrap_fsync (int fd);
int __wrap_rename (const char *from, const char *to);
int __wrap_renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned flags);
int __wrap_mkdir (const char *path, mode_t mode);
int __wrap_remove (const char *path);
int __wrap_unlink (const char *path);
int __wrap_fallocate (int fd, int mode, off_t offset, off_t length);

/** From now on, the call after @p left others is the faulty one; negative: none.  @{ */
static atomic_long disk_left = -1;
static int disk_errno; /* it fails with this; 0: it kills the process */
/** @} */
static atomic_long disk_calls;      /* so far */
static bool disk_lacks_exchange;    /* renameat2() as on file systems that cannot exchange */
static const char *disk_shadow;     /* folder for what is synced; NULL: nothing is noted */

/* @return whether this call fails, with errno. */
static bool
disk_fault (int fd, const void *bytes, size_t length)
{
    disk_calls++;
    if (disk_left < 0 || disk_left-- != 0)
        return false;
    if (bytes && length > 1 && __real_write (fd, bytes, length / 2) < 0)
        return errno = disk_errno, true;
    if (!disk_errno) {
        kill (getpid (), SIGKILL);
        pause ();
    }
    errno = disk_errno;
    return true;
}

/* Inodes are used again: the time of birth tells two apart. */
static void
disk_key (char *key, size_t size, int folder, const char *name)
{
    struct statx info;
    if (statx (folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &info)) {
        snprintf (key, size, "gone");
        return;
    }
    snprintf (key, size, "%llu-%lld-%u", (unsigned long long) info.stx_ino, (long long) info.stx_btime.tv_sec,
              info.stx_btime.tv_nsec);
}

static void
disk_note_folder (int fd, FILE *out)
{
    int again = openat (fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = again < 0 ? NULL : fdopendir (again);
    const struct dirent *entry;
    while (stream && (entry = readdir (stream))) {
        char key[96];
        if (!strcmp (entry->d_name, ".") || !strcmp (entry->d_name, ".."))
            continue;
        disk_key (key, sizeof key, fd, entry->d_name);
        fprintf (out, "%s %d %s\n", key, entry->d_type == DT_DIR, entry->d_name);
    }
    if (stream)
        closedir (stream);
}

static void
disk_note_file (int fd, FILE *out)
{
    char own[64], piece[4096];
    snprintf (own, sizeof own, "/proc/self/fd/%d", fd);
    int in = open (own, O_RDONLY | O_CLOEXEC);
    for (ssize_t got; in >= 0 && (got = read (in, piece, sizeof piece)) > 0;)
        fwrite (piece, 1, (size_t) got, out);
    if (in >= 0)
        close (in);
}

static void
disk_note (int fd)
{
    char key[96], path[512], beside[560];
    struct stat info;
    if (!disk_shadow || fstat (fd, &info))
        return;
    disk_key (key, sizeof key, fd, "");
    snprintf (path, sizeof path, "%s/%s", disk_shadow, key);
    snprintf (beside, sizeof beside, "%s.%d", path, (int) getpid ());
    FILE *out = fopen (beside, "w");
    if (!out)
        abort ();
    if (S_ISDIR (info.st_mode))
        disk_note_folder (fd, out);
    else
        disk_note_file (fd, out);
    fclose (out);
    if (__real_rename (beside, path))
        abort ();
}

/* Whether @fd is a file of the disk, and not a pipe, a terminal or a socket. */
static bool
disk_has (int fd)
{
    struct stat info;
    return !fstat (fd, &info) && (S_ISREG (info.st_mode) || S_ISDIR (info.st_mode)) && fd > STDERR_FILENO;
}

ssize_t
__wrap_write (int fd, const void *bytes, size_t length)
{
    if (disk_has (fd) && disk_fault (fd, bytes, length))
        return -1;
    return __real_write (fd, bytes, length);
}

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset)
{
    if (disk_left == 0 && length > 1)
        (void) !__real_pwrite (fd, bytes, length / 2, offset);
    if (disk_has (fd) && disk_fault (fd, NULL, 0))
        return -1;
    return __real_pwrite (fd, bytes, length, offset);
}

int
__wrap_fsync (int fd)
{
    if (disk_fault (fd, NULL, 0))
        return -1;
    disk_note (fd);
    return 0; /* the page cache is as good as a disk here */
}

int
__wrap_rename (const char *from, const char *to)
{
    return disk_fault (-1, NULL, 0) ? -1 : __real_rename (from, to);
}

int
__wrap_renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (disk_lacks_exchange)
        return errno = EINVAL, -1;
    return disk_fault (-1, NULL, 0) ? -1 : __real_renameat2 (from_folder, from, to_folder, to, flags);
}

int
__wrap_mkdir (const char *path, mode_t mode)
{
    return disk_fault (-1, NULL, 0) ? -1 : __real_mkdir (path, mode);
}

int
__wrap_remove (const char *path)
{
    return disk_fault (-1, NULL, 0) ? -1 : __real_remove (path);
}

int
__wrap_unlink (const char *path)
{
    return disk_fault (-1, NULL, 0) ? -1 : __real_unlink (path);
}

int
__wrap_fallocate (int fd, int mode, off_t offset, off_t length)
{
    return disk_fault (-1, NULL, 0) ? -1 : __real_fallocate (fd, mode, offset, length);
}

/* Copy what was synced of a file; nothing was: an empty one. */
static void
disk_recover_file (const char *key, const char *to)
{
    char path[512], piece[4096];
    size_t got;
    snprintf (path, sizeof path, "%s/%s", disk_shadow, key);
    FILE *in = fopen (path, "r"), *out = fopen (to, "w");
    if (!out)
        abort ();
    while (in && (got = fread (piece, 1, sizeof piece, in)))
        fwrite (piece, 1, got, out);
    if (in)
        fclose (in);
    fclose (out);
}

/**
 * Build in @p to what is on the disk after the power was lost.
 *
 * @param key      of the folder to recover
 * @param present  its path, if names that were not synced survive, but not the bytes; NULL: only what was synced
 */
static void
disk_recover (const char *key, const char *present, const char *to)
{
    char path[512], line[1024], child[96], name[256], target[768], there[768];
    int is_folder;
    FILE *list = NULL;
    if (present) {
        int fd = open (present, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        list = tmpfile ();
        if (fd >= 0)
            disk_note_folder (fd, list);
        if (fd >= 0)
            close (fd);
        rewind (list);
    } else {
        snprintf (path, sizeof path, "%s/%s", disk_shadow, key);
        list = fopen (path, "r");
    }
    if (__real_mkdir (to, 0777) && errno != EEXIST)
        abort ();
    while (list && fgets (line, sizeof line, list))
        if (sscanf (line, "%95s %d %255[^\n]", child, &is_folder, name) == 3) {
            snprintf (target, sizeof target, "%.500s/%s", to, name);
            snprintf (there, sizeof there, "%.500s/%s", present ? present : "", name);
            if (is_folder)
                disk_recover (child, present ? there : NULL, target);
            else
                disk_recover_file (child, target);
        }
    if (list)
        fclose (list);
}

#endif
