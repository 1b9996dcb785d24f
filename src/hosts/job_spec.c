/* SPDX-License-Identifier: Apache-2.0 */
/* The job as bytes; see job_spec.h. */
#include <config.h>

#include "hosts/job_spec.h"

#include "launch/job/job.h"
#include "launch/output/sink.h"
#include "util/cleanup.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

extern char **environ;

/* A '*' at the end means all that begin so. */
static const char *const of_host[] = {
    "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "HOST", "DISPLAY",
    "XAUTHORITY", "TMPDIR", "XDG_*", "SSH_*", "DBUS_*", "TERM_SESSION_ID", "WINDOWID", "TMUX*", "STY", "SLURM*",
    "PMI_*", "PMIX_*", "OMPI_*", "LSB_*", "PBS_*",
};

bool
job_spec_sends (const char *item)
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
job_spec_find_size (struct job_spec *spec)
{
    struct winsize size;
    bool is_known = !ioctl (spec->is_terminal[0] ? 1 : 2, TIOCGWINSZ, &size) && size.ws_col;
    spec->columns = is_known ? size.ws_col : 80;
    spec->rows = is_known ? size.ws_row : 24;
}

static void
describe_terminal (struct job_spec *spec)
{
    for (int i = 0; i < 2; i++)
        spec->is_terminal[i] = isatty (1 + i);
    spec->is_one_file = output_is_one_file ();
    job_spec_find_size (spec);
}

int
job_spec_fill (struct job_spec *spec, const struct config *config, struct fail *fail)
{
    *spec = (struct job_spec){ .config = *config, .timeout_ms = config->settings.host_timeout * 1000 };
    for (char **word = config->program_args; word && *word; word++)
        strlist_add (&spec->arguments, *word);
    for (char **item = environ; *item; item++)
        if (job_spec_sends (*item))
            strlist_add (&spec->environment, *item);
    spec->folder = getcwd (NULL, 0);
    if (!spec->folder)
        return fail_set (fail, FAIL_GENERAL, "cannot find the name of the current folder: %s", strerror (errno));
    describe_terminal (spec);
    if (job_make_id (spec->job_id, fail))
        return -1;
    return spec->arguments.failed || spec->environment.failed ? fail_nomem (fail) : 0;
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

/* All that the user has set; the rest are defaults there, too. */
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
job_spec_put (struct strbuf *out, const struct job_spec *spec)
{
    const struct config *config = &spec->config;
    size_t begin = wire_begin (out, WIRE_JOB);
    put_settings (out, config);
    wire_put_text (out, config->file);
    wire_put_text (out, config->program);
    wire_put_list (out, &spec->arguments);
    wire_put_list (out, &spec->environment);
    wire_put_text (out, spec->folder);
    wire_put_number (out, spec->is_terminal[0]);
    wire_put_number (out, spec->is_terminal[1]);
    wire_put_number (out, spec->is_one_file);
    wire_put_number (out, spec->has_input);
    wire_put_number (out, spec->columns);
    wire_put_number (out, spec->rows);
    wire_put_number (out, spec->timeout_ms);
    wire_put_text (out, spec->proxies);
    wire_put_number (out, spec->host);
    wire_put_text (out, spec->job_id);
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
job_spec_take (struct job_spec *spec, struct wire_frame *frame, struct fail *fail)
{
    bool failed = false;
    *spec = (struct job_spec){ 0 };
    if (config_init (&spec->config, fail) || take_settings (&spec->config, frame, fail))
        goto error;
    spec->config.file = copy (wire_text (frame), &failed);
    spec->config.program = copy (wire_text (frame), &failed);
    wire_list (frame, &spec->arguments);
    wire_list (frame, &spec->environment);
    spec->config.program_args = spec->arguments.items;
    spec->folder = copy (wire_text (frame), &failed);
    spec->is_terminal[0] = wire_number (frame);
    spec->is_terminal[1] = wire_number (frame);
    spec->is_one_file = wire_number (frame);
    spec->has_input = wire_number (frame);
    spec->columns = (int) wire_number (frame);
    spec->rows = (int) wire_number (frame);
    spec->timeout_ms = wire_number (frame);
    spec->proxies = copy (wire_text (frame), &failed);
    spec->host = wire_number (frame);
    const char *job_id = wire_text (frame);
    snprintf (spec->job_id, sizeof spec->job_id, "%s", job_id ? job_id : "");
    if (failed || spec->arguments.failed || spec->environment.failed) {
        fail_nomem (fail);
        goto error;
    }
    if (!frame->failed && spec->config.program && spec->folder && spec->timeout_ms > 0)
        return 0;
    fail_set (fail, FAIL_GENERAL, "the head has sent an invalid job");
error:
    job_spec_release (spec);
    return -1;
}

void
job_spec_release (struct job_spec *spec)
{
    config_release (&spec->config);
    strlist_release (&spec->arguments);
    strlist_release (&spec->environment);
    free (spec->folder);
    free (spec->proxies);
    *spec = (struct job_spec){ 0 };
}
