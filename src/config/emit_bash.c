/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as a completion script for bash; see emit.h.  The script needs nothing but bash itself. */
#include <config.h>

#include "config/emit.h"

static const char head[] =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of accelerate(1) for bash.  Made from the option table by `make regen`; do not edit.\n"
    "_accelerate ()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} at=2\n"
    "    local options valued words i name\n"
    "    COMPREPLY=()\n"
    "    # '=' is a word of its own here\n"
    "    if [[ $cur == = ]]; then\n"
    "        cur=\n"
    "    elif [[ $prev == = ]]; then\n"
    "        prev=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    case ${COMP_WORDS[0]##*/} in\n"
    "    accelerate-*)\n"
    "        command=${COMP_WORDS[0]##*accelerate-} at=1\n"
    "        ;;\n"
    "    *)\n"
    "        if ((COMP_CWORD == 1)); then\n";

static const char middle[] =
    "    *)\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    # Behind the program everything is the program's.\n"
    "    for ((i = at; i < COMP_CWORD; i++)); do\n"
    "        name=${COMP_WORDS[i]//-/_}\n"
    "        if [[ ${COMP_WORDS[i]} != -* ]]; then\n"
    "            [[ ${COMP_WORDS[i]} == = ]] && { ((i++)); continue; }\n"
    "            mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "            return\n"
    "        elif [[ \" $valued \" == *\" --${name#__} \"* && ${COMP_WORDS[i+1]} != = ]]; then\n"
    "            ((i++))\n"
    "        fi\n"
    "    done\n"
    "    prev=${prev//-/_}\n"
    "    case --${prev#__} in\n";

static const char tail[] =
    "    esac\n"
    "    if [[ \" $valued \" == *\" --${prev#__} \"* ]]; then\n"
    "        return\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        [[ $cur == --*-* ]] && options=${options//_/-}\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options --help\" -- \"$cur\")\n"
    "    elif [[ $command == launch ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n";

static void
add_flags (enum option_command command, bool only_valued, struct strbuf *out)
{
    bool is_first = true;
    for (size_t i = 0; i < option_count; i++) {
        if (!emit_has_row (&options[i], command) || (only_valued && !option_types[options[i].type].takes_value))
            continue;
        strbuf_printf (out, "%s--%s", is_first ? "" : " ", options[i].key);
        is_first = false;
    }
}

static void
add_command (const struct command_info *info, struct strbuf *out)
{
    strbuf_printf (out, "    %s)\n        options='", info->name);
    add_flags (info->options, false, out);
    strbuf_add (out, "'\n        valued='");
    add_flags (info->options, true, out);
    strbuf_printf (out, "'\n        words='%s'\n        ;;\n", info->words ? info->words : "");
}

static void
add_values (const struct option *row, struct strbuf *out)
{
    if (row->type != OPTION_PATH && !row->choices)
        return;
    strbuf_printf (out, "    --%s)\n", row->key);
    if (row->choices) {
        strbuf_add (out, "        mapfile -t COMPREPLY < <(compgen -W '");
        for (size_t i = 0; row->choices[i]; i++)
            strbuf_printf (out, "%s%s", i ? " " : "", row->choices[i]);
        strbuf_add (out, "' -- \"$cur\")\n");
    } else
        strbuf_add (out, "        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n");
    strbuf_add (out, "        return\n        ;;\n");
}

void
emit_bash (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    strbuf_printf (out, "%s            mapfile -t COMPREPLY < <(compgen -W '", head);
    for (size_t i = 0; i < count; i++)
        strbuf_printf (out, "%s ", commands[i]->name);
    strbuf_add (out, "--help --version' -- \"$cur\")\n            return\n        fi\n        ;;\n    esac\n"
                     "    case $command in\n");
    for (size_t i = 0; i < count; i++)
        add_command (commands[i], out);
    strbuf_add (out, middle);
    for (size_t i = 0; i < option_count; i++)
        if (!(options[i].properties & (PROPERTY_NO_FLAG | PROPERTY_HIDDEN)))
            add_values (&options[i], out);
    strbuf_add (out, tail);
    strbuf_add (out, "complete -o filenames -F _accelerate accelerate accelerate-launch accelerate-config\n");
}
