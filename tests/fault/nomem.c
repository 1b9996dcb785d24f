/* SPDX-License-Identifier: Apache-2.0 */
/* Out of memory at every place, in one run.  Loaded before a command (LD_PRELOAD), this forks at each allocation: the
 * child continues with an allocator that fails for good, the parent judges how the child ended and goes to the next
 * allocation.  So no start is repeated, and thousands of cases take seconds.
 *
 * A child must either say what the command says (its output ends NOMEM_REFERENCE), or fail and say that memory was the
 * reason.  NOMEM_EVERY=N tries each Nth allocation only, NOMEM_FIRST of them first.  Every other end is a line of the
 * file NOMEM_LOG, whose last line counts the cases; with NOMEM_TRACE the places follow, as addr2line takes them.
 *
 * A command that speaks to others cannot be forked: with NOMEM_AT=N, only the Nth allocation fails, and nothing else
 * happens. */
#include <config.h>

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_BYTES = 1 << 16, TRACE = 24, CHILD_SECONDS = 600 };

extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t count, size_t size);
extern void *__libc_realloc (void *old, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

static pid_t explorer; /* 0: nothing is tried */
static bool is_failing, is_inside, wants_trace;
static int said = -1, report = -1;
static long allocations, cases, bad, every = 1, first, at;
static char reference[OUTPUT_BYTES], output[OUTPUT_BYTES];

static void
read_whole (int fd, char *text)
{
    ssize_t length = pread (fd, text, OUTPUT_BYTES - 1, 0);
    text[length > 0 ? length : 0] = '\0';
}

static bool
ends_in (const char *text, const char *end)
{
    size_t length = strlen (text), wanted = strlen (end);
    return wanted && wanted <= length && !strcmp (text + length - wanted, end);
}

/* Without memory: this runs inside malloc(). */
static void
judge (int status)
{
    static const char *const reasons[] = { "out of memory", "Cannot allocate memory", "cannot allocate memory" };
    const char *verdict = NULL;
    bool is_told = false;
    read_whole (said, output);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        is_told = is_told || strstr (output, reasons[i]);
    if (WIFSIGNALED (status))
        verdict = "killed";
    else if (ends_in (reference, output)) /* what was said before is the parent's */
        return;
    else if (!WEXITSTATUS (status) && *reference)
        verdict = "success with another output";
    else if (WEXITSTATUS (status) && !is_told)
        verdict = "another reason";
    if (!verdict)
        return;
    bad++;
    const char *line = strstr (output, "accelerate: ");
    dprintf (report, "allocation %ld: %s, status %d: %.200s\n", allocations, verdict,
             WIFSIGNALED (status) ? 128 + WTERMSIG (status) : WEXITSTATUS (status), line ? line : output);
    if (wants_trace) {
        void *places[TRACE];
        backtrace_symbols_fd (places, backtrace (places, TRACE), report);
    }
}

/* @return whether this allocation is to fail */
static bool
fails_here (void)
{
    if (is_failing || (at && __atomic_add_fetch (&allocations, 1, __ATOMIC_RELAXED) == at))
        return true;
    if (is_inside || !explorer || getpid () != explorer)
        return false;
    int saved = errno, status = 0;
    if (allocations++ % every != first)
        return false;
    off_t place = lseek (STDIN_FILENO, 0, SEEK_CUR); /* a file of answers is the child's, too */
    is_inside = true;
    cases++;
    if (ftruncate (said, 0))
        abort ();
    pid_t pid = fork ();
    if (!pid) {
        dup2 (said, STDOUT_FILENO);
        dup2 (said, STDERR_FILENO);
        alarm (CHILD_SECONDS);
        is_failing = true;
        errno = ENOMEM;
        return true;
    }
    while (waitpid (pid, &status, 0) < 0 && errno == EINTR)
        ;
    judge (status);
    if (place >= 0)
        lseek (STDIN_FILENO, place, SEEK_SET);
    is_inside = false;
    errno = saved;
    return false;
}

#define PUBLIC __attribute__ ((visibility ("default")))
#define OR_FAIL(call) (fails_here () ? (errno = ENOMEM, NULL) : (call))

PUBLIC void *
malloc (size_t size)
{
    return OR_FAIL (__libc_malloc (size));
}

PUBLIC void *
calloc (size_t count, size_t size)
{
    return OR_FAIL (__libc_calloc (count, size));
}

PUBLIC void *
realloc (void *old, size_t size)
{
    return OR_FAIL (__libc_realloc (old, size));
}

PUBLIC void *
aligned_alloc (size_t alignment, size_t size)
{
    return OR_FAIL (__libc_memalign (alignment, size));
}

PUBLIC int
posix_memalign (void **made, size_t alignment, size_t size)
{
    void *memory = OR_FAIL (__libc_memalign (alignment, size));
    if (memory)
        *made = memory;
    return memory ? 0 : ENOMEM;
}

/* Programs that the command starts run without this. */
static void __attribute__ ((constructor))
begin (void)
{
    const char *log = getenv ("NOMEM_LOG"), *file = getenv ("NOMEM_REFERENCE");
    const char *step = getenv ("NOMEM_EVERY"), *start = getenv ("NOMEM_FIRST");
    void *places[1];
    at = getenv ("NOMEM_AT") ? atol (getenv ("NOMEM_AT")) : 0;
    if (step && atol (step) > 0)
        every = atol (step);
    if (start)
        first = atol (start) % every;
    unsetenv ("LD_PRELOAD");
    if (!log)
        return;
    wants_trace = getenv ("NOMEM_TRACE") && backtrace (places, 1) >= 0; /* which loads what it needs */
    int fd = file ? open (file, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        read_whole (fd, reference);
        close (fd);
    }
    /* Out of the way of the descriptors that the command passes on. */
    report = open (log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    said = memfd_create ("output", MFD_CLOEXEC);
    report = fcntl (report, F_DUPFD_CLOEXEC, 100);
    said = fcntl (said, F_DUPFD_CLOEXEC, 100);
    int flags = fcntl (said, F_GETFL);
    if (report < 0 || said < 0 || fcntl (said, F_SETFL, flags | O_APPEND))
        abort ();
    explorer = getpid ();
}

static void __attribute__ ((destructor))
end (void)
{
    if (!explorer || getpid () != explorer)
        return;
    explorer = 0;
    dprintf (report, "%ld cases, %ld bad\n", cases, bad);
}
