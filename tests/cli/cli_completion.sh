#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completion of each shell, driven in that shell: what is offered for a half-typed line.
. "${srcdir:-.}/tests/testlib.sh"

# Each driver reads lines as typed so far, and prints for each the words that are offered, with blanks between.
cat >driver.bash <<'EOT'
. "$1"
while IFS= read -r line; do
    typed=${line//=/ = }
    read -ra COMP_WORDS <<<"$typed"
    [[ $typed == *' ' && $typed != *'= ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _accelerate
    echo "${COMPREPLY[*]}"
done
EOT
cat >driver.fish <<'EOT'
source $argv[1]
while read -l line
    echo (complete -C $line | string replace -r '\t.*' '')
end
EOT
# A terminal with an interactive zsh in it, whose Tab key shows what has been offered.
cat >driver.zsh <<'EOT'
zmodload zsh/zpty
zpty -b shell "TERM=dumb PROMPT= zsh -f -i"
zpty -w shell "source ${(q)PWD}/inside.zsh"
zpty -r shell reply '*ready>>*'
while IFS= read -r line; do
    zpty -wn shell "$line"$'\t'
    zpty -r shell reply '*>>*'
    print -r -- ${${reply%>>*}##*<<}
done
zpty -d shell
EOT
cat >inside.zsh <<EOT
unsetopt beep
mkdir -p functions && cp '$srcdir/completions/accelerate.zsh' functions/_accelerate
fpath=(\$PWD/functions \$fpath)
EOT
cat >>inside.zsh <<'EOT'
autoload -Uz compinit && compinit -u -D
compadd () {
    if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
        local -a found
        builtin compadd -O found "$@"
        offered+=($found)
    fi
    builtin compadd "$@"
}
tab () {
    offered=()
    zle offer
    BUFFER=
    print -r -- "<<$offered>>"
}
typeset -a offered
zle -C offer complete-word _main_complete
zle -N tab
bindkey '^I' tab
print '<<''ready>>'
EOT

# A command that has three GPUs, but is slow to find others.
mkdir bin files files/folder
printf '#!/bin/sh\n[ "$1" = --emit=gpu-ids ] && printf "0\\n1\\n2\\n"\n' >bin/accelerate
chmod +x bin/accelerate
cp bin/accelerate bin/accelerate-launch
PATH=$scratch/bin:$PATH
touch files/program.py files/blank.yaml files/other.yml files/third.json files/notes.txt accelerate-local.py
printf '#!/bin/sh\n' >bin/zz-trainer
chmod +x bin/zz-trainer

"$accelerate" --help >help || exit 99
commands=$(sed -n 's/^  \([a-z][a-z0-9-]*\) .*/\1/p' help | tr '\n' ' ')
cat >cases <<EOT
accelerate en|env
accelerate |$commands--help --help-all --version
accelerate env -|--config_file --json --help --help_all
accelerate env --js|--json
accelerate launch --mixed_pre|--mixed_precision
accelerate launch --num-p|--num-processes
accelerate launch --num_p|--num_processes
accelerate launch --fsdp_version 2 --use-f|--use-fsdp
accelerate config --mixed_precision |no fp16 bf16 fp8
accelerate config --mixed_precision=b|bf16
accelerate config --mixed_precision=|no fp16 bf16 fp8
accelerate config --mixed-precision b|bf16
accelerate config |default update show schema lint get set
accelerate config get num_m|num_machines
accelerate config set mixed_p|mixed_precision
accelerate completion |bash fish zsh
accelerate help la|launch
accelerate launch -m zz-tr|
accelerate launch --module files/prog|files/program.py
accelerate config --mixed_precision no d|default
accelerate launch --fsdp_auto_wrap_policy T|TRANSFORMER_BASED_WRAP
accelerate launch --fsdp_offload_params |true false
accelerate launch --num_processes |
accelerate env --config_file files/bl|files/blank.yaml
accelerate env --config-file=files/bl|files/blank.yaml
accelerate launch --log_dir files/|files/folder
accelerate launch --cpu --num_processes 2 files/prog|files/program.py
accelerate launch -m files/prog|files/program.py
accelerate launch -t 3 files/prog|files/program.py
accelerate launch -t 3 --dry|--dry_run
accelerate launch accelerate-la|accelerate-launch
accelerate launch accelerate-l|accelerate-launch accelerate-local.py
accelerate launch zz-tr|zz-trainer
accelerate launch --cpu zz-tr|zz-trainer
accelerate launch --config_file files/|files/blank.yaml files/other.yml files/third.json files/folder
accelerate env --config_file files/no|
accelerate config --config-file files/th|files/third.json
accelerate to-fsdp2 --output_file files/o|files/other.yml
accelerate test --config_file=files/bl|files/blank.yaml
accelerate config lint files/o|files/other.yml
accelerate launch --deepspeed_config_file files/n|files/notes.txt
accelerate launch ./p --num_p|
accelerate launch ./p files/prog|files/program.py
accelerate config lint files/bl|files/blank.yaml
accelerate config update --config_f|--config_file
accelerate config update --config_file files/bl|files/blank.yaml
accelerate config --mixed_precision no default |
accelerate-launch --main_process_ip h --num_p|--num_processes
/usr/bin/accelerate-config --mixed_precision b|bf16
accelerate zebra -|
accelerate launch --gpu_ids |all 0 1 2
accelerate launch --gpu-ids=a|all
/nowhere/accelerate launch --gpu_ids |all
accelerate launch --gpu_ids 1,|0 2
accelerate launch --gpu_ids=0,1,|2
bin/accelerate-launch --gpu_ids 0,2,1|1
accelerate l|launch
accelerate to-|to-fsdp2
accelerate m|merge-weights
accelerate inspect --no|--norms
accelerate inspect files/not|files/notes.txt
accelerate inspect --diff files/not|files/notes.txt
accelerate merge-weights files/f|files/folder
accelerate merge-weights --remove_|--remove_checkpoint_dir
accelerate inspect files/notes.txt --no|--norms
accelerate inspect --diff files/notes.txt files/prog|files/program.py
accelerate merge-weights files/folder out --f|--follow_links
accelerate estimate-memory files/folder --dt|--dtypes
accelerate estimate-memory files/folder --dtypes fl|float16 float32
accelerate tpu-config --command one two --deb|--debug
accelerate-merge-weights files/folder --rem|--remove_checkpoint_dir
accelerate-estimate-memory gpt2 --conte|--context_length
accelerate --v|--version
accelerate --help-|--help-all
accelerate config sch|schema
accelerate config s|show schema set
accelerate config --multi|--multi_gpu
accelerate config --use_meg|--use_megatron_lm
accelerate config --zero-|--zero-stage
accelerate config --distributed_type MULTI_M|MULTI_MLU MULTI_MUSA
accelerate config show --js|--json
accelerate launch --dynamo_mode m|max-autotune
accelerate launch --deepspeed_multinode_launcher s|standard slurm
accelerate test --num_p|--num_processes
accelerate to-fsdp2 --over|--overwrite
accelerate to-fsdp2 --output-|--output-file
EOT
cut -d'|' -f1 cases >lines

# The words of each line sorted and once (zsh tells twice of folders), without what a shell repeats of the word: the
# folder, --key=, and a list's beginning.
cat >words.awk <<'EOT'
{
    count = 0
    for (i = 1; i <= NF; i++) {
        word = $i
        sub (/\/$/, "", word)
        sub (/.*[\/=\\,]/, "", word)
        for (at = count; at && sorted[at] "" > word ""; at--)
            sorted[at + 1] = sorted[at]
        if (at && sorted[at] == word)
            for (at++; at <= count; at++)
                sorted[at] = sorted[at + 1]
        else {
            sorted[at + 1] = word
            count++
        }
    }
    line = ""
    for (i = 1; i <= count; i++)
        line = line sorted[i] " "
    print line
}
EOT
cut -d'|' -f2 cases | awk -f words.awk >wanted

# drive SHELL DRIVER...: all cases in one run of the shell
drive () {
    shell=$1
    shift
    if ! command -v "$shell" >/dev/null; then
        test_skip "$shell" "no $shell"
        return
    fi
    timeout $patience "$@" <lines >got 2>errors
    driver_status=$?
    test_expect_success "$shell says nothing else" '
        cat errors && test "$driver_status" = 0 && test ! -s errors && test $(wc -l <got) = $(wc -l <lines)'
    awk -f words.awk got >offered
    while IFS='|' read -r line words && read -r expected <&3 && read -r found <&4; do
        test_expect_success "$shell: $line: $words" 'echo "$found" && test "$found" = "$expected"'
    done <cases 3<wanted 4<offered
}

drive bash bash driver.bash "$srcdir/completions/accelerate.bash"
drive fish fish --no-config driver.fish "$srcdir/completions/accelerate.fish"
# In a chroot there may be no pseudo-terminals, whatever lies in /dev.
if ! command -v zsh >/dev/null || zsh -fc 'zmodload zsh/zpty && zpty try true' 2>/dev/null; then
    drive zsh zsh -f driver.zsh
else
    test_skip 'zsh' 'no terminals'
fi

if command -v bash >/dev/null; then
    touch 'with blank.yaml'
    test_expect_success 'bash: a name with a blank is one word' '
        bash -c ". \"$srcdir/completions/accelerate.bash\"
                 COMP_WORDS=(accelerate env --config_file wi) COMP_CWORD=3
                 _accelerate; [[ \${#COMPREPLY[@]} = 1 && \${COMPREPLY[0]} = \"with blank.yaml\" ]]"'
fi
test_expect_success 'accelerate completion prints the scripts that are installed, and shells take them from it' '
    for shell in bash fish zsh; do
        "$accelerate" completion $shell >script && cmp script "$srcdir/completions/accelerate.$shell" || return 1
    done &&
    { ! command -v bash >/dev/null ||
      bash -c "source <(\"$accelerate\" completion bash); complete -p accelerate"; } &&
    { ! command -v zsh >/dev/null || {
        zsh -fc "autoload -Uz compinit && compinit -u -D && source <(\"$accelerate\" completion zsh) &&
                 print \$_comps[accelerate]" >got && grep -x _accelerate got; }; }'
test_expect_success 'the command itself lists GPUs by number, one a line' '
    "$accelerate" --emit=gpu-ids >ids && cat ids && ! grep -v "^[0-9][0-9]*\$" ids'
test_done
