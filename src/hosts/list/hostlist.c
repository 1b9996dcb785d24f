/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of hosts; see hostlist.h. */
#include <config.h>

#include "hosts/list/hostlist.h"

#include "config/host.h"
#include "util/cleanup.h"
#include "util/hash.h"
#include "util/jobseg.h"
#include "util/parse.h"
#include "util/printable.h"
#include "util/strbuf.h"
#include "util/suggest.h"

#include <ctype.h>
#include <string.h>

enum {
    LONGEST_NUMBER = 9, /* digits in a range */
    LONGEST_NAME = 512, /* with the user; what is longer is refused before it is put together from hundreds of ranges */
};

static const char scheme[] = "ssh://";
enum { SCHEME = sizeof scheme - 1 };

static int
refuse (struct fail *fail, const char *text, size_t length, const char *why)
{
    AUTO_STRBUF struct strbuf raw = { 0 }, shown = { 0 };
    strbuf_add_bytes (&raw, text, length < 80 ? length : 80);
    printable_add (&shown, raw.text ? raw.text : "");
    return fail_set (fail, FAIL_USAGE, "'%s' %s", shown.text ? shown.text : "", why);
}

static bool
is_user (const char *text, size_t length)
{
    if (!length || *text == '-')
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum ((unsigned char) text[i]) && !strchr ("_.-+", text[i]))
            return false;
    return true;
}

bool
hostlist_has_port (const char *name)
{
    return !strncmp (name, scheme, SCHEME);
}

/* Of "ssh://USER@HOST:PORT", which add_target() has made: "USER@HOST", and an address without its brackets.
 * @return NULL without memory */
static char *
without_port (const char *target)
{
    const char *end = strrchr (target, ':'), *host = strrchr (target, '@');
    char *name = strndup (target + SCHEME, (size_t) (end - target) - SCHEME);
    host = host ? host + 1 : target + SCHEME;
    if (!name || *host != '[' || end[-1] != ']')
        return name;
    char *open = name + (host - target) - SCHEME;
    size_t length = strlen (open);
    memmove (open, open + 1, length - 2);
    open[length - 2] = '\0';
    return name;
}

/* What ssh gets as an argument must be a name, and never an option. */
static int
check_name (const char *given, struct fail *fail)
{
    AUTO_FREE char *plain = hostlist_has_port (given) ? without_port (given) : NULL;
    const char *name = plain ? plain : given, *at = strrchr (name, '@'), *host = at ? at + 1 : name;
    if (at && !is_user (name, (size_t) (at - name)))
        return refuse (fail, name, strlen (name), "does not begin with the name of a user");
    const char *zone = strchr (host, '%'); /* as in fe80::1%eth0; ssh passes it on to the user's ProxyCommand */
    if (zone && !is_user (zone + 1, strlen (zone + 1)))
        host = "";
    return *host && !host_complaint (host) ? 0 : refuse (fail, name, strlen (name), "is not a host name");
}

/* Where the name is, or would be: there is always a free place. */
static uint32_t *
find_bucket (const struct hostlist *list, const char *name)
{
    size_t mask = 2 * list->capacity - 1; /* capacities are powers of 2 */
    size_t at = (size_t) hash_bytes (HASH_START, name, strlen (name)) & mask;
    while (list->buckets[at] && strcmp (list->hosts[list->buckets[at] - 1].name, name) != 0)
        at = (at + 1) & mask;
    return &list->buckets[at];
}

struct hostlist_host *
hostlist_find (const struct hostlist *list, const char *name)
{
    uint32_t bucket = list->capacity ? *find_bucket (list, name) : 0;
    return bucket ? &list->hosts[bucket - 1] : NULL;
}

static int
grow (struct hostlist *list, struct fail *fail)
{
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    struct hostlist_host *hosts = reallocarray (list->hosts, capacity, sizeof *hosts);
    if (!hosts)
        return fail_nomem (fail);
    list->hosts = hosts;
    uint32_t *buckets = calloc (2 * capacity, sizeof *buckets);
    if (!buckets)
        return fail_nomem (fail);
    free (list->buckets);
    list->buckets = buckets;
    list->capacity = capacity;
    for (size_t i = 0; i < list->count; i++)
        *find_bucket (list, hosts[i].name) = (uint32_t) i + 1;
    return 0;
}

static struct hostlist_host *
append (struct hostlist *list, char *name, struct fail *fail)
{
    if (list->count == list->capacity && grow (list, fail))
        return NULL;
    *find_bucket (list, name) = (uint32_t) list->count + 1;
    list->hosts[list->count] = (struct hostlist_host){ .name = name };
    return &list->hosts[list->count++];
}

int
hostlist_add (struct hostlist *list, const char *name, size_t length, int slots, struct fail *fail)
{
    AUTO_FREE char *copy = strndup (name, length);
    if (!copy)
        return fail_nomem (fail);
    if (strlen (copy) != length || check_name (copy, fail))
        return strlen (copy) != length ? refuse (fail, name, length, "is not a host name") : -1;
    struct hostlist_host *host = hostlist_find (list, copy);
    if (!host && list->count == HOSTLIST_MOST)
        return fail_set (fail, FAIL_USAGE, "too many hosts: the maximum is %d", HOSTLIST_MOST);
    if (!host) {
        host = append (list, copy, fail);
        if (!host)
            return -1;
        copy = NULL;
    }
    if ((slots ? slots : 1) > JOBSEG_MAX_LOCAL - host->slots - host->times)
        return refuse (fail, name, length, "has too many slots");
    host->slots += slots;
    host->times += !slots;
    return 0;
}

void
hostlist_finish (struct hostlist *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct hostlist_host *host = &list->hosts[i];
        if (host->times > 1 || (host->times && host->slots))
            host->slots += host->times;
        host->times = 0;
    }
}

static bool
parse_digits (const char *text, size_t length, int64_t *value)
{
    char digits[LONGEST_NUMBER + 1] = "";
    if (!length || length > LONGEST_NUMBER || !isdigit ((unsigned char) *text))
        return false;
    memcpy (digits, text, length);
    return parse_int64 (digits, 0, INT64_MAX, value) == PARSE_OK;
}

static int add_pattern (struct hostlist *list, struct strbuf *done, const char *rest, size_t length, int slots,
                        struct fail *fail);

/* One of the comma-separated parts of a range: "7", or "01-16", whose numbers keep their width. */
static int
add_range (struct hostlist *list, struct strbuf *done, const char *part, size_t part_length, const char *rest,
           size_t rest_length, int slots, struct fail *fail)
{
    const char *dash = memchr (part, '-', part_length);
    size_t width = dash ? (size_t) (dash - part) : part_length, before = done->length;
    int64_t first, last;
    if (!parse_digits (part, width, &first) || (dash && !parse_digits (dash + 1, part_length - width - 1, &last)))
        return refuse (fail, part, part_length, "is not a range of numbers such as 01-16");
    if (!dash)
        last = first;
    if (last < first)
        return refuse (fail, part, part_length, "is a range that ends before it begins");
    if (last - first >= HOSTLIST_MOST)
        return fail_set (fail, FAIL_USAGE, "too many hosts: the maximum is %d", HOSTLIST_MOST);
    for (int64_t i = first; i <= last; i++) {
        strbuf_printf (done, "%0*lld", (int) width, (long long) i);
        if (add_pattern (list, done, rest, rest_length, slots, fail))
            return -1;
        strbuf_truncate (done, before);
    }
    return 0;
}

/* All hosts whose names begin with @done and continue as @rest says. */
static int
add_pattern (struct hostlist *list, struct strbuf *done, const char *rest, size_t length, int slots, struct fail *fail)
{
    const char *open = memchr (rest, '[', length);
    size_t plain = open ? (size_t) (open - rest) : length;
    strbuf_add_bytes (done, rest, plain);
    if (done->failed)
        return fail_nomem (fail);
    if (done->length > LONGEST_NAME)
        return refuse (fail, done->text, done->length, "is too long for the name of a host");
    if (!open)
        return hostlist_add (list, done->text ? done->text : "", done->length, slots, fail);
    const char *close = memchr (open, ']', length - plain);
    if (!close)
        return refuse (fail, rest, length, "has a '[' without a ']'");
    size_t before = done->length, left = length - (size_t) (close + 1 - rest);
    for (const char *part = open + 1; part <= close;) {
        const char *comma = memchr (part, ',', (size_t) (close - part)), *end = comma ? comma : close;
        if (add_range (list, done, part, (size_t) (end - part), close + 1, left, slots, fail))
            return -1;
        strbuf_truncate (done, before);
        part = end + 1;
    }
    return 0;
}

static int
parse_slots (const char *text, size_t length, int *slots, struct fail *fail)
{
    int64_t value;
    if (!parse_digits (text, length, &value) || value < 1 || value > JOBSEG_MAX_LOCAL)
        return refuse (fail, text, length, "is not a number of processes");
    *slots = (int) value;
    return 0;
}

static int add_item (struct hostlist *list, const char *item, size_t length, int slots, struct fail *fail);

/* "ssh://USER@NAME:PORT:4": a number after the name is a port, as ssh reads it, and slots follow it.  The name keeps
 * this form only if it has a port, and ssh takes it as it is. */
static int
add_target (struct hostlist *list, const char *item, size_t length, int slots, struct fail *fail)
{
    AUTO_STRBUF struct strbuf done = { 0 };
    length -= length > SCHEME && item[length - 1] == '/';
    const char *end = item + length, *at = memchr (item, '@', length), *host = at ? at + 1 : item + SCHEME;
    const char *close = host < end && *host == '[' ? memchr (host, ']', (size_t) (end - host)) : NULL;
    const char *from = close ? close : host, *colon = memchr (from, ':', (size_t) (end - from));
    if (!colon)
        return add_item (list, item + SCHEME, length - SCHEME, slots, fail);
    const char *second = memchr (colon + 1, ':', (size_t) (end - colon) - 1), *port_end = second ? second : end;
    int64_t port;
    if (!parse_digits (colon + 1, (size_t) (port_end - colon) - 1, &port) || port < 1 || port > UINT16_MAX)
        return refuse (fail, item, length, "has no port from 1 to 65535 after its ':'");
    if (second && parse_slots (second + 1, (size_t) (end - second) - 1, &slots, fail))
        return -1;
    return close ? hostlist_add (list, item, (size_t) (port_end - item), slots, fail)
                 : add_pattern (list, &done, item, (size_t) (port_end - item), slots, fail);
}

/* "NAME", "NAME:4", "node[01-16]:4", "[fe80::1]:4".  A bare address of IPv6 has more than one colon and no slots. */
static int
add_item (struct hostlist *list, const char *item, size_t length, int slots, struct fail *fail)
{
    AUTO_STRBUF struct strbuf done = { 0 };
    if (length >= SCHEME && !memcmp (item, scheme, SCHEME))
        return add_target (list, item, length, slots, fail);
    const char *at = memchr (item, '@', length), *host = at ? at + 1 : item;
    size_t host_length = length - (size_t) (host - item);
    bool has_brackets = host_length && *host == '[';
    const char *close = has_brackets ? memchr (host, ']', host_length) : NULL;
    const char *from = close ? close : host;
    const char *colon = memchr (from, ':', length - (size_t) (from - item));
    if (!has_brackets && colon && memchr (colon + 1, ':', length - (size_t) (colon + 1 - item)))
        colon = NULL;
    if (colon && parse_slots (colon + 1, length - (size_t) (colon + 1 - item), &slots, fail))
        return -1;
    size_t name_length = colon ? (size_t) (colon - item) : length;
    if (!close)
        return add_pattern (list, &done, item, name_length, slots, fail);
    if (close + 1 != item + name_length)
        return refuse (fail, item, length, "has something between ']' and the number of slots");
    strbuf_add_bytes (&done, item, (size_t) (host - item));
    strbuf_add_bytes (&done, host + 1, (size_t) (close - host - 1)); /* ssh takes an address without brackets */
    return done.failed ? fail_nomem (fail) : hostlist_add (list, done.text ? done.text : "", done.length, slots, fail);
}

/* The length up to a comma that is not in brackets. */
static size_t
item_length (const char *text)
{
    int depth = 0;
    size_t i = 0;
    for (; text[i] && (text[i] != ',' || depth > 0); i++)
        depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
    return i;
}

int
hostlist_add_text (struct hostlist *list, const char *text, struct fail *fail)
{
    for (;;) {
        size_t length = item_length (text);
        if (!length)
            return fail_set (fail, FAIL_USAGE, "expected comma-separated host names, got an empty one");
        if (add_item (list, text, length, 0, fail))
            return -1;
        if (!text[length])
            return 0;
        text += length + 1;
    }
}

/* A word after the name in a line: "slots=4" and similar. */
static int
take_keyword (const char *word, size_t length, int *slots, struct fail *fail)
{
    static const char *const known[] = { "slots", "max_slots", "max-slots" };
    const char *equals = memchr (word, '=', length);
    size_t name_length = equals ? (size_t) (equals - word) : length;
    char name[32] = "", space[80];
    memcpy (name, word, name_length < sizeof name - 1 ? name_length : sizeof name - 1);
    struct suggest suggest = { .wanted = name };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int value = 0;
        if (strcmp (name, known[i])) {
            suggest_consider (&suggest, known[i]);
            continue;
        }
        if (!equals || parse_slots (equals + 1, length - name_length - 1, &value, fail))
            return equals ? -1 : refuse (fail, word, length, "needs a value, as in slots=4");
        if (i == 0) /* the others limit what --oversubscribe of mpirun may do */
            *slots = value;
        return 0;
    }
    char why[128];
    snprintf (why, sizeof why, "is not one of slots=N, max_slots=N%s",
              suggest_text (&suggest, "", space, sizeof space));
    return refuse (fail, word, length, why);
}

static int
add_line (struct hostlist *list, const char *line, size_t length, struct fail *fail)
{
    static const char blanks[] = " \t\r";
    const char *name = NULL, *end = line + length;
    size_t name_length = 0;
    int slots = 0;
    for (const char *word = line; word < end;) {
        size_t word_length = 0;
        while (word + word_length < end && !strchr (blanks, word[word_length]))
            word_length++;
        if (!word_length) {
            word++;
            continue;
        }
        if (!name) {
            name = word;
            name_length = word_length;
        } else if (take_keyword (word, word_length, &slots, fail))
            return -1;
        word += word_length;
    }
    return name ? add_item (list, name, name_length, slots, fail) : 0;
}

int
hostlist_add_file (struct hostlist *list, const char *name, const char *text, struct fail *fail)
{
    size_t before = list->count;
    for (int number = 1; *text; number++) {
        size_t length = strcspn (text, "\n");
        if (add_line (list, text, strcspn (text, "#\n"), fail))
            return fail_prefix (fail, "%s:%d", name, number);
        text += length + (text[length] == '\n');
    }
    return list->count > before ? 0 : fail_set (fail, FAIL_USAGE, "%s: names no host", name);
}

bool
hostlist_is_complete (const struct hostlist *list, int64_t num_processes)
{
    bool has_all = true;
    for (size_t i = 0; i < list->count; i++)
        has_all = has_all && list->hosts[i].slots;
    return has_all || num_processes;
}

static size_t
count_all (const struct hostlist *list)
{
    return list->all > list->count ? list->all : list->count;
}

static void
keep_used (struct hostlist *list)
{
    size_t kept = 0;
    int rank = 0;
    list->all = count_all (list);
    for (size_t i = 0; i < list->count; i++) {
        struct hostlist_host host = list->hosts[i];
        if (!host.ranks)
            continue;
        list->hosts[i] = list->hosts[kept];
        list->hosts[kept] = host;
        list->hosts[kept].first_rank = rank;
        rank += list->hosts[kept++].ranks;
    }
    list->count = kept;
}

bool
hostlist_can_lose (const struct hostlist *list, const bool *is_lost, int64_t num_processes)
{
    int64_t slots = 0;
    bool has_other = false;
    for (size_t i = 0; i < count_all (list); i++) {
        if (i < list->count && is_lost[i])
            continue;
        slots += list->hosts[i].slots;
        has_other = has_other || !list->hosts[i].slots;
    }
    return has_other || slots >= (num_processes ? num_processes : 1);
}

void
hostlist_lose (struct hostlist *list, const bool *is_lost)
{
    size_t all = count_all (list), kept = 0;
    for (size_t i = 0; i < all; i++) {
        if (i < list->count && is_lost[i])
            free (list->hosts[i].name);
        else
            list->hosts[kept++] = list->hosts[i];
    }
    list->count = list->all = kept;
}

/* @return how many slots there are on hosts whose numbers are known; @others: on how many they are not */
static int64_t
count_slots (const struct hostlist *list, int64_t *others)
{
    int64_t slots = 0;
    *others = 0;
    for (size_t i = 0; i < list->count; i++) {
        slots += list->hosts[i].slots;
        *others += !list->hosts[i].slots;
    }
    return slots;
}

int
hostlist_divide (struct hostlist *list, int64_t num_processes, struct fail *fail)
{
    int64_t others, slots = count_slots (list, &others), count = (int64_t) list->count;
    if (num_processes && !others && num_processes > slots)
        return fail_set (fail, FAIL_USAGE, "--num_processes %lld is more than the %lld slots of the hosts; raise the "
                         "slots of some, as in host:%lld", (long long) num_processes, (long long) slots,
                         (long long) ((num_processes + count - 1) / count));
    if (num_processes > INT32_MAX || slots + others > INT32_MAX)
        return fail_set (fail, FAIL_USAGE, "too many processes: the maximum is %d", INT32_MAX);
    int64_t left = num_processes ? num_processes : slots + others;
    int64_t rest = left > slots ? left - slots : 0, other = 0; /* for the hosts without a number, evenly */
    for (size_t i = 0; i < list->count; i++) {
        struct hostlist_host *host = &list->hosts[i];
        int64_t most = host->slots;
        if (!most)
            most = rest / others + (other++ < rest % others);
        if (most > JOBSEG_MAX_LOCAL)
            return fail_set (fail, FAIL_USAGE, "%lld processes on one machine are too many: the maximum is %d",
                             (long long) most, JOBSEG_MAX_LOCAL);
        host->ranks = (int) (most < left ? most : left);
        left -= host->ranks;
    }
    keep_used (list);
    return 0;
}

int
hostlist_world_size (const struct hostlist *list)
{
    int size = 0;
    for (size_t i = 0; i < list->count; i++)
        size += list->hosts[i].ranks;
    return size;
}

void
hostlist_release (struct hostlist *list)
{
    for (size_t i = 0; i < count_all (list); i++)
        free (list->hosts[i].name);
    free (list->hosts);
    free (list->buckets);
    *list = (struct hostlist){ 0 };
}
