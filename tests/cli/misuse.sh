#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the command says to mistakes and to options of other launchers, word by word: misuse.txt has the table.
. "${srcdir:-.}/tests/testlib.sh"

echo pass >program.py
echo "int main (void) { return 0; }" >source.c
echo text >text.txt
mkdir folder
printf 'distributed_type: NO\nnum_procs: 2\ndebug: perhaps\n' >bad.yaml
printf 'distributed_type: FSDP\nnum_processes: 2\n' >fsdp.yaml
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES

# ARGUMENTS|STATUS|standard error, which is one line; nothing is printed
count=0
while IFS='|' read -r arguments status said; do
    count=$((count + 1))
    # shellcheck disable=SC2086
    test_expect_success "accelerate $arguments" '
        test_exit $status timeout $patience "$accelerate" $arguments </dev/null >out 2>error && cat error &&
        printf "%s\n" "$said" | diff - error && test ! -s out'
done <"$srcdir/tests/cli/misuse.txt"
test_expect_success 'a table of that length' 'test "$count" -ge 148'
test_expect_success 'flags without effect, and options after a program that refuses them, get a note' '
    "$accelerate" launch --cpu --num_processes 1 --env A=1 --gradient_accumulation_steps 2 --fsdp_version 1 true 2>error && cat error &&
    grep -x "accelerate: note: --env has no effect without --tpu; ranks inherit your environment (A=1 accelerate launch ...)" error &&
    grep -x "accelerate: note: --gradient_accumulation_steps has no effect without --use_deepspeed; the program sets it" error &&
    ! grep fsdp_version error && printf "#!/bin/sh\nexit \$1\n" >ends && chmod +x ends &&
    test_exit 2 "$accelerate" launch ./ends 2 --mixed-precision=no 2>error && cat error &&
    grep "note: --mixed_precision is after the program.s name, so the program got it" error &&
    test_exit 3 "$accelerate" launch ./ends 3 --mixed-precision=no 2>error && ! grep "after the program" error &&
    for status in 0 2; do
        test_exit $status "$accelerate" launch ./ends $status a --num-processes=4 2>error && cat error &&
            test "$(grep -c "note: --num_processes is after the program.s name, so the program gets it" error)" = 1 &&
            test "$(grep -c "after the program" error)" = 1 || return 1
    done &&
    test_exit 2 "$accelerate" launch ./ends 2 --lr 4 2>error && ! grep "after the program" error'
test_expect_success 'an empty word is not a program' '
    test_exit 2 "$accelerate" launch "" 2>error && cat error &&
    grep -x "accelerate: no program given; use accelerate launch \[options\] PROGRAM \[arguments\]" error'
test_expect_success '-V is --version, help COMMAND is COMMAND --help' '
    "$accelerate" -V >one && "$accelerate" --version >two && cmp one two &&
    "$accelerate" help launch >one && "$accelerate" launch --help >two && cmp one two &&
    "$accelerate" help launch --help-all >one && "$accelerate" launch --help-all >two && cmp one two &&
    "$accelerate" help --help-all >one && "$accelerate" --help-all >two && cmp one two && "$accelerate" --help >two &&
    for words in help "help --help" "help -h" "help help" "help help --help"; do
        "$accelerate" $words >one && cmp one two || return 1
    done &&
    "$accelerate" help launch --use_fsdp >one && grep "fsdp_version" one'
test_expect_success 'host names and addresses that are right' '
    label=$(printf "%063d" 0) && longest=a.$label.$label.$label.${label#????} && test ${#longest} -eq 253 &&
    for host in localhost node-0_a.local. 127.1 10.0.0.1 ::1 "[::1]" fe80::1%eth0 a.b.c 1a $longest $longest.; do
        "$accelerate" launch --main_process_ip "$host" --dry_run program.py >out || return 1
    done'
test_expect_success 'DeepSpeed files that are right: one that is there, none, base64; and dry runs look at none' '
    echo "{}" >ds.json && printf "#!/bin/sh\necho started\n" >p && chmod +x p &&
    for file in ds.json none eyJ6ZXJvX29wdGltaXphdGlvbiI6IHt9fQ==; do
        "$accelerate" launch --use_deepspeed --num_processes 1 --no_python --deepspeed_config_file $file ./p >out && grep started out || return 1
    done && "$accelerate" launch --use_deepspeed --deepspeed_config_file nofile.json --dry_run program.py'
"$accelerate" --emit=gpu-ids >gpus || exit 99
if [ -s gpus ]; then
    test_skip 'a machine without GPUs' 'here are some'
else
    test_expect_success 'FSDP without a GPU: the note names FSDP, not an option that was not given' '
        : >empty.py && "$accelerate" launch --use_fsdp --num_processes 1 --dry_run empty.py >out 2>error &&
        cat out error && grep "no NVIDIA GPU found, but FSDP needs one" out error'
    test_expect_success 'FSDP without a GPU: libaccel shards on CPUs, so native programs need no note' '
        "$accelerate" launch --use_fsdp --num_processes 1 --no_python true 2>error && cat error && ! grep GPU error'
    test_expect_success 'a dry run marks GPUs that are missing' '
        "$accelerate" launch --multi_gpu --num_processes 2 --dry_run program.py >out && cat out &&
        grep "^  0 .* device cuda:0 (not found)" out && grep "^  1 .* device cuda:1 (not found)" out'
fi
test_expect_success 'a dry run for mpirun says that mpirun starts the ranks' '
    printf "#!/bin/sh\necho \"mpirun (Open MPI) 4.1.4\"\n" >mpirun && chmod +x mpirun &&
    PATH=$PWD:$PATH "$accelerate" launch --cpu --mpirun_hostfile hosts --num_processes 4 --dry_run program.py >out && cat out &&
    grep "^  started by mpirun" out && ! grep -e "1 of 1" -e "^ranks" out'
# At 40, 60 and 100 columns no line is longer, at fewer no line is longer than 40; the important options come first.
for columns in 9 40 60 100 500; do
    test_expect_success "help in $columns columns" '
        for command in $("$accelerate" --help | sed -n "s|^  \([a-z][a-z0-9-]*\) .*|\1|p"); do
            COLUMNS=$columns "$accelerate" $command --help-all >out || return 1
            width=$columns && sed "/^$/,\$d" out >usage && { [ $columns -le 100 ] || width=100; } && { [ $columns -ge 40 ] || width=40; } &&
                sed "1,/^Common options/d" out >rows && ! grep -E "^.{$((width + 1)),}" rows | grep -v "^ *-[^ ]*\( [^ ]*\)*$" || return 1
            ! grep -E "^.{$((width + 1)),}" usage && ! sed 1d usage | grep -v "^       [^ ]" || return 1
        done'
done
test_expect_success 'fewer than 40 columns count as 40' '
    COLUMNS=9 "$accelerate" launch --help >one && COLUMNS=40 "$accelerate" launch --help >two && cmp one two'
test_expect_success 'help of launch begins with what most need' '
    "$accelerate" launch --help >out && sed -n "/^Common options/{n;p;}" out | grep -e "--num_processes N" &&
    ! grep "tensorrt" out && ! grep -x " *AWS" out && "$accelerate" launch --help-all >out && grep tensorrt out'
test_expect_success 'help of config shows its options, and --multi_gpu is one' '
    "$accelerate" config --help >out && grep -e "--num_processes N" out && grep -e "--multi_gpu" out && grep -e "--num_machines" out &&
    ! grep -e "--zero_stage N" out && grep -e "--use_deepspeed  *DeepSpeed" out && "$accelerate" config --use_deepspeed --help >out &&
    grep -e "--zero_stage N" out && "$accelerate" config --help-all >out && grep -e "--tpu_zone" out'
test_done
