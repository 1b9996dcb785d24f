#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The environment of ranks, how they may end, and what the launcher reports.
. "${srcdir:-.}/tests/testlib.sh"

cat >show <<'EOF'
#!/bin/sh
echo "$RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR $ACCELERATE_USE_CPU $ROLE_RANK $* $TORCHELASTIC_USE_AGENT_STORE"
EOF
cat >rank <<'EOF'
#!/bin/sh
# rank HOW WHO: WHO ends in that way, the others wait for it
[ "$RANK" = "$2" ] || exec sleep 300
echo "last words of $RANK" >&2
case $1 in
signal-*) kill "-${1#signal-}" $$ ;;
*) exit "$1" ;;
esac
EOF
chmod +x show rank

test_expect_success '--cpu --num_processes 4 are four ranks' '
    "$accelerate" launch --cpu --num_processes 4 ./show a b >said && sort said >got &&
    for rank in 0 1 2 3; do echo "$rank $rank 4 4 127.0.0.1 True $rank a b False"; done | diff - got
'
test_expect_success 'one process has no rank' '
    "$accelerate" launch ./show >got && test "$(cat got)" = "     False   "
'
test_expect_success 'a launch here opens neither libcurl nor libarchive' '
    LD_DEBUG=libs "$accelerate" launch --cpu --num_processes 2 true 2>libraries && grep "libc\.so" libraries >/dev/null &&
    ! grep -e libcurl -e libarchive libraries
'
test_expect_success 'MASTER_PORT 0 becomes a free one, the same for all' '
    "$accelerate" launch --cpu --num_processes 2 --main_process_port 0 sh -c "echo \$MASTER_PORT" >said && sort -u said >got &&
    test "$(wc -l <got)" = 1 && test "$(cat got)" -gt 0
'
test_expect_success 'ranks find the job segment' '
    "$accelerate" launch --cpu --num_processes 2 sh -c "test -e \$ACCEL_JOB_SEGMENT && test \${#ACCEL_JOB_ID} = 16"
'
test_expect_success 'stdin is for rank 0' '
    rm -f read1 read2 && echo hello | "$accelerate" launch --cpu --num_processes 3 sh -c "
        [ \$RANK != 0 ] || until [ -e read1 ] && [ -e read2 ]; do sleep 0.05; done
        sed s/^/\$RANK:/; : >read\$RANK" >got && echo 0:hello | diff - got
'
test_expect_success 'standard error comes through in whole lines' '
    "$accelerate" launch --quiet --cpu --num_processes 4 \
        sh -c "i=0; while [ \$i -lt 200 ]; do printf %s to >&2; echo gether >&2; i=\$((i + 1)); done" 2>err &&
    test "$(grep -cx together err)" = 800 && test "$(wc -l <err)" = 800
'
test_expect_success 'and also where its reader is slow' '
    { "$accelerate" launch --quiet --cpu --num_processes 2 \
        sh -c "i=0; while [ \$i -lt 3000 ]; do echo 0123456789012345678901234567890123456789 >&2; i=\$((i + 1)); done" 2>&1
        echo $? >status; } | { sleep 1 && wc -l; } >got && test "$(cat got)" = 6000 && test "$(cat status)" = 0
'
test_expect_success 'variables of the caller reach the ranks, and no name twice' '
    OMP_NUM_THREADS=3 RANK=9 RANKS=5 ACCEL_JOB_SEGMENT=old mine=1 "$accelerate" launch --cpu --num_processes 2 \
        sh -c "[ \$RANK = 0 ] || env" >said && sort said >got &&
    grep -x mine=1 got && grep -x RANKS=5 got && ! grep -x ACCEL_JOB_SEGMENT=old got && grep -x OMP_NUM_THREADS=3 got && grep -x RANK=1 got && ! cut -d= -f1 got | uniq -d | grep RANK
'
test_expect_success 'signals and descriptors are as they were, but for the file of tracebacks' '
    echo "sed -n \"s/^\(Sig[BIC].*\)........\(........\)/\1\2/p\" /proc/self/status; ls /proc/\$\$/fd >fds; \
grep -vx \"\${ACCEL_STACK_FD-none}\" fds" >look &&
    { sh look 2>&1 </dev/null; echo $? >status; } | cat >wanted && test "$(cat status)" = 0 &&
    "$accelerate" launch --cpu --num_processes 2 sh -c "[ \$RANK = 0 ] || . ./look" >got && diff wanted got
'
test_expect_success 'a module' '
    mkdir package && echo "import sys; print(sys.argv[1:])" >package/__main__.py &&
    "$accelerate" launch -m package x >got && test "$(cat got)" = "['"'x'"']"
'
test_expect_success 'a Python script' '
    echo "import sys; print(sys.argv[1:])" >t.py && "$accelerate" launch t.py y --num_processes 2 >got &&
    test "$(cat got)" = "['"'y', '--num_processes', '2'"']"
'
test_expect_success '--no_python runs it as it is' '
    printf "#!/bin/sh\necho shell\n" >s.py && chmod +x s.py && "$accelerate" launch --no_python ./s.py >got && test "$(cat got)" = shell
'
for status in 1 7 126 127 255; do
    test_expect_success "exit status $status" '
        test_exit $status "$accelerate" launch --cpu --num_processes 3 ./rank $status 1 2>err &&
        grep "^accelerate: rank 1 (process [0-9]* on .*) exited with status $status$" err && grep "    last words of 1" err
    '
done
for pair in KILL:137 ABRT:134 SEGV:139 TERM:143; do
    name=${pair%:*} status=${pair#*:}
    test_expect_success "a rank ends by SIG$name" '
        (ulimit -c 0 && test_exit $status "$accelerate" launch --cpu --num_processes 3 ./rank signal-$name 2 2>err) &&
        grep "^accelerate: rank 2 (process [0-9]* on .*) was killed by signal $((status - 128)) (SIG$name)$" err
    '
done
test_expect_success 'the same with one process' '
    test_exit 7 "$accelerate" launch ./rank 7 "" 2>err && grep "^accelerate: \./rank (process .*) exited with status 7" err
'
test_expect_success '--quiet says nothing' '
    test_exit 7 "$accelerate" launch --quiet --num_processes 2 sh -c "exit 7" 2>err && ! test -s err
'
test_expect_success 'the first failure is named, though others follow at once' '
    test_exit 3 "$accelerate" launch --cpu --num_processes 4 \
        sh -c "[ \$RANK = 2 ] && exit 3; trap \"exit 4\" TERM; sleep 300 & wait" 2>err && grep "rank 2 .* status 3" err
'
test_expect_success 'a report as JSON' '
    test_exit 7 "$accelerate" launch --failure_report r.json --cpu --num_processes 2 ./rank 7 1 &&
    python3 -c "
import json
r = json.load (open (\"r.json\"))
f = r[\"failure\"]
assert (r[\"exit_status\"], f[\"rank\"], f[\"exit_code\"], f[\"signal\"]) == (7, 1, 7, None), r
assert f[\"stderr\"] == [\"last words of 1\"], r" &&
    test_exit 0 "$accelerate" launch --failure_report r.json true && grep "\"failure\":null" r.json
'
test_expect_success 'a report that cannot be written is an error before anything starts' '
    test_exit 1 "$accelerate" launch --failure_report no/such/r.json touch started 2>err &&
    grep no/such/r.json err && ! test -e started
'
test_expect_success 'a report that cannot be written when the job ends shows in the status' '
    mkdir gone && test_exit 1 "$accelerate" launch --failure_report gone/r.json rmdir gone 2>err && grep gone/r.json err
'
test_expect_success 'the report of an earlier job goes away before this one begins' '
    echo old >r.json && "$accelerate" launch --failure_report r.json sh -c "! test -e r.json" && grep "\"failure\":null" r.json
'
test_expect_success 'a report replaces what a link leads to, and keeps its mode' '
    umask 022 && mkdir -p reports && echo old >reports/real && chmod 604 reports/real && ln -sf reports/real link &&
    ln -sf ./link link2 && "$accelerate" launch --failure_report link2 sh -c "! test -e reports/real" &&
    test "$(readlink link2)" = ./link && test "$(readlink link)" = reports/real && grep "\"failure\":null" reports/real &&
    test "$(stat -c %a reports/real)" = 604 && echo old >mine && chmod 666 mine &&
    "$accelerate" launch --failure_report mine true && test "$(stat -c %a mine)" = 666 &&
    ln -s reports/new ahead && "$accelerate" launch --failure_report ahead true &&
    test "$(readlink ahead)" = reports/new && grep "\"failure\":null" reports/new && test "$(stat -c %a reports/new)" = 644 &&
    ln -s later reports/ahead && "$accelerate" launch --failure_report reports/ahead true && grep "failure" reports/later
'
test_expect_success 'a report does not take the place of devices, pipes, or our own output' '
    mkfifo pipe && for file in pipe /dev/null; do
        test_exit 1 "$accelerate" launch --failure_report $file touch started 2>err &&
        grep "^accelerate: --failure_report: $file: is a device or other special file" err || return 1
    done && test -p pipe && test -c /dev/null &&
    { "$accelerate" launch --failure_report /dev/stderr touch started 2>&1; echo $? >status; } | cat >err &&
    test "$(cat status)" = 1 && grep "/dev/stderr: is a device or other special file" err &&
    for file in log /dev/stderr; do
        echo old >log && test_exit 1 "$accelerate" launch --failure_report $file touch started 2>>log &&
        grep "^accelerate: --failure_report: $file: standard error goes there" log && grep old log || return 1
    done && ! test -e started
'
test_expect_success 'a standard stream that is closed is neither waited for nor taken for another file' '
    test_exit 3 timeout $patience "$accelerate" launch --cpu --failure_report r.json sh -c "exit 3" 2>&- &&
    grep "\"exit_code\":3" r.json &&
    test_exit 3 timeout $patience "$accelerate" launch --cpu --num_processes 2 --tee 3 --log_dir closed \
        sh -c "echo out; echo err >&2; : >said\$RANK; until [ -e said0 ] && [ -e said1 ]; do sleep 0.02; done; exit 3" \
        <&- >&- 2>&- &&
    cat closed/*/*/*/stdout.log >said && printf "out\nout\n" | diff - said &&
    for ranks in 1 2; do
        "$accelerate" launch --cpu --num_processes $ranks --failure_report r.json sh -c "cat; echo out; echo err >&2" <&- >&- 2>said &&
        test "$(grep -cx err said)" = $ranks &&
        "$accelerate" launch --cpu --num_processes $ranks sh -c "echo out; echo err >&2" 2>&- >said &&
        test "$(grep -cx out said)" = $ranks || return 1
    done
'
test_expect_success 'a job that got a request to end is not restarted' '
    { "$accelerate" launch --cpu --num_processes 1 --max_restarts 3 sh -c "echo x >>tried; exec sleep 300" 2>err & } &&
    launcher=$! && wait_for test -s tried && kill -TERM $launcher && test_exit 143 wait $launcher &&
    test "$(wc -l <tried)" = 1
'
test_expect_success '--max_restarts starts all ranks again' '
    cat >again <<-"END" && chmod +x again &&
	#!/bin/sh
	echo "$RANK $TORCHELASTIC_RESTART_COUNT of $TORCHELASTIC_MAX_RESTARTS" >>tries
	[ $RANK = 0 ] || exec sleep 300
	[ $TORCHELASTIC_RESTART_COUNT = $1 ]
	END
    sed "s/exec sleep 300/exit 0/" again >quick && chmod +x quick &&
    "$accelerate" launch --cpu --num_processes 2 --max_restarts 3 ./quick 2 2>err && cat err tries &&
    test "$(grep -c "^0 . of 3" tries)" = 3 && grep "restarting all ranks (2 of 3)" err &&
    rm tries && test_exit 1 "$accelerate" launch --cpu --num_processes 2 --max_restarts 1 ./again 9 2>err &&
    test "$(grep -c "^0 " tries)" = 2
'
test_expect_success 'mpirun is started with its own words, and is what is named if it is killed' '
    mkdir bin && printf "#!/bin/sh\n[ \"\$1\" != --version ] || { echo mpirun \"(Open MPI)\" 4; exit; }\necho \"\$@\" \${ACCEL_JOB_SEGMENT-none}\n" >bin/mpirun &&
    chmod +x bin/mpirun && echo localhost >hosts &&
    PATH=$PWD/bin:$PATH "$accelerate" launch --cpu --num_processes 4 --mpirun_hostfile hosts ./rank x >got && cat got &&
    grep -- "--hostfile hosts --npernode 4 -n 4 --bind-to socket ./rank x none" got &&
    echo "kill -9 \$\$" >>bin/mpirun && test_exit 137 env PATH="$PWD/bin:$PATH" "$accelerate" launch --cpu --num_processes 4 \
        --mpirun_hostfile hosts ./rank 2>err && grep "^accelerate: mpirun (process [0-9]* on .*) was killed by signal 9" err
'
test_expect_success 'a TPU: torch_xla spawns the named function of the program' '
    mkdir -p xla/torch_xla/distributed && touch xla/torch_xla/__init__.py xla/torch_xla/distributed/__init__.py &&
    cat >xla/torch_xla/distributed/xla_multiprocessing.py <<-"END" &&
	def spawn(function, args, nprocs):
	    for index in range(nprocs):
	        function(index, *args)
	END
    printf "import os, sys\ndef go():\n    print(os.environ[\"XLA_USE_BF16\"], *sys.argv)\n" >tpu.py &&
    PYTHONPATH=$PWD/xla "$accelerate" launch --tpu --num_processes 3 --mixed_precision bf16 --main_training_function go \
        tpu.py a "b c" >got && cat got && test "$(grep -cx "1 tpu.py a b c" got)" = 3 &&
    PYTHONPATH=$PWD/xla:$PWD "$accelerate" launch --tpu -m --num_processes 1 --main_training_function go \
        --mixed_precision bf16 tpu x >got && grep -x "1 tpu x" got && test_exit 1 env PYTHONPATH="$PWD/xla" \
        "$accelerate" launch --tpu --num_processes 1 --main_training_function none tpu.py 2>err && grep "none" err
'
test_expect_success 'a TPU pod: the command for its machines' '
    printf "distributed_type: XLA\nnum_processes: 8\ntpu_use_cluster: true\ntpu_name: pod\ntpu_use_sudo: true\n" >pod.yaml &&
    "$accelerate" launch --config_file pod.yaml --vm a --env A=1 --debug --dry_run tpu.py x >got && cat got &&
    grep -e "-m torch_xla.distributed.xla_dist --tpu pod --vm a --env A=1 --env ACCELERATE_DEBUG_MODE=true" got &&
    grep -e "--restart-tpuvm-pod-server -- sudo accelerate-launch --tpu .* --num_processes 8 .* tpu.py x" got
'
test_expect_success 'DeepSpeed on several machines: its launcher, and a file for the others' '
    printf "#!/bin/sh\necho \"\$@\"\n" >bin/deepspeed && chmod +x bin/deepspeed && touch t2.py &&
    PATH=$PWD/bin:$PATH "$accelerate" launch --use_deepspeed --num_machines 2 --machine_rank 0 --num_processes 4 \
        --main_process_ip h --deepspeed_hostfile hosts --zero_stage 2 t2.py a >got && cat got .deepspeed_env &&
    grep -x -- "--hostfile hosts --no_local_rank --launcher pdsh --num_gpus 2 --master_addr h --master_port 29500 t2.py a" got &&
    grep -x ACCELERATE_DEEPSPEED_ZERO_STAGE=2 .deepspeed_env && test "$(stat -c %a .deepspeed_env)" = 600
'
test_expect_success 'a dry run starts nothing' '
    "$accelerate" launch --dry_run --cpu --num_processes 2 touch started >got && ! test -e started &&
    grep "touch started" got && grep "^  RANK=1" got && grep -x "  1  on .*, device cpu, CPUs [0-9][-0-9,.]*" got &&
    "$accelerate" launch --dry_run --share_gpus --multi_gpu --gpu_ids 4,7 --num_processes 3 touch started >gpus &&
    grep "^  1 .*device cuda:1[, ]" gpus && grep "^  2 .*device cuda:0[, ]" gpus &&
    "$accelerate" launch --dry_run --cpu --num_processes 2 touch started >again && diff again got
'
printf 'a%sb\nc\\d' "'" >word
cat >want <<'EOF'
$'a\'b\nc\\d' '' 'it'\''s' a=b '#'
EOF
processors=$({ nproc || :; }) # more ranks than those are worth a note
test_expect_success 'a dry run prints words as a shell reads them' '
    "$accelerate" launch --dry_run --cpu --num_processes 1 touch "$(cat word)" "" "it'\''s" a=b "#" >got && cat got &&
    sed -n "s/^  .*touch //p" got | diff want - && ! grep "environment of rank" got &&
    { test "$processors" = 1 || grep -x notes got; }'
test_expect_success 'and so it prints values' '
    "$accelerate" launch --dry_run --use_fsdp --fsdp_transformer_layer_cls_to_wrap "A b" --num_processes 2 true >got &&
    grep -Fx "  FSDP_TRANSFORMER_CLS_TO_WRAP='\''A b'\''" got'
test_expect_success 'a dry run needs no port: another job may have it' '
    port=$(free_port) && { "$accelerate" launch --quiet --cpu --num_processes 2 --main_process_port $port \
        sh -c ": >up && exec sleep $patience" & } && job=$! && wait_for test -e up &&
    "$accelerate" launch --dry_run --cpu --num_processes 2 --main_process_port $port true >got &&
    kill $job && test_exit 143 wait $job && grep "MASTER_PORT=$port" got
'
test_expect_success 'a dry run that explains the settings' '
    printf "num_processes: 2\nmixed_precision: bf16\n" >e.yaml &&
    OMP_NUM_THREADS=3 "$accelerate" launch --config_file e.yaml --cpu --dry_run --explain --aws_secret_access_key SK --mixed_precision no true >got &&
    cat got && grep -x "num_processes: 2  (e.yaml:1)" got && grep -x "mixed_precision: no  (flag)" got &&
    grep -x "use_cpu: true  (computed)" got && grep -x "num_cpu_threads_per_process: 3  (environment)" got &&
    grep -x "num_machines: 1  (default)" got && grep "aws_secret_access_key: (not shown)" got && ! grep SK got &&
    grep "^  RANK=1" got && test_exit 2 "$accelerate" launch --explain true
'
test_expect_success 'a dry run as JSON' '
    "$accelerate" launch --dry_run --json --cpu --num_processes 2 ./show "a b" >got && ! test -e started &&
    python3 -c "
import json
p = json.load (open (\"got\"))
assert p[\"world_size\"] == 2 and [q[\"env\"][\"RANK\"] for q in p[\"processes\"]] == [\"0\", \"1\"]
q = p[\"processes\"][1]
assert q[\"argv\"][1] == \"a b\" and q[\"device\"] == \"cpu\" and q[\"host\"] == p[\"host\"] and q[\"cpus\"]"
'

# refused STATUS WORDS ARGUMENTS...: one line, that status, and nothing is started
refused () {
    wanted_status=$1 words=$2
    shift 2
    rm -f started
    test_exit "$wanted_status" "$accelerate" launch "$@" 2>err && grep -e "$words" err && test "$(wc -l <err)" = 1 &&
        ! test -e started
}
touch data
test_expect_success 'missing program' 'refused 127 "no such program" nothere && refused 127 "No such file" ./nothere'
test_expect_success 'no program at all' 'refused 2 "program"'
test_expect_success 'no executable bit' 'cp show plain && chmod -x plain && refused 126 "chmod +x" ./plain'
test_expect_success 'no program' 'chmod +x data && refused 126 "neither an ELF" --no_python ./data'
test_expect_success 'what only exec finds out' '
    head -c 64 /bin/true >cut && chmod +x cut && refused 126 "cannot start rank 0: ./cut" --quiet --cpu --num_processes 2 ./cut
'
test_expect_success 'a directory' 'mkdir none && refused 126 "directory without __main__.py" ./none'
for number in 2x 0 -1 99999999999 ""; do
    test_expect_success "--num_processes '$number'" 'refused 2 num_processes "--num_processes=$number" touch started'
done
test_expect_success 'too many for one machine' 'refused 2 "too many" --cpu --num_processes 5000 touch started'
test_expect_success 'several machines' '
    refused 2 main_process_ip --num_machines 2 --num_processes 2 --machine_rank 0 touch started
'
test_expect_success 'who kills launchers by name does not kill the process that supervises the ranks' '
    "$accelerate" launch --cpu --num_processes 2 sh -c "[ \$RANK = 1 ] ||
        { cat /proc/\$PPID/comm && tr -d \"\\0\" </proc/\$PPID/cmdline; } >name" && cat name &&
    printf "accel-job\naccel-job" | cmp - name'

limited () {
    # shellcheck disable=SC3045
    (ulimit -n "$1" && shift && exec "$accelerate" launch --cpu "$@")
}
test_expect_success 'too few open files for all ranks are an error before any starts, which says how many are needed' '
    test_exit 1 limited 64 --num_processes 40 --failure_report r.json touch started 2>err && ! test -e started &&
    test "$(wc -l <err)" = 1 && needed=$(sed -n "s/^accelerate: cannot start 40 ranks: the launcher needs \([0-9]*\) open files, but may have 64; .*ulimit -n \1, .*/\1/p" err) &&
    grep "needs $needed open files" r.json && limited "$needed" --quiet --num_processes 40 true &&
    test_exit 1 limited $((needed - 1)) --num_processes 40 true 2>err &&
    test_exit 1 limited 20 --quiet true 2>err && grep "cannot start 1 rank: .*, as root)$" err &&
    (ulimit -Sn 64 && exec "$accelerate" launch --cpu --num_processes 40 sh -c "ulimit -n") >out && test "$(grep -cx 64 out)" = 40
'
# in_group MAX CURRENT: 4 ranks in a control group that may have MAX processes and has CURRENT
in_group () {
    unshare -rm sh -c 'mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir pids &&
        echo "$1" >pids.max && echo "$2" >pids.current && cp pids.* pids && cd "$3" && shift 3 && exec "$@"' \
        sh "$1" "$2" "$PWD" "$accelerate" launch --cpu --num_processes 4 touch started 2>err
}
what='too few processes in the control group are an error before any rank starts'
if grep -Eq '^0::|[:,]pids[:,]' /proc/self/cgroup && unshare -rm mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; then
    test_expect_success "$what" '
        test_exit 1 in_group 10 7 && ! test -e started && test "$(wc -l <err)" = 1 &&
        grep "^accelerate: cannot start 4 ranks: the control group allows 3 more processes; raise its pids.max" err &&
        test_exit 1 in_group 10 12 && grep "allows 0 more processes" err && ! test -e started &&
        in_group 10 6 && rm started && in_group max 5000 && test -e started'
else
    test_skip "$what" 'needs a mount namespace, and control groups'
fi
# as_other LIMIT COMMAND...: as a user who has no other process, and may have LIMIT
as_other () {
    nproc=$1
    shift
    prlimit --nproc="$nproc" setpriv --reuid 54321 --regid 54321 --clear-groups "$@"
}
what='and so are too few processes of the user'
if as_other 100 true 2>/dev/null; then
    test_expect_success "$what" '
        chmod 755 "$scratch" . && mkdir others && chmod 777 others && cp "$accelerate" others/accelerate && cd others &&
        start="./accelerate launch --cpu --num_processes 40 touch started" &&
        test_exit 1 as_other 41 $start 2>../err && ! test -e started && test "$(grep -c "^accelerate:" ../err)" = 1 &&
        grep "^accelerate: cannot start 40 ranks: this user may have 41 processes; raise the limit (ulimit -u)" ../err &&
        as_other 2000 $start && test -e started'
else
    test_skip "$what" 'needs root, to become another user'
fi
test_done
