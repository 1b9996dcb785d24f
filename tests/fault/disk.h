/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fails: the program is linked with --wrap for each of these functions.  The call with a given number kills
 * the process, after half of it where it is a write, or fails, or does what the test says.
 *
 * For power that is lost, all that happens below disk_root is noted in a shadow folder: each change of a folder in a
 * log, each file's content when it was last synced, and each file itself by a link.  disk_recover() makes what a disk
 * may have after that: what was synced, and any part of the rest. */
#ifndef TESTS_FAULT_DISK_H
#define TESTS_FAULT_DISK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each function as the C library has it, and as the program calls it. */
#define DISK_WRAPPED(type, name, arguments) \
    type __real_##name arguments;           \
    type __wrap_##name arguments;
DISK_WRAPPED (ssize_t, write, (int fd, const void *bytes, size_t length))
DISK_WRAPPED (ssize_t, pwrite, (int fd, const void *bytes, size_t length, off_t offset))
DISK_WRAPPED (ssize_t, read, (int fd, void *bytes, size_t length))
DISK_WRAPPED (ssize_t, pread, (int fd, void *bytes, size_t length, off_t offset))
DISK_WRAPPED (int, open, (const char *path, int flags, ...))
DISK_WRAPPED (int, openat, (int folder, const char *path, int flags, ...))
DISK_WRAPPED (DIR *, opendir, (const char *path))
DISK_WRAPPED (int, stat, (const char *path, struct stat *info))
DISK_WRAPPED (int, lstat, (const char *path, struct stat *info))
DISK_WRAPPED (int, fstat, (int fd, struct stat *info))
DISK_WRAPPED (int, fsync, (int fd))
DISK_WRAPPED (int, ftruncate, (int fd, off_t size))
DISK_WRAPPED (int, fallocate, (int fd, int mode, off_t offset, off_t length))
DISK_WRAPPED (int, rename, (const char *from, const char *to))
DISK_WRAPPED (int, renameat, (int from_folder, const char *from, int to_folder, const char *to))
DISK_WRAPPED (int, renameat2, (int from_folder, const char *from, int to_folder, const char *to, unsigned flags))
DISK_WRAPPED (int, mkdir, (const char *path, mode_t mode))
DISK_WRAPPED (int, remove, (const char *path))
DISK_WRAPPED (int, unlink, (const char *path))
DISK_WRAPPED (int, unlinkat, (int folder, const char *path, int flags))

enum { DISK_PATH = 600, DISK_KEY = 80, DISK_NAME = 160 };

static char disk_root[DISK_PATH];   /* only what is below counts */
static const char *disk_shadow;     /* folder of what the disk has; NULL: nothing is noted */
static bool disk_lacks_exchange;    /* renameat2() as on file systems that cannot exchange */

/** From now on, the call after @p left others is the faulty one; negative: none.  @{ */
static atomic_long disk_left = -1;
static bool disk_reads;             /* calls that change nothing count, too */
static unsigned disk_cut = 128;     /* after this many of 256 bytes, if it is a write */
static int disk_errno;              /* it fails with this; 0: it kills the process, or */
static void (*disk_end) (const char *function); /* this is called, and it */
static bool disk_goes_on;           /* does what it should */
static atomic_long disk_calls;      /* so far */
/** @} */

/* ---- what is ours ---- */

static bool
disk_is_below (const char *path)
{
    size_t length = strlen (disk_root);
    return length && !strncmp (path, disk_root, length) && (!path[length] || path[length] == '/');
}

static bool
disk_has (int fd)
{
    char own[40], path[DISK_PATH];
    snprintf (own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t length = readlink (own, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return disk_is_below (path);
}

static bool
disk_has_path (int folder, const char *path)
{
    return *path == '/' || folder == AT_FDCWD ? disk_is_below (path) : disk_has (folder);
}

/* @return whether this call fails, with errno. */
static bool
disk_fault (const char *function, bool ours, bool changes)
{
    if (!ours || !(changes || disk_reads))
        return false;
    disk_calls++;
    if (disk_left < 0 || disk_left-- != 0)
        return false;
    if (!disk_errno && disk_end)
        disk_end (function);
    if (disk_goes_on)
        return false;
    if (!disk_errno) {
        kill (getpid (), SIGKILL);
        pause ();
    }
    errno = disk_errno;
    return true;
}

/* ---- what the disk knows ---- */

/* One change of folders, which a disk has as a whole or not at all: names that get another file, or none. */
struct disk_change {
    bool is_sync; /* or: all former changes of this folder are on disk */
    int count;
    struct {
        char folder[DISK_KEY], child[DISK_KEY], name[DISK_NAME];
        bool removes, is_folder;
    } names[2];
};

/* Inodes are used again: the time of birth tells two apart. */
static void
disk_key (char *key, int folder, const char *name)
{
    struct statx info;
    if (statx (folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME | STATX_TYPE, &info)) {
        *key = '\0';
        return;
    }
    snprintf (key, DISK_KEY, "%c%llu-%lld-%u", S_ISDIR (info.stx_mode) ? 'd' : 'f', (unsigned long long) info.stx_ino,
              (long long) info.stx_btime.tv_sec, info.stx_btime.tv_nsec);
}

static void
disk_shadow_path (char *path, const char *what, const char *key)
{
    snprintf (path, DISK_PATH, "%.400s/%s%.100s", disk_shadow, what, key);
}

static void
disk_log (const struct disk_change *change)
{
    char path[DISK_PATH];
    disk_shadow_path (path, "log", "");
    int fd = __real_open (path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || __real_write (fd, change, sizeof *change) != sizeof *change)
        abort ();
    close (fd);
}

/* The folder of a path, and the last component. */
static void
disk_split (int folder, const char *path, char *folder_key, char *name)
{
    char parent[DISK_PATH];
    const char *slash = strrchr (path, '/');
    snprintf (parent, sizeof parent, "%.*s", slash ? (int) (slash - path) : 0, path);
    disk_key (folder_key, folder, parent);
    snprintf (name, DISK_NAME, "%.150s", slash ? slash + 1 : path);
}

/* Add what @path leads to now, or that it leads nowhere. */
static void
disk_add (struct disk_change *change, int folder, const char *path, const char *child)
{
    int i = change->count++;
    disk_split (folder, path, change->names[i].folder, change->names[i].name);
    snprintf (change->names[i].child, DISK_KEY, "%.70s", child);
    change->names[i].is_folder = *child == 'd';
}

static void
disk_note_new (int folder, const char *path)
{
    struct disk_change change = { 0 };
    char key[DISK_KEY];
    if (!disk_shadow)
        return;
    disk_key (key, folder, path);
    disk_add (&change, folder, path, key);
    disk_log (&change);
}

static void
disk_note_removal (int folder, const char *path, const char *key)
{
    struct disk_change change = { 0 };
    if (!disk_shadow)
        return;
    disk_add (&change, folder, path, key);
    change.names[0].removes = true;
    disk_log (&change);
}

/* After it. */
static void
disk_note_rename (int from_folder, const char *from, int to_folder, const char *to, const char *key)
{
    struct disk_change change = { 0 };
    if (!disk_shadow)
        return;
    disk_add (&change, from_folder, from, key);
    change.names[0].removes = true;
    disk_add (&change, to_folder, to, key);
    disk_log (&change);
}

static void
disk_note_exchange (int from_folder, const char *from, int to_folder, const char *to)
{
    struct disk_change change = { 0 };
    char keys[2][DISK_KEY];
    if (!disk_shadow)
        return;
    disk_key (keys[0], from_folder, from);
    disk_key (keys[1], to_folder, to);
    disk_add (&change, from_folder, from, keys[0]);
    disk_add (&change, to_folder, to, keys[1]);
    disk_log (&change);
}

static void
disk_copy (const char *from, const char *to)
{
    char piece[4096];
    size_t got;
    FILE *in = fopen (from, "r"), *out = fopen (to, "w");
    if (!in || !out)
        abort ();
    while ((got = fread (piece, 1, sizeof piece, in)))
        fwrite (piece, 1, got, out);
    fclose (in);
    fclose (out);
}

/* What is synced is on disk from now on: the content of a file, or the changes of a folder. */
static void
disk_note_sync (int fd)
{
    char key[DISK_KEY], path[DISK_PATH], beside[DISK_PATH + 32], own[40];
    if (!disk_shadow)
        return;
    disk_key (key, fd, "");
    if (*key == 'd') {
        struct disk_change change = { .is_sync = true, .count = 1 };
        snprintf (change.names[0].folder, DISK_KEY, "%.70s", key);
        disk_log (&change);
        return;
    }
    disk_shadow_path (path, "synced-", key);
    snprintf (beside, sizeof beside, "%s.%d", path, (int) getpid ());
    snprintf (own, sizeof own, "/proc/self/fd/%d", fd);
    disk_copy (own, beside);
    if (__real_rename (beside, path))
        abort ();
}

/* A new file gets a second name, by which it is found whatever happens to the first. */
static void
disk_note_file (int fd, int folder, const char *path)
{
    char key[DISK_KEY], live[DISK_PATH], own[40];
    if (!disk_shadow)
        return;
    disk_key (key, fd, "");
    disk_shadow_path (live, "live-", key);
    snprintf (own, sizeof own, "/proc/self/fd/%d", fd);
    if (linkat (AT_FDCWD, own, AT_FDCWD, live, AT_SYMLINK_FOLLOW))
        abort ();
    disk_note_new (folder, path);
}

/* ---- the functions ---- */

static bool
disk_is_cut (void)
{
    return disk_left == 0 && !disk_goes_on;
}

ssize_t
__wrap_write (int fd, const void *bytes, size_t length)
{
    bool ours = disk_has (fd);
    if (ours && disk_is_cut () && __real_write (fd, bytes, length * disk_cut / 256) < 0)
        return -1;
    return disk_fault ("write", ours, true) ? -1 : __real_write (fd, bytes, length);
}

ssize_t
__wrap_pwrite (int fd, const void *bytes, size_t length, off_t offset)
{
    bool ours = disk_has (fd);
    if (ours && disk_is_cut () && __real_pwrite (fd, bytes, length * disk_cut / 256, offset) < 0)
        return -1;
    return disk_fault ("pwrite", ours, true) ? -1 : __real_pwrite (fd, bytes, length, offset);
}

ssize_t
__wrap_read (int fd, void *bytes, size_t length)
{
    return disk_fault ("read", disk_has (fd), false) ? -1 : __real_read (fd, bytes, length);
}

ssize_t
__wrap_pread (int fd, void *bytes, size_t length, off_t offset)
{
    return disk_fault ("pread", disk_has (fd), false) ? -1 : __real_pread (fd, bytes, length, offset);
}

static int
disk_open (int folder, const char *path, int flags, mode_t mode)
{
    bool ours = disk_has_path (folder, path);
    bool creates = ours && flags & O_CREAT && faccessat (folder, path, F_OK, AT_SYMLINK_NOFOLLOW);
    if (disk_fault ("open", ours, creates || flags & O_TRUNC))
        return -1;
    int fd = __real_openat (folder, path, flags, mode);
    if (fd >= 0 && creates)
        disk_note_file (fd, folder, path);
    return fd;
}

#define DISK_TAKE_MODE(mode, flags)            \
    mode_t mode = 0;                           \
    if (flags & O_CREAT) {                     \
        va_list args;                          \
        va_start (args, flags);                \
        mode = va_arg (args, mode_t);          \
        va_end (args);                         \
    }

int
__wrap_open (const char *path, int flags, ...)
{
    DISK_TAKE_MODE (mode, flags)
    return disk_open (AT_FDCWD, path, flags, mode);
}

int
__wrap_openat (int folder, const char *path, int flags, ...)
{
    DISK_TAKE_MODE (mode, flags)
    return disk_open (folder, path, flags, mode);
}

DIR *
__wrap_opendir (const char *path)
{
    return disk_fault ("opendir", disk_is_below (path), false) ? NULL : __real_opendir (path);
}

int
__wrap_stat (const char *path, struct stat *info)
{
    return disk_fault ("stat", disk_is_below (path), false) ? -1 : __real_stat (path, info);
}

int
__wrap_lstat (const char *path, struct stat *info)
{
    return disk_fault ("lstat", disk_is_below (path), false) ? -1 : __real_lstat (path, info);
}

int
__wrap_fstat (int fd, struct stat *info)
{
    return disk_fault ("fstat", disk_has (fd), false) ? -1 : __real_fstat (fd, info);
}

int
__wrap_fsync (int fd)
{
    if (disk_fault ("fsync", disk_has (fd), true))
        return -1;
    disk_note_sync (fd);
    return 0; /* the page cache is as good as a disk here */
}

int
__wrap_ftruncate (int fd, off_t size)
{
    return disk_fault ("ftruncate", disk_has (fd), true) ? -1 : __real_ftruncate (fd, size);
}

int
__wrap_fallocate (int fd, int mode, off_t offset, off_t length)
{
    return disk_fault ("fallocate", disk_has (fd), true) ? -1 : __real_fallocate (fd, mode, offset, length);
}

int
__wrap_renameat (int from_folder, const char *from, int to_folder, const char *to)
{
    char key[DISK_KEY];
    if (from_folder == to_folder && !strcmp (from, to))
        abort (); /* whoever does that has nothing to do */
    if (disk_fault ("rename", disk_has_path (from_folder, from), true))
        return -1;
    disk_key (key, from_folder, from);
    if (__real_renameat (from_folder, from, to_folder, to))
        return -1;
    disk_note_rename (from_folder, from, to_folder, to, key);
    return 0;
}

int
__wrap_rename (const char *from, const char *to)
{
    return __wrap_renameat (AT_FDCWD, from, AT_FDCWD, to);
}

int
__wrap_renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (disk_lacks_exchange)
        return errno = EINVAL, -1;
    if (disk_fault ("renameat2", disk_has_path (from_folder, from), true)
        || __real_renameat2 (from_folder, from, to_folder, to, flags))
        return -1;
    disk_note_exchange (from_folder, from, to_folder, to);
    return 0;
}

int
__wrap_mkdir (const char *path, mode_t mode)
{
    if (disk_fault ("mkdir", disk_is_below (path), true) || __real_mkdir (path, mode))
        return -1;
    disk_note_new (AT_FDCWD, path);
    return 0;
}

static int
disk_unlink (const char *function, int folder, const char *path, int flags)
{
    char key[DISK_KEY];
    if (disk_fault (function, disk_has_path (folder, path), true))
        return -1;
    disk_key (key, folder, path);
    if (__real_unlinkat (folder, path, flags))
        return -1;
    disk_note_removal (folder, path, key);
    return 0;
}

int
__wrap_remove (const char *path)
{
    struct stat info;
    bool is_folder = !__real_lstat (path, &info) && S_ISDIR (info.st_mode);
    return disk_unlink ("remove", AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

int
__wrap_unlink (const char *path)
{
    return disk_unlink ("unlink", AT_FDCWD, path, 0);
}

int
__wrap_unlinkat (int folder, const char *path, int flags)
{
    return disk_unlink ("unlink", folder, path, flags);
}

/* ---- after the power was lost ---- */

/** What survives of that which was not synced. */
enum disk_part { DISK_NONE, DISK_NAMES, DISK_BYTES, DISK_SOME };

enum { DISK_PARTS = DISK_SOME + 1 };

/* The log, as it is read for each recovery. */
struct disk_replay {
    struct disk_change *changes;
    bool *applied;
    size_t count;
    enum disk_part part;
};

static bool
disk_concerns (const struct disk_change *change, const char *folder)
{
    return !strcmp (change->names[0].folder, folder)
           || (change->count > 1 && !strcmp (change->names[1].folder, folder));
}

/* Which changes the disk has: those before a sync of their folder, and others as chance has it. */
static void
disk_choose (struct disk_replay *replay)
{
    long odds = random () % 5;
    size_t folders = 0;
    const char **synced = calloc (replay->count + 1, sizeof *synced);
    if (!synced)
        abort ();
    for (size_t i = replay->count; i--;) {
        const struct disk_change *change = &replay->changes[i];
        bool found = false;
        for (size_t j = 0; j < folders && !found; j++)
            found = disk_concerns (change, synced[j]);
        if (change->is_sync && !found)
            synced[folders++] = change->names[0].folder;
        replay->applied[i] = !change->is_sync
                             && (found || replay->part == DISK_NAMES
                                 || (replay->part == DISK_SOME && random () % 4 < odds));
    }
    free (synced);
}

static void
disk_read_log (struct disk_replay *replay)
{
    char path[DISK_PATH];
    struct stat info = { 0 };
    disk_shadow_path (path, "log", "");
    FILE *in = fopen (path, "r");
    if (in && __real_fstat (fileno (in), &info))
        abort ();
    replay->count = (size_t) info.st_size / sizeof *replay->changes;
    replay->changes = calloc (replay->count + 1, sizeof *replay->changes);
    replay->applied = calloc (replay->count + 1, sizeof *replay->applied);
    if (!replay->changes || !replay->applied
        || (in && fread (replay->changes, sizeof *replay->changes, replay->count, in) != replay->count))
        abort ();
    if (in)
        fclose (in);
}

static char *
disk_slurp (const char *path, size_t *length)
{
    struct stat info;
    FILE *in = fopen (path, "r");
    *length = in && !__real_fstat (fileno (in), &info) ? (size_t) info.st_size : 0;
    char *bytes = calloc (*length + 1, 1);
    if (!bytes || (in && fread (bytes, 1, *length, in) != *length))
        abort ();
    if (in)
        fclose (in);
    return bytes;
}

/* Bytes that were not synced are there or not, block by block; so is what a larger file has been given. */
static void
disk_recover_file (const struct disk_replay *replay, const char *key, const char *to)
{
    char path[DISK_PATH];
    size_t old_length, new_length, length, block = (size_t) 64 << random () % 7;
    disk_shadow_path (path, "synced-", key);
    char *old = disk_slurp (path, &old_length);
    disk_shadow_path (path, "live-", key);
    char *new = disk_slurp (path, &new_length);
    bool all = replay->part == DISK_BYTES, some = replay->part == DISK_SOME;
    length = all || (some && random () % 2) ? new_length : old_length;
    if (some && length && random () % 4 == 0 && (old_length != new_length || memcmp (old, new, length)))
        length = old_length < new_length ? old_length + (size_t) random () % (new_length - old_length) : length;
    FILE *out = fopen (to, "w");
    if (!out)
        abort ();
    for (size_t at = 0; at < length; at++) {
        static bool is_new;
        if (at % block == 0)
            is_new = all || (some && random () % 2);
        fputc (is_new ? (at < new_length ? new[at] : 0) : at < old_length ? old[at] : 0, out);
    }
    fclose (out);
    free (old);
    free (new);
}

/* Whether no later change that the disk has gives this name of the folder to something else. */
static bool
disk_is_last (const struct disk_replay *replay, size_t change, int which)
{
    const struct disk_change *own = &replay->changes[change];
    for (size_t i = change; i < replay->count; i++)
        for (int n = i == change ? which + 1 : 0; replay->applied[i] && n < replay->changes[i].count; n++) {
            const struct disk_change *other = &replay->changes[i];
            if (!strcmp (other->names[n].folder, own->names[which].folder)
                && !strcmp (other->names[n].name, own->names[which].name)
                && (!other->names[n].removes || !strcmp (other->names[n].child, own->names[which].child)))
                return false;
        }
    return true;
}

static void
disk_recover_folder (const struct disk_replay *replay, const char *key, const char *to)
{
    char target[DISK_PATH + DISK_NAME];
    if (__real_mkdir (to, 0777) && errno != EEXIST)
        abort ();
    for (size_t i = 0; i < replay->count; i++)
        for (int n = 0; replay->applied[i] && n < replay->changes[i].count; n++) {
            const char *child = replay->changes[i].names[n].child, *name = replay->changes[i].names[n].name;
            if (replay->changes[i].names[n].removes || strcmp (replay->changes[i].names[n].folder, key) != 0
                || !disk_is_last (replay, i, n))
                continue;
            snprintf (target, sizeof target, "%s/%s", to, name);
            if (replay->changes[i].names[n].is_folder)
                disk_recover_folder (replay, child, target);
            else
                disk_recover_file (replay, child, target);
        }
}

/** Build in @p to what the disk may have of folder @p path, which was noted from its beginning, empty. */
__attribute__ ((unused)) static void
disk_recover (const char *path, enum disk_part part, const char *to)
{
    struct disk_replay replay = { .part = part };
    char key[DISK_KEY];
    disk_read_log (&replay);
    disk_choose (&replay);
    disk_key (key, AT_FDCWD, path);
    disk_recover_folder (&replay, key, to);
    free (replay.changes);
    free (replay.applied);
}

#endif
