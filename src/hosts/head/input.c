/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what rank 0 gets; see state.h. */
#include <config.h>

#include "hosts/head/state.h"

#include "util/io.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

void
input_init (struct input *input, bool is_wanted)
{
    struct stat info, null;
    bool is_null = !fstat (0, &info) && !stat ("/dev/null", &null) && S_ISCHR (info.st_mode)
                   && info.st_rdev == null.st_rdev;
    *input = (struct input){ .fd = is_wanted && !is_null && !io_is_closed (0) ? 0 : -1, .is_terminal = isatty (0) };
}

/* A job in the background does not read the terminal, which belongs to the one in the foreground. */
static bool
is_ours (const struct input *input)
{
    return !input->is_terminal || tcgetpgrp (input->fd) == getpgrp ();
}

static bool
has_taker (const struct link *link)
{
    return link->state == LINK_RUNNING && link->pipe.out >= 0;
}

int
input_fd (const struct input *input, const struct link *link)
{
    bool has_room = input->sent - link->input_taken < WIRE_INPUT_BYTES;
    return input->fd >= 0 && !input->has_ended && has_taker (link) && has_room && is_ours (input) ? input->fd : -1;
}

/* If the terminal has just been taken away, reading fails instead of stopping us. */
static ssize_t
read_some (const struct input *input, char *bytes, size_t size)
{
    sigset_t stop, old;
    sigemptyset (&stop);
    sigaddset (&stop, SIGTTIN);
    sigprocmask (SIG_BLOCK, &stop, &old);
    ssize_t got = read (input->fd, bytes, size);
    int error = errno;
    sigprocmask (SIG_SETMASK, &old, NULL);
    errno = error;
    return got;
}

static void
send_bytes (struct input *input, struct link *link, const char *bytes, size_t length)
{
    size_t begin = wire_begin (&link->pipe.to_write, WIRE_IN);
    strbuf_add_bytes (&link->pipe.to_write, bytes, length);
    wire_end (&link->pipe.to_write, begin);
    input->sent += (int64_t) length;
}

void
input_pass_on (struct input *input, struct link *link)
{
    char bytes[WIRE_INPUT_BYTES / 4];
    struct pollfd ready = { .fd = input_fd (input, link), .events = POLLIN };
    if (ready.fd >= 0 && poll (&ready, 1, 0) == 1) {
        ssize_t got = read_some (input, bytes, sizeof bytes);
        if (got > 0)
            send_bytes (input, link, bytes, (size_t) got);
        bool may_come = got < 0 && (errno == EINTR || errno == EAGAIN || (errno == EIO && !is_ours (input)));
        input->has_ended = got <= 0 && !may_come;
    }
    if (input->has_ended && !input->is_end_sent && has_taker (link)) {
        send_bytes (input, link, "", 0);
        input->is_end_sent = true;
    }
}

void
input_restart (struct input *input, struct link *link)
{
    input->sent = link->input_taken = 0;
    input->is_end_sent = false;
}
