/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what a program queues is ordered: each stream, each event and the host have a clock of what they come after.
 * Two operations on one block of device memory, of which one writes, must not be on streams of which neither waits for
 * the other. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

clock_row host_clock;

void
clock_join (clock_row into, const clock_row from)
{
    for (int i = 0; i < MOST_STREAMS; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

void
site_note (struct site *site)
{
    site->depth = backtrace (site->at, SITE_DEPTH);
}

/* Without the stand-in's own functions, which have no names for the program. */
static void
site_print (const struct site *site, const char *what)
{
    Dl_info own, info;
    dladdr ((void *) site_print, &own);
    fprintf (stderr, "standin:   %s:", what);
    for (int i = 0; i < site->depth; i++) {
        const char *base;
        if (!dladdr (site->at[i], &info) || !info.dli_fname)
            continue;
        for (const char *c = base = info.dli_fname; *c; c++)
            base = *c == '/' ? c + 1 : base;
        fprintf (stderr, " %s+%#zx%s%s", info.dli_sname ? info.dli_sname : base,
                 (size_t) site->at[i] - (size_t) (info.dli_sname ? info.dli_saddr : info.dli_fbase),
                 info.dli_sname ? " in " : "", info.dli_sname ? base : "");
    }
    fprintf (stderr, "\n");
}

__attribute__ ((noreturn, format (printf, 3, 0))) static void
complain (const struct site *first, const struct site *second, const char *format, va_list arguments)
{
    static char text[8192]; /* at once, because other ranks may complain, too */
    struct site here;
    setvbuf (stderr, text, _IOFBF, sizeof text);
    fprintf (stderr, "standin: ");
    vfprintf (stderr, format, arguments);
    fprintf (stderr, "\n");
    if (first)
        site_print (first, "before");
    if (second)
        site_print (second, "then");
    site_note (&here);
    site_print (&here, "now");
    fflush (stderr);
    abort ();
}

void
report (const struct site *first, const struct site *second, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    complain (first, second, format, arguments);
}

__attribute__ ((visibility ("default"))) void
standin_report (const struct site *first, const struct site *second, const char *format, ...)
{
    va_list arguments;
    va_start (arguments, format);
    complain (first, second, format, arguments);
}

static bool
comes_after (const struct CUstream_st *stream, const struct use *use)
{
    return use->slot == stream->slot || use->time <= stream->clock[use->slot];
}

__attribute__ ((visibility ("default"))) void
standin_mark (cudaStream_t handle, struct use *mark)
{
    pthread_mutex_lock (&standin_lock);
    const struct CUstream_st *stream = stream_of (handle);
    mark->slot = stream->slot;
    mark->time = stream->clock[stream->slot];
    pthread_mutex_unlock (&standin_lock);
}

__attribute__ ((visibility ("default"))) bool
standin_follows (cudaStream_t handle, const struct use *mark)
{
    pthread_mutex_lock (&standin_lock);
    struct CUstream_st *stream = stream_of (handle);
    clock_join (stream->clock, host_clock);
    bool follows = comes_after (stream, mark);
    pthread_mutex_unlock (&standin_lock);
    return follows;
}

static void
check (const struct CUstream_st *stream, const struct block *block, const struct use *now, const char *what)
{
    for (size_t i = 0; i < block->use_count; i++) {
        const struct use *use = &block->uses[i];
        if (use->end <= now->begin || now->end <= use->begin || !(use->writes || now->writes)
            || comes_after (stream, use))
            continue;
        if (use->writes)
            report (&use->site, NULL, "%s uses memory that another stream writes, without an event between them",
                    what);
        report (&use->site, NULL, "%s writes memory that another stream reads, without an event between them", what);
    }
}

/* What comes before @now, of the same bytes, is found by whoever is found by @now. */
static bool
replaces (const struct use *now, const struct use *use)
{
    return now->begin <= use->begin && use->end <= now->end
           && (now->writes || (!use->writes && use->slot == now->slot));
}

static void
note_use (struct block *block, const struct use *now)
{
    size_t kept = 0;
    for (size_t i = 0; i < block->use_count; i++)
        if (!replaces (now, &block->uses[i]))
            block->uses[kept++] = block->uses[i];
    if (kept == block->use_room) {
        block->use_room = 2 * kept + 8;
        block->uses = realloc (block->uses, block->use_room * sizeof *block->uses);
        if (!block->uses)
            abort ();
    }
    block->uses[kept] = *now;
    block->use_count = kept + 1;
}

void
stream_uses (struct CUstream_st *stream, struct block *block, const void *address, size_t bytes, bool writes,
             const char *what)
{
    stream_reaches (stream, block, address, bytes, writes, stream->device, what);
}

void
stream_reaches (struct CUstream_st *stream, struct block *block, const void *address, size_t bytes, bool writes,
                int device, const char *what)
{
    size_t begin = address ? (size_t) ((const char *) address - block->seen) : 0;
    clock_join (stream->clock, host_clock);
    if (!block->real || block->is_ended)
        report (&block->made, &block->freed, "%s uses memory that was freed; allocated and freed at", what);
    if (block->device != device)
        report (&block->made, NULL, "%s on a stream of device %d uses memory of device %d", what, device,
                block->device);
    struct use use = { .begin = begin, .end = address ? begin + bytes : SIZE_MAX, .writes = writes,
                       .slot = stream->slot, .time = stream->clock[stream->slot] + 1 };
    check (stream, block, &use, what);
    site_note (&use.site);
    note_use (block, &use);
}
