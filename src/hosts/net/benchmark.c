/* SPDX-License-Identifier: Apache-2.0 */
/* Both sides of a measurement; see benchmark.h.  The one that listens says its token, hears the key, and then gets
 * requests of one letter and a number: echo a byte, take so many bytes and confirm it, or give so many. */
#include <config.h>

#include "hosts/net/benchmark.h"

#include "hosts/net/wire.h"
#include "launch/process/process.h"
#include "util/cleanup.h"
#include "util/clock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <linux/sockios.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    TOKEN_BYTES = ADDRESS_TOKEN_BYTES - 1,
    REQUEST_BYTES = 9,
    PART_BYTES = 8 * 1024, /* on the slowest links, some of these come through */
    FIRST_BYTES = 64 * 1024, LAST_BYTES = 256 * 1024 * 1024, /* of one transfer */
    ENOUGH_MS = 100,    /* a transfer that takes so long, and so many round trips, says enough */
    ENOUGH_TRIPS = 3,
    GREETING_MS = 2000, /* for the key to come */
    SERVING_MS = 60000, /* for all that one client wants */
    TRIPS = 41,         /* round trips */
    CONNECT_SHARE = 5,  /* one attempt to connect may take this part of the time */
    TROUBLE_MS = 1500,  /* to see why there is no connection */
    TRIPS_MS = 500,     /* all of them, but for the first */
};

static const char ask_echo = 'e', ask_take = 't', ask_give = 'g';

/* ---- bytes, until a deadline ---- */

static bool
await (int fd, short events, int64_t until)
{
    for (;;) {
        struct pollfd one = { .fd = fd, .events = events };
        int64_t now = clock_ms ();
        if (now >= until)
            return false;
        int count = poll (&one, 1, (int) (until - now));
        if (count > 0)
            return true;
        if (count < 0 && errno != EINTR)
            return false;
    }
}

static bool
send_all (int fd, const void *bytes, size_t length, int64_t until)
{
    for (const char *at = bytes; length;) {
        ssize_t put = send (fd, at, length, MSG_NOSIGNAL);
        if (put > 0) {
            at += put;
            length -= (size_t) put;
        } else if (errno != EINTR && (errno != EAGAIN || !await (fd, POLLOUT, until)))
            return false;
    }
    return true;
}

static bool
receive_all (int fd, void *bytes, size_t length, int64_t until)
{
    for (char *at = bytes; length;) {
        ssize_t got = recv (fd, at, length, 0);
        if (got > 0) {
            at += got;
            length -= (size_t) got;
        } else if (got == 0 || (errno != EINTR && (errno != EAGAIN || !await (fd, POLLIN, until))))
            return false;
    }
    return true;
}

/* Send or receive @p count arbitrary bytes.  @param[out] done  how many of them, in whole parts  @return whether all */
static bool
pour (int fd, char *block, int64_t count, bool out, int64_t until, int64_t *done)
{
    for (*done = 0; *done < count;) {
        size_t part = count - *done < PART_BYTES ? (size_t) (count - *done) : PART_BYTES;
        if (!(out ? send_all (fd, block, part, until) : receive_all (fd, block, part, until)))
            return false;
        *done += (int64_t) part;
    }
    return true;
}

static void
prepare_socket (int fd)
{
    int on = 1;
    setsockopt (fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl (fd, F_SETFL, O_NONBLOCK);
}

/* ---- the one that listens ---- */

static void
serve_client (int fd, const struct net_benchmark *benchmark, char *block)
{
    char key[TOKEN_BYTES];
    unsigned char request[REQUEST_BYTES];
    int64_t now = clock_ms (), until = now + SERVING_MS, done;
    prepare_socket (fd);
    if (!send_all (fd, benchmark->token, TOKEN_BYTES, now + GREETING_MS)
        || !receive_all (fd, key, sizeof key, now + GREETING_MS) || memcmp (key, benchmark->key, sizeof key) != 0)
        return;
    while (receive_all (fd, request, sizeof request, until)) {
        int64_t count = (int64_t) wire_get_little (request + 1, sizeof request - 1);
        bool is_take = request[0] == (unsigned char) ask_take, is_give = request[0] == (unsigned char) ask_give;
        if (count < 0 || count > LAST_BYTES || ((is_take || is_give) && !pour (fd, block, count, is_give, until, &done))
            || (!is_give && !send_all (fd, "", 1, until)))
            return;
    }
}

/* For one client after the other, because two at a time would measure each other. */
static _Noreturn void
serve (int listener, const struct net_benchmark *benchmark, pid_t parent)
{
    static char block[PART_BYTES];
    int nothing = open ("/dev/null", O_RDWR | O_CLOEXEC);
    prctl (PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0; fd < 3; fd++) /* the head's connection, which must not stay open because of us */
        dup2 (nothing, fd);
    while (getppid () == parent) {
        await (listener, POLLIN, clock_ms () + SERVING_MS);
        int fd = accept4 (listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve_client (fd, benchmark, block);
            close (fd);
        }
    }
    _exit (0);
}

int
net_benchmark_start (struct net_benchmark *benchmark, struct fail *fail)
{
    struct listener listener = LISTENER_NONE, key = LISTENER_NONE;
    pid_t parent = getpid ();
    net_benchmark_stop (benchmark);
    if (listener_open (&listener, 0, fail) || listener_draw_token (&key, fail)) {
        listener_close (&listener);
        return -1;
    }
    memcpy (benchmark->token, listener.token, sizeof benchmark->token);
    memcpy (benchmark->key, key.token, sizeof benchmark->key);
    benchmark->port = address_port (listener.fd);
    benchmark->pid = fork ();
    if (benchmark->pid == 0)
        serve (listener.fd, benchmark, parent);
    listener_close (&listener);
    if (benchmark->pid > 0)
        return 0;
    benchmark->pid = 0;
    return status_fail_start (errno, fail);
}

void
net_benchmark_stop (struct net_benchmark *benchmark)
{
    if (benchmark->pid) {
        kill (benchmark->pid, SIGKILL);
        while (waitpid (benchmark->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    benchmark->pid = 0;
}

/* ---- the one that measures ---- */

static bool
request (int fd, char what, int64_t count, int64_t until)
{
    unsigned char bytes[REQUEST_BYTES];
    bytes[0] = (unsigned char) what;
    wire_put_little (bytes + 1, sizeof bytes - 1, (uint64_t) count);
    return send_all (fd, bytes, sizeof bytes, until);
}

/* The shortest of many round trips, or of fewer if they take long: on a busy host, others include waiting processes.
 * @return 0 if there was none */
static int64_t
measure_trip (int fd, int64_t until)
{
    int64_t best = 0, begin = clock_ms ();
    char answer;
    for (int count = 0; count < TRIPS && (!count || clock_ms () - begin < TRIPS_MS); count++) {
        int64_t sent = clock_ns ();
        if (!request (fd, ask_echo, 0, until) || !receive_all (fd, &answer, 1, until))
            break;
        int64_t took = clock_ns () - sent;
        best = !best || took < best ? took : best;
    }
    return best;
}

/* Bytes that we have sent, and that the other side has not got. */
static int64_t
on_the_way (int fd)
{
    int bytes = 0;
    return ioctl (fd, SIOCOUTQ, &bytes) ? 0 : bytes;
}

/* One transfer.
 * @param[out] done  how many of its bytes have come to the other side by the deadline
 * @return its nanoseconds, without the way of the request or answer; 0: it has not come to its end */
static int64_t
transfer (int fd, char *block, bool out, int64_t count, int64_t trip_ns, int64_t until, int64_t *done)
{
    int64_t begin = clock_ns ();
    char answer;
    *done = 0;
    if (!request (fd, out ? ask_take : ask_give, count, until) || !pour (fd, block, count, out, until, done)
        || (out && !receive_all (fd, &answer, 1, until))) {
        *done -= out ? on_the_way (fd) : 0;
        return 0;
    }
    int64_t took = clock_ns () - begin;
    return took > 2 * trip_ns ? took - trip_ns : took;
}

/* Transfers of growing size, until one takes long enough.  If not even the first comes to its end, its result says
 * how slow the way is.  @return bytes per second of the best, or 0 */
static double
measure_rate (int fd, bool out, int64_t trip_ns, int64_t until, bool *is_cut)
{
    static char block[PART_BYTES];
    double best = 0;
    *is_cut = false;
    for (int64_t count = FIRST_BYTES, done; count <= LAST_BYTES; count *= 4) {
        int64_t begin = clock_ms (), took = transfer (fd, block, out, count, trip_ns, until, &done);
        *is_cut = took <= 0;
        if (*is_cut && best <= 0 && done > 0 && clock_ms () > begin)
            best = (double) done * 1000 / (double) (clock_ms () - begin);
        double rate = took > 0 ? (double) count / ((double) took / 1e9) : 0;
        best = rate > best ? rate : best;
        bool is_enough = took >= ENOUGH_MS * INT64_C (1000000) && took >= ENOUGH_TRIPS * trip_ns;
        if (took <= 0 || is_enough || clock_ms () + 5 * took / 1000000 >= until)
            break;
    }
    return best;
}

/* @return a connection to the benchmark, which has accepted the key; -1: there is none */
static int
connect_net_benchmark (const struct net_benchmark *benchmark, const char *address, int64_t until)
{
    char token[TOKEN_BYTES];
    int error = 0, fd = address_begin_connect (address, benchmark->port, until);
    socklen_t length = sizeof error;
    if (fd < 0)
        return -1;
    if (await (fd, POLLOUT, until) && !getsockopt (fd, SOL_SOCKET, SO_ERROR, &error, &length) && !error) {
        prepare_socket (fd);
        if (receive_all (fd, token, sizeof token, until) && !memcmp (token, benchmark->token, sizeof token)
            && send_all (fd, benchmark->key, TOKEN_BYTES, until))
            return fd;
    }
    close (fd);
    return -1;
}

/* On a link that loses packets, the next attempt may be quicker than the kernel's own. */
static int
connect_patiently (const struct net_benchmark *benchmark, const char *address, int64_t limit_ms, int64_t until)
{
    int fd = -1;
    for (int64_t now; fd < 0 && (now = clock_ms ()) < until;) {
        int64_t next = now + limit_ms / CONNECT_SHARE;
        fd = connect_net_benchmark (benchmark, address, next < until ? next : until);
        if (fd < 0 && clock_ms () < next) /* refused, or not who it should be */
            break;
    }
    return fd;
}

static const char *
choose_address (const struct net_benchmark *benchmark, const struct strlist *addresses, int64_t limit_ms)
{
    AUTO_FREE bool *reached = calloc (addresses->count + 1, sizeof *reached);
    if (!reached)
        return NULL;
    address_reach (addresses, benchmark->port, benchmark->token, limit_ms, true, reached);
    for (size_t i = 0; i < addresses->count; i++)
        if (reached[i])
            return addresses->items[i];
    return NULL;
}

/* Why no address has answered: what the kernel says of another attempt at the first. */
static enum net_benchmark_trouble
find_trouble (const struct net_benchmark *benchmark, const char *address)
{
    int error = 0;
    int64_t until = clock_ms () + TROUBLE_MS;
    socklen_t length = sizeof error;
    errno = 0;
    AUTO_CLOSE int fd = address_begin_connect (address, benchmark->port, until);
    if (fd < 0)
        error = errno;
    else if (!await (fd, POLLOUT, until))
        error = ETIMEDOUT;
    else
        getsockopt (fd, SOL_SOCKET, SO_ERROR, &error, &length);
    switch (error) {
    case ECONNREFUSED: return NET_BENCHMARK_REFUSED;
    case ENETUNREACH:
    case EHOSTUNREACH: return NET_BENCHMARK_NO_ROUTE;
    default: return NET_BENCHMARK_NO_ANSWER;
    }
}

static void
note_trouble (struct net_benchmark_result *result, const struct net_benchmark *benchmark,
              const struct strlist *addresses, int64_t began_ms)
{
    static const char *const words[] = {
        [NET_BENCHMARK_REFUSED] = "the connection was refused", [NET_BENCHMARK_NO_ROUTE] = "there is no route to it",
        [NET_BENCHMARK_NO_ANSWER] = "no answer",
    };
    const char *address = addresses->count ? addresses->items[0] : "any address";
    result->trouble = addresses->count ? find_trouble (benchmark, address) : NET_BENCHMARK_NO_ROUTE;
    snprintf (result->why, sizeof result->why, "cannot connect to port %d at %s%s: %s (after %.1f s)", benchmark->port,
              address, addresses->count > 1 ? ", ..." : "", words[result->trouble],
              (double) (clock_ms () - began_ms) / 1000);
}

void
net_benchmark_measure (const struct net_benchmark *benchmark, const struct strlist *addresses, int64_t limit_ms,
                       struct net_benchmark_result *result)
{
    int64_t begin = clock_ms (), until = begin + limit_ms;
    *result = (struct net_benchmark_result){ 0 };
    const char *address = choose_address (benchmark, addresses, limit_ms / 2);
    if (!address) {
        note_trouble (result, benchmark, addresses, begin);
        return;
    }
    snprintf (result->address, sizeof result->address, "%s", address);
    bool is_cut = false;
    int fd = connect_patiently (benchmark, address, limit_ms, until);
    result->round_trip_ns = fd >= 0 ? measure_trip (fd, until) : 0;
    if (result->round_trip_ns) {
        int64_t half = clock_ms () + (until - clock_ms ()) / 2;
        result->to = measure_rate (fd, true, result->round_trip_ns, half, &is_cut);
    }
    if (is_cut) { /* the other side waits for the rest; do not let it wait for what is on the way, too */
        setsockopt (fd, SOL_SOCKET, SO_LINGER, &(struct linger){ .l_onoff = 1 }, sizeof (struct linger));
        close (fd);
        fd = connect_patiently (benchmark, address, limit_ms, until);
    }
    if (result->round_trip_ns && fd >= 0)
        result->from = measure_rate (fd, false, result->round_trip_ns, until, &is_cut);
    if (fd >= 0)
        close (fd);
    if (result->to > 0 || result->from > 0) /* the other one is measured from the other side, too */
        return;
    result->trouble = NET_BENCHMARK_STALLED;
    snprintf (result->why, sizeof result->why, "the connection to %s broke or stalled after %.1f s", address,
              (double) (clock_ms () - begin) / 1000);
}
