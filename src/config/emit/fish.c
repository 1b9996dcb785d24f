/* SPDX-License-Identifier: Apache-2.0 */
/* The option table as a completion script for fish; see emit.h.  The same steps as in bash.c: one function that
 * knows the line, instead of two conditions for each of the flags, which fish would try one by one. */
#include <config.h>

#include "config/emit/emit.h"
#include "config/emit/values.h"

static const char head[] =
    "# SPDX-License-Identifier: Apache-2.0\n"
    "# Completion of accelerate(1) for fish.  Generated from the option table by `make regen`; do not edit.\n"
    "\n"
    "# A comma-separated list: offer the GPUs that are not in it yet.\n"
    "function __accelerate_gpus --argument-names current program\n"
    "    test -n \"$program\"; or return\n"
    "    set -l used (string split , -- $current)[1..-2]\n"
    "    set -l before (string replace -r '[^,]*$' '' -- $current)\n"
    "    test -z \"$before\"; and printf 'all\\tall GPUs\\n'\n"
    "    type -q $program; or return\n"
    "    for id in ($program --emit=gpu-ids 2>/dev/null)\n"
    "        contains -- $id $used; or printf '%s\\tGPU\\n' $before$id\n"
    "    end\n"
    "end\n"
    "\n"
    "function __accelerate_configs --argument-names current\n"
    "    set -l names \"$current\"*.yaml \"$current\"*.yml \"$current\"*.json\n"
    "    test -n \"$names\"; and printf '%s\\n' $names\n"
    "    __fish_complete_directories \"$current\"\n"
    "end\n"
    "\n"
    "function __accelerate_value --argument-names key current program\n"
    "    switch $key\n";

static const char after_values[] =
    "    end\n"
    "end\n"
    "\n"
    "function __accelerate_valued\n"
    "    switch $argv[1]\n";

static const char after_valued[] =
    "        case '*'\n"
    "            return 1\n"
    "    end\n"
    "end\n"
    "\n"
    "function __accelerate_flags\n"
    "    switch $argv[1]\n";

static const char after_flags[] =
    "    end\n"
    "    printf '%s\\n' --help\\t'print help' --help_all\\t'print help with all options'\n"
    "end\n"
    "\n"
    "function __accelerate_free\n"
    "    switch $argv[1]\n";

static const char after_free[] =
    "    end\n"
    "end\n"
    "\n"
    "# What to complete: command, flags COMMAND, free COMMAND, after (the program), value KEY TEXT BEFORE PROGRAM\n"
    "function __accelerate_state\n"
    "    set -l words (commandline -opc)\n"
    "    set -l current (commandline -ct)\n"
    "    set -l program (string replace -r '^~/' \"$HOME/\" -- $words[1])\n"
    "    set -l command (string replace -rf '^(.*/)?accelerate-' '' -- $program)\n"
    "    if test -n \"$command\"\n"
    "        set program (string replace -r -- \"-$command\\$\" '' $program)\n"
    "        set -e words[1]\n"
    "    else if test (count $words) -lt 2 -o \"$words[2]\" = help\n"
    "        echo command\n"
    "        return\n"
    "    else\n"
    "        set command $words[2]\n"
    "        set -e words[1..2]\n"
    "    end\n"
    "    set -l valued (__accelerate_valued $command)\n"
    "    or return\n"
    "    set -l key\n"
    "    set -l free free\n"
    "    for word in $words\n"
    "        set -l name (string replace -a -- - _ $word | string replace -r '^__' '')\n"
    "        if test -n \"$key\"\n"
    "            set key\n"
    "        else if string match -qv -- '-*' $word; and test $command = config -a $word != lint\n"
    "            set free none # options of config may come before or after its word\n"
    "            contains -- $word get set; and set free keys\n"
    "        else if not string match -q -- '-*' $word\n"
    "            switch $command\n"
    "                case config\n"
    "                    printf '%s\\n' value config_file \"$current\" '' $program\n"
    "                    return\n"
    "                case launch\n"
    "                    echo after\n"
    "                    return\n"
    "            end\n"
    "        else if contains -- $name $valued\n"
    "            set key $name\n"
    "        end\n"
    "    end\n"
    "    if test -n \"$key\"\n"
    "        printf '%s\\n' value $key \"$current\" '' $program\n"
    "    else if string match -q -- '--*=*' $current\n"
    "        set -l parts (string split -m 1 = -- $current)\n"
    "        set key (string replace -r '^--' '' -- $parts[1] | string replace -a -- - _)\n"
    "        contains -- $key $valued; and printf '%s\\n' value $key \"$parts[2]\" $parts[1]= $program\n"
    "    else if string match -q -- '-*' $current\n"
    "        printf '%s\\n' flags $command \"$current\"\n"
    "    else if test $command = launch; and string match -qr -- '^(-m|--module)$' $words\n"
    "        echo after\n"
    "    else\n"
    "        printf '%s\\n' $free $command \"$current\"\n"
    "    end\n"
    "end\n"
    "\n"
    "function __accelerate_wants_files\n"
    "    set -l state (__accelerate_state)\n"
    "    switch \"$state[1..2]\"\n"
    "        case after 'after *' 'free launch'\n"
    "            return 0\n"
    "        case 'free *'\n"
    "            test \"$(__accelerate_free $state[2])\" = @files\n"
    "        case 'value *'\n"
    "            test \"$(__accelerate_value $state[2..3] '')\" = @files\n"
    "        case '*'\n"
    "            return 1\n"
    "    end\n"
    "end\n"
    "\n"
    "function __accelerate_words\n"
    "    set -l state (__accelerate_state)\n"
    "    switch \"$state[1]\"\n"
    "        case command\n"
    "            printf '%s\\n' --help\\t'print help' --help-all\\t'print help with all options' "
    "--version\\t'print the version'\n";

static const char tail[] =
    "        case value\n"
    "            for word in (__accelerate_value $state[2..3] $state[5])\n"
    "                test $word = @files; or printf '%s\\n' $state[4]$word\n"
    "            end\n"
    "        case flags\n"
    "            if string match -q -- '--*-*' $state[3]\n"
    "                __accelerate_flags $state[2] | while read -d \\t -l flag text\n"
    "                    printf '%s\\t%s\\n' (string replace -a -- _ - $flag) $text\n"
    "                end\n"
    "            else\n"
    "                __accelerate_flags $state[2]\n"
    "            end\n"
    "        case keys\n"
    "            __accelerate_flags config | string replace -- -- ''\n"
    "        case free\n"
    "            if test $state[2] != launch\n"
    "                string match -v @files (__accelerate_free $state[2])\n"
    "            else if string match -qr '^[^/~]+$' -- $state[3]\n"
    "                complete -C $state[3]\n"
    "            end\n"
    "    end\n"
    "end\n"
    "\n"
    "for name in " EMIT_PROGRAMS "\n"
    "    complete -c $name -e\n"
    "    complete -c $name -f -a '(__accelerate_words)'\n"
    "    complete -c $name -n __accelerate_wants_files -F\n"
    "end\n";

/* Between quotes. */
static void
add_text (const char *text, struct strbuf *out)
{
    for (; *text; text++)
        if (*text == '\'' || *text == '\\')
            strbuf_printf (out, "\\%c", *text);
        else
            strbuf_add_char (out, *text);
}

static void
add_flags (const struct command_info *info, struct strbuf *out)
{
    strbuf_printf (out, "        case %s\n            printf '%%s\\n'", info->name);
    for (size_t i = 0; i < option_count; i++) {
        if (!emit_completes_row (&options[i], info->options))
            continue;
        strbuf_printf (out, " \\\n                --%s\\t'", options[i].key);
        add_text (options[i].help, out);
        strbuf_add_char (out, '\'');
    }
    strbuf_add_char (out, '\n');
}

static void
add_values (enum emit_kind kind, const char *const *words, struct strbuf *out)
{
    switch (kind) {
    case EMIT_FILES: strbuf_add (out, "            echo @files\n"); break;
    case EMIT_CONFIGS: strbuf_add (out, "            __accelerate_configs \"$current\"\n"); break;
    case EMIT_FOLDERS: strbuf_add (out, "            __fish_complete_directories \"$current\"\n"); break;
    case EMIT_GPUS: strbuf_add (out, "            __accelerate_gpus \"$current\" \"$program\"\n"); break;
    default:
        strbuf_add (out, "            printf '%s\\n'");
        for (size_t i = 0; words && words[i]; i++)
            strbuf_printf (out, " %s", words[i]);
        strbuf_add_char (out, '\n');
    }
}

void
emit_fish (const struct command_info *const *commands, size_t count, struct strbuf *out)
{
    static const struct emit_case_form form = { "        case ", " ", "\n", add_values };
    strbuf_add (out, head);
    emit_value_cases (&form, out);
    strbuf_add (out, after_values);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf (out, "        case %s\n            string split ' ' '", commands[i]->name);
        emit_valued_flags (commands[i]->options, out);
        strbuf_add (out, "'\n            return 0\n");
    }
    strbuf_add (out, after_valued);
    for (size_t i = 0; i < count; i++)
        add_flags (commands[i], out);
    strbuf_add (out, after_flags);
    for (size_t i = 0; i < count; i++)
        if (commands[i]->words)
            strbuf_printf (out, "        case %s\n            string split ' ' '%s'\n", commands[i]->name,
                           commands[i]->words);
    strbuf_add (out, after_free);
    for (size_t i = 0; i < count; i++) {
        strbuf_printf (out, "            printf '%%s\\n' %s\\t'", commands[i]->name);
        add_text (commands[i]->summary, out);
        strbuf_add (out, "'\n");
    }
    strbuf_add (out, tail);
}
