/* SPDX-License-Identifier: Apache-2.0 */
/* From addresses to names, in a child process; see stacks.h. */
#include <config.h>

#include "launch/stacks/stacks.h"

#include "config/text/json_text.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/io.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

enum { KILL_NAPS = 40, KILL_NAP_NS = 5000000 }; /* how long the child may take to end */

/* What a frame's address is in: a file, and where in it. */
struct place {
    char module[512];
    uint64_t offset;
};

/* A line of /proc/PID/maps: "BEGIN-END rwxp OFFSET DEVICE INODE      /path". */
static struct place
find_place (const char *maps, uint64_t address)
{
    struct place place = { .module = "?", .offset = address };
    for (const char *line = maps; line && *line; line = strchr (line, '\n'), line = line ? line + 1 : NULL) {
        unsigned long long begin, end, offset;
        int path;
        if (sscanf (line, "%llx-%llx %*s %llx %*s %*s%n", &begin, &end, &offset, &path) != 3 || address < begin
            || address >= end)
            continue;
        const char *name = line + path + strspn (line + path, " ");
        int length = (int) strcspn (name, "\n");
        if (length)
            snprintf (place.module, sizeof place.module, "%.*s", length, name);
        place.offset = address - begin + offset;
        break;
    }
    return place;
}

static json_t *
text_or_null (const char *text)
{
    return text && *text ? json_text (text) : json_null ();
}

/* Ranks run the same program, whose files are read for one of them.  @return the same place in a frame of the others;
 * NULL: there is none */
static json_t *
find_known (json_t *ranks, const char *module, const char *address)
{
    size_t i, j;
    json_t *rank, *frame;
    json_array_foreach (ranks, i, rank)
        json_array_foreach (json_object_get (rank, "stack"), j, frame) {
            const char *other = json_string_value (json_object_get (frame, "module"));
            const char *at = json_string_value (json_object_get (frame, "address"));
            if (other && at && !strcmp (other, module) && !strcmp (at, address))
                return json_incref (frame);
        }
    return NULL;
}

static json_t *
make_frame (const struct stack_rank *rank, uint64_t address, bool with_names, struct stack_symbols **symbols,
            json_t *others)
{
    struct place place = find_place (rank->maps, address);
    const char *function = NULL, *file = NULL;
    char text[24];
    int line = 0;
    snprintf (text, sizeof text, "0x%llx", (unsigned long long) place.offset);
    json_t *known = find_known (others, place.module, text);
    if (known)
        return known;
    if (with_names && !*symbols)
        *symbols = stack_symbols_open (rank->maps);
    if (with_names)
        stack_symbols_find (*symbols, address, &function, &file, &line);
    return json_pack ("{so so so so ss}", "function", text_or_null (function), "file", text_or_null (file), "line",
                      line > 0 ? json_integer (line) : json_null (), "module", json_text (place.module), "address",
                      text);
}

static json_t *
make_rank (const struct stack_rank *rank, bool with_names, json_t *others)
{
    struct stack_symbols *symbols = NULL;
    json_t *stack = rank->traceback ? stack_python_parse (rank->traceback) : json_array ();
    const char *reason = rank->traceback && !json_array_size (stack) ? "Python shows no function" : rank->reason;
    for (uint32_t i = 0; i < rank->count; i++)
        json_array_append_new (stack, make_frame (rank, rank->frames[i], with_names, &symbols, others));
    stack_symbols_close (symbols);
    return json_pack ("{si si so so so so so}", "rank", rank->rank, "pid", (int) rank->pid, "doing",
                      json_text (rank->doing), "seconds",
                      rank->elapsed_ns < 0 ? json_null () : json_real ((double) (rank->elapsed_ns / 1000000) / 1000),
                      "reason", text_or_null (reason), "process", text_or_null (rank->process), "stack", stack);
}

static json_t *
make_ranks (const struct stacks *stacks, bool with_names)
{
    json_t *ranks = json_array ();
    for (int i = 0; i < stacks->count; i++)
        json_array_append_new (ranks, make_rank (&stacks->ranks[i], with_names, ranks));
    return ranks;
}

/* A crash is this child's alone, and leaves nothing.  No signal that the launcher blocks keeps the child alive. */
static void __attribute__ ((noreturn))
answer_in_child (const struct stacks *stacks, int fd, pid_t parent)
{
    struct rlimit none = { 0, 0 };
    sigset_t all;
    sigfillset (&all);
    setpgid (0, 0);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    setrlimit (RLIMIT_CORE, &none);
    for (int number = 1; number < SIGRTMIN; number++)
        signal (number, SIG_DFL);
    sigprocmask (SIG_UNBLOCK, &all, NULL);
    if (getppid () != parent)
        _exit (FAIL_GENERAL);
    json_t *ranks = make_ranks (stacks, true);
    AUTO_FREE char *text = json_dumps (ranks, JSON_COMPACT);
    _exit (text && !io_write_all (fd, text, strlen (text)) ? 0 : FAIL_GENERAL);
}

int
stacks_start (const struct stacks *stacks, struct stack_names *names)
{
    int ends[2];
    pid_t parent = getpid ();
    *names = (struct stack_names){ .fd = -1 };
    if (pipe2 (ends, O_CLOEXEC))
        return -1;
    names->pid = fork ();
    if (names->pid == 0)
        answer_in_child (stacks, ends[1], parent);
    close (ends[1]);
    names->fd = ends[0];
    if (names->pid < 0 || fcntl (names->fd, F_SETFL, O_NONBLOCK)) {
        close (names->fd);
        *names = (struct stack_names){ .fd = -1 };
        return -1;
    }
    return 0;
}

bool
stacks_read (struct stack_names *names)
{
    char piece[16384];
    ssize_t got;
    while ((got = read (names->fd, piece, sizeof piece)) > 0)
        strbuf_add_bytes (&names->answer, piece, (size_t) got);
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Whoever reaps our children may have reaped this one, so that its number could be another's; but not as long as the
 * pipe is open, which it holds. */
json_t *
stacks_finish (struct stack_names *names, const struct stacks *stacks)
{
    json_t *ranks = NULL;
    if (names->pid > 0 && !stacks_read (names))
        kill (names->pid, SIGKILL);
    /* One that waits for a dead file server cannot be killed yet: who reaps orphans takes it. */
    for (int naps = 0; names->pid > 0 && naps < KILL_NAPS && waitpid (names->pid, NULL, WNOHANG) == 0; naps++)
        nanosleep (&(struct timespec){ .tv_nsec = KILL_NAP_NS }, NULL);
    if (names->answer.text && !names->answer.failed)
        ranks = json_loads (names->answer.text, 0, NULL);
    strbuf_release (&names->answer);
    if (names->fd >= 0)
        close (names->fd);
    *names = (struct stack_names){ .fd = -1 };
    return json_is_array (ranks) ? ranks : make_ranks (stacks, false);
}

json_t *
stacks_resolve (const struct stacks *stacks)
{
    struct stack_names names;
    int64_t until_ms = clock_ms () + STACKS_NAMES_WAIT_MS;
    if (!stacks_start (stacks, &names))
        for (int64_t left; !stacks_read (&names) && (left = until_ms - clock_ms ()) > 0;)
            poll (&(struct pollfd){ .fd = names.fd, .events = POLLIN }, 1, (int) left);
    return stacks_finish (&names, stacks);
}
