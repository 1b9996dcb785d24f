/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a program that asked for it: the only place of the library that exits. */
#include <config.h>

#include <accel/base.h>

#include "util/envnames.h"
#include "util/io.h"
#include "util/strbuf.h"
#include "util/utf8.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PEER_WAIT_MS = 1000 };

/* Collectives have said already where they were called. */
static bool
says_where (const char *text, const char *file, int line)
{
    char where[256];
    const char *name = strrchr (file, '/');
    int length = snprintf (where, sizeof where, "%s:%d", name ? name + 1 : file, line);
    const char *found = strstr (text, where);
    return found && (size_t) length < sizeof where && (found[length] < '0' || found[length] > '9');
}

/* As torch's @record writes it, and torchrun and accelerate launch read it. */
static void
write_error_file (const char *message)
{
    const char *path = getenv (ENV_ERROR_FILE);
    AUTO_STRBUF struct strbuf json = { 0 };
    if (!path || !*path)
        return;
    bool valid = utf8_is_valid (message, strlen (message));
    strbuf_add (&json, "{\"message\": \"");
    for (; *message; message++) {
        unsigned char c = (unsigned char) *message;
        if (c == '"' || c == '\\')
            strbuf_add_char (&json, '\\');
        strbuf_add_char (&json, c < ' ' || c == 0x7f ? ' ' : c < 0x80 || valid ? (char) c : '?');
    }
    strbuf_printf (&json, "\", \"timestamp\": %lld}\n", (long long) time (NULL));
    if (!json.failed)
        io_write_file (path, json.text, json.length, 0666, NULL);
}

void
accel_check_at (const char *file, int line, enum accel_status status, const struct accel_error *err)
{
    if (!status)
        return;
    /* No memory is asked for: it may be what has run out. */
    char out[PATH_MAX + 2 * ACCEL_ERROR_TEXT_SIZE];
    const struct timespec wait = { PEER_WAIT_MS / 1000, 0 };
    if (status == ACCEL_ERR_PEER)
        nanosleep (&wait, NULL);
    const char *text = err && err->code == status ? err->text : accel_status_string (status);
    size_t begin = (size_t) snprintf (out, sizeof out, "%.255s: ", program_invocation_short_name), length = begin;
    if (file && !says_where (text, file, line))
        length += (size_t) snprintf (out + length, sizeof out - length, "%.*s:%d: ", PATH_MAX, file, line);
    length += (size_t) snprintf (out + length, sizeof out - length, "%s", text);
    write_error_file (out + begin);
    out[length] = '\n';
    io_write_all (STDERR_FILENO, out, length + 1);
    exit (EXIT_FAILURE);
}
