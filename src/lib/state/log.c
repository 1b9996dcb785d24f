/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines of one process: their level, which is the process's, as in Python, and their form. */
#include <config.h>

#include "lib/state/log.h"

#include "lib/base/error.h"
#include "util/cleanup.h"
#include "util/envnames.h"
#include "util/hash.h"
#include "util/io.h"
#include "util/strbuf.h"
#include "util/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
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

/* @return false if the variable holds no level's word; empty is unset. */
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

int
log_level (void)
{
    int chosen = atomic_load (&chosen_level);
    enum accel_log_level level;
    if (chosen)
        return chosen;
    environment_level (&level);
    return (int) level;
}

int
accel_set_log_level (int level)
{
    int before = log_level ();
    if (level)
        atomic_store (&chosen_level, level);
    return before;
}

static const char *
level_word (enum accel_log_level level)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i].level == level)
            return words[i].word;
    return "LEVEL ?";
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
log_write (const struct accel *acc, int level, const char *format, va_list args)
{
    AUTO_STRBUF struct strbuf line = { 0 };
    AUTO_FREE char *text = format ? text_vprintf (format, args) : NULL;
    if (!text || ((level & ACCEL_LOG_ONCE) && !is_new (hash_bytes (HASH_START, text, strlen (text)))))
        return;
    strbuf_printf (&line, "%s: [RANK %d] %s\n", level_word (level & LOG_LEVEL), accel_process_index (acc), text);
    if (!line.failed)
        io_write_all (STDERR_FILENO, line.text, line.length);
}

void
accel_logger_log (const struct accel *acc, int level, const char *format, ...)
{
    if ((level & LOG_LEVEL) < log_level ()
        || (!(level & ACCEL_LOG_EVERYWHERE) && !accel_is_main_process (acc)))
        return;
    va_list args;
    va_start (args, format);
    log_write (acc, level, format, args);
    va_end (args);
}
