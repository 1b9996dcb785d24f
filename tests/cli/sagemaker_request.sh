#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Corners of a job on SageMaker that a dry run shows: arguments, addresses, names that are not UTF-8, lack of memory.
. "${srcdir:-.}/tests/testlib.sh"

mkdir job && echo "print ()" >job/train.py
cat >job.yaml <<'END'
compute_environment: AMAZON_SAGEMAKER
distributed_type: 'NO'
ec2_instance_type: ml.p3.2xlarge
iam_role_name: r
region: us-east-1
END
dry () {
    "$accelerate" launch --config_file job.yaml --dry_run "$@" >out 2>err
}
# with YAML WORD...: a dry run with additional_args
with () {
    { cat job.yaml && printf "additional_args:\n%b" "$1"; } >more.yaml || return 1
    shift
    "$accelerate" launch --config_file more.yaml --dry_run "$@" >out 2>err
}
test_expect_success 'an option is not the value of the one before it' '
    test_exit 2 dry job/train.py --fast --lr && grep -e "--fast.*no value" err'
test_expect_success 'a number is not a text' '
    test_exit 1 with "  base_job_name: 5\n" job/train.py && grep "base_job_name: expected .*; put it in quotes" err &&
    test_exit 1 with "  volume_size: many\n" job/train.py && grep "volume_size: expected" err'
test_expect_success 'Trainium takes one strategy only' '
    image="  image_uri: i\n  instance_type: ml.trn1.2xlarge\n  distribution:\n" &&
    test_exit 1 with "${image}    mpi:\n      enabled: true\n" job/train.py && grep "only torch_distributed works on ml.trn1.2xlarge" err &&
    with "${image}    torch_distributed:\n      enabled: true\n" job/train.py'
test_expect_success 'addresses have single slashes' '
    with "  code_location: s3://bucket//a//b/\n" job/train.py && grep "packed into s3://bucket/a/b/accelerate-.*/source/sourcedir.tar.gz" out'
test_expect_success 'a link to a folder whose name begins like that of the source folder leads out' '
    mkdir job2 && echo 1 >job2/x && ln -s ../job2 job/link && dry job/train.py && grep "leads out of the folder: link -> /.*/job2$" err && rm job/link'
test_expect_success 'names and words that are not UTF-8' '
    bad=$(printf "b\377d") && echo 1 >"job/$bad.py" && dry --json job/train.py && grep "\"b?d.py\"" out &&
    test_exit 2 dry job/train.py --lr "$bad" && grep "argument .lr.: not valid UTF-8" err && ! test -s out && rm "job/$bad.py" &&
    test_exit 2 dry job/train.py "--$bad" 1 && grep "is not valid UTF-8" err'
word () { printf "%0$1d" 0; }
# variables COUNT NAME-LENGTH VALUE-LENGTH: this many more in the environment, the last one as long as that
variables () {
    echo "  environment:" && seq -f "    v%.0f: x" 2 "$1" && echo "    $(word "$2" | tr 0 a): $(word "$3" | tr 0 b)"
}
test_expect_success 'names, values and numbers of variables may be as large as SageMaker takes them, and no larger' '
    test_exit 1 with "$(variables 200 1 1)\n" job/train.py && own=$(sed -n "s/.* \([0-9]*\) environment variables, .*/\1/p" err) &&
    with "$(variables $((300 - own)) 512 512)\n" job/train.py && test_exit 1 with "$(variables $((301 - own)) 1 1)\n" job/train.py &&
    grep ": 101 environment variables, but .* 100 at most" err &&
    test_exit 1 with "$(variables 2 513 1)\n" job/train.py && grep "a.: the name must have 1 to 512 bytes" err &&
    test_exit 1 with "$(variables 2 1 513)\n" job/train.py && grep "a. has 513 bytes, but 512 are the maximum" err'
test_expect_success 'so may arguments' '
    dry job/train.py "--$(word 256 | tr 0 a)" "$(word 2498 | tr 0 b)" &&
    test_exit 1 dry job/train.py "--$(word 257 | tr 0 a)" b && grep "the name must have 1 to 256 bytes" err &&
    test_exit 1 dry job/train.py --a "$(word 2499 | tr 0 b)" && grep "argument .a. has 2501 bytes, but 2500 are the maximum" err'
printf 'channel_name\tdata\nmodel\ts3://b/m\ncode\ts3://b/c\n' >taken.tsv
# refuses WORDS YAML: a job that cannot be
refuses () {
    test_exit 1 with "$2" job/train.py && ! test -s out && tail -n 1 err | grep -F -e "$1" && test "$(grep -c "^accelerate: " err)" -eq 1
}
test_expect_success 'a duplicate channel' '
    cp job.yaml kept && echo "sagemaker_inputs_file: taken.tsv" >>job.yaml && image="  image_uri: i\n" &&
    refuses "duplicate channel '\''model'\''; rename the one in sagemaker_inputs_file" "$image  model_uri: s3://b/model\n" &&
    refuses "duplicate channel '\''code'\''; rename the one in sagemaker_inputs_file" "$image  enable_network_isolation: true\n" &&
    with "$image  model_uri: s3://b/model\n  model_channel_name: mine\n" job/train.py && mv kept job.yaml'
test_expect_success 'additional_args is a mapping, or empty' '
    refuses "additional_args: expected a mapping" "  - a\n" && refuses "additional_args: expected a mapping" "  word\n" &&
    with "" job/train.py'
test_expect_success 'a distribution of another form' '
    is="  image_uri: i\n  instance_type: ml.p4d.24xlarge\n  distribution:\n" && words=distribution &&
    refuses "$words: unknown strategy '\''horovod'\''; expected mpi, parameter_server, pytorchddp, smdistributed or torch_distributed" \
        "${is}    horovod: {}\n" && refuses "$words: mpi: expected a mapping" "${is}    mpi: true\n" &&
    words="$words: smdistributed" &&
    refuses "$words can have only one strategy" "${is}    smdistributed: {dataparallel: {}, modelparallel: {}}\n" &&
    refuses "$words: '\''modelparallel'\'' is not supported, only dataparallel" "${is}    smdistributed: {modelparallel: {}}\n" &&
    refuses "$words: dataparallel: expected a mapping" "${is}    smdistributed: {dataparallel: true}\n"'
test_expect_success 'an entry point outside of the folder' '
    for entry in /etc/passwd ../job/train.py .. a/../train.py a/..; do
        refuses "entry_point $entry must be a path below source_dir" "  source_dir: job\n  entry_point: $entry\n" || return 1
    done && mkdir job/..a && cp job/train.py job/..a && with "  source_dir: job\n  entry_point: ..a/train.py\n" job/train.py &&
    rm -r job/..a'
test_expect_success 'a job has the name of its image' '
    with "  base_job_name: null\n  image_uri: host/my/own-image:7\n" job/train.py && grep "Name\": \"own-image-20[0-9][0-9]-" out &&
    with "  base_job_name: null\n  image_uri: own-image@sha256:12\n" job/train.py && grep "Name\": \"own-image-20[0-9][0-9]-" out'
test_expect_success 'folders below each other' '
    mkdir -p deep/$(seq -s / 63) && echo "print ()" >deep/train.py && dry deep/train.py && mkdir -p deep/$(seq -s / 64) &&
    test_exit 1 dry deep/train.py && grep "62/63/64: more than 64 folders inside each other" err && rm -r deep'
: >answers
module=$builddir/tests/fault/.libs/nomem.so
if [ ! -f "$module" ] || grep -q '^SAN_CFLAGS = .*[a-z]' "$builddir/Makefile"; then
    skip_rest 'needs shared libraries, and no sanitizer, which has an allocator of its own'
fi
every=7
! is_long || every=1
# without_memory STATUS WORD...: at each so many allocations of a dry run, which prints the same but for the job's name
without_memory () {
    status=$1 && shift && test_exit "$status" "$accelerate" launch --dry_run "$@" >reference 2>&1 &&
        test_exit "$status" timeout "$patience" env LD_PRELOAD="$module" NOMEM_LOG="$PWD/log" NOMEM_REFERENCE="$PWD/reference" \
            NOMEM_EVERY=$every "$accelerate" launch --dry_run "$@" >output 2>&1 &&
        tail -n 1 log | grep -x "[1-9][0-9]* cases, 0 bad"
}
printf 'channel_name\tdata\ntrain\ts3://b/t\n' >inputs.tsv && printf 'metric_name\tregex\nloss\tx\n' >metrics.tsv
{ cat job.yaml && printf 'sagemaker_inputs_file: inputs.tsv\nsagemaker_metrics_file: metrics.tsv\nadditional_args:\n  hyperparameters:\n    a: [1, b]\n  tags:\n    t: v\n  subnets: [s]\n  security_group_ids: [g]\n'; } >full.yaml
mkdir -p job/.git job/lib && echo '*.log' >job/.gitignore && touch job/x.log job/lib/y.py
test_expect_success 'lack of memory while a job is refused' '
    without_memory 127 --config_file job.yaml job/gone.py && without_memory 2 --config_file full.yaml job/train.py --fast --lr'
test_expect_success 'lack of memory while a request is made, with tables, links and rules of .gitignore' '
    without_memory 0 --quiet --config_file full.yaml job/train.py --lr 1e-3 --name "x y"'
test_done
