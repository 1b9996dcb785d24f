/* SPDX-License-Identifier: Apache-2.0 */
/* A small HTTP server that can misbehave: server ROOT OWNER [REQUESTS]
 *
 * It serves the files below the folder ROOT, with ranges, on a free port of 127.0.0.1, which it writes to ROOT/.port,
 * and ends with the process OWNER. With REQUESTS, request N is written to the file REQUESTS/N, as it came, with its
 * body; N is the first number that is free.
 *
 * ROOT/.rules is read for each request. A line is a path without query, or "*", and words; the first line that applies
 * decides:
 *   times=N           only for the first N requests that it applies to, since .rules was written
 *   unless=TEXT       not if TEXT is in the request's headers ("_" is a blank there)
 *   match=TEXT        only if TEXT is in the request's headers
 *   status=N          the answer's status
 *   header=NAME:VALUE another header, any number of them
 *   early=NAME:VALUE  a header of another answer before this one, 103 Early Hints
 *   file=NAME         the body is this file of ROOT
 *   delay=MS          wait before the answer
 *   until=NAME        wait until there is this file of ROOT
 *   cut=N             close the connection after N bytes of the body
 *   stall=N           send N bytes of the body, then nothing more
 *   drop              close the connection instead of answering
 *   whole             ignore ranges
 *   length=N          the Content-Length that is claimed
 *   range=TEXT        the Content-Range that is claimed
 *   endless           send zero bytes without end and without a length
 *   garbage           an answer that is not HTTP
 *   raw               the file is the whole answer, with its status and headers
 */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_HEAD = 65536, MOST_RULES = 256, LINE = 1024 };

static const char *root, *requests;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned used[MOST_RULES];
static struct timespec rules_of; /* when the rules that were counted were written */

struct request {
    char head[MOST_HEAD]; /* with the empty line, terminated */
    char method[16], path[LINE];
    char *body;
    size_t body_length;
};

struct rule {
    int status;
    long long cut, stall, length; /* -1: none */
    int delay;
    bool drop, whole, endless, garbage, raw;
    char file[LINE], until[LINE], headers[4 * LINE], range[LINE], early[LINE];
};

static bool
send_all (int fd, const void *bytes, size_t length)
{
    while (length) {
        ssize_t done = send (fd, bytes, length, MSG_NOSIGNAL);
        if (done <= 0)
            return false;
        bytes = (const char *) bytes + done;
        length -= (size_t) done;
    }
    return true;
}

static const char *
header_of (const struct request *request, const char *name)
{
    for (const char *line = strstr (request->head, "\r\n"); line && line[2]; line = strstr (line + 2, "\r\n"))
        if (!strncasecmp (line + 2, name, strlen (name)) && line[2 + strlen (name)] == ':')
            return line + 3 + strlen (name) + strspn (line + 3 + strlen (name), " ");
    return NULL;
}

static bool
receive_rest (int fd, struct request *request, size_t have, size_t head)
{
    const char *length = header_of (request, "Content-Length");
    request->body_length = length ? strtoull (length, NULL, 10) : 0;
    request->body = malloc (request->body_length + 1);
    if (!request->body)
        return false;
    size_t got = have - head;
    if (got > request->body_length)
        return false;
    memcpy (request->body, request->head + head, got);
    request->head[head] = '\0';
    if (header_of (request, "Expect") && !send_all (fd, "HTTP/1.1 100 Continue\r\n\r\n", 25))
        return false;
    while (got < request->body_length) {
        ssize_t more = recv (fd, request->body + got, request->body_length - got, 0);
        if (more <= 0)
            return false;
        got += (size_t) more;
    }
    return true;
}

static bool
receive (int fd, struct request *request)
{
    size_t have = 0;
    char *end = NULL;
    request->body = NULL;
    while (!end) {
        ssize_t more = recv (fd, request->head + have, MOST_HEAD - 1 - have, 0);
        if (more <= 0)
            return false;
        have += (size_t) more;
        request->head[have] = '\0';
        end = strstr (request->head, "\r\n\r\n");
    }
    /* A request for a proxy has a whole URL. */
    if (sscanf (request->head, "%15s %*[^/ ]//%*[^/ ]%1000[^? ]", request->method, request->path) != 2
        && sscanf (request->head, "%15s %1000[^? ]", request->method, request->path) != 2)
        return false;
    return receive_rest (fd, request, have, (size_t) (end + 4 - request->head));
}

static void
write_down (const struct request *request)
{
    char path[2 * LINE];
    unsigned number = 0;
    FILE *file;
    if (!requests)
        return;
    pthread_mutex_lock (&lock);
    do {
        snprintf (path, sizeof path, "%s/%u", requests, ++number);
        file = fopen (path, "wx");
    } while (!file && errno == EEXIST);
    pthread_mutex_unlock (&lock);
    if (!file)
        return;
    fputs (request->head, file);
    fwrite (request->body, 1, request->body_length, file);
    fclose (file);
}

/* @return whether the rule with these words applies */
static bool
read_rule (char *words, unsigned number, const struct request *request, struct rule *rule)
{
    unsigned times = UINT32_MAX;
    *rule = (struct rule) { .cut = -1, .stall = -1, .length = -1 };
    for (char *rest, *word = strtok_r (words, " \n", &rest); word; word = strtok_r (NULL, " \n", &rest)) {
        char *value = strchr (word, '=');
        value = value ? value + 1 : word + strlen (word);
        for (char *c = value; *c && strncmp (word, "file", 4) != 0; c++)
            *c = *c == '_' ? ' ' : *c;
        if (!strncmp (word, "times=", 6))
            times = (unsigned) atoi (value);
        else if (!strncmp (word, "unless=", 7) ? strstr (request->head, value) != NULL
                                               : !strncmp (word, "match=", 6) && !strstr (request->head, value))
            return false;
        else if (!strncmp (word, "status=", 7))
            rule->status = atoi (value);
        else if (!strncmp (word, "header=", 7))
            snprintf (rule->headers + strlen (rule->headers), LINE, "%s\r\n", value);
        else if (!strncmp (word, "early=", 6))
            snprintf (rule->early, LINE, "%s", value);
        else if (!strncmp (word, "file=", 5))
            snprintf (rule->file, LINE, "%s", value);
        else if (!strncmp (word, "delay=", 6))
            rule->delay = atoi (value);
        else if (!strncmp (word, "until=", 6))
            snprintf (rule->until, LINE, "%s", value);
        else if (!strncmp (word, "cut=", 4))
            rule->cut = atoll (value);
        else if (!strncmp (word, "stall=", 6))
            rule->stall = atoll (value);
        else if (!strncmp (word, "length=", 7))
            rule->length = atoll (value);
        else if (!strncmp (word, "range=", 6))
            snprintf (rule->range, LINE, "%s", value);
        rule->drop |= !strcmp (word, "drop");
        rule->whole |= !strcmp (word, "whole");
        rule->endless |= !strcmp (word, "endless");
        rule->garbage |= !strcmp (word, "garbage");
        rule->raw |= !strcmp (word, "raw");
    }
    pthread_mutex_lock (&lock);
    bool applies = used[number] < times;
    used[number] += applies;
    pthread_mutex_unlock (&lock);
    return applies;
}

static void
forget_old_rules (FILE *file)
{
    struct stat status;
    pthread_mutex_lock (&lock);
    if (!fstat (fileno (file), &status)
        && (status.st_mtim.tv_sec != rules_of.tv_sec || status.st_mtim.tv_nsec != rules_of.tv_nsec)) {
        memset (used, 0, sizeof used);
        rules_of = status.st_mtim;
    }
    pthread_mutex_unlock (&lock);
}

static void
find_rule (const struct request *request, struct rule *rule)
{
    char path[2 * LINE], line[4 * LINE];
    snprintf (path, sizeof path, "%s/.rules", root);
    FILE *file = fopen (path, "r");
    if (file)
        forget_old_rules (file);
    for (unsigned number = 0; file && number < MOST_RULES && fgets (line, sizeof line, file); number++) {
        size_t length = strcspn (line, " \n");
        bool same = (length == 1 && *line == '*')
                    || (length == strlen (request->path) && !strncmp (line, request->path, length));
        if (same && read_rule (line + length, number, request, rule)) {
            fclose (file);
            return;
        }
    }
    if (file)
        fclose (file);
    *rule = (struct rule) { .cut = -1, .stall = -1, .length = -1 };
}

static const char *
reason (int status)
{
    return status == 200 ? "OK" : status == 206 ? "Partial Content" : status == 404 ? "Not Found" : "Answer";
}

static int
open_file (const struct request *request, const struct rule *rule, off_t *size)
{
    char path[3 * LINE];
    struct stat status;
    snprintf (path, sizeof path, "%s/%s", root, *rule->file ? rule->file : request->path);
    int fd = strstr (path, "..") ? -1 : open (path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && (fstat (fd, &status) || !S_ISREG (status.st_mode))) {
        close (fd);
        fd = -1;
    }
    *size = fd >= 0 ? status.st_size : 0;
    return fd;
}

static bool
send_file (int fd, int file, off_t at, off_t count)
{
    while (count > 0) {
        ssize_t done = sendfile (fd, file, &at, (size_t) count);
        if (done <= 0)
            return false;
        count -= done;
    }
    return true;
}

static bool
misbehave (int fd, const struct rule *rule)
{
    static const char zeros[65536];
    if (rule->garbage)
        send_all (fd, "220 mail.example.org ready\r\n", 28);
    if (rule->endless && send_all (fd, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", 38))
        while (send_all (fd, zeros, sizeof zeros))
            ;
    return rule->drop || rule->garbage || rule->endless;
}

static void
wait_before (const struct rule *rule)
{
    char path[2 * LINE];
    usleep ((unsigned) rule->delay * 1000);
    snprintf (path, sizeof path, "%s/%s", root, rule->until);
    while (access (path, F_OK)) /* without a name, it is ROOT, which is there */
        usleep (5000);
}

/* @return whether the connection stays */
static bool
answer (int fd, const struct request *request)
{
    struct rule rule;
    char head[8 * LINE];
    off_t size, first = 0, last;
    find_rule (request, &rule);
    wait_before (&rule);
    if (misbehave (fd, &rule))
        return false;
    int file = open_file (request, &rule, &size);
    if (rule.raw && file >= 0) {
        send_file (fd, file, 0, size);
        close (file);
        return false;
    }
    if (rule.status / 100 == 3 && !*rule.file && file >= 0) { /* a redirect has no body */
        close (file);
        file = -1;
        size = 0;
    }
    int status = rule.status ? rule.status : file >= 0 ? 200 : 404;
    const char *range = status == 200 && !rule.whole ? header_of (request, "Range") : NULL;
    last = size - 1;
    if (range && !strncmp (range, "bytes=", 6)) {
        char *end;
        first = strtoll (range + 6, &end, 10);
        long long wanted = *end == '-' && end[1] >= '0' && end[1] <= '9' ? strtoll (end + 1, NULL, 10) : last;
        last = wanted < last ? wanted : last;
        status = first > last ? 416 : 206;
    }
    off_t count = status == 416 ? 0 : last + 1 - first;
    int length = *rule.early ? snprintf (head, sizeof head, "HTTP/1.1 103 Early Hints\r\n%s\r\n\r\n", rule.early) : 0;
    length += snprintf (head + length, sizeof head - (size_t) length,
                        "HTTP/1.1 %d %s\r\nContent-Length: %lld\r\n%s", status, reason (status),
                        rule.length >= 0 ? rule.length : (long long) count, rule.headers);
    if (*rule.range || status == 206)
        length += snprintf (head + length, sizeof head - (size_t) length, "Content-Range: bytes %lld-%lld/%lld\r\n",
                            *rule.range ? atoll (rule.range) : (long long) first, (long long) last, (long long) size);
    length += snprintf (head + length, sizeof head - (size_t) length, "\r\n");
    bool stays = send_all (fd, head, (size_t) length);
    if (strcmp (request->method, "HEAD") != 0 && file >= 0) {
        off_t sent = rule.cut >= 0 && rule.cut < count ? rule.cut : count;
        if (rule.stall >= 0 && rule.stall < sent)
            sent = rule.stall;
        stays = send_file (fd, file, first, sent) && sent == count;
        if (rule.stall >= 0)
            recv (fd, head, sizeof head, 0); /* until the client has enough */
    }
    if (file >= 0)
        close (file);
    return stays && rule.cut < 0;
}

static void *
serve (void *data)
{
    int fd = (int) (intptr_t) data;
    struct request *request = malloc (sizeof *request);
    bool stays = request != NULL;
    while (stays && receive (fd, request)) {
        write_down (request);
        stays = answer (fd, request);
        free (request->body);
        request->body = NULL;
    }
    if (request)
        free (request->body);
    free (request);
    close (fd);
    return NULL;
}

static int
listen_somewhere (void)
{
    char path[2 * LINE], final[2 * LINE];
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl (INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket (AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind (fd, (struct sockaddr *) &address, size) || listen (fd, 100)
        || getsockname (fd, (struct sockaddr *) &address, &size))
        return -1;
    snprintf (path, sizeof path, "%s/.port.new", root);
    snprintf (final, sizeof final, "%s/.port", root);
    FILE *file = fopen (path, "w");
    if (!file)
        return -1;
    fprintf (file, "%d\n", ntohs (address.sin_port));
    return fclose (file) || rename (path, final) ? -1 : fd;
}

int
main (int argc, char **argv)
{
    if (argc < 3)
        return 2;
    signal (SIGPIPE, SIG_IGN);
    root = argv[1];
    requests = argc > 3 ? argv[3] : NULL;
    struct pollfd fds[2] = { { .fd = listen_somewhere (), .events = POLLIN },
                             { .fd = (int) syscall (SYS_pidfd_open, atoi (argv[2]), 0), .events = POLLIN } };
    if (fds[0].fd < 0 || fds[1].fd < 0) {
        perror ("server");
        return 1;
    }
    while (poll (fds, 2, -1) >= 0 || errno == EINTR) {
        pthread_t thread;
        if (fds[1].revents)
            return 0;
        int fd = accept4 (fds[0].fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && pthread_create (&thread, NULL, serve, (void *) (intptr_t) fd))
            close (fd);
        else if (fd >= 0)
            pthread_detach (thread);
    }
    return 1;
}
