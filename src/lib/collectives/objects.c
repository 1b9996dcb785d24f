/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of bytes over all ranks; see accel/collectives.h.
 *
 * First all ranks tell each other how much they have; then it travels, one message per rank: the sizes of its objects
 * (8 bytes each), then their bytes.  Messages arrive where they stay: a list is one block of memory, its items in front
 * of the messages that they point into. */
#include <config.h>

#include "lib/collectives/objects.h"

#include "lib/base/error.h"
#include "lib/collectives/tensors.h"
#include "lib/comm/coalesce.h"
#include "util/cleanup.h"

#include <stdlib.h>
#include <string.h>

/* Messages that are together not larger go in one all-gather, as if all were as long as the longest; others one by one,
 * for which no memory but their own is needed. */
enum { TOGETHER = 1 << 20 };

/* What a rank announces. */
struct notice {
    int64_t count;
    int64_t bytes; /* of the objects, without their sizes */
    int64_t root; /* of a message between two: the call that sends it */
};
enum { NOTICE_NUMBERS = sizeof (struct notice) / sizeof (int64_t) };

/* What is being made: an allocation, and where in it each rank's message is. */
struct delivery {
    struct accel_object_list list;
    char *messages;
};

static size_t
message_bytes (const struct notice *notice)
{
    return (size_t) notice->count * sizeof (uint64_t) + (size_t) notice->bytes;
}

void
accel_object_list_release (struct accel_object_list *list)
{
    if (!list)
        return;
    free (list->items);
    *list = (struct accel_object_list){ 0 };
}

/* Add up what this rank has. */
static enum accel_status
measure (const struct comm_site *site, const struct accel_object *objects, size_t count, struct notice *notice,
         struct accel_error *err)
{
    if (count > PTRDIFF_MAX / sizeof *objects)
        return comm_refuse (site, "too many objects: size overflows", err);
    if (count && !objects)
        return comm_refuse (site, "the objects are NULL", err);
    notice->count = (int64_t) count;
    for (size_t i = 0; i < count; i++) {
        if (objects[i].size_bytes && !objects[i].data)
            return comm_refuse (site, "an object has a size, but its data is NULL", err);
        if (objects[i].size_bytes > PTRDIFF_MAX
            || __builtin_add_overflow (notice->bytes, (int64_t) objects[i].size_bytes, &notice->bytes))
            return comm_refuse (site, "objects too large: size overflows", err);
    }
    return ACCEL_OK;
}

static enum accel_status
no_memory (struct accel_comm *comm, const struct comm_site *site, struct accel_error *err)
{
    comm_give_up (comm, "cannot allocate memory for the objects of all processes");
    return comm_fail (site, ACCEL_ERR_NOMEM, err, "cannot allocate memory for the objects of all processes");
}

/* Memory for @messages messages and their items.  All ranks know all notices, so all refuse what no memory could hold;
 * a rank that has none left must give up, for the others are on their way already. */
static enum accel_status
prepare (struct accel_comm *comm, const struct comm_site *site, const struct notice *notices, int messages,
         struct delivery *delivery, struct accel_error *err)
{
    size_t count = 0, total = 0;
    for (int i = 0; i < messages; i++) {
        size_t items = (size_t) notices[i].count, one;
        if (__builtin_mul_overflow (items, sizeof (struct accel_object) + sizeof (uint64_t), &one)
            || __builtin_add_overflow (one, (size_t) notices[i].bytes, &one)
            || __builtin_add_overflow (total, one, &total) || total > PTRDIFF_MAX)
            return comm_refuse (site, "the objects of all processes are too large: size overflows", err);
        count += items;
    }
    delivery->list = (struct accel_object_list){ .items = malloc (total + !total), .count = count };
    if (!delivery->list.items)
        return no_memory (comm, site, err);
    delivery->messages = (char *) (delivery->list.items + count);
    return ACCEL_OK;
}

static void
pack (char *message, const struct accel_object *objects, size_t count)
{
    char *bytes = message + count * sizeof (uint64_t);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = objects[i].size_bytes;
        memcpy (message + i * sizeof size, &size, sizeof size);
        if (size)
            memcpy (bytes, objects[i].data, size);
        bytes += size;
    }
}

/* @return the items after those of this message. */
static struct accel_object *
unpack (struct accel_object *items, const char *message, const struct notice *notice)
{
    const char *bytes = message + (size_t) notice->count * sizeof (uint64_t);
    for (int64_t i = 0; i < notice->count; i++) {
        uint64_t size;
        memcpy (&size, message + (size_t) i * sizeof size, sizeof size);
        *items++ = (struct accel_object){ .data = bytes, .size_bytes = size };
        bytes += size;
    }
    return items;
}

static enum accel_status
send_one_by_one (struct accel_comm *comm, const struct comm_site *site, const struct notice *notices, char *message,
                 struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    comm_coalesce_begin (&coalesced, comm);
    for (int r = 0; !status && r < accel_comm_size (comm); r++) {
        size_t bytes = message_bytes (&notices[r]);
        if (bytes)
            status = comm_broadcast (comm, comm_coalesce_site (&coalesced, site), message, bytes, ACCEL_UINT8, r, err);
        message += bytes;
    }
    return comm_coalesce_end (&coalesced, status, err);
}

static enum accel_status
send_together (struct accel_comm *comm, const struct comm_site *site, const struct notice *notices, size_t longest,
               char *messages, const char *own, struct accel_error *err)
{
    size_t size = (size_t) accel_comm_size (comm), mine = (size_t) accel_comm_rank (comm);
    AUTO_FREE char *rows = calloc (size, longest);
    if (!rows)
        return no_memory (comm, site, err);
    memcpy (rows + mine * longest, own, message_bytes (&notices[mine]));
    enum accel_status status = comm_all_gather (comm, site, rows + mine * longest, rows, longest, ACCEL_UINT8, err);
    for (size_t r = 0; !status && r < size; r++) {
        memcpy (messages, rows + r * longest, message_bytes (&notices[r]));
        messages += message_bytes (&notices[r]);
    }
    return status;
}

static enum accel_status
exchange (struct accel_comm *comm, const struct comm_site *site, const struct accel_object *objects,
          const struct notice *notices, char *messages, struct accel_error *err)
{
    int size = accel_comm_size (comm), rank = accel_comm_rank (comm);
    size_t before = 0, longest = 0;
    for (int r = 0; r < size; r++) {
        size_t bytes = message_bytes (&notices[r]);
        before += r < rank ? bytes : 0;
        longest = bytes > longest ? bytes : longest;
    }
    pack (messages + before, objects, (size_t) notices[rank].count);
    if (!longest)
        return ACCEL_OK;
    if (longest <= TOGETHER / (size_t) size)
        return send_together (comm, site, notices, longest, messages, messages + before, err);
    return send_one_by_one (comm, site, notices, messages, err);
}

static enum accel_status
announce (struct accel_comm *comm, const struct comm_site *site, const struct notice *own, struct notice **notices,
          struct accel_error *err)
{
    if (!comm)
        return comm_refuse (site, "the job is NULL", err);
    *notices = calloc ((size_t) accel_comm_size (comm), sizeof **notices);
    if (!*notices)
        return comm_no_memory (site, err);
    return comm_all_gather (comm, site, own, *notices, NOTICE_NUMBERS, ACCEL_INT64, err);
}

/* Hand over what was made, or free it. */
static enum accel_status
finish (enum accel_status status, struct delivery *delivery, const struct notice *notices, int messages,
        struct accel_object_list *list)
{
    if (status) {
        accel_object_list_release (&delivery->list);
        return status;
    }
    struct accel_object *items = delivery->list.items;
    const char *message = delivery->messages;
    for (int i = 0; i < messages; i++) {
        items = unpack (items, message, &notices[i]);
        message += message_bytes (&notices[i]);
    }
    accel_object_list_release (list);
    *list = delivery->list;
    return ACCEL_OK;
}

enum accel_status
comm_gather_objects (struct accel_comm *comm, const struct comm_site *site, const struct accel_object *objects,
                     size_t count, struct accel_object_list *list, struct accel_error *err)
{
    struct notice own = { 0 };
    struct delivery delivery = { 0 };
    AUTO_FREE struct notice *notices = NULL;
    enum accel_status status = measure (site, objects, count, &own, err);
    if (!status)
        status = announce (comm, site, &own, &notices, err);
    if (!status)
        status = prepare (comm, site, notices, accel_comm_size (comm), &delivery, err);
    if (!status)
        status = exchange (comm, site, objects, notices, delivery.messages, err);
    return finish (status, &delivery, notices, accel_comm_size (comm), list);
}

enum accel_status
accel_gather_object_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                        const struct accel_object *objects, size_t count, struct accel_error *err)
{
    const struct comm_site *site = SITE (GATHER_OBJECT);
    if (!list)
        return comm_refuse (site, "the list is NULL", err);
    return comm_gather_objects (accel_world (acc), site, objects, count, list, err);
}

/* All ranks find the same, so that none waits for another that found something wrong. */
static enum accel_status
agree (const struct comm_site *site, const struct notice *notices, int size, struct accel_error *err)
{
    for (int r = 1; r < size; r++) {
        bool roots = notices[r].root != notices[0].root;
        if (roots || notices[r].count != notices[0].count)
            return comm_fail (site, ACCEL_ERR_INVALID, err, "%s differ: %lld on rank 0, %lld on rank %d",
                              roots ? "roots" : "numbers of objects",
                              (long long) (roots ? notices[0].root : notices[0].count),
                              (long long) (roots ? notices[r].root : notices[r].count), r);
    }
    return ACCEL_OK;
}

enum accel_status
accel_broadcast_object_list_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                                const struct accel_object *objects, size_t count, int from_process,
                                struct accel_error *err)
{
    const struct comm_site *site = SITE (BROADCAST_OBJECT_LIST);
    struct accel_comm *world = accel_world (acc);
    int size = accel_comm_size (world);
    bool root = accel_comm_rank (world) == from_process;
    struct notice own = { .count = (int64_t) count, .root = from_process };
    struct delivery delivery = { 0 };
    AUTO_FREE struct notice *notices = NULL;
    if (!list || from_process < 0 || from_process >= size || count > PTRDIFF_MAX)
        return comm_refuse (site, !list                 ? "the list is NULL"
                                  : count > PTRDIFF_MAX ? "too many objects: size overflows"
                                                        : "from_process is not a rank of this job",
                            err);
    enum accel_status status = root ? measure (site, objects, count, &own, err) : ACCEL_OK;
    if (!status)
        status = announce (world, site, &own, &notices, err);
    if (!status)
        status = agree (site, notices, size, err);
    struct notice *sent = notices ? &notices[from_process] : NULL;
    if (!status)
        status = prepare (world, site, sent, 1, &delivery, err);
    if (status)
        return finish (status, &delivery, NULL, 0, list);
    if (root)
        pack (delivery.messages, objects, count);
    if (message_bytes (sent))
        status = comm_broadcast (world, site, delivery.messages, message_bytes (sent), ACCEL_UINT8, from_process, err);
    return finish (status, &delivery, sent, 1, list);
}

enum accel_status
comm_send_objects (struct accel_comm *comm, const struct comm_site *site, const struct accel_object *objects,
                   size_t count, int to, struct accel_error *err)
{
    struct notice own = { .root = (int64_t) site->call };
    enum accel_status status = measure (site, objects, count, &own, err);
    if (status)
        return status;
    size_t bytes = message_bytes (&own);
    AUTO_FREE char *message = malloc (bytes + !bytes);
    if (!message)
        return comm_no_memory (site, err);
    pack (message, objects, count);
    status = comm_send (comm, site, &own, NOTICE_NUMBERS, ACCEL_INT64, to, err);
    return status || !bytes ? status : comm_send (comm, site, message, bytes, ACCEL_UINT8, to, err);
}

/* Whether the sizes of the objects in @message are those of its bytes: a rank may have sent anything. */
static enum accel_status
check_message (const struct comm_site *site, const char *message, const struct notice *notice, struct accel_error *err)
{
    uint64_t size, left = (uint64_t) notice->bytes;
    bool good = true;
    for (int64_t i = 0; i < notice->count && good; i++) {
        memcpy (&size, message + (size_t) i * sizeof size, sizeof size);
        good = size <= left;
        left -= size;
    }
    return good && !left
               ? ACCEL_OK
               : comm_refuse (site, "the sizes of the received objects do not add up to the bytes received", err);
}

enum accel_status
comm_recv_objects (struct accel_comm *comm, const struct comm_site *site, int from, enum jobseg_call sent,
                   struct accel_object_list *list, struct accel_error *err)
{
    struct notice notice;
    struct delivery delivery = { 0 };
    enum accel_status status = comm_recv (comm, site, &notice, NOTICE_NUMBERS, ACCEL_INT64, from, err);
    if (status)
        return status;
    if (notice.root != (int64_t) sent || notice.count < 0 || notice.bytes < 0)
        status = comm_fail (site, ACCEL_ERR_PEER, err, "the message from rank %d was not sent by %s", from,
                            jobseg_call_name (sent));
    if (!status)
        status = prepare (comm, site, &notice, 1, &delivery, err);
    size_t bytes = message_bytes (&notice);
    if (!status && bytes)
        status = comm_recv (comm, site, delivery.messages, bytes, ACCEL_UINT8, from, err);
    if (!status)
        status = check_message (site, delivery.messages, &notice, err);
    if (status)
        comm_give_up (comm, err ? err->text : "it could not process the data it received");
    return finish (status, &delivery, &notice, 1, list);
}

enum accel_status
accel_send_object_list_at (const char *file, int line, struct accel *acc, const struct accel_object *objects,
                           size_t count, int to_process, struct accel_error *err)
{
    return comm_send_objects (accel_world (acc), SITE (SEND_OBJECT_LIST), objects, count, to_process, err);
}

enum accel_status
accel_recv_object_list_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                           int from_process, struct accel_error *err)
{
    const struct comm_site *site = SITE (RECV_OBJECT_LIST);
    if (!list)
        return comm_refuse (site, "the list is NULL", err);
    return comm_recv_objects (accel_world (acc), site, from_process, JOBSEG_CALL_SEND_OBJECT_LIST, list, err);
}

/* Send to @peer and receive from it.  Of two ranks, the lower one sends first. */
static enum accel_status
swap_with (struct accel_comm *comm, int peer, const struct comm_site *site, struct comm_coalesced *coalesced,
           const struct accel_object *own, char *bytes, size_t size, struct accel_error *err)
{
    enum accel_status status = ACCEL_OK;
    for (int step = 0; step < 2 && !status; step++)
        if ((accel_comm_rank (comm) < peer) == !step)
            status = own->size_bytes ? comm_send (comm, comm_coalesce_site (coalesced, site), own->data,
                                                  own->size_bytes, ACCEL_UINT8, peer, err)
                                     : ACCEL_OK;

        else if (size)
            status = comm_recv (comm, comm_coalesce_site (coalesced, site), bytes, size, ACCEL_UINT8, peer, err);
    return status;
}

/* Each rank meets the others in the order of ranks.  No ranks wait in a circle: a rank that waits for rank p waits
 * until p has met all below, and so on, ever lower. */
static enum accel_status
swap (struct accel_comm *comm, const struct comm_site *site, const struct accel_object *objects,
      const struct notice *notices, char *message, struct accel_error *err)
{
    int rank = accel_comm_rank (comm);
    enum accel_status status = ACCEL_OK;
    struct comm_coalesced coalesced;
    comm_coalesce_begin (&coalesced, comm);
    for (int peer = 0; !status && peer < accel_comm_size (comm); peer++) {
        char *bytes = message + sizeof (uint64_t);
        size_t size = (size_t) notices[peer].bytes;
        memcpy (message, &notices[peer].bytes, sizeof (uint64_t));
        if (peer != rank)
            status = swap_with (comm, peer, site, &coalesced, &objects[peer], bytes, size, err);
        else if (size)
            memcpy (bytes, objects[peer].data, size);
        message = bytes + size;
    }
    return comm_coalesce_end (&coalesced, status, err);
}

enum accel_status
accel_all_to_all_object_at (const char *file, int line, struct accel_object_list *list, struct accel *acc,
                            const struct accel_object *objects, struct accel_error *err)
{
    const struct comm_site *site = SITE (ALL_TO_ALL_OBJECT);
    struct accel_comm *world = accel_world (acc);
    size_t size = (size_t) accel_comm_size (world);
    struct notice total = { 0 };
    struct delivery delivery = { 0 };
    if (!list || !world)
        return comm_refuse (site, world ? "the list is NULL" : "the job is NULL", err);
    enum accel_status status = measure (site, objects, size, &total, err);
    if (status)
        return status;
    AUTO_FREE struct notice *notices = calloc (2 * size, sizeof *notices);
    if (!notices)
        return comm_no_memory (site, err);
    for (size_t r = 0; r < size; r++)
        notices[size + r] = (struct notice){ .count = 1, .bytes = (int64_t) objects[r].size_bytes };
    status = comm_all_to_all (world, site, notices + size, notices, NOTICE_NUMBERS, ACCEL_INT64, err);
    if (status)
        return status;
    status = prepare (world, site, notices, (int) size, &delivery, err);
    if (!status)
        status = swap (world, site, objects, notices, delivery.messages, err);
    if (status)
        comm_give_up (world, err ? err->text : "it could not process the data it received");
    return finish (status, &delivery, notices, (int) size, list);
}
