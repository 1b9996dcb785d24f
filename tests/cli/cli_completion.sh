#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completion, driven in a real bash: what would be offered for a half-typed line.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v bash >/dev/null; then
    test_skip 'completion' 'no bash'
    test_done
fi

cat >complete <<'EOT'
. "$script"
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_accelerate
printf '%s\n' "${COMPREPLY[@]}"
EOT

# offers 'WORDS' WORD...: completing the last WORD offers exactly WORDS, or none.
offers () {
    wanted=$1
    shift
    script=$srcdir/completions/accelerate.bash bash complete "$@" >got || return 1
    [ "$(tr '\n' ' ' <got | sed 's/ *$//')" = "$wanted" ] || { cat got; return 1; }
}

touch program.py 'with blank.yaml'
test_expect_success 'a command' 'offers env accelerate en'
test_expect_success 'all of them' 'offers "$("$accelerate" --help | sed -n "s/^  \([a-z][a-z0-9-]*\) .*/\1/p" | tr "\n" " ")--help --version" accelerate ""'
test_expect_success 'the flags of a command' 'offers "--config_file --json --help" accelerate env -'
test_expect_success 'a flag' 'offers --json accelerate env --js'
test_expect_success 'words' 'offers "no fp16 bf16 fp8" accelerate config --mixed_precision ""'
test_expect_success 'words after =' 'offers bf16 accelerate config --mixed_precision = b'
test_expect_success 'words, = just typed' 'offers "no fp16 bf16 fp8" accelerate config --mixed_precision ='
test_expect_success 'words, hyphens' 'offers bf16 accelerate config --mixed-precision b'
test_expect_success 'files' 'offers "with blank.yaml" accelerate env --config_file wi'
test_expect_success 'a free word' 'offers "default update show lint" accelerate config ""'
test_expect_success 'after a value that was given' 'offers default accelerate config --mixed_precision no d'
test_expect_success 'a flag with hyphens' 'offers --num-processes accelerate launch --num-p'
test_expect_success 'a flag of launch' 'offers --num_processes accelerate launch --num_p'
test_expect_success 'nothing where a number is wanted' 'offers "" accelerate launch --num_processes ""'
test_expect_success 'the program' 'offers program.py accelerate launch --cpu --num_processes 2 prog'
test_expect_success 'the program, after -- and a short flag' 'offers program.py accelerate launch -m prog'
test_expect_success 'behind the program files, no flags' 'offers "" accelerate launch ./p --num_p'
test_expect_success 'a value that names a flag is no end' 'offers --num_processes accelerate-launch --main_process_ip h --num_p'
test_expect_success 'the other name' 'offers bf16 /usr/bin/accelerate-config --mixed_precision b'
test_expect_success 'nothing for what is no command' 'offers "" accelerate zebra -'
test_done
