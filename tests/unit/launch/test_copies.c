/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of checkpoints in memory on the next host: two agents on this one, whose ranks the test plays. */
#include <config.h>

#include "hosts/agent/copies.h"
#include "hosts/net/channel.h"
#include "tests/tap.h"
#include "util/clock.h"
#include "util/futex.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 2, RANKS = 2, PATIENCE_MS = 60000, PAUSE_US = 20000, BYTES = 64 * 1024, INDEX_BYTES = 8,
       COMMON_BYTES = 16 * 1024 };

/* One host, and its agent. */
struct host {
    struct memtier memtier;
    struct copies copies;
    uint64_t common; /* checksum of what its first rank has in common with others; 0: it has not saved that */
};

static struct host hosts[HOSTS];
static int ranks;             /* of each host, in this start */
static uint64_t restarts, sequence;
static char content[BYTES + INDEX_BYTES];

static _Noreturn void
give_up (const char *why)
{
    printf ("Bail out! %s\n", why);
    exit (99);
}

static void
save_rank (const struct host *host, int rank)
{
    struct memtier_header *header = host->memtier.header;
    size_t place = (size_t) rank * MEMTIER_BUFFERS;
    const uint64_t kept[] = { atomic_load (&header->kept[1]), atomic_load (&header->kept[0]),
                              memtier_number (restarts, sequence) };
    for (bool is_kept = true; is_kept; place += is_kept) {
        uint64_t number = memtier_number_of (&header->entries[place]);
        bool is_agreed = atomic_load (&header->buffers) == MEMTIER_BUFFERS && (number == kept[0] || number == kept[1]);
        is_kept = number && (is_agreed || number == kept[2]);
    }
    struct memtier_entry *entry = &header->entries[place];
    atomic_store (&entry->sequence, 0);
    memset (content, (int) (sequence + 1), sizeof content);
    memtier_write (&host->memtier, content, sizeof content, memtier_place (place));
    entry->restarts = restarts;
    entry->index_at = BYTES;
    entry->index_bytes = INDEX_BYTES;
    entry->common_bytes = rank == 0 && host->common ? COMMON_BYTES : 0;
    entry->common_checksum = host->common;
    entry->has_common = entry->common_bytes > 0;
    entry->rank = (uint32_t) rank;
    entry->processes = RANKS;
    atomic_store (&entry->sequence, sequence + 1);
}

static void
save (int host_count)
{
    for (int i = 0; i < host_count; i++) {
        struct memtier_header *header = hosts[i].memtier.header;
        for (int rank = 0; rank < ranks; rank++)
            save_rank (&hosts[i], rank);
        atomic_fetch_add (&header->saves, 1);
        futex_wake (&header->saves);
    }
    sequence++;
}

/* Ranks save until both hosts know that a save from @number on was copied everywhere. */
static bool
is_copied (uint64_t number)
{
    for (int64_t until = clock_ms () + PATIENCE_MS; clock_ms () < until; usleep (PAUSE_US)) {
        bool is_known = true;
        for (int i = 0; i < HOSTS; i++) {
            copies_keep (&hosts[i].copies, &hosts[i].memtier);
            is_known = is_known && atomic_load (&hosts[i].memtier.header->kept[0]) >= number;
        }
        if (is_known)
            return true;
        save (HOSTS);
    }
    return false;
}

static void
begin (int host_count, int rank_count)
{
    struct fail fail = { 0 };
    sequence = 0;
    ranks = rank_count;
    for (int i = 0; i < host_count; i++)
        memtier_begin (&hosts[i].memtier, ranks, (int64_t) restarts, "job", "");
    for (int i = 0; i < host_count; i++) {
        struct copies_next next = { .name = strdup ("next"), .key = strdup ("0123456789abcdef0123456789abcdef"),
                                    .port = host_count > 1 ? hosts[(i + 1) % HOSTS].copies.port : 0,
                                    .is_first = !i, .first = memtier_number (restarts, 1) };
        strlist_add (&next.addresses, "127.0.0.1");
        if (copies_start (&hosts[i].copies, &hosts[i].memtier, &next, &fail))
            give_up (fail.text);
    }
}

/* A stranger greets byte by byte, one in each second, for as long as it can or until it has sent @most.
 * @return its process */
static pid_t
begin_to_greet (int port, size_t most)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons ((uint16_t) port),
                              .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect (fd, (struct sockaddr *) &to, sizeof to))
        give_up ("cannot connect");
    pid_t pid = fork ();
    if (pid == 0) {
        struct channel channel;
        struct strbuf greeting = { 0 };
        channel_init (&channel, false, &greeting);
        for (size_t i = 0; i < greeting.length && i < most && send (fd, &greeting.text[i], 1, MSG_NOSIGNAL) == 1; i++)
            sleep (1);
        _exit (0);
    }
    close (fd);
    return pid;
}

/* @param hole  how much of it was not sent */
static bool
has_copy (int rank, uint64_t number, size_t hole)
{
    const struct memtier *memtier = &hosts[1].memtier;
    char bytes[sizeof content];
    for (int i = 0; i < MEMTIER_COPY_BUFFERS; i++) {
        size_t place = MEMTIER_OWN + (size_t) rank * MEMTIER_COPY_BUFFERS + (size_t) i;
        if (memtier_number_of (&memtier->header->entries[place]) != number)
            continue;
        memset (content, (int) (number & 0xff), sizeof content);
        memset (content, 0, hole);
        return !memtier_read (memtier, bytes, sizeof bytes, memtier_place (place))
               && !memcmp (bytes, content, sizeof bytes);
    }
    return false;
}

/* One host has saved and waits for the other, which has not. */
static void
test_unfinished_ring (void)
{
    begin (HOSTS, RANKS);
    save (1);
    for (int64_t until = clock_ms () + PATIENCE_MS; !atomic_load (&hosts[0].memtier.header->kept[1]);
         usleep (PAUSE_US))
        if (clock_ms () > until)
            give_up ("host 0 does not connect");
    kill (hosts[1].copies.pid, SIGKILL);
    ok (is_copied (memtier_number (restarts, 1)), "a ring that breaks before it is complete is made again");
}

static void
test_ring (void)
{
    /* The second one stays until host 0 would have lost patience with host 1, were it taken for a stranger. */
    pid_t stranger = begin_to_greet (hosts[1].copies.port, SIZE_MAX), other = begin_to_greet (hosts[1].copies.port, 2);
    restarts = 1;
    begin (HOSTS, RANKS);
    pid_t first = hosts[0].copies.pid, second = hosts[1].copies.pid;
    ok (is_copied (memtier_number (restarts, 1)) && hosts[0].copies.pid == first && hosts[1].copies.pid == second,
        "strangers who are slow to greet do not keep the hosts from copying");
    uint64_t kept = atomic_load (&hosts[0].memtier.header->kept[0]);
    ok (has_copy (0, kept, 0) && has_copy (1, kept, 0), "the next host has what the ranks have saved");
    kill (stranger, SIGKILL);
    waitpid (stranger, NULL, 0);
    waitpid (other, NULL, 0);
    for (int i = 0; i < HOSTS; i++) {
        pid_t pid = hosts[i].copies.pid;
        if (pid > 0)
            kill (pid, SIGKILL);
        ok (is_copied (memtier_number (restarts, sequence + 1)) && hosts[i].copies.pid != pid,
            "a ring that breaks at host %d is made again", i);
    }
}

/* What ranks have in common is sent only to a host that has not saved the same. */
static void
test_common (void)
{
    static const struct {
        const char *what;
        uint64_t first, second; /* checksums */
        size_t hole;
    } rows[] = {
        { "both hosts have saved the same, which is not sent", 5, 5, COMMON_BYTES },
        { "the second has saved something else", 6, 7, 0 },
        { "the second has nothing in common", 8, 0, 0 },
        { "the same again", 9, 9, COMMON_BYTES },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        restarts++;
        hosts[0].common = rows[i].first;
        hosts[1].common = rows[i].second;
        begin (HOSTS, RANKS);
        bool is_known = is_copied (memtier_number (restarts, 1));
        uint64_t kept = atomic_load (&hosts[0].memtier.header->kept[0]);
        ok (is_known && has_copy (0, kept, rows[i].hole) && has_copy (1, kept, 0), "%s", rows[i].what);
    }
    hosts[0].common = hosts[1].common = 0;
}

static bool
has_entry (size_t place)
{
    return atomic_load (&hosts[0].memtier.header->entries[place].sequence);
}

/* Of the second rank, of what it has saved and of copies: one of them may be written just now. */
static bool
has_entries (void)
{
    bool own = false, copies = false;
    for (size_t i = 0; i < MEMTIER_BUFFERS; i++)
        own = own || has_entry (MEMTIER_BUFFERS + i);
    for (size_t i = 0; i < MEMTIER_COPY_BUFFERS; i++)
        copies = copies || has_entry (MEMTIER_OWN + MEMTIER_COPY_BUFFERS + i);
    return own && copies;
}

static int64_t
blocks_of (const struct host *host)
{
    struct stat info;
    return fstat (host->memtier.fd, &info) ? -1 : (int64_t) info.st_blocks;
}

/* The number of ranks has changed, then that of hosts. */
static void
test_stale (void)
{
    struct memtier_header *header = hosts[0].memtier.header;
    const size_t own = MEMTIER_BUFFERS, copy = MEMTIER_OWN + MEMTIER_COPY_BUFFERS; /* of the second rank */
    restarts++;
    bool had = has_entries ();
    begin (HOSTS, 1);
    ok (had && has_entries (), "another start can load what the one before has saved");
    ok (is_copied (memtier_number (restarts, 1)) && is_copied (memtier_number (restarts, sequence + 1))
            && !has_entry (own) && !has_entry (copy),
        "when it has saved and copied something itself, the rest is released");
    restarts++;
    int64_t before = blocks_of (&hosts[0]);
    copies_stop (&hosts[1].copies);
    begin (1, 1);
    had = has_entry (MEMTIER_OWN) || has_entry (MEMTIER_OWN + 1);
    ok (had && atomic_load (&header->buffers) == MEMTIER_BUFFERS_ALONE && blocks_of (&hosts[0]) == before,
        "a host that is left alone can load what was copied, and keeps less from then on");
    save (1);
    int status = -1;
    ok (waitpid (hosts[0].copies.pid, &status, 0) > 0 && !status && !has_entry (MEMTIER_OWN)
            && !has_entry (MEMTIER_OWN + 1) && !has_entry (MEMTIER_BUFFERS_ALONE) && blocks_of (&hosts[0]) < before,
        "after its first save, copies are released");
    hosts[0].copies.pid = 0;
    ok (has_entry (0) && has_entry (1), "what its ranks write in turn is not");
}

int
main (void)
{
    struct fail fail = { 0 };
    for (int i = 0; i < HOSTS; i++) {
        hosts[i] = (struct host){ .memtier = MEMTIER_NONE, .copies = COPIES_NONE };
        if (memtier_create (&hosts[i].memtier, &fail) || copies_listen (&hosts[i].copies, &fail))
            give_up (fail.text);
    }
    test_unfinished_ring ();
    test_ring ();
    test_common ();
    test_stale ();
    for (int i = 0; i < HOSTS; i++) {
        copies_release (&hosts[i].copies);
        memtier_release (&hosts[i].memtier);
    }
    return done_testing ();
}
