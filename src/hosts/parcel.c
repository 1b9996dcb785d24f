/* SPDX-License-Identifier: Apache-2.0 */
/* The job as bytes; see parcel.h. */
#include <config.h>

#include "hosts/parcel.h"

#include "util/cleanup.h"

#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

/* A '*' at the end means all that begin so. */
static const char *const of_host[] = {
    "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "HOST", "DISPLAY",
    "XAUTHORITY", "TMPDIR", "XDG_*", "SSH_*", "DBUS_*", "TERM_SESSION_ID", "WINDOWID", "TMUX*", "STY", "SLURM*",
    "PMI_*", "PMIX_*", "OMPI_*", "LSB_*", "PBS_*",
};

bool
parcel_sends (const char *item)
{
    size_t length = strcspn (item, "=");
    for (size_t i = 0; i < sizeof of_host / sizeof *of_host; i++) {
        size_t known = strlen (of_host[i]);
        bool is_prefix = of_host[i][known - 1] == '*';
        if (is_prefix ? length >= known - 1 && !strncmp (item, of_host[i], known - 1)
                      : length == known && !strncmp (item, of_host[i], length))
            return false;
    }
    return length > 0 && item[length] == '=';
}

void
parcel_find_size (struct parcel *parcel)
{
    struct winsize size;
    bool is_known = !ioctl (parcel->is_terminal[0] ? 1 : 2, TIOCGWINSZ, &size) && size.ws_col;
    parcel->columns = is_known ? size.ws_col : 80;
    parcel->rows = is_known ? size.ws_row : 24;
}

static void
describe_terminal (struct parcel *parcel)
{
    struct stat out, err;
    for (int i = 0; i < 2; i++)
        parcel->is_terminal[i] = isatty (1 + i);
    parcel->is_one_file = !fstat (1, &out) && !fstat (2, &err) && out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    parcel_find_size (parcel);
}

int
parcel_fill (struct parcel *parcel, const struct config *config, struct fail *fail)
{
    *parcel = (struct parcel){ .config = *config, .timeout_ms = config->settings.host_timeout * 1000 };
    for (char **word = config->program_args; word && *word; word++)
        strlist_add (&parcel->arguments, *word);
    for (char **item = environ; *item; item++)
        if (parcel_sends (*item))
            strlist_add (&parcel->environment, *item);
    parcel->folder = getcwd (NULL, 0);
    if (!parcel->folder)
        return fail_set (fail, FAIL_GENERAL, "cannot find the name of the current folder: %s", strerror (errno));
    describe_terminal (parcel);
    return parcel->arguments.failed || parcel->environment.failed ? fail_nomem (fail) : 0;
}

static void
put_setting (struct strbuf *out, const struct config *config, size_t index, const char *value)
{
    const struct origin *origin = &config->origins[index];
    wire_put_text (out, options[index].key);
    wire_put_text (out, value);
    wire_put_number (out, origin->kind);
    wire_put_number (out, origin->line);
    wire_put_number (out, origin->file_place);
}

/* All that somebody has set; the rest are defaults there, too. */
static void
put_settings (struct strbuf *out, const struct config *config)
{
    for (size_t i = 0; i < option_count; i++) {
        const void *field = option_field_const (&options[i], &config->settings);
        if (config->origins[i].kind == ORIGIN_DEFAULT)
            continue;
        if (options[i].type == OPTION_LIST) {
            const struct strlist *list = field;
            for (size_t j = 0; j < list->count; j++)
                put_setting (out, config, i, list->items[j]);
            continue;
        }
        AUTO_STRBUF struct strbuf text = { 0 };
        option_types[options[i].type].format (field, &text);
        out->failed = out->failed || text.failed;
        put_setting (out, config, i, text.text ? text.text : "");
    }
    wire_put_text (out, NULL);
}

void
parcel_put (struct strbuf *out, const struct parcel *parcel)
{
    const struct config *config = &parcel->config;
    size_t begin = wire_begin (out, WIRE_JOB);
    put_settings (out, config);
    wire_put_text (out, config->file);
    wire_put_text (out, config->program);
    wire_put_list (out, &parcel->arguments);
    wire_put_list (out, &parcel->environment);
    wire_put_text (out, parcel->folder);
    wire_put_number (out, parcel->is_terminal[0]);
    wire_put_number (out, parcel->is_terminal[1]);
    wire_put_number (out, parcel->is_one_file);
    wire_put_number (out, parcel->has_input);
    wire_put_number (out, parcel->columns);
    wire_put_number (out, parcel->rows);
    wire_put_number (out, parcel->timeout_ms);
    wire_put_text (out, parcel->standins);
    wire_put_number (out, parcel->host);
    wire_end (out, begin);
}

static int
take_settings (struct config *config, struct wire_frame *frame, struct fail *fail)
{
    const char *key;
    while ((key = wire_text (frame))) {
        const struct option *row = option_find (key);
        const char *value = wire_text (frame);
        struct origin origin = { .kind = (enum origin_kind) wire_number (frame) };
        origin.line = (int) wire_number (frame);
        origin.file_place = (int) wire_number (frame);
        if (!row || !value || frame->failed)
            break;
        if (config_set (config, row, value, origin, fail))
            return fail_prefix (fail, "%s", key);
        config->origins[row - options] = origin; /* config_set() numbers the keys of a file itself */
    }
    return key ? fail_set (fail, FAIL_GENERAL, "the head has sent a setting that does not exist") : 0;
}

static char *
copy (const char *text, bool *failed)
{
    char *made = text ? strdup (text) : NULL;
    *failed = *failed || (text && !made);
    return made;
}

int
parcel_take (struct parcel *parcel, struct wire_frame *frame, struct fail *fail)
{
    bool failed = false;
    *parcel = (struct parcel){ 0 };
    if (config_init (&parcel->config, fail) || take_settings (&parcel->config, frame, fail))
        goto error;
    parcel->config.file = copy (wire_text (frame), &failed);
    parcel->config.program = copy (wire_text (frame), &failed);
    wire_list (frame, &parcel->arguments);
    wire_list (frame, &parcel->environment);
    parcel->config.program_args = parcel->arguments.items;
    parcel->folder = copy (wire_text (frame), &failed);
    parcel->is_terminal[0] = wire_number (frame);
    parcel->is_terminal[1] = wire_number (frame);
    parcel->is_one_file = wire_number (frame);
    parcel->has_input = wire_number (frame);
    parcel->columns = (int) wire_number (frame);
    parcel->rows = (int) wire_number (frame);
    parcel->timeout_ms = wire_number (frame);
    parcel->standins = copy (wire_text (frame), &failed);
    parcel->host = wire_number (frame);
    if (failed || parcel->arguments.failed || parcel->environment.failed) {
        fail_nomem (fail);
        goto error;
    }
    if (!frame->failed && parcel->config.program && parcel->folder && parcel->timeout_ms > 0)
        return 0;
    fail_set (fail, FAIL_GENERAL, "the head has sent an invalid job");
error:
    parcel_release (parcel);
    return -1;
}

void
parcel_release (struct parcel *parcel)
{
    config_release (&parcel->config);
    strlist_release (&parcel->arguments);
    strlist_release (&parcel->environment);
    free (parcel->folder);
    free (parcel->standins);
    *parcel = (struct parcel){ 0 };
}
