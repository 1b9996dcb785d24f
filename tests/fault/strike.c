/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded before a command (LD_PRELOAD), this strikes at one of its calls to the file system: STRIKE_AT is its number,
 * from 0.  Before that call, STRIKE_SIGNAL is sent to the process, or the file STRIKE_TRUNCATE loses its second half.
 * What counts are calls that change a file (or read one, with STRIKE_READS) below the folder STRIKE_ROOT.  The number
 * of all calls is written to STRIKE_LOG, their names to STRIKE_NAMES.  With STRIKE_TERMINAL, what was typed is
 * discarded before it is read for the first time, as Ctrl-C discards it. */
#include <config.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define PUBLIC __attribute__ ((visibility ("default")))

static const char *root, *log_name, *victim;
static FILE *names;
static bool counts_reads, discards;
static int number;
static long strike_at = -1, calls;

/* The C library's function of this name. */
#define NEXT(name) static __typeof__ (name) *next; \
    if (!next)                                     \
        *(void **) &next = dlsym (RTLD_NEXT, #name)

static bool
is_below (const char *path)
{
    return root && !strncmp (path, root, strlen (root));
}

static bool
is_ours (int fd)
{
    char own[40], path[4096];
    snprintf (own, sizeof own, "/proc/self/fd/%d", fd);
    ssize_t length = readlink (own, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return is_below (path);
}

static bool
is_ours_at (int folder, const char *path)
{
    char here[4096];
    if (*path == '/')
        return is_below (path);
    return folder == AT_FDCWD ? getcwd (here, sizeof here) && is_below (here) : is_ours (folder);
}

static void
count_call (const char *function, bool ours, bool reads)
{
    struct stat info;
    if (!ours || reads != counts_reads)
        return;
    if (names)
        fprintf (names, "%s\n", function);
    if (calls++ != strike_at)
        return;
    if (number)
        raise (number);
    if (victim && !stat (victim, &info) && truncate (victim, info.st_size / 2))
        abort ();
}

#define count(ours, reads) count_call (__func__, ours, reads)

PUBLIC ssize_t
write (int fd, const void *bytes, size_t length)
{
    NEXT (write);
    count (is_ours (fd), false);
    return next (fd, bytes, length);
}

PUBLIC ssize_t
pwrite (int fd, const void *bytes, size_t length, off_t offset)
{
    NEXT (pwrite);
    count (is_ours (fd), false);
    return next (fd, bytes, length, offset);
}

PUBLIC ssize_t
read (int fd, void *bytes, size_t length)
{
    NEXT (read);
    count (is_ours (fd), true);
    if (discards && !tcflush (fd, TCIFLUSH))
        discards = false;
    return next (fd, bytes, length);
}

PUBLIC ssize_t
pread (int fd, void *bytes, size_t length, off_t offset)
{
    NEXT (pread);
    count (is_ours (fd), true);
    return next (fd, bytes, length, offset);
}

PUBLIC int
fsync (int fd)
{
    NEXT (fsync);
    count (is_ours (fd), false);
    return next (fd);
}

PUBLIC int
ftruncate (int fd, off_t size)
{
    NEXT (ftruncate);
    count (is_ours (fd), false);
    return next (fd, size);
}

PUBLIC int
open (const char *path, int flags, ...)
{
    NEXT (open);
    mode_t mode = 0;
    va_list args;
    va_start (args, flags);
    if (flags & O_CREAT)
        mode = va_arg (args, mode_t);
    va_end (args);
    count (is_ours_at (AT_FDCWD, path), !(flags & O_CREAT));
    return next (path, flags, mode);
}

PUBLIC int
rename (const char *from, const char *to)
{
    NEXT (rename);
    count (is_ours_at (AT_FDCWD, from), false);
    return next (from, to);
}

PUBLIC int
mkdir (const char *path, mode_t mode)
{
    NEXT (mkdir);
    count (is_ours_at (AT_FDCWD, path), false);
    return next (path, mode);
}

PUBLIC int
unlink (const char *path)
{
    NEXT (unlink);
    count (is_ours_at (AT_FDCWD, path), false);
    return next (path);
}

PUBLIC int
unlinkat (int folder, const char *path, int flags)
{
    NEXT (unlinkat);
    count (is_ours_at (folder, path), false);
    return next (folder, path, flags);
}

PUBLIC int
remove (const char *path)
{
    NEXT (remove);
    count (is_ours_at (AT_FDCWD, path), false);
    return next (path);
}

static void __attribute__ ((constructor))
begin (void)
{
    const char *at = getenv ("STRIKE_AT"), *signal_number = getenv ("STRIKE_SIGNAL");
    unsetenv ("LD_PRELOAD");
    root = getenv ("STRIKE_ROOT");
    log_name = getenv ("STRIKE_LOG");
    victim = getenv ("STRIKE_TRUNCATE");
    counts_reads = getenv ("STRIKE_READS");
    discards = getenv ("STRIKE_TERMINAL");
    names = getenv ("STRIKE_NAMES") ? fopen (getenv ("STRIKE_NAMES"), "w") : NULL;
    strike_at = at ? atol (at) : -1;
    number = signal_number ? atoi (signal_number) : 0;
}

static void __attribute__ ((destructor))
end (void)
{
    FILE *out = log_name ? fopen (log_name, "w") : NULL;
    root = NULL;
    if (names)
        fclose (names);
    if (out) {
        fprintf (out, "%ld\n", calls);
        fclose (out);
    }
}
