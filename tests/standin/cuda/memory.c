/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that the program cannot touch: it gets addresses that no code may use, and the stand-in looks up the
 * allocation of each.  Addresses are never given out again.  An allocation comes from malloc(), so that the
 * address sanitizer sees where it ends, and the memory sanitizer what was never written. */
#include <config.h>

#include "tests/standin/cuda/standin.h"

#include "tests/standin/cuda/fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const size_t RANGE = (size_t) 1 << 36, ALIGNMENT = 256;

static char *range, *next_seen;
static struct block **blocks, *managed; /* blocks: by address, as none is given out again */
static size_t block_count;
static struct pinned {
    struct pinned *next;
    char *memory;
    size_t bytes;
} *pinned;

static bool
range_make (void)
{
    if (!range)
        range = mmap (NULL, RANGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        abort ();
    next_seen = next_seen ? next_seen : range;
    return true;
}

struct block *
block_of (const void *address)
{
    const char *at = address;
    bool is_seen = range && at >= range && at < range + RANGE;
    for (struct block *block = is_seen ? NULL : managed; block; block = block->next)
        if (at >= block->seen && at < block->seen + block->bytes)
            return block;
    size_t low = 0, high = is_seen ? block_count : 0; /* it is none before low and none from high on */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct block *block = blocks[middle];
        if (at >= block->seen && at <= block->seen + block->bytes)
            return block;
        if (at < block->seen)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* @return false: there is no memory */
static bool
add (struct block *block)
{
    if ((block_count & (block_count - 1)) == 0) { /* the room that there is, is full */
        struct block **more = realloc (blocks, (block_count ? 2 * block_count : 1) * sizeof *blocks);
        if (!more)
            return false;
        blocks = more;
    }
    blocks[block_count++] = block;
    return true;
}

struct block *
block_make (size_t bytes, int device)
{
    struct block *block = calloc (1, sizeof *block);
    size_t whole = (bytes / ALIGNMENT + 2) * ALIGNMENT;
    if (!block || !range_make () || whole > (size_t) (range + RANGE - next_seen)
        || !(block->real = malloc (bytes + !bytes)) || !add (block)) {
        if (block)
            free (block->real);
        free (block);
        return NULL;
    }
#ifndef STANDIN_UNDEFINED
    memset (block->real, 0xff, bytes);
#endif
    block->seen = next_seen;
    block->bytes = bytes;
    block->device = device;
    next_seen += whole;
    site_note (&block->made);
    return block;
}

void
block_free (struct block *block)
{
    free (block->real);
    block->real = NULL;
    if (!block->is_ended)
        site_note (&block->freed);
}

struct block *
block_manage (size_t bytes, int device)
{
    struct block *block = calloc (1, sizeof *block);
    if (!block || !(block->seen = block->real = malloc (bytes + !bytes))) {
        free (block);
        return NULL;
    }
    block->bytes = bytes;
    block->device = device;
    block->is_managed = true;
    block->next = managed;
    site_note (&block->made);
    return managed = block;
}

void
block_forget (struct block *block)
{
    struct block **at = &managed;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    free (block->real);
    free (block->uses);
    free (block);
}

void *
real_of (const void *address, size_t bytes)
{
    struct block *block = block_of (address);
    if (!block && pinned_has (address, bytes))
        return (void *) (uintptr_t) address;
    if (!block)
        report (NULL, NULL, "%p is not an address of the device", address);
    if (!block->real)
        report (&block->made, &block->freed, "memory is used after it was freed; allocated and freed at");
    size_t from = (size_t) ((const char *) address - block->seen);
    if (from + bytes > block->bytes)
        report (&block->made, NULL, "%zu bytes from byte %zu of an allocation of %zu are used; allocated at", bytes,
                from, block->bytes);
    return block->real + from;
}

bool
pinned_make (void **memory, size_t bytes)
{
    struct pinned *made = calloc (1, sizeof *made);
    if (!made || !(made->memory = malloc (bytes + !bytes))) {
        free (made);
        return false;
    }
    made->bytes = bytes;
    made->next = pinned;
    pinned = made;
    *memory = made->memory;
    return true;
}

bool
pinned_free (void *memory)
{
    for (struct pinned **at = &pinned; *at; at = &(*at)->next)
        if ((*at)->memory == memory) {
            struct pinned *found = *at;
            *at = found->next;
            free (found->memory);
            free (found);
            return true;
        }
    return false;
}

bool
pinned_has (const void *address, size_t bytes)
{
    const char *at = address;
    for (struct pinned *p = pinned; p; p = p->next)
        if (at >= p->memory && at + bytes <= p->memory + p->bytes)
            return true;
    return false;
}
