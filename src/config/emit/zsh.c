/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as a completion function for zsh; see emit.h.  The same steps as in bash.c. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/emit/values.h"

static const char head[] =
    "#compdef " EMIT_PROGRAMS "\n"
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of accelerate(1) for zsh.  Generated from the option table by `make regen`; do not edit.\n"
    "\n"
    "# A comma-separated list: offer the GPUs that are not in it yet.\n"
    "_accelerate_gpus () {\n"
    "    local -a ids used\n"
    "    ids=(${(f)\"$($1 --emit=gpu-ids 2>/dev/null)\"})\n"
    "    if [[ $PREFIX == *,* ]]; then\n"
    "        used=(${(s:,:)PREFIX%,*})\n"
    "        compset -P '*,'\n"
    "    else\n"
    "        ids+=(all)\n"
    "    fi\n"
    "    compadd -S '' -- ${ids:|used}\n"
    "}\n"
    "\n"
    "_accelerate_value () {\n"
    "    case $2 in\n";

static const char after_values[] =
    "    *) _message 'a value' ;;\n"
    "    esac\n"
    "}\n"
    "\n"
    "_accelerate () {\n"
    "    local program=${(Q)words[1]} command flag name i at=2\n"
    "    local -a flags valued free hyphened\n"
    "    program=${program/#\\~\\//$HOME/}\n"
    "    if [[ ${program:t} == accelerate-* ]]; then\n"
    "        command=${${program:t}#accelerate-}\n"
    "        program=${program%-$command}\n"
    "    elif (( CURRENT == 2 )) || [[ $words[2] == help ]]; then\n"
    "        flags=(\n";

static const char before_commands[] =
    "            '--help:print help'\n"
    "            '--help-all:print help with all options'\n"
    "            '--version:print the version'\n"
    "        )\n"
    "        _describe command flags\n"
    "        return\n"
    "    else\n"
    "        command=$words[2] at=3\n"
    "    fi\n"
    "    case $command in\n";

static const char tail[] =
    "    *) return 1 ;;\n"
    "    esac\n"
    "    flags+=('--help:print help' '--help_all:print help with all options')\n"
    "    # Everything after the program belongs to the program.\n"
    "    for (( i = at; i < CURRENT; i++ )); do\n"
    "        name=${${words[i]//-/_}#__}\n"
    "        if [[ $words[i] != -* ]]; then\n"
    "            # options of config may come before or after its word\n"
    "            if [[ $command == config && $words[i] != lint ]]; then\n"
    "                free=()\n"
    "                [[ $words[i] == (get|set) ]] && free=(${${flags%%:*}#--})\n"
    "                continue\n"
    "            fi\n"
    "            [[ $command == config ]] && { _accelerate_value $program config_file; return }\n"
    "            [[ $command != launch ]] && continue\n"
    "            shift $(( i - 1 )) words\n"
    "            (( CURRENT -= i - 1 ))\n"
    "            _normal\n"
    "            return\n"
    "        elif (( $valued[(Ie)$name] )); then\n"
    "            (( ++i == CURRENT )) && { _accelerate_value $program $name; return }\n"
    "        fi\n"
    "    done\n"
    "    if [[ $PREFIX == --*=* ]]; then\n"
    "        name=${${${PREFIX%%=*}#--}//-/_}\n"
    "        compset -P '*='\n"
    "        (( $valued[(Ie)$name] )) && _accelerate_value $program $name\n"
    "    elif [[ $PREFIX == -* ]]; then\n"
    "        if [[ $PREFIX == --*-* ]]; then\n"
    "            for flag in $flags; do\n"
    "                hyphened+=(${${flag%%:*}//_/-}:${flag#*:})\n"
    "            done\n"
    "            flags=($hyphened)\n"
    "        fi\n"
    "        _describe -o option flags\n"
    "    elif [[ $command == launch ]]; then\n"
    "        local found=1\n"
    "        _files && found=0\n"
    "        [[ -n $PREFIX && $PREFIX != */* ]] && (( ! $words[(I)(-m|--module)] )) && _command_names -e && found=0\n"
    "        return found\n"
    "    elif [[ $free == @files ]]; then\n"
    "        _files\n"
    "    else\n"
    "        compadd -- $free\n"
    "    fi\n"
    "}\n"
    "\n"
    "# Found in fpath, this file is the function; it may also be sourced.\n"
    "if [[ $funcstack[1] == _accelerate ]]; then\n"
    "    _accelerate \"$@\"\n"
    "else\n"
    "    compdef _accelerate " EMIT_PROGRAMS "\n"
    "fi\n";

/* Of an entry 'NAME:TEXT' between quotes. */
static void
add_text (const char *text, struct strbuf *out)
{
    for (; *text; text++)
        if (*text == '\'')
            strbuf_add (out, "'\\''");
        else
            strbuf_add_char (out, *text);
}

static void
add_command (const struct command_info *info, struct strbuf *out)
{
    strbuf_printf (out, "    %s)\n        flags=(\n", info->name);
    for (size_t i = 0; i < option_count; i++) {
        if (!emit_completes_row (&options[i], info->options))
            continue;
        strbuf_printf (out, "            '--%s:", options[i].key);
        add_text (options[i].help, out);
        strbuf_add (out, "'\n");
    }
    strbuf_add (out, "        )\n        valued=(");
    emit_valued_flags (info->options, out);
    strbuf_printf (out, ")\n        free=(%s)\n        ;;\n", info->words ? info->words : "");
}

static void
add_values (enum emit_kind kind, const char *const *words, struct strbuf *out)
{
    switch (kind) {
    case EMIT_FILES: strbuf_add (out, "_files"); break;
    case EMIT_CONFIGS: strbuf_add (out, "_path_files -g '*.(yaml|yml|json)(-.) *(-/)'"); break;
    case EMIT_FOLDERS: strbuf_add (out, "_files -/"); break;
    case EMIT_GPUS: strbuf_add (out, "_accelerate_gpus $1"); break;
    default:
        strbuf_add (out, "compadd --");
        for (size_t i = 0; words && words[i]; i++)
            strbuf_printf (out, " %s", words[i]);
    }
    strbuf_add (out, " ;;\n");
}

void
emit_zsh (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    static const struct emit_case_form form = { "    ", "|", ") ", add_values };
    strbuf_add (out, head);
    emit_value_cases (&form, out);
    strbuf_add (out, after_values);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf (out, "            '%s:", commands[i]->name);
        add_text (commands[i]->summary, out);
        strbuf_add (out, "'\n");
    }
    strbuf_add (out, before_commands);
    for (size_t i = 0; i < count; i++)
        add_command (commands[i], out);
    strbuf_add (out, tail);
}
