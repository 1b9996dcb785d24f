/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of ranks that write what they like, or are asked what they do not expect; names with and without libdw;
 * text. */
#include <config.h>

#include "launch/stacks/stacks.h"
#include "util/procfs.h"

#include "tests/tap.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void *__real_dlopen (const char *name, int flags);
void *__wrap_dlopen (const char *name, int flags);

static bool lacks_libdw;

void *
__wrap_dlopen (const char *name, int flags)
{
    return lacks_libdw ? NULL : __real_dlopen (name, flags);
}

static struct jobseg segment = JOBSEG_NONE;
static volatile uint32_t written_count; /* what the rank says */

static struct jobseg_slot *
slot_of (int rank)
{
    return jobseg_slot (&segment, rank);
}

static __attribute__ ((noinline)) void
landmark (void)
{
    __asm__ volatile ("nop; nop; nop; nop");
}

/* A rank's handler, with what a rank may have put into its slot. */
static void
answer (int number)
{
    struct jobseg_stack *stack = &slot_of (0)->stack;
    (void) number;
    stack->count = written_count;
    for (int i = 0; i < JOBSEG_FRAMES; i++)
        stack->frames[i] = i ? UINT64_C (0xdead0000beef) * (uint64_t) i : (uint64_t) (uintptr_t) landmark + 1;
    atomic_store (&stack->given, atomic_load (&stack->asked));
}

/* A process that is rank @index; with the handler for @number, unless that is 0. */
static pid_t
start_rank (int index, int number)
{
    int ready[2];
    char byte;
    struct jobseg_slot *slot = slot_of (index);
    if (pipe (ready))
        return -1;
    pid_t pid = fork ();
    if (pid == 0) {
        prctl (PR_SET_PDEATHSIG, SIGKILL);
        if (number)
            signal (number, answer);
        if (write (ready[1], "x", 1) != 1)
            _exit (1);
        for (;;)
            pause ();
    }
    ok (read (ready[0], &byte, 1) == 1, "a process is rank %d", index);
    close (ready[0]);
    close (ready[1]);
    atomic_store (&slot->pid, pid);
    atomic_store (&slot->pid_space, procfs_pid_space ());
    atomic_store (&slot->state, JOBSEG_READY);
    atomic_store (&slot->stack.thread, pid);
    return pid;
}

static void
end_rank (pid_t pid)
{
    kill (pid, SIGKILL);
    waitpid (pid, NULL, 0);
}

static void
take (struct stacks *stacks)
{
    *stacks = (struct stacks){ 0 };
    ok (stacks_add (stacks, &segment, 0, 0), "a rank is asked");
    stacks_take (stacks, 100);
}

static bool
refuses (int number, const char *reason)
{
    struct stacks stacks;
    atomic_store (&slot_of (0)->stack.signal, (uint32_t) number);
    uint32_t asked = atomic_load (&slot_of (0)->stack.asked);
    take (&stacks);
    bool refused = strstr (stacks.ranks[0].reason, reason) && stacks.ranks[0].count == 0
                   && atomic_load (&slot_of (0)->stack.asked) == asked;
    diag ("%s; %s", stacks.ranks[0].reason, stacks.ranks[0].process);
    stacks_release (&stacks);
    return refused;
}

static void
test_signals (void)
{
    pid_t pid = start_rank (0, 0);
    ok (refuses (SIGKILL, "no handler"), "no signal is sent that is not a real-time signal");
    ok (refuses (SIGRTMAX, "no handler"), "nor one without a handler, as after exec()");
    ok (refuses (-1, "no handler") && refuses (INT32_MAX, "no handler"), "nor one that does not exist");
    ok (refuses (0, "does not show it"), "nor any if the rank has named none");
    ok (!kill (pid, 0) && waitpid (pid, NULL, WNOHANG) == 0, "the process lives");
    atomic_store (&slot_of (0)->pid, 1);
    ok (refuses (SIGRTMAX, "no handler"), "nor to a process that is no rank");
    atomic_store (&slot_of (0)->pid, pid);
    atomic_store (&slot_of (0)->pid_space, procfs_pid_space () + 1);
    ok (refuses (SIGRTMAX, "another container"), "nor to a number of another container");
    atomic_store (&slot_of (0)->pid_space, procfs_pid_space ());
    kill (pid, SIGSTOP);
    waitpid (pid, NULL, WUNTRACED);
    ok (refuses (SIGRTMAX, "stopped by a signal"), "nor to one that is stopped");
    end_rank (pid);
    ok (refuses (SIGRTMAX, "has ended"), "one that has ended");
}

static json_t *
first_frame (json_t *ranks)
{
    return json_array_get (json_object_get (json_array_get (ranks, 0), "stack"), 0);
}

static const char *
word (json_t *frame, const char *key)
{
    const char *text = json_string_value (json_object_get (frame, key));
    return text ? text : "(null)";
}

static void
test_contents (void)
{
    struct stacks stacks;
    struct strbuf text = { 0 };
    written_count = UINT32_MAX;
    pid_t pid = start_rank (0, SIGRTMAX);
    atomic_store (&slot_of (0)->stack.signal, (uint32_t) SIGRTMAX);
    take (&stacks);
    ok (stacks.ranks[0].count == JOBSEG_FRAMES, "of a count that is too large, as many as there is room for");
    json_t *ranks = stacks_resolve (&stacks);
    ok (json_array_size (json_object_get (json_array_get (ranks, 0), "stack")) == JOBSEG_FRAMES, "all of them");
#ifndef __clang__ /* it writes no .debug_aranges, by which libdw finds the lines of an address */
    if (__real_dlopen ("libdw.so.1", RTLD_NOW))
        ok (!strcmp (word (first_frame (ranks), "function"), "landmark")
            && strstr (word (first_frame (ranks), "file"), "test_stacks.c"), "libdw finds function and file");
#endif
    stacks_put_own_frame (json_array_get (ranks, 0), &text);
    diag ("%s", text.text ? text.text : "");
    json_decref (ranks);
    lacks_libdw = true;
    ranks = stacks_resolve (&stacks);
    lacks_libdw = false;
    ok (json_is_null (json_object_get (first_frame (ranks), "function"))
        && strstr (word (first_frame (ranks), "module"), "test_stacks")
        && !strncmp (word (first_frame (ranks), "address"), "0x", 2), "without libdw the file and the offset");
    strbuf_truncate (&text, 0);
    stacks_put (ranks, "", &text);
    ok (text.text && strstr (text.text, "test_stacks+0x") && strstr (text.text, "?+0xdead0000beef\n"),
        "as text: addresses that are in no file, too");
    json_decref (ranks);
    stacks_release (&stacks);
    strbuf_release (&text);
    end_rank (pid);
}

/* The child that finds names has crashed, or did not end: addresses are known all the same. */
static void
test_child (void)
{
    struct stacks stacks;
    struct stack_names names;
    written_count = 1;
    pid_t pid = start_rank (0, SIGRTMAX);
    take (&stacks);
    ok (stacks.ranks[0].count == 1 && !stacks_start (&stacks, &names), "a child");
    kill (names.pid, SIGKILL);
    while (!stacks_read (&names))
        usleep (1000);
    strbuf_truncate (&names.answer, 0);
    json_t *ranks = stacks_finish (&names, &stacks);
    ok (strstr (word (first_frame (ranks), "module"), "test_stacks"), "that was killed costs only names");
    json_decref (ranks);
    stacks_release (&stacks);
    end_rank (pid);
}

typedef void put_function (const json_t *ranks, const char *indent, struct strbuf *out);

static bool
shows_by (put_function *put, const char *json, const char *wanted)
{
    struct strbuf text = { 0 };
    json_t *ranks = json_loads (json, 0, NULL);
    put (ranks, "  ", &text);
    bool same = text.text && !strcmp (text.text, wanted);
    if (!same)
        diag ("got: %s", text.text ? text.text : "(nothing)");
    json_decref (ranks);
    strbuf_release (&text);
    return same;
}

static bool
shows (const char *json, const char *wanted)
{
    return shows_by (stacks_put, json, wanted);
}

#define FRAME(function, file, line, module) \
    "{\"function\":" function ",\"file\":" file ",\"line\":" line ",\"module\":\"" module "\",\"address\":\"0x10\"}"
#define STACK_A                                                                                                     \
    "[" FRAME ("\"futex_wait\"", "\"futex.h\"", "8", "/lib/libaccel.so.0.0.0") ","                                  \
        FRAME ("\"accel_backward_at\"", "\"model.c\"", "9", "/lib/libaccel.so.0.0.0") ","                           \
        FRAME ("\"train\"", "\"/home/a/train.c\"", "88", "/home/a/train") ","                                       \
        FRAME ("\"__libc_start_main@@GLIBC_2.34\"", "null", "null", "/lib/libc.so.6") ","                           \
        FRAME ("\"_start\"", "null", "null", "/home/a/train") "]"

static void
test_text (void)
{
    ok (shows ("[{\"rank\":0,\"doing\":\"in x\",\"seconds\":61.5,\"stack\":" STACK_A "},"
               "{\"rank\":1,\"doing\":\"in x\",\"seconds\":59.0,\"stack\":" STACK_A "},"
               "{\"rank\":2,\"doing\":\"in y\",\"seconds\":null,\"stack\":" STACK_A "},"
               "{\"rank\":3,\"doing\":\"in x\",\"seconds\":60.0,\"stack\":" STACK_A "}]",
               "  ranks 0-1, 3: in x for 61 s\n    accel_backward (libaccel)\n    train (train.c:88)\n"
               "  rank 2: in y\n    accel_backward (libaccel)\n    train (train.c:88)\n"),
        "equal stacks together, libraries as what is called of them, nothing below main()");
    ok (shows ("[{\"rank\":0,\"doing\":\"a\\u001b[31m\",\"seconds\":0.25,\"stack\":["
               FRAME ("\"f\\u001b[2J\"", "\"a\\nb.c\"", "3", "/x/p") "]}]",
               "  rank 0: a\\x1b[31m for 0.25 s\n    f\\x1b[2J (a\\nb.c:3)\n"),
        "control characters reach no terminal");
    ok (shows ("[{\"rank\":5,\"pid\":7,\"doing\":\"computing\",\"seconds\":7300.0,\"reason\":\"why\","
               "\"process\":\"sleeping, 1 thread\",\"stack\":[]}]",
               "  rank 5: computing for 2 h 1 min\n    no stack: why; process 7: sleeping, 1 thread\n"),
        "a rank without a stack");
    ok (shows ("[{\"rank\":0,\"doing\":\"in z\",\"seconds\":null,\"stack\":["
               FRAME ("\"accel_loader_create_sized\"", "null", "null", "/lib/libaccel.so.0") ","
               FRAME ("\"size_it_sized\"", "\"a.c\"", "3", "/x/p") "]}]",
               "  rank 0: in z\n    accel_loader_create (libaccel)\n    size_it_sized (a.c:3)\n"),
        "functions of libaccel have the names of their macros");
    ok (shows ("[{},{\"rank\":\"x\",\"stack\":7},3]", "  ranks 0, 0, 0: \n    no stack: \n"), "nonsense is survived");
}

static void
test_places (void)
{
    struct strbuf json = { 0 }, wanted = { 0 };
    ok (shows_by (stacks_put_places,
                  "[{\"rank\":0,\"doing\":\"in x\",\"seconds\":61.5,\"stack\":" STACK_A "},"
                  "{\"rank\":1,\"doing\":\"in x\",\"seconds\":59.0,\"stack\":["
                  FRAME ("\"train\"", "\"train.c\"", "88", "t") "]},"
                  "{\"rank\":2,\"doing\":\"in x\",\"seconds\":null,\"reason\":\"why\",\"stack\":[]},"
                  "{\"rank\":3,\"doing\":\"in y\",\"seconds\":60.0,\"stack\":" STACK_A "}]",
                  "  ranks 0-1: in x for 61 s, in train (train.c:88)\n  rank 2: in x\n"
                  "  rank 3: in y for 60 s, in train (train.c:88)\n"),
        "a line for each place, whatever the library does there; without a stack only what is known");
    for (int rank = 0; rank < 10; rank++) {
        strbuf_printf (&json, "%c{\"rank\":%d,\"doing\":\"in z\",\"stack\":["
                       FRAME ("\"f\"", "\"f.c\"", "%d", "t") "]}", rank ? ',' : '[', rank, rank);
        if (rank < 8)
            strbuf_printf (&wanted, "  rank %d: in z, in f (f.c:%d)\n", rank, rank);
    }
    strbuf_add_char (&json, ']');
    strbuf_add (&wanted, "  and 2 more ranks\n");
    ok (shows_by (stacks_put_places, json.text, wanted.text), "of many places eight");
    ok (shows_by (stacks_put_places, "[{},{\"rank\":\"x\",\"stack\":7},3]", "  ranks 0, 0, 0: \n"),
        "nonsense is survived there, too");
    strbuf_release (&json);
    strbuf_release (&wanted);
}

static void
test_gpu (void)
{
    static const struct {
        const char *stack;
        bool is_gpu;
    } rows[] = {
        { FRAME ("\"poll\"", "null", "null", "/lib/libc.so.6") ","
          FRAME ("null", "null", "null", "/lib/libcuda.so.1"), true },
        { FRAME ("\"nanosleep\"", "null", "null", "/lib/libc.so.6") ","
          FRAME ("\"cudaDeviceSynchronize\"", "null", "null", "/x/p"), true },
        { FRAME ("\"cuStreamSynchronize@@1\"", "null", "null", "/x/p"), true },
        { FRAME ("\"threadSynchronize\"", "null", "null", "/x/p"), false },
        { FRAME ("\"cudaDeviceSynchronizes\"", "null", "null", "/x/p"), false },
        { FRAME ("\"cut\"", "null", "null", "/x/libcurl.so.4"), false },
        { FRAME ("\"train\"", "null", "null", "/x/libcudatrain.so"), false },
        { FRAME ("null", "null", "null", "/x/libcudart-9335f6a2.so.12.2"), true },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf (text, sizeof text, "[{\"rank\":0,\"stack\":[]},{\"rank\":1,\"stack\":[%s]}]", rows[i].stack);
        json_t *ranks = json_loads (text, 0, NULL);
        ok (ranks && stacks_show_gpu (ranks, 1) == rows[i].is_gpu && !stacks_show_gpu (ranks, 0),
            "stack %zu %s a GPU", i, rows[i].is_gpu ? "waits for" : "does not wait for");
        json_decref (ranks);
    }
}

int
main (void)
{
    struct fail fail;
    ok (!jobseg_create (&segment, 2, 2, 0, "job", &fail), "a segment");
    test_signals ();
    test_contents ();
    test_child ();
    test_text ();
    test_places ();
    test_gpu ();
    jobseg_detach (&segment);
    return done_testing ();
}
