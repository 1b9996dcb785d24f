/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines: one process's, everybody's, everybody's in order, or once.  The level is the process's, as Python's. */
#include <config.h>

#include "lib/utility/log.h"

#include "lib/base/error.h"
#include "lib/comm/comm_private.h"
#include "util/envnames.h"
#include "util/hash.h"
#include "util/io.h"
#include "util/strbuf.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

static const struct {
    const char *word;
    enum accel_log_level level;
} words[] = {
    { "DEBUG", ACCEL_LOG_DEBUG }, { "INFO", ACCEL_LOG_INFO }, { "WARNING", ACCEL_LOG_WARNING },
    { "ERROR", ACCEL_LOG_ERROR }, { "CRITICAL", ACCEL_LOG_CRITICAL },
    /* Python's second names */
    { "WARN", ACCEL_LOG_WARNING }, { "FATAL", ACCEL_LOG_CRITICAL },
};
enum { WORDS = sizeof words / sizeof *words };

static _Atomic int chosen_level; /* 0: the environment's */

/* @return false where the variable holds no level's word; empty is unset. */
static bool
environment_level (enum accel_log_level *level)
{
    const char *text = getenv (ENV_LOG_LEVEL);
    *level = ACCEL_LOG_WARNING;
    if (!text || !*text)
        return true;
    for (int i = 0; i < WORDS; i++)
        if (!strcasecmp (text, words[i].word)) {
            *level = words[i].level;
            return true;
        }
    return false;
}

enum accel_status
log_check_environment (struct accel_error *err)
{
    enum accel_log_level level;
    if (environment_level (&level))
        return ACCEL_OK;
    return accel_fail (err, ACCEL_ERR_INVALID,
                       "environment: %s='%.40s' is invalid: expected debug, info, warning, error or critical",
                       ENV_LOG_LEVEL,
                       getenv (ENV_LOG_LEVEL));
}

void
accel_set_log_level (enum accel_log_level level)
{
    atomic_store (&chosen_level, (int) level);
}

enum accel_log_level
accel_log_level (void)
{
    int chosen = atomic_load (&chosen_level);
    enum accel_log_level level;
    if (chosen)
        return (enum accel_log_level) chosen;
    environment_level (&level);
    return level;
}

static const char *
level_word (enum accel_log_level level)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i].level == level)
            return words[i].word;
    return "LEVEL ?";
}

ACCEL_PRINTF (3, 0) static void
write_line (const struct accel *acc, enum accel_log_level level, const char *format, va_list args)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    char *text = NULL;
    if (vasprintf (&text, format, args) < 0)
        return;
    strbuf_printf (&line, "%s: [RANK %d] %s\n", level_word (level), accel_process_index (acc), text);
    free (text);
    if (!line.failed)
        io_write_all (STDERR_FILENO, line.text, line.length);
}

void
accel_log (const struct accel *acc, enum accel_log_level level, const char *format, ...)
{
    if (level < accel_log_level () || !accel_is_main_process (acc))
        return;
    va_list args;
    va_start (args, format);
    write_line (acc, level, format, args);
    va_end (args);
}

void
accel_log_everywhere (const struct accel *acc, enum accel_log_level level, const char *format, ...)
{
    if (level < accel_log_level ())
        return;
    va_list args;
    va_start (args, format);
    write_line (acc, level, format, args);
    va_end (args);
}

enum accel_status
accel_log_in_order_at (const char *file, int line, struct accel *acc, struct accel_error *err,
                       enum accel_log_level level, const char *format, ...)
{
    const struct comm_site site = { .file = file, .line = line, .call = JOBSEG_CALL_LOG_IN_ORDER };
    enum accel_status status = ACCEL_OK;
    for (int turn = 0; !status && turn < accel_num_processes (acc); turn++) {
        if (turn == accel_process_index (acc) && level >= accel_log_level ()) {
            va_list args;
            va_start (args, format);
            write_line (acc, level, format, args);
            va_end (args);
        }
        status = comm_barrier (accel_world (acc), &site, err);
    }
    return status;
}

/* Two texts of one program are not expected to have the same hash.  The latest 1024 texts are remembered: what warns of
 * something new each time must not take memory for ever. */
static bool
is_new (uint64_t hash)
{
    enum { MOST = 1024 };
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static uint64_t seen[MOST];
    static size_t count;
    bool found = false;
    pthread_mutex_lock (&lock);
    for (size_t i = 0; i < count && i < MOST && !found; i++)
        found = seen[i] == hash;
    if (!found)
        seen[count++ % MOST] = hash;
    pthread_mutex_unlock (&lock);
    return !found;
}

void
accel_log_warning_once (const struct accel *acc, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start (args, format);
    int length = vasprintf (&text, format, args);
    va_end (args);
    if (length < 0)
        return;
    if (is_new (hash_bytes (HASH_START, text, (size_t) length)))
        accel_log (acc, ACCEL_LOG_WARNING, "%s", text);
    free (text);
}
