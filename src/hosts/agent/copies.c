/* SPDX-License-Identifier: Apache-2.0 */
/* The process that copies checkpoints in memory to the next host; see copies.h.
 *
 * One thread sends, another receives from the host before and passes on what belongs to the round.  A round is
 * WIRE_COPY_ROUND, which goes once around the ring, the shares of each host, and WIRE_COPY_DONE, which follows the
 * shares of each host and so comes back to the first host when all have theirs.  What is copied is used only if it is
 * whole: ranks overwrite a save that was named after they had left it, which the sender notices.
 *
 * What all ranks have in common is not sent, as each host has saved it itself.  If the host after the first says with
 * WIRE_COPY_DONE that what it has is not the same, it is sent from then on, with the share of rank 0. */
#include <config.h>

#include "hosts/agent/copies.h"

#include "hosts/net/address.h"
#include "hosts/net/channel.h"
#include "hosts/net/wire.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"
#include "util/futex.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PIECE = 1 << 20,
    ROUNDS = 4,           /* that wait to be passed on; there are never more than two */
    CONNECT_MS = 3000,    /* for one address */
    CONNECT_TRIES = 5, PAUSE_MS = 1000,
    GREETING_MS = 5000,   /* of who connects, from the first byte to WIRE_COPY_HELLO */
    WAIT_MS = 5000,       /* between looks for a save, without a wake-up */
    AGAIN_TRIES = 30,     /* after the ring has broken: usually, the job is ending */
    SILENCE_S = 30, PROBES = 3, /* after which a connection whose other side has vanished is broken */
    NICE = 10,            /* where processors are few, ranks come first */
    FARTHEST = 64,        /* saves between the newest and the one that is named, at most */
};

/* What goes around. */
struct round {
    enum wire_type type; /* WIRE_COPY_ROUND or WIRE_COPY_DONE */
    uint64_t number;     /* of the save, by memtier_number() */
    uint64_t kept;       /* of WIRE_COPY_ROUND: the save before, of which all have copies; 0: none */
    bool is_whole;       /* of WIRE_COPY_DONE: all hosts so far have sent theirs, and got them */
    bool lacks_common;   /* of WIRE_COPY_DONE: one of them has something else in common than rank 0 */
    struct memtier_entry expected; /* of WIRE_COPY_DONE: what it should have; no bytes: nothing, or it was sent */
};

struct ring {
    const struct memtier *memtier;
    const struct copies_next *next;
    struct channel_key key;
    bool is_again;          /* it was broken before */
    bool sends_common;      /* the next host lacks what all ranks have in common */
    int listener;
    int out;                /* the connection to the next host */
    struct channel to_next;
    pthread_mutex_t lock;
    pthread_cond_t has_come;
    struct round rounds[ROUNDS];
    size_t round_count;
    struct { /* what is being received */
        size_t entry;       /* that gets it */
        uint64_t bytes, done;
        struct memtier_entry parts;
        struct memtier_entry expected; /* of this round */
        bool is_stored;
        bool is_whole;      /* all of this round so far */
    } share;
};

/* A line for the user, by way of SSH's standard error.  One process or the other may end the job meanwhile. */
__attribute__ ((format (printf, 2, 3))) static void
complain (const struct ring *ring, const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start (arguments, format);
    vsnprintf (text, sizeof text, format, arguments);
    va_end (arguments);
    dprintf (2, "no copies of checkpoints in memory %s: %s\n", ring->next->name, text);
}

/* ---- bytes ---- */

/* The ring has broken.  Both connections end with this process, so its neighbours notice; copies_keep() starts another
 * one. */
static _Noreturn void
give_up (void)
{
    _exit (FAIL_STOPPED);
}

static bool
send_all (int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t put = send (fd, bytes, length, MSG_NOSIGNAL);
        if (put < 0 && errno != EINTR)
            return false;
        bytes += put > 0 ? put : 0;
        length -= put > 0 ? (size_t) put : 0;
    }
    return true;
}

static void
set_option (int fd, int level, int option, int value)
{
    setsockopt (fd, level, option, &value, sizeof value);
}

static void
prepare_socket (int fd)
{
    fcntl (fd, F_SETFL, 0);
    set_option (fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option (fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option (fd, IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_S / PROBES);
    set_option (fd, IPPROTO_TCP, TCP_KEEPINTVL, SILENCE_S / PROBES);
    set_option (fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set_option (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_S * 1000);
}

/* recv(), until @until_ms at most; 0: no limit */
static ssize_t
receive_until (int fd, char *bytes, size_t size, int64_t until_ms)
{
    int64_t left = until_ms ? until_ms - clock_ms () : 0;
    const struct timeval limit = { .tv_sec = left / 1000, .tv_usec = left % 1000 * 1000 };
    if (until_ms && left <= 0)
        return -1;
    setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return recv (fd, bytes, size, 0);
}

/* ---- to the next host ---- */

/* @return whether an answer came; who does not know the key cannot read what follows */
static bool
greet (struct ring *ring, int fd)
{
    AUTO_STRBUF struct strbuf out = { 0 }, in = { 0 }, frame = { 0 };
    char bytes[256];
    int64_t until_ms = clock_ms () + GREETING_MS;
    prepare_socket (fd);
    channel_init (&ring->to_next, false, &out);
    if (out.failed || !send_all (fd, out.text, out.length))
        return false;
    strbuf_truncate (&out, 0);
    while (!channel_is_open (&ring->to_next)) {
        size_t used;
        ssize_t got = receive_until (fd, bytes, sizeof bytes, until_ms);
        if (got <= 0)
            return false;
        strbuf_add_bytes (&in, bytes, (size_t) got);
        if (in.failed || channel_next (&ring->to_next, &ring->key, in.text, in.length, &out, &frame, &used) < 0)
            return false;
        strbuf_drop (&in, used);
    }
    return !out.failed && send_all (fd, out.text, out.length);
}

static void
send_frame (struct ring *ring, const struct strbuf *frame)
{
    AUTO_STRBUF struct strbuf sealed = { 0 };
    channel_put (&ring->to_next, frame->text, frame->length, &sealed);
    if (frame->failed || sealed.failed || !send_all (ring->out, sealed.text, sealed.length))
        give_up ();
}

#define send_numbers(ring, type, ...) \
    do { \
        AUTO_STRBUF struct strbuf frame = { 0 }; \
        wire_put_frame (&frame, type, __VA_ARGS__); \
        send_frame (ring, &frame); \
    } while (0)

static bool
connect_to (struct ring *ring, const char *address)
{
    int error = 0, fd = address_begin_connect (address, ring->next->port, clock_ms () + CONNECT_MS);
    socklen_t length = sizeof error;
    struct pollfd connected = { .fd = fd, .events = POLLOUT };
    if (fd < 0)
        return false;
    if (poll (&connected, 1, CONNECT_MS) == 1 && !getsockopt (fd, SOL_SOCKET, SO_ERROR, &error, &length) && !error
        && greet (ring, fd)) {
        ring->out = fd;
        send_numbers (ring, WIRE_COPY_HELLO, 0);
        return true;
    }
    close (fd);
    return false;
}

/* The next host answers a greeting and sends nothing else, so whatever comes is the end.  A sender that waits for a
 * round would not notice. */
static void *
run_watcher (void *argument)
{
    struct pollfd ended = { .fd = *(const int *) argument, .events = POLLIN };
    while (poll (&ended, 1, -1) < 1)
        ;
    give_up ();
}

static void
connect_next (struct ring *ring)
{
    const struct strlist *addresses = &ring->next->addresses;
    const struct timespec pause = { .tv_sec = PAUSE_MS / 1000, .tv_nsec = PAUSE_MS % 1000 * 1000000 };
    for (int i = 0; i < (ring->is_again ? AGAIN_TRIES : CONNECT_TRIES); i++) {
        if (i || ring->is_again)
            nanosleep (&pause, NULL);
        for (size_t j = 0; j < addresses->count; j++)
            if (connect_to (ring, addresses->items[j]))
                return;
    }
    if (ring->is_again)
        complain (ring, "the connection has ended, and cannot be made again");
    else
        complain (ring, "cannot connect to port %d at %s%s; is there a firewall between the hosts?", ring->next->port,
                  addresses->count ? addresses->items[0] : "any address", addresses->count > 1 ? ", ..." : "");
    _exit (FAIL_GENERAL);
}

/* The newest save of local rank @p rank, or the one of this @p number.  @return NULL: it has none */
static const struct memtier_entry *
find_entry (const struct memtier_header *header, uint32_t rank, uint64_t number)
{
    const struct memtier_entry *best = NULL;
    for (size_t i = rank * MEMTIER_BUFFERS; i < (rank + 1) * (size_t) MEMTIER_BUFFERS; i++) {
        uint64_t found = memtier_number_of (&header->entries[i]);
        if (found && (number ? found == number : !best || found > memtier_number_of (best)))
            best = &header->entries[i];
    }
    return best;
}

/* @return the newest save that all ranks of this host have completed; 0: there is none */
static uint64_t
find_newest (const struct memtier_header *header)
{
    uint64_t newest = UINT64_MAX;
    for (uint32_t rank = 0; rank < header->rank_count; rank++) {
        const struct memtier_entry *entry = find_entry (header, rank, 0);
        uint64_t number = entry ? memtier_number_of (entry) : 0;
        newest = number < newest ? number : newest;
    }
    return header->rank_count ? newest : 0;
}

/* @return whether all ranks of this host have @p number, which they will have unless it has been overwritten */
static bool
await_save (struct memtier_header *header, uint64_t number)
{
    for (;;) {
        uint32_t saves = atomic_load (&header->saves), have = 0;
        bool is_past = false;
        if (atomic_load (&header->buffers) == MEMTIER_BUFFERS_ALONE)
            _exit (FAIL_GENERAL); /* a rank has no room for what is kept, and has said so */
        for (uint32_t rank = 0; rank < header->rank_count; rank++) {
            const struct memtier_entry *newest = find_entry (header, rank, 0);
            bool has_it = find_entry (header, rank, number);
            have += has_it;
            is_past = is_past || (!has_it && newest && memtier_number_of (newest) > number);
        }
        if (is_past || have == header->rank_count)
            return !is_past;
        futex_wait (&header->saves, saves, WAIT_MS);
    }
}

/* @return whether it was sent whole */
static bool
send_share (struct ring *ring, uint32_t rank, uint64_t number)
{
    const struct memtier_header *header = ring->memtier->header;
    const struct memtier_entry *entry = find_entry (header, rank, number);
    if (!entry)
        return false;
    const struct memtier_entry parts = *entry;
    const uint64_t begin = memtier_place ((size_t) (entry - header->entries));
    const uint64_t bytes = parts.index_at + parts.index_bytes;
    if (memtier_number_of (entry) != number)
        return false;
    AUTO_FREE char *piece = malloc (PIECE);
    bool is_whole = piece, has_common = parts.rank == 0 && parts.has_common && ring->sends_common;
    send_numbers (ring, WIRE_COPY_SHARE, rank, (int64_t) parts.restarts, (int64_t) parts.sequence, (int64_t) parts.step,
                  (int64_t) parts.index_at, (int64_t) parts.index_bytes, (int64_t) parts.index_checksum,
                  (int64_t) parts.common_bytes, (int64_t) parts.common_checksum, (int64_t) parts.checksum, parts.rank,
                  parts.processes, has_common);
    for (uint64_t at = has_common ? 0 : parts.common_bytes, some; is_whole && at < bytes; at += some) {
        AUTO_STRBUF struct strbuf frame = { 0 };
        some = bytes - at < PIECE ? bytes - at : PIECE;
        is_whole = !memtier_read (ring->memtier, piece, some, begin + at) && memtier_number_of (entry) == number;
        size_t mark = wire_begin (&frame, WIRE_COPY_PART);
        strbuf_add_bytes (&frame, piece, some);
        wire_end (&frame, mark);
        if (is_whole)
            send_frame (ring, &frame);
    }
    send_numbers (ring, WIRE_COPY_SHARE_END, is_whole);
    return is_whole;
}

/* Ranks leave these saves as they are, from now on. */
static void
keep (const struct ring *ring, uint64_t kept, uint64_t number)
{
    struct memtier_header *header = ring->memtier->header;
    if (kept)
        atomic_store (&header->kept[0], kept);
    atomic_store (&header->kept[1], number);
}

static bool
send_round (struct ring *ring, uint64_t number, uint64_t kept)
{
    struct memtier_header *header = ring->memtier->header;
    send_numbers (ring, WIRE_COPY_ROUND, (int64_t) number, (int64_t) kept);
    bool is_whole = await_save (header, number);
    for (uint32_t rank = 0; is_whole && rank < header->rank_count; rank++)
        is_whole = send_share (ring, rank, number);
    return is_whole;
}

static struct round
take_round (struct ring *ring)
{
    pthread_mutex_lock (&ring->lock);
    while (!ring->round_count)
        pthread_cond_wait (&ring->has_come, &ring->lock);
    struct round round = ring->rounds[0];
    memmove (&ring->rounds[0], &ring->rounds[1], --ring->round_count * sizeof round);
    pthread_mutex_unlock (&ring->lock);
    return round;
}

/* On the first host.  If ranks overwrite a save before its name has come to all hosts, a later one is named: at first
 * the next, then one after more and more. */
static _Noreturn void
lead (struct ring *ring)
{
    struct memtier_header *header = ring->memtier->header;
    uint64_t kept = atomic_load (&header->kept[0]), last = 0, ahead = 0;
    if (kept < ring->next->first)
        kept = 0; /* of an earlier start of the ranks, which know better */
    for (;;) {
        uint32_t saves = atomic_load (&header->saves);
        uint64_t newest = find_newest (header);
        if (newest <= last) {
            futex_wait (&header->saves, saves, WAIT_MS);
            continue;
        }
        last = newest + ahead;
        keep (ring, kept, last);
        struct round done = { .is_whole = send_round (ring, last, kept) };
        send_numbers (ring, WIRE_COPY_DONE, (int64_t) last, done.is_whole, 0);
        while ((done = take_round (ring)).type != WIRE_COPY_DONE)
            ;
        if (!done.lacks_common)
            ahead = done.is_whole ? ahead / 2 : ahead < FARTHEST ? 2 * ahead + 1 : ahead;
        ring->sends_common = ring->sends_common || done.lacks_common;
        kept = done.is_whole ? last : kept;
    }
}

/* Whether the first rank here has saved what rank 0 has saved for all. */
static bool
has_expected (const struct ring *ring, const struct round *round)
{
    const struct memtier_entry *entry = find_entry (ring->memtier->header, 0, round->number);
    return !round->expected.common_bytes
           || (entry && atomic_load (&entry->has_common) && memtier_has_same (entry, &round->expected));
}

static _Noreturn void
follow (struct ring *ring)
{
    bool is_whole = false;
    for (;;) {
        const struct round round = take_round (ring);
        if (round.type == WIRE_COPY_ROUND) {
            is_whole = send_round (ring, round.number, round.kept);
            continue;
        }
        bool lacks_common = is_whole && !has_expected (ring, &round);
        send_numbers (ring, WIRE_COPY_DONE, (int64_t) round.number, round.is_whole && is_whole && !lacks_common,
                      round.lacks_common || lacks_common);
    }
}

/* Nothing is connected before something was saved. */
static void
await_first_save (struct memtier_header *header, uint64_t first)
{
    for (uint32_t saves; saves = atomic_load (&header->saves), find_newest (header) < first;)
        futex_wait (&header->saves, saves, WAIT_MS);
}

static _Noreturn void
run_sender (struct ring *ring)
{
    pthread_t watcher;
    await_first_save (ring->memtier->header, ring->next->first);
    connect_next (ring);
    if (pthread_create (&watcher, NULL, run_watcher, &ring->out))
        give_up ();
    if (ring->next->is_first)
        lead (ring);
    follow (ring);
}

/* ---- what is not needed any more ---- */

/* What an earlier start of the ranks has left where no save and no copy of this one will overwrite it. */
static void
clear_stale (const struct memtier *memtier)
{
    struct memtier_header *header = memtier->header;
    const unsigned buffers = atomic_load (&header->buffers);
    for (size_t i = 0; i < MEMTIER_ENTRIES; i++) {
        struct memtier_entry *entry = &header->entries[i];
        bool was_used = i < MEMTIER_OWN ? i < header->entry_count : i - MEMTIER_OWN < header->copy_count;
        bool is_ranks = i < (size_t) header->rank_count * MEMTIER_BUFFERS && i % MEMTIER_BUFFERS < buffers;
        if (!was_used || is_ranks || entry->restarts >= header->restarts)
            continue;
        atomic_store (&entry->sequence, 0);
        entry->index_at = entry->index_bytes = entry->common_bytes = 0;
        memtier_clear (memtier, memtier_place (i), memtier_place (1) - memtier_place (0));
    }
}

/* ---- from the host before ---- */

static void
pass_on (struct ring *ring, const struct round *round)
{
    pthread_mutex_lock (&ring->lock);
    if (ring->round_count == ROUNDS)
        give_up ();
    ring->rounds[ring->round_count++] = *round;
    pthread_cond_signal (&ring->has_come);
    pthread_mutex_unlock (&ring->lock);
}

/* Of the two places of a rank, the one that does not have what is kept. */
static size_t
choose_place (const struct memtier_header *header, size_t rank)
{
    size_t first = MEMTIER_OWN + rank * MEMTIER_COPY_BUFFERS;
    uint64_t number = memtier_number_of (&header->entries[first]);
    return number && number == atomic_load (&header->kept[0]) ? first + 1 : first;
}

/* What its pages take. */
static uint64_t
bytes_of (const struct memtier_entry *entry)
{
    return entry->index_at + entry->index_bytes - (entry->has_common ? 0 : entry->common_bytes);
}

/* Without room for one, no round would ever be complete. */
static void
check_room (const struct ring *ring)
{
    const char *source;
    uint64_t bytes = bytes_of (&ring->share.parts), has = bytes_of (&ring->memtier->header->entries[ring->share.entry]);
    uint64_t lack = bytes > has ? bytes - has : 0;
    uint64_t left = memtier_free_bytes (ring->memtier, &source);
    if (lack <= left)
        return;
    dprintf (2, "no copies of checkpoints in memory of another host: they take %llu MiB more, but %s has only %llu MiB "
             "left\n", (unsigned long long) lack >> 20, source, (unsigned long long) left >> 20);
    _exit (FAIL_GENERAL);
}

/* @return false if that cannot be a share */
static bool
take_share (struct ring *ring, struct wire_frame *frame)
{
    struct memtier_header *header = ring->memtier->header;
    struct memtier_entry *parts = &ring->share.parts;
    uint64_t rank = (uint64_t) wire_number (frame);
    parts->restarts = (uint64_t) wire_number (frame);
    atomic_store (&parts->sequence, (uint64_t) wire_number (frame));
    parts->step = (uint64_t) wire_number (frame);
    parts->index_at = (uint64_t) wire_number (frame);
    parts->index_bytes = (uint64_t) wire_number (frame);
    parts->index_checksum = (uint64_t) wire_number (frame);
    parts->common_bytes = (uint64_t) wire_number (frame);
    parts->common_checksum = (uint64_t) wire_number (frame);
    parts->checksum = (uint64_t) wire_number (frame);
    parts->rank = (uint32_t) wire_number (frame);
    parts->processes = (uint32_t) wire_number (frame);
    parts->has_common = wire_number (frame) != 0;
    if (frame->failed || rank >= JOBSEG_MAX_LOCAL || parts->index_at > memtier_place (0)
        || parts->index_bytes > memtier_place (0) - parts->index_at || parts->rank >= parts->processes
        || parts->common_bytes > parts->index_at)
        return false;
    ring->share.entry = choose_place (header, rank);
    ring->share.bytes = parts->index_at + parts->index_bytes;
    ring->share.done = parts->has_common ? 0 : parts->common_bytes;
    ring->share.is_stored = true;
    if (parts->rank == 0 && !parts->has_common)
        ring->share.expected = *parts;
    check_room (ring);
    atomic_store (&header->entries[ring->share.entry].sequence, 0); /* until it is complete */
    if (!parts->has_common)
        memtier_clear (ring->memtier, memtier_place (ring->share.entry), parts->common_bytes);
    header->copy_count = (rank + 1) * MEMTIER_COPY_BUFFERS > header->copy_count
                             ? (uint32_t) (rank + 1) * MEMTIER_COPY_BUFFERS : header->copy_count;
    return true;
}

static bool
take_part (struct ring *ring, const struct wire_frame *frame)
{
    uint64_t at = ring->share.done;
    ring->share.done += frame->left;
    if (ring->share.done > ring->share.bytes)
        return false;
    if (ring->share.is_stored
        && memtier_write (ring->memtier, frame->at, frame->left, memtier_place (ring->share.entry) + at))
        ring->share.is_stored = false;
    return true;
}

static void
take_share_end (struct ring *ring, struct wire_frame *frame)
{
    struct memtier_entry *entry = &ring->memtier->header->entries[ring->share.entry];
    const struct memtier_entry *parts = &ring->share.parts;
    bool is_whole = wire_number (frame) && ring->share.is_stored && ring->share.done == ring->share.bytes;
    if (!is_whole) {
        ring->share.is_whole = false;
        return;
    }
    entry->restarts = parts->restarts;
    entry->step = parts->step;
    entry->index_at = parts->index_at;
    entry->index_bytes = parts->index_bytes;
    entry->index_checksum = parts->index_checksum;
    entry->common_bytes = parts->common_bytes;
    entry->common_checksum = parts->common_checksum;
    entry->has_common = parts->has_common;
    entry->checksum = parts->checksum;
    entry->rank = parts->rank;
    entry->processes = parts->processes;
    atomic_store (&entry->sequence, atomic_load (&parts->sequence));
}

/* The saves are kept at once, before the sender comes to it. */
static void
take_begin (struct ring *ring, struct wire_frame *frame)
{
    struct round round = { .type = WIRE_COPY_ROUND };
    round.number = (uint64_t) wire_number (frame);
    round.kept = (uint64_t) wire_number (frame);
    ring->share.is_whole = true;
    ring->share.expected.common_bytes = 0;
    if (round.kept >= ring->next->first)
        clear_stale (ring->memtier);
    if (ring->next->is_first)
        return;
    keep (ring, round.kept, round.number);
    pass_on (ring, &round);
}

static void
take_done (struct ring *ring, struct wire_frame *frame)
{
    struct round round = { .type = WIRE_COPY_DONE };
    round.number = (uint64_t) wire_number (frame);
    round.is_whole = wire_number (frame) && ring->share.is_whole;
    round.lacks_common = wire_number (frame) != 0;
    round.expected = ring->share.expected;
    pass_on (ring, &round);
}

/* @return whether it was something that belongs here */
static bool
take_frame (struct ring *ring, const struct strbuf *bytes)
{
    struct wire_frame frame;
    size_t used;
    if (wire_next (bytes->text, bytes->length, &frame, &used) != 1)
        return false;
    switch (frame.type) {
    case WIRE_COPY_HELLO: break;
    case WIRE_COPY_ROUND: take_begin (ring, &frame); break;
    case WIRE_COPY_SHARE: return take_share (ring, &frame);
    case WIRE_COPY_PART: return take_part (ring, &frame);
    case WIRE_COPY_SHARE_END: take_share_end (ring, &frame); break;
    case WIRE_COPY_DONE: take_done (ring, &frame); break;
    default: return false;
    }
    return !frame.failed;
}

/* One connection, until it ends.  @return whether it was that of the host before */
static bool
receive (struct ring *ring, int fd)
{
    AUTO_STRBUF struct strbuf in = { 0 }, out = { 0 }, frame = { 0 };
    AUTO_FREE char *bytes = malloc (PIECE);
    struct channel channel;
    enum channel_result result;
    int64_t until_ms = clock_ms () + GREETING_MS;
    prepare_socket (fd);
    channel_init (&channel, true, &out);
    while (bytes) {
        size_t used, taken = 0;
        ssize_t got = receive_until (fd, bytes, PIECE, channel.has_opened ? 0 : until_ms);
        if (got <= 0)
            break;
        strbuf_add_bytes (&in, bytes, (size_t) got);
        do {
            result = channel_next (&channel, &ring->key, in.text + taken, in.length - taken, &out, &frame, &used);
            taken += used;
            if (result < 0 || (result == CHANNEL_FRAME && !take_frame (ring, &frame)))
                return channel.has_opened;
        } while (result == CHANNEL_FRAME);
        strbuf_drop (&in, taken);
        if (in.failed || out.failed || (out.length && !send_all (fd, out.text, out.length)))
            break;
        strbuf_truncate (&out, 0);
    }
    return channel.has_opened;
}

static void *
run_receiver (void *argument)
{
    struct ring *ring = argument;
    for (;;) {
        struct pollfd waiting = { .fd = ring->listener, .events = POLLIN };
        poll (&waiting, 1, -1);
        int fd = accept4 (ring->listener, NULL, NULL, SOCK_CLOEXEC);
        bool was_ours = fd >= 0 && receive (ring, fd);
        if (fd >= 0)
            close (fd);
        if (was_ours)
            give_up ();
    }
}

/* ---- the process ---- */

/* Standard input, output and error stay, too. */
static void
close_others (int one, int other)
{
    unsigned low = (unsigned) (one < other ? one : other), high = (unsigned) (one < other ? other : one);
    if (low > 3)
        close_range (3, low - 1, 0);
    if (high > low + 1)
        close_range (low + 1, high - 1, 0);
    close_range (high + 1, ~0U, 0);
}

static _Noreturn void
run (const struct copies *copies, const struct memtier *memtier, bool is_again, pid_t agent)
{
    const struct copies_next *next = &copies->next;
    struct ring ring = { .memtier = memtier, .next = next, .is_again = is_again, .listener = copies->listener,
                         .out = -1, .lock = PTHREAD_MUTEX_INITIALIZER, .has_come = PTHREAD_COND_INITIALIZER };
    pthread_t receiver;
    int nothing = open ("/dev/null", O_RDWR | O_CLOEXEC);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    prctl (PR_SET_NAME, "accel-copies");
    setpriority (PRIO_PROCESS, 0, getpriority (PRIO_PROCESS, 0) + NICE);
    for (int fd = 0; fd < 2; fd++) /* the head's connection, which must not stay open because of us */
        dup2 (nothing, fd);
    close_others (copies->listener, memtier->fd);
    if (getppid () != agent)
        _exit (FAIL_GENERAL);
    if (!next->port) {
        await_first_save (memtier->header, next->first);
        clear_stale (memtier);
        _exit (EXIT_SUCCESS);
    }
    ring.key.length = strlen (next->key);
    memcpy (ring.key.bytes, next->key, ring.key.length);
    if (pthread_create (&receiver, NULL, run_receiver, &ring))
        _exit (FAIL_GENERAL);
    run_sender (&ring);
}

int
copies_listen (struct copies *copies, struct fail *fail)
{
    copies->listener = address_listen (0);
    if (copies->listener < 0)
        return fail_set (fail, FAIL_GENERAL, "cannot listen for copies of checkpoints in memory: %s", strerror (errno));
    copies->port = address_port (copies->listener);
    return 0;
}

static int
start (struct copies *copies, const struct memtier *memtier, bool is_again, struct fail *fail)
{
    pid_t agent = getpid ();
    copies->pid = fork ();
    if (copies->pid == 0)
        run (copies, memtier, is_again, agent);
    if (copies->pid > 0)
        return 0;
    copies->pid = 0;
    return status_fail_start (errno, fail);
}

static void
release_next (struct copies_next *next)
{
    free (next->name);
    free (next->key);
    strlist_release (&next->addresses);
    *next = (struct copies_next){ 0 };
}

int
copies_start (struct copies *copies, const struct memtier *memtier, struct copies_next *next, struct fail *fail)
{
    copies_stop (copies);
    copies->next = *next;
    *next = (struct copies_next){ 0 };
    const char *key = copies->next.key;
    if (copies->next.addresses.failed || !copies->next.name || !key)
        return fail_nomem (fail);
    if (copies->next.port
        && (strlen (key) < CHANNEL_KEY_LEAST || strlen (key) > CHANNEL_KEY_MOST || sodium_init () < 0))
        return fail_set (fail, FAIL_GENERAL, "the head has sent no key for copies of checkpoints in memory");
    if (!memtier)
        return 0;
    uint32_t buffers = copies->next.port ? MEMTIER_BUFFERS : MEMTIER_BUFFERS_ALONE;
    uint32_t before = atomic_exchange (&memtier->header->buffers, buffers);
    bool has_copies = before > MEMTIER_BUFFERS_ALONE || memtier->header->copy_count;
    return copies->next.port || has_copies ? start (copies, memtier, false, fail) : 0;
}

void
copies_keep (struct copies *copies, const struct memtier *memtier)
{
    int status = 0;
    if (!copies->pid || waitpid (copies->pid, &status, WNOHANG) != copies->pid)
        return;
    copies->pid = 0;
    if (WIFSIGNALED (status) || WEXITSTATUS (status) == FAIL_STOPPED)
        (void) start (copies, memtier, true, NULL); /* without it, there are no copies any more */
}

void
copies_stop (struct copies *copies)
{
    if (copies->pid && !waitpid (copies->pid, NULL, WNOHANG)) { /* not if another has waited for it */
        kill (copies->pid, SIGKILL);
        while (waitpid (copies->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    copies->pid = 0;
    release_next (&copies->next);
}

void
copies_release (struct copies *copies)
{
    copies_stop (copies);
    if (copies->listener >= 0)
        close (copies->listener);
    *copies = (struct copies) COPIES_NONE;
}
