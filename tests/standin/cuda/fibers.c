/* SPDX-License-Identifier: Apache-2.0 */
/* Fibers with stacks of their own; see fibers.h.  Sanitizers know of them: the thread sanitizer sees each CUDA
 * thread as a thread, ordered by launches and barriers only, and the address sanitizer sees the bounds of each shared
 * variable, which is an allocation of its own. */
#include <config.h>

#include "tests/standin/cuda/fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined __SANITIZE_THREAD__
#define TSAN 1
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifdef TSAN
void *__tsan_create_fiber (unsigned flags);
void __tsan_switch_to_fiber (void *fiber, unsigned flags);
void *__tsan_get_current_fiber (void);
void __tsan_acquire (void *address);
void __tsan_release (void *address);
void AnnotateIgnoreWritesBegin (const char *file, int line);
void AnnotateIgnoreWritesEnd (const char *file, int line);
#define UNSEEN(statement)                  \
    do {                                   \
        AnnotateIgnoreWritesBegin ("", 0); \
        statement;                         \
        AnnotateIgnoreWritesEnd ("", 0);   \
    } while (0)
#define NO_SANITIZE __attribute__ ((no_sanitize_thread))
#else
#define __tsan_acquire(address) (void) (address)
#define __tsan_release(address) (void) (address)
#define UNSEEN(statement) statement
#define NO_SANITIZE
#endif

enum { MOST_THREADS = 1024, AT_ONCE = 256, MOST_SHARED = 64, BLOCKS_APART = 3 };
enum { STACK = 128 << 10 /* room for sanitizers */ };
enum state { READY, AT_BARRIER, DONE };

#ifdef __x86_64__
typedef void *context;
#else
typedef ucontext_t context;
#endif

struct fiber {
    struct fiber_self self;
    context context;
    char *stack;
    enum state state;
    void *tsan;
};

struct fiber_self *fiber_self;
static struct fiber fibers[MOST_THREADS], *current;
static context scheduler;
static unsigned threads;
#ifdef TSAN
static void *scheduler_tsan;
/* Its threads.  To make one takes long, so they are used again, but not by neighbours among blocks: barriers order all
 * that the same threads of it have done, in any block. */
static void *contexts[BLOCKS_APART][MOST_THREADS];
static unsigned block_count;
#define BLOCK_PLACE (block_count % BLOCKS_APART)
#else
#define BLOCK_PLACE 0
#endif
static const char *kernel_name;
static void (*kernel_body) (void *);
static void *kernel_argument;
static struct {
    const void *key;
    char *memory;
} shared_variables[MOST_SHARED];
static unsigned shared_count;
static int launch_edge, end_edge, barrier_edge;
static uint64_t random_state = 0x9E3779B97F4A7C15U;

void
fiber_seed (uint64_t seed)
{
    random_state = seed * 2654435761U + 0x9E3779B97F4A7C15U;
}

unsigned
fiber_random (unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned) ((random_state >> 16) % below);
}

#ifdef __x86_64__
/* Saves the registers that a called function keeps, and changes the stack. */
void fiber_swap (context *from, context to);
__asm__ (".globl fiber_swap\n.hidden fiber_swap\n.type fiber_swap,@function\nfiber_swap:\n"
         "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
         "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
         "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#define SWITCH(from, to) fiber_swap (&(from), to)
#else
#define SWITCH(from, to) swapcontext (&(from), &(to))
#endif

NO_SANITIZE static void
to_scheduler (void)
{
#ifdef TSAN
    __tsan_switch_to_fiber (scheduler_tsan, 1);
#endif
    SWITCH (current->context, scheduler);
}

NO_SANITIZE static void
fiber_main (void)
{
    __tsan_acquire (&launch_edge);
    kernel_body (kernel_argument);
    __tsan_release (&end_edge);
    current->state = DONE;
    to_scheduler ();
    abort ();
}

/* Neighbours among blocks have stacks of their own, as they have contexts: nothing orders what they keep there. */
static char *stacks_of[BLOCKS_APART][MOST_THREADS];

/* For it, and for those after it. */
NO_SANITIZE static void
make_stacks (char **own, size_t room)
{
    char *stacks = mmap (NULL, (size_t) AT_ONCE * STACK, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        abort ();
    for (size_t i = 0; i < AT_ONCE && i < room; i++)
        own[i] = stacks + i * STACK;
}

NO_SANITIZE static void
fiber_start (struct fiber *fiber)
{
    size_t number = (size_t) (fiber - fibers);
    char **stack = &stacks_of[BLOCK_PLACE][number];
    if (!*stack)
        make_stacks (stack, MOST_THREADS - number);
    fiber->stack = *stack;
#ifdef __x86_64__
    /* Not at the same place of each page, or they would all compete for a few lines of the cache. */
    void **top = (void **) (void *) (fiber->stack + STACK - (fiber - fibers) % 64 * 192);
    *--top = NULL; /* the stack is aligned as after a call */
    *--top = (void *) fiber_main;
    fiber->context = top - 6;
#else
    getcontext (&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK;
    makecontext (&fiber->context, fiber_main, 0);
#endif
    fiber->state = READY;
#ifdef TSAN
    void **own = &contexts[BLOCK_PLACE][number];
    if (!*own)
        *own = __tsan_create_fiber (0);
    fiber->tsan = *own;
#endif
}

NO_SANITIZE static void
resume (struct fiber *fiber)
{
    current = fiber;
    fiber_self = &fiber->self;
#ifdef TSAN
    __tsan_switch_to_fiber (fiber->tsan, 1);
#endif
    SWITCH (scheduler, fiber->context);
    fiber_self = NULL;
}

void NO_SANITIZE
fiber_barrier (void)
{
    __tsan_release (&barrier_edge);
    current->state = AT_BARRIER;
    to_scheduler ();
    __tsan_acquire (&barrier_edge);
}

NO_SANITIZE void *
fiber_shared (const void *key, size_t bytes)
{
    unsigned i = 0;
    while (i < shared_count && shared_variables[i].key != key)
        i++;
    if (i < shared_count)
        return shared_variables[i].memory;
    if (shared_count == MOST_SHARED)
        abort ();
    shared_variables[shared_count++].key = key;
    UNSEEN (shared_variables[i].memory = malloc (bytes));
#ifndef STANDIN_UNDEFINED /* for memory sanitizers */
    UNSEEN (memset (shared_variables[i].memory, 0xff, bytes));
#endif
    return shared_variables[i].memory;
}

/* All fibers that can run have a turn, in a new order each round.  Ended ones leave @order. */
NO_SANITIZE static unsigned
run_round (unsigned *order, unsigned *live)
{
    unsigned ran = 0;
    for (unsigned i = *live; i > 1; i--) {
        unsigned j = fiber_random (i), last = order[i - 1];
        order[i - 1] = order[j];
        order[j] = last;
    }
    for (unsigned i = 0; i < *live; i++) {
        struct fiber *fiber = &fibers[order[i]];
        if (fiber->state == READY) {
            resume (fiber);
            ran++;
        }
        if (fiber->state == DONE)
            order[i--] = order[--*live];
    }
    return ran;
}

NO_SANITIZE static void
run_block (void)
{
    unsigned order[MOST_THREADS], live = threads;
#ifdef TSAN
    block_count++;
#endif
    for (unsigned i = 0; i < threads; i++) {
        fiber_start (&fibers[i]);
        order[i] = i;
    }
    while (live) {
        run_round (order, &live);
        if (live && live < threads) {
            fprintf (stderr, "standin: kernel %s: __syncthreads() by %u of the %u threads of block %u, and the others "
                     "have returned\n", kernel_name, live, threads, fibers[0].self.ctaid.x);
            abort ();
        }
        for (unsigned i = 0; i < live; i++)
            fibers[order[i]].state = READY;
    }
}

NO_SANITIZE void
fiber_launch (const char *name, struct fiber_dim grid, struct fiber_dim block, void (*body) (void *), void *argument)
{
    unsigned blocks = grid.x * grid.y * grid.z;
    unsigned *order = malloc (blocks * sizeof *order);
    threads = block.x * block.y * block.z;
    if (!order || threads > MOST_THREADS)
        abort ();
    kernel_name = name;
    kernel_body = body;
    kernel_argument = argument;
#ifdef TSAN
    scheduler_tsan = __tsan_get_current_fiber ();
#endif
    __tsan_release (&launch_edge);
    for (unsigned i = 0; i < blocks; i++) { /* blocks in a random order, too */
        unsigned j = fiber_random (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (unsigned n = 0; n < blocks; n++) {
        unsigned b = order[n];
        for (unsigned t = 0; t < threads; t++)
            fibers[t].self = (struct fiber_self){
                .tid = { t % block.x, t / block.x % block.y, t / block.x / block.y },
                .ctaid = { b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y },
                .ntid = block,
                .nctaid = grid,
            };
        run_block ();
        while (shared_count)
            UNSEEN (free (shared_variables[--shared_count].memory));
    }
    __tsan_acquire (&end_edge);
    free (order);
}
