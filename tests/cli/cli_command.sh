#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command itself: help, version, unknown words, the other names it answers to.
. "${srcdir:-.}/tests/testlib.sh"

# says TEXT COMMAND...: standard error is one line that begins with "accelerate: " and holds TEXT.
says () {
    text=$1
    shift
    test_exit 2 "$@" 2>error && [ "$(wc -l <error)" = 1 ] && grep '^accelerate: ' error | grep -F -e "$text"
}

test_expect_success 'alone it prints its help and exits 1' \
    'test_exit 1 "$accelerate" >out && grep "^usage: accelerate COMMAND" out'
test_expect_success '--help is the same with 0' '"$accelerate" --help >help && cmp help out'
test_expect_success '-h too' '"$accelerate" -h >help && cmp help out'
test_expect_success 'help names the commands' 'grep "^  config " out && grep "^  env " out'
test_expect_success 'at 40 columns no word of it is broken' '
    COLUMNS=40 "$accelerate" --help >narrow && ! grep -nE "^.{41,}" narrow && tr -s "\n " " " <narrow >one && tr -s "\n " " " <help >two && cmp one two'
test_expect_success '--version' '"$accelerate" --version >out && grep -x "accelerate [0-9.]*" out'
test_expect_success 'an unknown command gets the nearest name and 2' \
    'test_exit 2 "$accelerate" confg 2>error && says "unknown command '\''confg'\'' (did you mean '\''config'\''?)" "$accelerate" confg'
test_expect_success 'an unknown option too' \
    'says "unknown option '\''--versoin'\'' (did you mean '\''--version'\''?)" "$accelerate" --versoin'
test_expect_success 'what is like nothing gets no suggestion' \
    'says "unknown command '\''zebra'\''" "$accelerate" zebra && ! grep mean error'
test_expect_success 'an unknown option of a command: 2 and the nearest name' \
    'test_exit 2 "$accelerate" env --jsn 2>error && grep -F "(did you mean '\''--json'\''?)" error'
test_expect_success 'each command has help' '
    for name in $("$accelerate" --help | sed -n "s/^  \([a-z][a-z0-9-]*\) .*/\1/p"); do
        "$accelerate" $name --help >out && grep "^usage: accelerate $name " out || return 1
        COLUMNS=80 "$accelerate" $name --help >out && ! grep -nE "^.{81,}" out || return 1
        COLUMNS=60 "$accelerate" $name --help >out && ! grep -nE "^.{61,}" out || return 1
    done'
test_expect_success 'launch: a file is named with its line, before anything starts' '
    printf "debug: true\nnum_processes: 2x\n" >c.yaml && test_exit 1 "$accelerate" launch --config_file c.yaml true 2>error &&
    grep -F "accelerate: c.yaml:2: num_processes: '\''2x'\'' is not an integer; expected 1 to 1000000" error'
test_expect_success 'launch: a wrong value, a missing program' '
    says "--num_processes: 0 is out of range; expected 1 to 1000000" "$accelerate" launch --num_processes 0 true &&
    says "no program given" "$accelerate" launch --cpu && test_exit 2 "$accelerate" launch'
# sections OPTIONS...: the sections of launch's help, and those it says it does not show
sections () {
    "$accelerate" launch "$@" >out && sed -n '/^Help/,$d; s/^\([^ ].*\):$/\1;/p' out | tr -d '\n' &&
        sed '1,/^More options/d; /^$/,$d' out | grep -c "^      --"
}
always='Common options;General;Hardware;Resources;Training paradigm;Several processes and machines;Several hosts;'
printf 'distributed_type: MEGATRON_LM\n' >mode.yaml
printf '[\n' >broken.yaml
while IFS='|' read -r options shown hidden; do
    test_expect_success "launch $options: $shown" '
        sections $options >got && test "$(cat got)" = "$always${shown}Extensions;$hidden"'
done <<'EOT'
--help||8
--use_fsdp --help|Fully sharded data parallelism (FSDP);|7
--help --use-deepspeed|DeepSpeed;|7
--cpu -h|mpirun;|7
--fp8_backend te --help|FP8;|7
--mixed_precision=fp8 --tpu --help|FP8;TPU;|6
--use_parallelism_config --help|Several kinds of parallelism;|7
--config_file mode.yaml --help|Megatron-LM;|7
--config_file broken.yaml --use_fsdp --help|Fully sharded data parallelism (FSDP);|7
--config_file none.yaml --num_processes x --use_fsdp --help|Fully sharded data parallelism (FSDP);|7
--tpu --use_megatron_lm --use_parallelism_config -h|Megatron-LM;Several kinds of parallelism;TPU;|5
EOT
test_expect_success 'launch --help-all: every section' '
    { sections --help_all >got || [ $? = 1 ]; } && "$accelerate" launch --cpu --help-all >out && "$accelerate" launch --help_all >same && cmp same out &&
    test "$(tr ";" "\n" <got | wc -l)" = 17 && ! grep "^More options" out'
test_expect_success 'every flag of launch is in --help-all' '
    sed -n "/^    launch)/,/options=/s/.*options=.\(--.*\)./\1/p" "$srcdir/completions/accelerate.bash" | tr " " "\n" |
        sed "s/^--help_all/--help-all/" | sort >flags && test -s flags && "$accelerate" launch --help-all >out &&
    grep -o -e "--[a-z0-9_-]*" out | sort -u | comm -13 - flags >missing && test ! -s missing'
test_expect_success '--help-all: all commands' '"$accelerate" --help-all >out && test "$(grep -c "^usage: " out)" -ge 4'
test_expect_success 'launch --help is help, launch PROGRAM --help is not' '
    "$accelerate" launch --cpu --help >out && grep "^usage: accelerate launch" out &&
    "$accelerate" launch --cpu --dry_run true --help >out && ! grep "^usage:" out'
test_expect_success 'accelerate-config is accelerate config' '
    ln -s "$accelerate" accelerate-config &&
    ./accelerate-config --help >one && "$accelerate" config --help >two && cmp one two'
test_expect_success 'a name that is not a command is one error' '
    ln -s "$accelerate" accelerate-nonsense && test_exit 2 ./accelerate-nonsense'
# More than a buffer of output, too.
test_expect_success 'a full disk is an error' '
    { test ! -e /dev/full || { test_exit 1 "$accelerate" --help >/dev/full && test_exit 1 "$accelerate" --help-all >/dev/full &&
      test_exit 1 "$accelerate" config schema 2>error >/dev/full && grep "^accelerate: cannot write" error; }; }'
test_expect_success 'the table as JSON is JSON' '
    "$accelerate" --emit=json >table && grep -c "\"key\":" table && tail -n 1 table | grep -x "]"'
# row KEY: what the table says of an option
row () {
    sed -n "/\"key\": \"$1\"/,/}/p" table
}
test_expect_success '... and says which values there are, and what is a flag' '
    row num_machines | grep "\"min\": 1," && row num_machines | grep "\"max\": 100000" &&
    row num_machines | grep "\"flag\": true" && row compute_environment | grep "\"flag\": false" &&
    for word in no fp16 bf16 fp8; do row mixed_precision | grep "^ *\"$word\"" || return 1; done &&
    ! row main_process_ip | grep -e choices -e max'
test_expect_success '... and has each option and key of Accelerate, of the same kind' '
    { ! command -v python3 >/dev/null ||
      python3 "$srcdir/tests/golden/command/options_compare.py" table "$srcdir/tests/golden/command/options.json"; }'
test_expect_success 'help has each option once, titles only where there are options, defaults, and no values of flags' '
    for command in launch config env test to-fsdp2; do
        "$accelerate" $command --help-all >out && sed -n "s/^ *\(-.,\)\{0,1\} *--\([a-z0-9_-]*\).*/\2/p" out | sort >keys &&
        test -s keys && uniq -d keys >twice && ! grep . twice &&
        ! grep -A1 "^[A-Z].*:$" out | grep -B1 "^$" || return 1
    done &&
    "$accelerate" launch --help >out && grep "fp8 \[no\]$" out && ! grep -e "--cpu .*\[" out'
test_expect_success 'arguments of the program do not choose what help shows' '
    "$accelerate" launch --help program.py --use_fsdp >out && ! grep -e "--fsdp_version" out &&
    "$accelerate" launch --use_fsdp --help >out && grep -e "--fsdp_version" out'
test_done
