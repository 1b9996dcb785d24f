/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as a completion script for bash; see emit.h.  The script needs nothing but bash itself. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/emit/values.h"

static const char head[] =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of accelerate(1) for bash.  Generated from the option table by `make regen`; do not edit.\n"
    "\n"
    "# The following functions use the variables of _accelerate.\n"
    "_accelerate_files ()\n"
    "{\n"
    "    compopt -o filenames 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "# Configuration files, and folders that may contain them.\n"
    "_accelerate_configs ()\n"
    "{\n"
    "    local name\n"
    "    _accelerate_files -d\n"
    "    while IFS= read -r name; do\n"
    "        [[ $name == *.@(yaml|yml|json) && ! -d $name ]] && COMPREPLY+=(\"$name\")\n"
    "    done < <(compgen -f -- \"$cur\")\n"
    "}\n"
    "\n"
    "# Files and, for a name without a slash, programs in PATH.\n"
    "_accelerate_programs ()\n"
    "{\n"
    "    local folder name IFS=:\n"
    "    _accelerate_files -f\n"
    "    [[ $cur && $cur != */* ]] || return\n"
    "    for folder in $PATH; do\n"
    "        for name in \"$folder/$cur\"*; do\n"
    "            [[ -x $name && -f $name ]] && COMPREPLY+=(\"${name##*/}\")\n"
    "        done\n"
    "    done\n"
    "}\n"
    "\n"
    "# A comma-separated list: offer the GPUs that are not in it yet.\n"
    "_accelerate_gpus ()\n"
    "{\n"
    "    local before='' id words=all\n"
    "    [[ $cur == *,* ]] && before=${cur%,*}, words=''\n"
    "    for id in $(\"${COMP_WORDS[0]%-\"$command\"}\" --emit=gpu-ids 2>/dev/null); do\n"
    "        [[ ,$before == *,$id,* ]] || words+=\" $before$id\"\n"
    "    done\n"
    "    compopt -o nospace 2>/dev/null\n"
    "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "}\n"
    "\n"
    "_accelerate ()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} at=2\n"
    "    local options valued words i name IFS=$' \\t\\n'\n"
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
    "        if ((COMP_CWORD == 1)) || [[ $command == help ]]; then\n"
    "            mapfile -t COMPREPLY < <(compgen -W '";

static const char middle[] =
    "    *)\n"
    "        return\n"
    "        ;;\n"
    "    esac\n"
    "    # Everything after the program belongs to the program.\n"
    "    for ((i = at; i < COMP_CWORD; i++)); do\n"
    "        name=${COMP_WORDS[i]//-/_}\n"
    "        if [[ ${COMP_WORDS[i]} != -* ]]; then\n"
    "            [[ ${COMP_WORDS[i]} == = ]] && { ((i++)); continue; }\n"
    "            # options of config may come before or after its word\n"
    "            if [[ $command == config && ${COMP_WORDS[i]} != lint ]]; then\n"
    "                words=''\n"
    "                [[ ${COMP_WORDS[i]} == [gs]et ]] && words=${options//--/}\n"
    "                continue\n"
    "            fi\n"
    "            [[ $command == config ]] && { _accelerate_configs; return; }\n"
    "            [[ $command == launch ]] || continue\n"
    "            _accelerate_files -f\n"
    "            return\n"
    "        elif [[ \" $valued \" == *\" ${name#__} \"* && ${COMP_WORDS[i+1]} != = ]]; then\n"
    "            ((i++))\n"
    "        fi\n"
    "    done\n"
    "    prev=${prev//-/_} prev=${prev#__}\n"
    "    if [[ \" $valued \" == *\" $prev \"* ]]; then\n"
    "        case $prev in\n";

static const char tail[] =
    "        esac\n"
    "    elif [[ $cur == -* ]]; then\n"
    "        [[ $cur == --*-* ]] && options=${options//_/-}\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
    "    elif [[ $command == launch && \" ${COMP_WORDS[*]} \" != *\" \"@(-m|--module)\" \"* ]]; then\n"
    "        _accelerate_programs\n"
    "    elif [[ $command == launch || $words == @files ]]; then\n"
    "        _accelerate_files -f\n"
    "    else\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n";

static void
add_command (const struct command_info *info, struct strbuf *out)
{
    strbuf_printf (out, "    %s)\n        options='", info->name);
    for (size_t i = 0; i < option_count; i++)
        if (emit_completes_row (&options[i], info->options))
            strbuf_printf (out, "--%s ", options[i].key);
    strbuf_add (out, "--help --help_all'\n        valued='");
    emit_valued_flags (info->options, out);
    strbuf_printf (out, "'\n        words='%s'\n        ;;\n", info->words ? info->words : "");
}

static void
add_values (enum emit_kind kind, const char *const *words, struct strbuf *out)
{
    switch (kind) {
    case EMIT_FILES: strbuf_add (out, "            _accelerate_files -f\n"); break;
    case EMIT_CONFIGS: strbuf_add (out, "            _accelerate_configs\n"); break;
    case EMIT_FOLDERS: strbuf_add (out, "            _accelerate_files -d\n"); break;
    case EMIT_GPUS: strbuf_add (out, "            _accelerate_gpus\n"); break;
    default:
        strbuf_add (out, "            mapfile -t COMPREPLY < <(compgen -W '");
        for (size_t i = 0; words && words[i]; i++)
            strbuf_printf (out, "%s%s", i ? " " : "", words[i]);
        strbuf_add (out, "' -- \"$cur\")\n");
    }
    strbuf_add (out, "            ;;\n");
}

void
emit_bash (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    static const struct emit_case_form form = { "        ", " | ", ")\n", add_values };
    strbuf_add (out, head);
    for (size_t i = 0; i < count; i++)
        strbuf_printf (out, "%s ", commands[i]->name);
    strbuf_add (out, "--help --help-all --version' -- \"$cur\")\n            return\n        fi\n        ;;\n    esac\n"
                     "    case $command in\n");
    for (size_t i = 0; i < count; i++)
        add_command (commands[i], out);
    strbuf_add (out, middle);
    emit_value_cases (&form, out);
    strbuf_add (out, tail);
    strbuf_add (out, "complete -F _accelerate " EMIT_PROGRAMS "\n");
}
