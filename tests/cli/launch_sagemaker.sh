#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate launch on SageMaker, against a server that gives moto's answers (tests/golden/aws) and can misbehave: upload,
# request, status, logs, interrupts. tests/golden/command/sagemaker compares the requests with those of Amazon's library.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

serve root requests || exit 99
AWS_ENDPOINT_URL_SAGEMAKER=$url/sm AWS_ENDPOINT_URL_CLOUDWATCH_LOGS=$url/logs AWS_ENDPOINT_URL_STS=$url/sts
AWS_ENDPOINT_URL_IAM=$url/iam AWS_ENDPOINT_URL_S3=$url/s3 AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=SECRETKEY
AWS_EC2_METADATA_DISABLED=true ACCELERATE_SAGEMAKER_POLL=0.02
export AWS_ENDPOINT_URL_SAGEMAKER AWS_ENDPOINT_URL_CLOUDWATCH_LOGS AWS_ENDPOINT_URL_STS AWS_ENDPOINT_URL_IAM \
    AWS_ENDPOINT_URL_S3 AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED ACCELERATE_SAGEMAKER_POLL

aws=$srcdir/tests/golden/aws
cp "$aws/identity/answer1" root/identity
cp "$aws/role/answer1" root/role
cp "$aws/role_missing/answer1" root/role_missing
cp "$aws/job_new/answer1" root/created
cp "$aws/job/answer1" root/completed
cp "$aws/job_missing/answer1" root/missing
cp "$aws/logs_streams/answer1" root/streams
cp "$aws/logs/answer1" root/lines
cp "$aws/logs_missing/answer1" root/no_logs
: >root/empty
# status NEW OLD [EXPRESSION]: an answer about another status of the job
status () {
    sed "s/\"TrainingJobStatus\": \"Completed\"/\"TrainingJobStatus\": \"$2\"/; s/\"SecondaryStatus\": \"Completed\"/\"SecondaryStatus\": \"$2\"/; ${3-}" \
        root/completed >"root/$1"
}
status running InProgress
status failed Failed 's/{/{"FailureReason": "AlgorithmError: ExecuteUserScriptError:\\nExitCode 7\\nErrorMessage \\"boom\\"", /'
status no_capacity Failed 's/{/{"FailureReason": "CapacityError: Unable to provision requested ML compute capacity", /'
status stopped Stopped 's/"SecondaryStatus": "Stopped"/"SecondaryStatus": "MaxRuntimeExceeded"/'
status two InProgress 's/"InstanceCount": 1/"InstanceCount": 2/'
grep -q '"InstanceCount": 2' root/two || exit 99

bucket=sagemaker-us-east-1-123456789012
# rules LINE...: these before those of a launch that succeeds
rules () {
    rm -f requests/*
    {
        if [ $# -gt 0 ]; then
            printf '%s\n' "$@"
        fi
        cat <<END
/sts/ file=identity
/iam/ file=role
/s3/$bucket/ status=404 times=1 file=empty
/sm/ match=CreateTrainingJob file=created
/sm/ match=DescribeTrainingJob times=1 file=running
/sm/ match=DescribeTrainingJob file=completed
/sm/ match=StopTrainingJob file=empty
/logs/ match=DescribeLogStreams file=streams
/logs/ match=GetLogEvents file=lines
* file=empty
END
    } >root/.rules.new
    mv root/.rules.new root/.rules
}
# request WORD: the file with the first request that has this word
request () {
    for number in $(cd requests && printf '%s\n' * | sort -n); do
        if grep -aq -e "$1" "requests/$number"; then
            echo "requests/$number"
            return 0
        fi
    done
    echo "requests/none of $1"
}
# came WORD N: N requests have it
came () {
    test "$(grep -al -e "$1" requests/* | wc -l)" -eq "$2"
}
launch () {
    timeout "$patience" "$accelerate" launch --config_file job.yaml "$@" >out 2>err
}

mkdir -p job/lib && printf 'print("x")\n' >job/train.py && printf 'y = 1\n' >job/lib/util.py && chmod 755 job/lib/util.py
cat >job.yaml <<'END'
compute_environment: AMAZON_SAGEMAKER
distributed_type: 'NO'
ec2_instance_type: ml.p3.2xlarge
iam_role_name: r
region: us-east-1
mixed_precision: bf16
END

test_expect_success 'a dry run prints the request, and looks for no credentials' '
    rules && (unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY && launch --dry_run job/train.py --lr 1e-3) &&
    grep "2 files (17 B), packed into s3://sagemaker-us-east-1-<account>/accelerate-sagemaker-1-.*/sourcedir.tar.gz" out &&
    grep "\"lr\": \"0.001\"" out && grep "arn:aws:iam::<account>:role/r" out && test -z "$(ls requests)" &&
    launch --dry_run --json job/train.py && head -n 1 out | grep -x "{" && grep "\"lib/util.py\"" out'
rules
launch job/train.py || : # the first test says what is wrong
if grep -q "without libarchive\|libarchive.so.13" err; then
    skip_rest 'needs libarchive'
fi

test_expect_success 'a job: its bucket, its archive, its request, its logs, its end' '
    rules && launch job/train.py --lr 1e-3 && grep -x "one ü" out && grep -x two out &&
    grep "^You can find your model data at: s3://.*/model.tar.gz" out && grep "created bucket $bucket" err &&
    grep "by AWS_ACCESS_KEY_ID\|environment" err && grep "created job accelerate-sagemaker-1-" err &&
    tr -d "\r" <"$(request "^HEAD /s3/$bucket/ ")" | grep -ix "x-amz-expected-bucket-owner: 123456789012" &&
    grep -a "\"lr\":\s*\"0.001\"" "$(request CreateTrainingJob)" && grep -a "arn:aws:iam::123456789012:role/r" "$(request CreateTrainingJob)"'
test_expect_success 'each line is printed once' 'test "$(grep -cx two out)" -eq 1'
test_expect_success 'the archive is encrypted, and only for the bucket of this account' '
    tr -d "\r" <"$(request "^PUT .*sourcedir.tar.gz")" | sed "/^$/q" >head &&
    grep -aix "x-amz-server-side-encryption: aws:kms" head && grep -aix "x-amz-expected-bucket-owner: 123456789012" head'
# archive FILE: the body of the upload
archive () {
    upload=$(request "^PUT .*sourcedir.tar.gz")
    length=$(tr -d "\r" <"$upload" | sed -n "s/^[Cc]ontent-[Ll]ength: //p;/^$/q") && tail -c "$length" "$upload" >"$1"
}
test_expect_success 'it has the files, their modes, and nothing of this machine' '
    archive first.tar.gz && tar tvzf first.tar.gz >list && grep "^-rw-r--r-- 0/0 .*1980.* train.py$" list &&
    grep "^-rwxr-xr-x 0/0 .* lib/util.py$" list && test "$(wc -l <list)" -eq 2 &&
    mkdir unpacked && tar xzf first.tar.gz -C unpacked && cmp unpacked/train.py job/train.py'
test_expect_success 'the same files give the same archive' '
    touch -d 2001-01-01 job/train.py && chmod 640 job/train.py && rules "/s3/$bucket/ file=empty" && launch job/train.py &&
    archive second.tar.gz && cmp first.tar.gz second.tar.gz && ! grep "created bucket" err'
test_expect_success 'no key is anywhere' '! grep -r "SECRETKEY" out err requests'
test_expect_success 'a key of the command line is not in the list of processes, and no process may read the memory' '
    rules "/sm/ match=DescribeTrainingJob file=running" && rm -f out && {
        "$accelerate" launch --config_file job.yaml --aws_access_key_id A --aws_secret_access_key=SECRETKEY job/train.py \
            --kept_secret_key SECRETKEY >out 2>err </dev/null &
        launched=$!
    } && wait_for grep -q two out && tr "\0" " " <"/proc/$launched/cmdline" >words && kill -15 $launched &&
    test_exit 143 wait $launched && grep -e "--aws_secret_access_key=\*\*\*\*\*\*\*\*\* job" words && grep -e "--kept_secret_key SECRETKEY" words'

test_expect_success 'a failed job: its reason in one line, and the status of its script' '
    rules "/sm/ match=DescribeTrainingJob file=failed" && test_exit 7 launch job/train.py &&
    tail -n 1 err | grep "^accelerate: job accelerate-sagemaker-1-.* failed: AlgorithmError: ExecuteUserScriptError: ExitCode 7 ErrorMessage \"boom\"$" &&
    grep -x two out'
test_expect_success 'no capacity' '
    rules "/sm/ match=DescribeTrainingJob file=no_capacity" && test_exit 1 launch job/train.py && grep "try another instance type" err'
test_expect_success 'a stopped job' '
    rules "/sm/ match=DescribeTrainingJob file=stopped" && test_exit 1 launch job/train.py &&
    grep "was stopped: it ran longer than max_run" err'
test_expect_success 'statuses are printed once' '
    rules "/sm/ match=DescribeTrainingJob file=running times=3" && launch job/train.py && test "$(grep -c "Starting: Preparing" err)" -eq 1'

sed 's|"logStreams": \[{|&"logStreamName": "job-1/algo-2-1700000000", "x": 1}, {|; s|job-1/algo-1"|job-1/algo-1-1700000000"|g' root/streams >root/two_streams
cat >root/lines1 <<'END'
{"events": [{"message": "first of 1", "timestamp": 1}, {"message": "second of 1", "timestamp": 5}], "nextForwardToken": "f/1"}
END
cat >root/lines2 <<'END'
{"events": [{"message": "first of 2", "timestamp": 3}], "nextForwardToken": "f/2"}
END
cat >root/lines3 <<'END'
{"events": [{"message": "third of 1", "timestamp": 9}], "nextForwardToken": "f/3"}
END
echo '{"events": [], "nextForwardToken": "f/3"}' >root/lines_end
test_expect_success 'two machines: each line with its machine, in the order of time' '
    rules "/sm/ match=DescribeTrainingJob file=two times=1" "/logs/ match=DescribeLogStreams file=two_streams" \
        "/logs/ match=GetLogEvents times=1 file=lines2" "/logs/ match=GetLogEvents times=1 file=lines1" \
        "/logs/ match=GetLogEvents times=2 file=lines3" "/logs/ match=GetLogEvents file=lines_end" && launch job/train.py &&
    printf "[algo-1] first of 1\n[algo-2] first of 2\n[algo-1] second of 1\n" >wanted && head -n 3 out | diff wanted - &&
    grep -a "\"nextToken\":\s*\"f/1\"" requests/*'
test_expect_success 'a machine whose log begins later is followed, too' '
    rules "/sm/ match=DescribeTrainingJob file=two times=3" "/logs/ match=DescribeLogStreams times=1 file=streams" \
        "/logs/ match=DescribeLogStreams file=two_streams" "/logs/ match=GetLogEvents times=3 file=lines_end" \
        "/logs/ match=GetLogEvents times=1 file=lines2" "/logs/ match=GetLogEvents file=lines_end" && launch job/train.py && grep -Fx "[algo-2] first of 2" out'
test_expect_success 'missing logs are not an error yet' '
    rules "/logs/ match=DescribeLogStreams status=400 file=no_logs times=2" && launch job/train.py && grep -x two out'
echo '{"events": [], "nextForwardToken": "f/0"}' >root/lines_none
test_expect_success 'lines that CloudWatch has some seconds after the end' '
    rules "/sm/ match=DescribeTrainingJob file=completed" "/logs/ match=GetLogEvents file=lines_none" && launch job/train.py && ! grep two out &&
    asked=$(grep -al GetLogEvents requests/* | wc -l) && test $asked -ge 2 &&
    rules "/sm/ match=DescribeTrainingJob file=completed" "/logs/ match=GetLogEvents times=2 file=lines_none" && launch job/train.py && grep -x two out'
echo '{"__type": "AccessDeniedException", "message": "no"}' >root/denied
test_expect_success 'logs that may not be read are said once; the status still counts' '
    rules "/logs/ status=400 file=denied" "/sm/ match=DescribeTrainingJob file=running times=2" && launch job/train.py &&
    test "$(grep -c "is not shown" err)" -eq 1 && grep "^You can find" out'

echo '{"__type": "ThrottlingException", "message": "Rate exceeded"}' >root/throttled
test_expect_success 'throttled and broken requests are repeated' '
    rules "/sm/ match=DescribeTrainingJob status=400 file=throttled times=1" "/logs/ match=GetLogEvents drop times=1" &&
    launch job/train.py && grep -x two out'
if is_long; then
    test_expect_success 'throttling beyond the repetitions of one call, of one kind of calls' '
        rules "/sm/ match=DescribeTrainingJob file=running times=1" "/sm/ match=DescribeTrainingJob status=400 file=throttled times=10" &&
        launch job/train.py && grep -x two out && test "$(grep -c "lost contact" err)" -eq 1 && test "$(grep -c "in contact again" err)" -eq 1'
fi
echo '{"__type": "ExpiredTokenException", "message": "expired"}' >root/expired
test_expect_success 'lost contact: the job continues, and how to look at it' '
    rules "/sm/ match=DescribeTrainingJob status=400 file=expired" && test_exit 1 launch job/train.py &&
    ! grep "trying again" err && grep "lost contact with job .*which continues (look with: aws sagemaker describe-training-job --region us-east-1 --training-job-name accelerate" err'
test_expect_success 'a request that broke off may have created the job' '
    rules "/sm/ match=CreateTrainingJob drop" && launch job/train.py && grep -x two out'
test_expect_success 'or may not' '
    rules "/sm/ match=CreateTrainingJob drop" "/sm/ match=DescribeTrainingJob status=400 file=missing" &&
    test_exit 1 launch job/train.py && ! grep "created job\|may have been" err'
test_expect_success 'where that cannot be found out, it is said' '
    rules "/sm/ match=CreateTrainingJob drop" "/sm/ match=DescribeTrainingJob status=400 file=denied" &&
    test_exit 1 launch job/train.py &&
    grep "job accelerate-.* may have been created (look with: aws sagemaker .*): .*CreateTrainingJob" err &&
    ! grep "no job was created" err'
echo '{"__type": "ResourceInUse", "message": "Training job names must be unique"}' >root/again
test_expect_success 'a job of this name is the one that was asked for twice' '
    rules "/sm/ match=CreateTrainingJob status=400 file=again" && launch job/train.py && grep -x two out'
test_expect_success 'launches in the same millisecond have names of their own, which are not too long' '
    { cat job.yaml && echo "base_job_name: b$(printf "%060d" 7)"; } >long.yaml &&
    for i in 1 2 3; do
        "$accelerate" launch --config_file long.yaml --dry_run job/train.py >out 2>err || return 1
        sed -n "s/.*\"TrainingJobName\": \"\(.*\)\".*/\1/p" out >>names.txt || return 1
    done && test "$(sed "s/.*-//" names.txt | sort -u | wc -l)" -eq 3 &&
    test "$(grep -cxE "b0{32}(-[0-9]{2,4}){6}-[0-9]{3}-[0-9a-z]{5}" names.txt)" -eq 3 && ! grep "................................................................" names.txt'
sed 's/^{/{"HyperParameters": {"lr": "1"}, /' root/running >root/others
test_expect_success 'unless it has other arguments: then it is of another launch' '
    rules "/sm/ match=CreateTrainingJob status=400 file=again" "/sm/ match=DescribeTrainingJob file=others" &&
    test_exit 1 launch job/train.py && grep "no job was created: another launch has just created a job of this name" err'
echo '{"__type": "ResourceLimitExceeded", "message": "The account-level service limit is 0"}' >root/limit
test_expect_success 'a refused job' '
    rules "/sm/ match=CreateTrainingJob status=400 file=limit" && test_exit 1 launch job/train.py &&
    grep "ResourceLimitExceeded.*service limit is 0" err && came DescribeTrainingJob 0'
test_expect_success 'a missing role, before anything is uploaded' '
    rules "/iam/ status=404 file=role_missing" && test_exit 1 launch job/train.py && grep "no role .r. in account 123456789012" err &&
    came "^PUT" 0'

test_expect_success 'an upload that is refused' '
    rules "/s3/$bucket/ status=403" && test_exit 1 launch job/train.py && grep "S3 bucket $bucket belongs to another account" err &&
    rules "/s3/$bucket/ file=empty" "* match=PUT_ status=403 file=empty" && test_exit 1 launch job/train.py && grep "s3 PutObject: Forbidden" err &&
    came CreateTrainingJob 0'
test_expect_success '--detach' '
    rules && launch --detach job/train.py && grep -x "accelerate-sagemaker-1-[0-9-]*-[0-9a-z]\{5\}" out && test "$(wc -l <out)" -eq 1 &&
    grep "left running; to look at it: aws sagemaker describe-training-job" err && came DescribeTrainingJob 0'
mkdir -p "$HOME/.aws" && printf '[profile my work]\naws_access_key_id = P\naws_secret_access_key = SECRETKEY\n' >"$HOME/.aws/config"
{ sed 's|iam_role_name: r|iam_role_name: arn:aws:iam::1:role/r|' job.yaml && echo 'profile: my work'; } >profile.yaml
test_expect_success 'the profile of a hint can be typed; a role with its ARN is not looked up' '
    rules && timeout "$patience" "$accelerate" launch --config_file profile.yaml --detach job/train.py >out 2>err && came "^POST /iam" 0 &&
    grep -F "describe-training-job --profile '\''my work'\'' --region us-east-1" err'
test_expect_success '--quiet' 'rules && launch -q job/train.py && test ! -s err && grep -x two out'

default=
! env --default-signal=INT true 2>/dev/null || default=--default-signal=INT # which jobs in the background ignore
# signalled NUMBER RULE COMMAND...: a launch gets the signal once the command succeeds
signalled () {
    number=$1
    rules "$2" && shift 2 && rm -f out err || return 1
    env ${default:+"$default"} timeout "$patience" "$accelerate" launch --config_file job.yaml job/train.py >out 2>err </dev/null &
    launched=$!
    wait_for "$@" && kill "-$number" "$launched" || return 1
    code=0
    wait "$launched" || code=$?
    test "$code" -eq $((128 + number))
}
test_expect_success 'signals without a terminal leave the job running' '
    for number in ${default:+2} 15; do
        signalled $number "/sm/ match=DescribeTrainingJob file=running" grep -q two out || return 1
        grep "job .* continues; to look at it: aws" err || return 1
        came StopTrainingJob 0 || return 1
    done'
# asked: so many times for lines
asked () {
    grep -al GetLogEvents requests/* | wc -l
}
test_expect_success 'between two requests, it waits for the given interval' '
    rules "/sm/ match=DescribeTrainingJob file=running" && rm -f out err && {
        ACCELERATE_SAGEMAKER_POLL=3600 "$accelerate" launch --config_file job.yaml job/train.py >out 2>err </dev/null &
        launched=$!
    } && wait_for grep -q two out && sleep 1 && first=$(asked) && sleep 1 && test "$(asked)" -eq "$first" && kill -15 $launched &&
    test_exit 143 wait $launched'
test_expect_success 'a second signal does not end the launch before it has said what it did' '
    rules "/sm/ match=DescribeTrainingJob file=running" && rm -f out err && {
        "$accelerate" launch --config_file job.yaml job/train.py >out 2>err </dev/null &
        launched=$!
    } && wait_for grep -q two out && kill -STOP $launched && kill -1 $launched && kill -15 $launched && kill -CONT $launched &&
    test_exit 129 wait $launched && grep "job .* continues; to look at it: aws" err'
test_expect_success 'a signal before the job is created' '
    signalled 15 "/sts/ delay=60000 file=identity" grep -arq POST requests && grep "interrupted; no job was created" err'
test_expect_success 'a signal while the job is created: the request may be on its way' '
    signalled 15 "/sm/ match=CreateTrainingJob delay=60000 file=created
/sm/ match=DescribeTrainingJob status=400 file=missing" grep -arq "SageMaker.CreateTrainingJob" requests &&
    grep "interrupted; job accelerate-.* may have been created (look with: aws" err'
test_expect_success 'signals that are ignored, as below nohup, end nothing' '
    rules "/sm/ match=CreateTrainingJob delay=300 file=created" && : >err && {
        (trap "" HUP && exec "$accelerate" launch --config_file job.yaml job/train.py >out 2>err </dev/null) &
        launched=$!
    } && wait_for grep -arq "SageMaker.CreateTrainingJob" requests && kill -1 $launched && wait $launched && grep -x two out'
# typed KEYS WHEN...: what happens on a terminal, after $discarding
discarding=
typed () {
    timeout "$patience" python3 "$srcdir/tests/cli/on_terminal.py" "$@" \
        $discarding "$accelerate" launch --config_file job.yaml job/train.py >screen
}
# when_stopped: once the job was to be stopped, it is
when_stopped () {
    wait_for grep -arq StopTrainingJob requests && sed "s/file=running/file=stopped/; s/file=completed/file=stopped/" root/.rules >root/.rules.new && mv root/.rules.new root/.rules
}
terminal_test 'Ctrl-C asks; yes stops the job, and waits for it' '
    rules "/sm/ match=DescribeTrainingJob file=running" && { when_stopped & helper=$!; } &&
    test_exit 130 typed --type "\x03" "two" --type "y\n" "eave it running: " && wait $helper &&
    grep "was stopped" screen && came "Target: SageMaker.StopTrainingJob" 1'
terminal_test 'another Ctrl-C leaves a job that is stopping' '
    rules "/sm/ match=DescribeTrainingJob file=running" &&
    test_exit 130 typed --type "\x03" "two" --type "y\n" "eave it running: " --type "\x03" "another Ctrl-C leaves" &&
    grep "is stopping; to look at it" screen && came "Target: SageMaker.StopTrainingJob" 1'
if is_long; then
    terminal_test 'an upload that is repeated is never more than complete' '
        rules "/s3/$bucket/ file=empty" "* match=PUT_ status=503 times=1 delay=1500 file=empty" && typed && grep "created job" screen &&
        came "^PUT .*sourcedir" 2 && ! grep -E "uploading *(10[1-9]|1[1-9][0-9]|[2-9][0-9]{2}) %" screen'
fi
terminal_test 'the answer no continues, leaving leaves' '
    rules "/sm/ match=DescribeTrainingJob file=running" &&
    test_exit 130 typed --type "\x03" "two" --type "n\n" "eave it running: " --type "\x03" "running: n" --type "l\n" "(?s)running: n.*running: " &&
    grep "continues; to look at it" screen && came StopTrainingJob 0'
# Between poll() and read(), a Ctrl-C can discard the answer.
module=$builddir/tests/fault/.libs/strike.so
if [ -f "$module" ] && ! is_sanitized; then
    terminal_test 'an answer that is discarded as it arrives keeps no Ctrl-C from leaving' '
        rules "/sm/ match=DescribeTrainingJob file=running" && discarding="env LD_PRELOAD=$module STRIKE_TERMINAL=yes" &&
        test_exit 130 typed --type "\x03" "two" --type "n\n" "eave it running: " --type "\x03" "running: n" &&
        grep "continues; to look at it" screen'
    discarding=
fi
terminal_test 'a second Ctrl-C leaves' '
    rules "/sm/ match=DescribeTrainingJob file=running" &&
    test_exit 130 typed --type "\x03" "two" --type "\x03" "eave it running: " && grep "continues; to look at it" screen &&
    came StopTrainingJob 0'

# ---- what is packed ----

mkdir -p repo/.git repo/src/data repo/src/build repo/elsewhere && printf '*.log\n/src/data/\n!keep.log\n' >repo/.gitignore &&
    printf '**/build\nlocal/*.tmp\n' >repo/src/.gitignore && printf 'print()\n' >repo/src/train.py
touch repo/src/a.log repo/src/keep.log repo/src/data/x repo/src/build/y repo/elsewhere/z
test_expect_success 'what git ignores is named, and packed all the same' '
    launch --dry_run --json repo/src/train.py &&
    grep -x "accelerate: note: uploaded although .gitignore names it, or git itself uses it: a.log, build/, data/" err &&
    grep "\"a.log\"" out && grep "\"data/x\"" out && grep keep.log out'
test_expect_success 'rules of the folders in between count, and a rule of a mebibyte ends' '
    mkdir -p deep/.git deep/mid/low/src/a/b && echo "*.one" >deep/.gitignore && echo "*.two" >deep/mid/.gitignore &&
    printf "/src/**/c\n/src/**/x/**/b\n" >deep/mid/low/.gitignore && touch deep/mid/low/src/a/b/c deep/mid/low/src/1.one deep/mid/low/src/2.two &&
    { yes "**/" | head -n 300000 | tr -d "\n" && echo "zzz"; } >deep/mid/low/src/.gitignore && echo "print()" >deep/mid/low/src/train.py &&
    launch --dry_run --json deep/mid/low/src/train.py && grep "itself uses it: 1.one, 2.two, a/b/c$" err'
test_expect_success 'large files are named' '
    truncate -s 60M repo/src/big.bin && launch --dry_run repo/src/train.py && grep "large files are uploaded: big.bin (62.9 MB)" err &&
    truncate -s 6G repo/src/big.bin && test_exit 1 launch --dry_run repo/src/train.py && grep "5 GB are the maximum.*big.bin" err'
rm -f repo/src/big.bin
test_expect_success 'links are followed; those that lead out are named' '
    ln -s ../elsewhere repo/src/out && ln -s train.py repo/src/again.py && launch --dry_run --json repo/src/train.py &&
    grep "\"out/z\"" out && grep again.py out && grep "leads out of the folder: out -> /.*/repo/elsewhere$" err'
test_expect_success 'a link in a circle, a link to nothing, a pipe' '
    ln -s .. repo/src/circle && test_exit 1 launch --dry_run repo/src/train.py && grep "a link to a folder that contains it" err && rm repo/src/circle &&
    ln -s nowhere repo/src/broken && test_exit 1 launch --dry_run repo/src/train.py && grep "broken: a link that leads nowhere" err &&
    rm repo/src/broken && mkfifo repo/src/pipe && launch --dry_run --json repo/src/train.py && grep "not uploaded.*: pipe$" err &&
    ! grep pipe out'
test_expect_success 'long and strange names arrive' '
    long=$(printf "%0150d" 0) && mkdir -p "names/$long" && printf "print()\n" >names/train.py && echo 1 >"names/$long/$long.py" &&
    echo 2 >"names/zoë.py" && rules && launch names/train.py && archive names.tar.gz && mkdir unpacked2 &&
    tar xzf names.tar.gz -C unpacked2 && diff -r names unpacked2'

# ---- refusals ----

test_expect_success 'what cannot be' '
    test_exit 2 launch --aws_access_key_id A job/train.py && grep "need each other" err &&
    printf "additional_args:\n  source_dir: job\n  entry_point: ../job/train.py\n" >up && cat job.yaml up >up.yaml &&
    test_exit 1 "$accelerate" launch --config_file up.yaml --dry_run job/train.py 2>err &&
    grep "entry_point ../job/train.py must be a path below source_dir" err &&
    test_exit 2 launch job/train.sh && test_exit 2 launch job/train.ipynb && grep "jupyter nbconvert --to script" err && test_exit 2 launch --module train && test_exit 127 launch job/gone.py &&
    test_exit 1 launch --use_fsdp job/train.py && grep "flags choose a launch on this machine" err &&
    test_exit 2 launch job/train.py --fast && grep "no value" err &&
    test_exit 2 env ACCELERATE_SAGEMAKER_POLL=0 "$accelerate" launch --config_file job.yaml job/train.py 2>err &&
    grep "number of seconds" err'
test_done
