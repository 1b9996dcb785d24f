/* SPDX-License-Identifier: Apache-2.0 */
/* This process's stack, unwound by itself in a signal handler; see stack.h.
 *
 * The unwinder is that of GCC's runtime, which configure links statically (libgcc_eh) if it can: libunwind, or the
 * shared libgcc_s behind backtrace(), would take 130 to 170 us to load, in each process at each start, because a
 * handler must not load them.  It reads unwind tables and the stack, and takes no lock with glibc 2.35 and later;
 * before that, only the loader's, which a thread may take again that has it.
 *
 * Assembly such as OpenBLAS's kernels has unwind tables that do not say where the stack pointer is, so the unwinder may
 * read from a wrong address.  So it runs in a child that shares our memory, as after vfork(), but not our handlers: a
 * fault ends the child, with the frames so far, and neither handlers nor other threads of the program are touched. */
#include <config.h>

#include "lib/job/stack.h"

#include "lib/base/error.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

static struct {
    _Atomic (struct jobseg_stack *) stack; /* NULL: nothing is shown */
    atomic_flag busy; /* a thread is in the handler, or changes `stack` */
    int number;       /* of the signal, whose handler stays: a late signal must not kill.  0: there is none yet */
    pid_t process;    /* a child of fork() has our memory, but is not who is asked */
} shown = { .busy = ATOMIC_FLAG_INIT };

struct walk {
    struct jobseg_stack *stack;
    uintptr_t interrupted;
};

static uintptr_t
interrupted_at (const void *context)
{
#if defined __x86_64__
    return (uintptr_t) ((const ucontext_t *) context)->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
    return (uintptr_t) ((const ucontext_t *) context)->uc_mcontext.pc;
#else
    (void) context;
    return 0;
#endif
}

/* A return address may be that of the next line, or of the next function: what is kept is inside the call. */
static _Unwind_Reason_Code
add_frame (struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    struct jobseg_stack *stack = walk->stack;
    int is_exact;
    uintptr_t address = _Unwind_GetIPInfo (context, &is_exact);
    if (!stack->count && walk->interrupted && address != walk->interrupted)
        return _URC_NO_REASON; /* the handler's own frames */
    if (!address || stack->count == JOBSEG_FRAMES)
        return _URC_END_OF_STACK;
    stack->frames[stack->count++] = is_exact ? address : address - 1;
    return _URC_NO_REASON;
}

/* The child shares the stack, too, on which the frames of this function stay: no function returns in it that was called
 * before.  Its end sends no SIGCHLD, and no wait() of the program sees it.
 * @return 0 in the child; -1: there is none */
static inline __attribute__ ((always_inline)) long
split (void)
{
    const long flags = CLONE_VM | CLONE_VFORK;
#if defined __x86_64__
    long result;
    register long child_tid __asm__ ("r10") = 0, tls __asm__ ("r8") = 0;
    __asm__ volatile ("syscall" : "=a" (result) : "0" ((long) SYS_clone), "D" (flags), "S" (0L), "d" (0L),
                      "r" (child_tid), "r" (tls) : "rcx", "r11", "memory");
    return result;
#elif defined __aarch64__
    register long number __asm__ ("x8") = SYS_clone, result __asm__ ("x0") = flags, stack __asm__ ("x1") = 0;
    register long parent_tid __asm__ ("x2") = 0, tls __asm__ ("x3") = 0, child_tid __asm__ ("x4") = 0;
    __asm__ volatile ("svc 0" : "+r" (result) : "r" (number), "r" (stack), "r" (parent_tid), "r" (tls),
                      "r" (child_tid) : "memory");
    return result;
#else
    return -(flags != 0);
#endif
}

/* Not _exit(), in which sanitizers look for leaks. */
static _Noreturn void
end_child (int number)
{
    (void) number;
    for (;;)
        syscall (SYS_exit_group, 0);
}

/* The thread sanitizer would note these handlers as the parent's. */
#ifdef __SANITIZE_THREAD__
extern __typeof__ (sigaction) __sigaction;
#define sigaction_of_child __sigaction
#else
#define sigaction_of_child sigaction
#endif

/* Without what the address sanitizer puts around variables: after a fault it would stay on the parent's stack. */
static __attribute__ ((noinline, no_sanitize_address)) _Noreturn void
unwind_in_child (struct walk *walk)
{
    static const int faults[] = { SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
    struct sigaction action = { .sa_handler = end_child, .sa_flags = SA_ONSTACK };
    sigset_t set;
    sigemptyset (&action.sa_mask);
    sigemptyset (&set);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        sigaddset (&set, faults[i]);
        sigaction_of_child (faults[i], &action, NULL);
    }
    pthread_sigmask (SIG_UNBLOCK, &set, NULL); /* a blocked fault kills, and a dumped core takes the parent with it */
    _Unwind_Backtrace (add_frame, walk);
    end_child (0);
}

/* The caller has `busy`.  No signal may run a handler of the program's in the child. */
static __attribute__ ((noinline)) void
unwind (struct walk *walk)
{
    sigset_t all, before;
    sigfillset (&all);
    pthread_sigmask (SIG_SETMASK, &all, &before);
    long child = split ();
    if (!child)
        unwind_in_child (walk);
    while (child > 0 && waitpid ((pid_t) child, NULL, __WCLONE) < 0 && errno == EINTR)
        continue;
    pthread_sigmask (SIG_SETMASK, &before, NULL);
}

static void
handle (int number, siginfo_t *info, void *context)
{
    int saved = errno;
    (void) number;
    (void) info;
    if (atomic_flag_test_and_set (&shown.busy))
        return; /* another thread is asked at the same time: who has asked hears nothing, and asks again */
    struct jobseg_stack *stack = atomic_load (&shown.stack);
    uint32_t asked = stack ? atomic_load (&stack->asked) : 0;
    if (stack && asked != atomic_load (&stack->given)) {
        struct walk walk = { .stack = stack, .interrupted = interrupted_at (context) };
        stack->count = 0;
        unwind (&walk);
        if (!stack->count && walk.interrupted) /* code without unwind tables */
            stack->frames[stack->count++] = walk.interrupted;
        atomic_store (&stack->given, asked);
    }
    atomic_flag_clear (&shown.busy);
    errno = saved;
}

static bool
is_free (int number)
{
    struct sigaction action;
    sigset_t blocked;
    return !pthread_sigmask (SIG_BLOCK, NULL, &blocked) && !sigismember (&blocked, number)
           && !sigaction (number, NULL, &action) && !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL;
}

/* Whether the handler for @number is still ours; the program may have set another one since. */
static bool
is_ours (int number)
{
    struct sigaction action;
    return number && !sigaction (number, NULL, &action) && (action.sa_flags & SA_SIGINFO)
           && action.sa_sigaction == handle;
}

/* SA_RESTART: most calls of the program that wait continue.  SA_ONSTACK: the stack of a thread may be small. */
static bool
install (int number)
{
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
    sigemptyset (&action.sa_mask);
    return is_ours (number) || (is_free (number) && !sigaction (number, &action, NULL));
}

static int
install_highest (void)
{
    if (is_ours (shown.number))
        return shown.number;
    for (int number = SIGRTMAX; number > SIGRTMIN; number--)
        if (install (number))
            return number;
    return 0;
}

static void
show_in (struct jobseg_stack *stack)
{
    while (atomic_flag_test_and_set (&shown.busy))
        sched_yield (); /* another thread is in the handler; this one cannot be */
    atomic_store (&shown.stack, stack);
    atomic_flag_clear (&shown.busy);
}

enum accel_status
stack_show (struct jobseg_slot *slot, int64_t number, struct accel_error *err)
{
    if (number > 0 && (number < SIGRTMIN || number > SIGRTMAX || !install ((int) number)))
        return accel_fail (err, ACCEL_ERR_INVALID,
                           "accel_open: stack_signal is %lld: expected a real-time signal from %d to %d that the "
                           "program does not use",
                           (long long) number, SIGRTMIN, SIGRTMAX);
    int installed = number > 0 ? (int) number : number == 0 && slot ? install_highest () : 0;
    if (!installed || !slot)
        return ACCEL_OK;
    shown.number = installed;
    shown.process = getpid ();
    show_in (&slot->stack);
    atomic_store (&slot->stack.given, atomic_load (&slot->stack.asked)); /* what an earlier process did not answer */
    atomic_store (&slot->stack.thread, (int32_t) gettid ());
    atomic_store (&slot->stack.signal, (uint32_t) installed);
    return ACCEL_OK;
}

void
stack_hide (struct jobseg_slot *slot)
{
    if (!slot || atomic_load (&shown.stack) != &slot->stack || shown.process != getpid ())
        return;
    atomic_store (&slot->stack.signal, 0);
    show_in (NULL);
}
