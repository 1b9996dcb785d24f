/* SPDX-License-Identifier: Apache-2.0 */
/* A process shows its stack on a signal: the right frames, no signal that the program uses, and calls that wait
 * continue. */
#include <config.h>

#include "lib/job/stack.h"

#include "tests/tap.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct jobseg_slot slot;
static struct accel_error err;
static volatile int took_own;

static int
signal_of_slot (void)
{
    return (int) atomic_load (&slot.stack.signal);
}

/* @return whether the process has answered */
static bool
ask (void)
{
    uint32_t asked = atomic_fetch_add (&slot.stack.asked, 1) + 1;
    raise (signal_of_slot ());
    return atomic_load (&slot.stack.given) == asked;
}

static __attribute__ ((noinline)) bool
stand_here (int depth)
{
    bool answered = depth ? stand_here (depth - 1) : ask ();
    __asm__ volatile ("" : : "r" (answered)); /* no tail call */
    return answered;
}

static int
count_frames_here (void)
{
    int count = 0;
    for (uint32_t i = 0; i < slot.stack.count; i++) {
        uintptr_t begin = (uintptr_t) stand_here;
        count += slot.stack.frames[i] >= begin && slot.stack.frames[i] < begin + 256;
    }
    return count;
}

static void
test_frames (void)
{
    ok (!stack_show (&slot, 0, &err) && signal_of_slot () >= SIGRTMIN && signal_of_slot () <= SIGRTMAX,
        "it is asked by a real-time signal");
    ok (atomic_load (&slot.stack.thread) == gettid (), "sent to the thread that has opened");
    errno = 77;
    ok (stand_here (9) && count_frames_here () == 10 && errno == 77, "each of ten frames, and errno as before");
    uint32_t count = slot.stack.count;
    slot.stack.frames[0] = 1;
    raise (signal_of_slot ());
    ok (slot.stack.count == count && slot.stack.frames[0] == 1, "a signal without a question writes nothing");
    ok (stand_here (200) && slot.stack.count == JOBSEG_FRAMES && count_frames_here () > JOBSEG_FRAMES - 8,
        "of a deep stack the innermost frames");
    int number = signal_of_slot ();
    stack_hide (&slot);
    ok (!signal_of_slot () && !raise (number), "after its end it cannot be asked, and a late signal does no harm");
}

static void
take (int number)
{
    (void) number;
    took_own++;
}

static void
test_choice (void)
{
    struct sigaction own = { .sa_handler = take }, now;
    sigset_t set;
    ok (!stack_show (&slot, 0, &err), "shown again");
    int first = signal_of_slot (), second = first - 1, third = first - 2;
    stack_hide (&slot);
    sigaction (first, &own, NULL);
    sigaction (second, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
    sigemptyset (&set);
    sigaddset (&set, third);
    pthread_sigmask (SIG_BLOCK, &set, NULL);
    ok (!stack_show (&slot, 0, &err) && signal_of_slot () == first - 3 && stand_here (1),
        "no signal with a handler of the program's, nor one that is ignored or blocked");
    raise (first);
    ok (took_own == 1 && !sigaction (first, NULL, &now) && now.sa_handler == take, "the program's handler stays");
    stack_hide (&slot);
    ok (stack_show (&slot, first, &err) == ACCEL_ERR_INVALID && strstr (err.text, "that the program does not use"),
        "a chosen signal that the program uses is an error");
    ok (stack_show (&slot, SIGUSR1, &err) == ACCEL_ERR_INVALID, "so is one that is not a real-time signal");
    ok (!stack_show (&slot, SIGRTMIN + 1, &err) && signal_of_slot () == SIGRTMIN + 1 && stand_here (1),
        "a free one is used");
    stack_hide (&slot);
    ok (!stack_show (&slot, -1, &err) && !signal_of_slot (), "-1: none");
    ok (!stack_show (NULL, 0, &err), "without a segment there is nothing to show");
}

struct waiter {
    pthread_t thread;
    int pipe[2];
};

static void *
ask_and_write (void *argument)
{
    struct waiter *waiter = argument;
    for (int i = 0; i < 20; i++) {
        usleep (2000);
        atomic_fetch_add (&slot.stack.asked, 1);
        pthread_kill (waiter->thread, signal_of_slot ());
    }
    usleep (2000);
    bool written = write (waiter->pipe[1], "x", 1) == 1;
    return written ? waiter : NULL;
}

static void
test_waiting (void)
{
    struct waiter waiter = { .thread = pthread_self () };
    pthread_t other;
    char byte = 0;
    ok (!stack_show (&slot, 0, &err) && !pipe (waiter.pipe), "a pipe");
    pthread_create (&other, NULL, ask_and_write, &waiter);
    ok (read (waiter.pipe[0], &byte, 1) == 1 && byte == 'x', "a read that waits continues");
    pthread_join (other, NULL);
#ifdef __SANITIZE_THREAD__ /* calls handlers later, from elsewhere: only the interrupted address is left */
    const uint32_t least = 1;
#else
    const uint32_t least = 2;
#endif
    ok (atomic_load (&slot.stack.given) == atomic_load (&slot.stack.asked) && slot.stack.count >= least,
        "and its stack is shown");
    stack_hide (&slot);
}

static atomic_bool has_done;
static int changes, took_child;

static void *
look_at_handlers (void *unused)
{
    struct sigaction now;
    while (!atomic_load (&has_done))
        changes += sigaction (SIGSEGV, NULL, &now) || now.sa_handler != take;
    return unused;
}

static void
note_child (int number)
{
    (void) number;
    took_child++;
}

/* What the process has is not touched: its threads go on meanwhile, and it may wait for children. */
static void
test_process (void)
{
    struct sigaction own = { .sa_handler = take };
    pthread_t other;
    int answers = 0;
    sigaction (SIGSEGV, &own, NULL);
    sigaction (SIGCHLD, &(struct sigaction){ .sa_handler = note_child }, NULL);
    bool is_shown = !stack_show (&slot, 0, &err);
    pthread_create (&other, NULL, look_at_handlers, NULL);
    for (int i = 0; i < 2000; i++)
        answers += ask ();
    atomic_store (&has_done, true);
    pthread_join (other, NULL);
    ok (is_shown && answers == 2000 && !changes, "no other thread sees another handler of faults meanwhile");
    ok (!took_child && waitpid (-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD, "nor a child");
    sigaction (SIGSEGV, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    stack_hide (&slot);
}

#if defined __x86_64__
/* As the kernels of OpenBLAS: the unwind table does not know that the stack pointer moves, so the return address is
 * read where something else is. */
bool call_from_wrong_table (bool (*function) (void));
__asm__ (".text\n"
         ".type call_from_wrong_table, @function\n"
         "call_from_wrong_table:\n"
         ".cfi_startproc\n"
         "push $0x1234\n"
         "call *%rdi\n"
         "pop %rcx\n"
         "ret\n"
         ".cfi_endproc\n"
         ".size call_from_wrong_table, . - call_from_wrong_table\n");

static void
test_wrong_table (void)
{
    struct sigaction own = { .sa_handler = take, .sa_flags = (int) SA_RESETHAND }, now;
    sigaction (SIGSEGV, &own, NULL);
    ok (!stack_show (&slot, 0, &err) && call_from_wrong_table (ask) && slot.stack.count > 1
            && slot.stack.frames[slot.stack.count - 1] - (uintptr_t) call_from_wrong_table < 16,
        "a wrong unwind table ends the stack, not the process");
    ok (!sigaction (SIGSEGV, NULL, &now) && now.sa_handler == take && call_from_wrong_table (ask),
        "the program's handler of faults stays, and it can be asked again");
    stack_hide (&slot);
}
#endif

int
main (void)
{
    test_frames ();
    test_choice ();
    test_waiting ();
    test_process ();
#if defined __x86_64__
    test_wrong_table ();
#endif
    return done_testing ();
}
