#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate tpu-config: gcloud's command line for every combination of options and keys, as Accelerate makes it, and
# what becomes of gcloud.
. "${srcdir:-.}/tests/testlib.sh"

tpu_config () { "$accelerate" tpu-config "$@"; }

mkdir -p tests/test_samples
printf 'echo "hello world"\necho "this is a second command"' >tests/test_samples/test_command_file.sh
cat >0_12_0.yaml <<'EOT'
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
downcast_bf16: 'no'
num_processes: 1
EOT
cp 0_12_0.yaml latest.yaml && cat >>latest.yaml <<'EOT'
tpu_name: 'test-tpu'
tpu_zone: 'us-central1-a'
commands: null
command_file: tests/test_samples/test_command_file.sh
debug: true
EOT
printf 'tpu_name: n\ntpu_zone: z\ncommands: [ls, "echo \\"a b\\""]\n' >list.yaml
cp list.yaml both.yaml && echo 'command_file: tests/test_samples/test_command_file.sh' >>both.yaml
printf '#!/bin/sh\n\n  # a comment\ncd data\r\n   ls *.txt\n' >commented.sh

# Test of Accelerate's tests/test_cli.py or our own, arguments, the text after "cd /usr/share".
where='--tpu_zone us-central1-a --tpu_name test-tpu'
samples='; echo "hello world"; echo "this is a second command"'
while IFS='|' read -r name arguments text; do
    test_expect_success "$name" "
        tpu_config $arguments --debug >out && cat out &&
        printf '%s\n' 'Running gcloud compute tpus tpu-vm ssh test-tpu --zone us-central1-a --command cd /usr/share$text --worker all' >wanted &&
        cmp wanted out"
done <<EOT
test_base|--command ls $where|; ls
test_base_backward_compatibility|--config_file 0_12_0.yaml --command ls $where|; ls
test_with_config_file|--config_file latest.yaml|$samples
test_with_config_file_and_command|--config_file latest.yaml --command ls|; ls
test_with_config_file_and_multiple_command|--config_file latest.yaml --command ls --command "echo \"Hello World\""|; ls; echo "Hello World"
test_with_config_file_and_command_file|--config_file latest.yaml --command_file tests/test_samples/test_command_file.sh|$samples
test_with_config_file_and_command_file_backward_compatibility|--config_file 0_12_0.yaml --command_file tests/test_samples/test_command_file.sh $where|$samples
test_accelerate_install|--config_file latest.yaml --install_accelerate|; pip install accelerate -U$samples
test_accelerate_install_version|--config_file latest.yaml --install_accelerate --accelerate_version 12.0.0|; pip install accelerate==12.0.0$samples
the development version|--command a --install_accelerate --accelerate_version=dev $where|; pip install git+https://github.com/huggingface/accelerate.git; a
a version that is not installed|--command a --accelerate-version 1.0 $where|; a
several words after one option|$where --command ls "echo a  b" -3 "-x y" --command=pwd|; ls; echo a  b; -3; -x y; pwd
options override keys|--config_file list.yaml --command a $where|; a
commands of the file|--config_file list.yaml $where|; ls; echo "a b"
a file overrides commands|--config_file both.yaml $where|$samples
a file overrides commands on the command line, too|--command a --command_file tests/test_samples/test_command_file.sh $where|$samples
no empty lines, comments or carriage returns|--command_file commented.sh $where|; cd data;    ls *.txt
EOT
test_expect_success 'gcloud alpha' '
    tpu_config --use_alpha --debug --command ls --tpu_name n --tpu_zone z >out &&
    grep -Fx "Running gcloud alpha compute tpus tpu-vm ssh n --zone z --command cd /usr/share; ls --worker all" out'
test_expect_success 'the default file' '
    mkdir -p home/.cache/huggingface/accelerate && cp list.yaml home/.cache/huggingface/accelerate/default_config.yaml &&
    tpu_config --debug >out && rm -r home/.cache &&
    grep -Fx "Running gcloud compute tpus tpu-vm ssh n --zone z --command cd /usr/share; ls; echo \"a b\" --worker all" out'

# A stand-in writes its arguments, one per line.
mkdir bin && cat >bin/gcloud <<'EOT'
#!/bin/sh
printf '%s\n' "$@" >"$arguments"
exit "${gcloud_status:-0}"
EOT
chmod +x bin/gcloud
arguments=$scratch/arguments
export arguments
test_expect_success 'the commands are one argument, and no shell sees it' '
    PATH=$scratch/bin:$PATH tpu_config --tpu_name "a b" --tpu_zone z --command "echo \$(touch made) >made; '\''" >out &&
    [ ! -e made ] && cat arguments && grep -Fx "Successfully setup pod." out && [ "$(wc -l <out)" = 1 ] && cat >wanted <<-EOT && cmp wanted arguments
	compute
	tpus
	tpu-vm
	ssh
	a b
	--zone
	z
	--command
	cd /usr/share; echo \$(touch made) >made; '\''
	--worker
	all
	EOT'
test_expect_success 'the status of gcloud is ours' '
    PATH=$scratch/bin:$PATH gcloud_status=7 test_exit 7 "$accelerate" tpu-config --config_file list.yaml >out 2>error &&
    [ ! -s out ] && grep "gcloud failed with exit status 7" error'
test_expect_success 'no gcloud' '
    mkdir empty && PATH=$scratch/empty test_exit 127 "$accelerate" tpu-config --config_file list.yaml 2>error &&
    grep "gcloud not found: install the Google Cloud CLI" error'

# A signal for the command reaches gcloud, and both end.
cat >bin/gcloud <<'EOT'
#!/bin/sh
trap 'echo got it >"$arguments"; exit 3' TERM
echo $$ >"$arguments.pid"
while :; do sleep 0.1; done
EOT
test_expect_success 'a signal reaches gcloud' '
    { PATH=$scratch/bin:$PATH "$accelerate" tpu-config --config_file list.yaml >out 2>error & } && pid=$! &&
    await arguments.pid && kill -TERM $pid && { wait $pid; status=$?; } && [ $status = 3 ] && grep "got it" arguments &&
    gone "$(cat arguments.pid)"'
printf '#!/bin/sh\nexec grep SigBlk /proc/self/status\n' >bin/gcloud
test_expect_success 'gcloud has the signal mask of the shell' '
    PATH=$scratch/bin:$PATH && tpu_config --config_file list.yaml >out && grep -w 0000000000000000 out &&
    env --block-signal=USR1 "$accelerate" tpu-config --config_file list.yaml >out && grep -w 0000000000000200 out'

# Arguments, exit status, message.
: >empty.sh
printf 'ls\0; rm\n' >null.sh
while IFS='|' read -r arguments status said; do
    test_expect_success "refused: $arguments" "
        test_exit $status tpu_config $arguments --debug >out 2>error && grep -F -- \"$said\" error && [ ! -s out ]"
done <<EOT
$where|2|nothing to run on the pod: give --command or --command_file
--command ls --tpu_zone z|2|missing tpu_name: give --tpu_name
--command ls --tpu_name n|2|missing tpu_zone: give --tpu_zone
--command ls --tpu_name=-n --tpu_zone z|2|'-n' is not a valid tpu_name
--command $where|2|--command: missing value
--command_file none.sh $where|1|command file: none.sh: No such file
--command_file empty.sh $where|1|command file: empty.sh: contains no commands
--command_file null.sh $where|1|command file: null.sh: contains a null byte
--command_file $builddir/accelerate $where|1|command file: $builddir/accelerate: 
--command ls --accelerate_version 1.x $where|2|--accelerate_version: '1.x' is not a version
--config_file none.yaml|1|none.yaml: No such file
word $where --command ls|2|unexpected argument 'word'
--command ls $where word -- more|2|unexpected argument
--comand ls $where|2|unknown option '--comand' (did you mean '--command'?)
EOT
test_done
