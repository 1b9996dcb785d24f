#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Files that are wrong, unreadable or unwritable: one line that says what and where, exit 1, and the old file as
# it was.
. "${srcdir:-.}/tests/testlib.sh"

# What commands have said, in files of which one is said.lint: each has a line with WORDS and no control characters; lint
# continues, the others print one line.
cat >said.awk <<'EOT'
{ lines[FILENAME]++ }
index ($0, ENVIRON["WORDS"]) { found[FILENAME] = 1 }
/[[:cntrl:]]/ { print FILENAME ": a control character"; bad = 1 }
END {
    for (i = 1; i < ARGC; i++)
        if (!found[ARGV[i]] || (ARGV[i] != "said.lint" && lines[ARGV[i]] != 1)) {
            print ARGV[i] ": expected a line with: " ENVIRON["WORDS"]
            bad = 1
        }
    exit bad
}
EOT

# refuse FILE WORDS: update, show, lint and launch refuse FILE with one line that holds WORDS, and leave it as it is
refuse () {
    cp "$1" before && test_exit 1 "$accelerate" config update --config_file "$1" >said.update 2>&1 &&
        test_exit 1 "$accelerate" config show --config_file "$1" >said.show 2>&1 &&
        test_exit 1 "$accelerate" config lint "$1" >said.lint 2>&1 &&
        test_exit 1 "$accelerate" launch --dry_run --config_file "$1" true >said.launch 2>&1 &&
        WORDS=$2 awk -f said.awk said.update said.show said.lint said.launch && cmp "$1" before && [ "$(ls "$1"*)" = "$1" ]
}

# One case a line: name of the file, its text for printf, what the message holds.
while IFS='|' read -r name text words; do
    # shellcheck disable=SC2059
    printf -- "$text" >"$name"
    test_expect_success "$words" "refuse $name \"\$words\""
    rm -f "$name"
done <<'END'
a.yaml|debug: true\ngpu_ids: "0,|a.yaml:2: not YAML: found unexpected end of stream
a.yaml|debug: true\ngpu_ids: "0,\n|a.yaml:2: not YAML: found unexpected end of stream
a.yaml|debug: true\ncommands: [a,\n  b\n|a.yaml:3: not YAML: did not find expected
a.yaml|debug: [|a.yaml:1: not YAML
a.yaml|debug: true\nfsdp_config: {fsdp_version: 2,|a.yaml:2: not YAML
a.yaml|debug|a.yaml:1: expected lines of the form
a.yaml|debug: true\nnum_proc|a.yaml:2: not YAML: could not find expected ':'
a.yaml|fsdp_config:\n\tfsdp_version: 2\n|a.yaml:2: not YAML: found character that cannot start any token
a.yaml|\tdebug: true\n|a.yaml:1: not YAML
a.yaml|fsdp_config:\n  fsdp_version: 2\n\tfsdp_offload_params: true\n|a.yaml:3: not YAML
a.yaml|debug: true\nnum_machines: 2\ndebug: false\n|a.yaml:3: duplicate key 'debug' (first on line 1)
a.yaml|fsdp_config: {}\nfsdp_config: {fsdp_version: 2}\n|a.yaml:2: duplicate key 'fsdp_config' (first on line 1)
a.yaml|fsdp_config:\n  fsdp_version: 2\n  fsdp_version: 1\n|a.yaml:3: duplicate key 'fsdp_version' (first on line 2)
a.json|{"debug": true,\n"debug": false}|a.json:2: duplicate key 'debug' (first on line 1)
a.yaml|main_process_ip: &a x\ntpu_name: *a\n|a.yaml:2: aliases (*name) are not supported
a.yaml|fsdp_config:\n  <<: {fsdp_version: 2}\n|a.yaml:2: merge keys (<<) are not supported
a.yaml|debug: true\ngpu_ids: a\000b\n|a.yaml:2: not YAML: control characters are not allowed
a.yaml|\000|a.yaml:1: not YAML: control characters are not allowed
a.yaml|gpu_ids: "a\\0b"\n|a.yaml:1: the value contains a zero byte
a.yaml|debug: true\n"a\\0b": 1\n|a.yaml:2: the value contains a zero byte
a.json|{"gpu_ids": "a\\u0000b"}|a.json:1: not JSON: the value contains a zero byte
a.json|{"debug": true,\n\000}|a.json:2: not JSON
a.json|{"gpu_ids": "a\000b"}|a.json:1: not JSON: control character in a string
a.yaml|num_processes: two\n|a.yaml:1: num_processes: 'two' is not an integer
a.yaml|num_processes: 2.5\n|a.yaml:1: num_processes: '2.5' is not an integer
a.yaml|num_processes: yes\n|a.yaml:1: num_processes: YAML reads a bare yes
a.yaml|num_processes: 99999999999999999999\n|a.yaml:1: num_processes: 99999999999999999999 is out of range
a.yaml|num_processes: -2\n|a.yaml:1: num_processes: -2 is out of range
a.yaml|main_process_port: .nan\n|a.yaml:1: main_process_port: 'nan' is not an integer
a.yaml|debug: perhaps\n|a.yaml:1: debug: 'perhaps' is neither true nor false
a.yaml|debug: 2\n|a.yaml:1: debug: '2' is neither true nor false
a.yaml|mixed_precision: fp61\n|a.yaml:1: mixed_precision: 'fp61' is not one of no, fp16, bf16, fp8
a.yaml|mixed_precision: 16\n|a.yaml:1: mixed_precision: '16' is not one of
a.yaml|distributed_type: TPU\n|a.yaml:1: distributed_type: 'TPU' is not one of
a.yaml|compute_environment: MOON\n|a.yaml:1: compute_environment: 'MOON' is not one of
a.yaml|main_process_ip: yes\n|put text in quotes
a.yaml|fp16: perhaps\n|a.yaml:1: fp16: neither true nor false
a.yaml|num_processes: [1, 2]\n|a.yaml:1: num_processes: expected a single value, got a list
a.yaml|debug:\n- true\n|a.yaml:1: debug: expected a single value, got a list
a.yaml|gpu_ids: {a: b}\n|a.yaml:1: gpu_ids: expected a single value, got a mapping
a.yaml|tpu_env: A=1\ntpu_vm: {a: b}\n|a.yaml:2: tpu_vm: expected a list, got a mapping
a.yaml|commands: [a, [b]]\n|a.yaml:1: commands: expected a list of single values
a.yaml|fsdp_config: [a]\n|a.yaml:1: fsdp_config: expected a mapping, got a list
a.yaml|fsdp_config: text\n|a.yaml:1: fsdp_config: expected a mapping, got a single value
a.yaml|fsdp_config: {fsdp_version: [2]}\n|a.yaml:1: fsdp_version: expected a single value, got a list
a.yaml|fsdp_config:\n  a:\n    b: 1\n|a.yaml:2: unknown key 'a' in fsdp_config
a.yaml|- debug: true\n|a.yaml:1: expected lines of the form
a.yaml||a.yaml: the file is empty
a.yaml|# nothing\n|a.yaml: the file is empty
a.yaml|---\n|a.yaml:1: expected lines of the form
a.yaml|debug: true\n---\ndebug: true\n|a.yaml:2: a second YAML document begins
a.yaml|num_procesess: 2\n|a.yaml:1: unknown key 'num_procesess' (did you mean 'num_processes'?)
a.yaml|fsdp_config:\n  fsdp_versoin: 2\n|a.yaml:2: unknown key 'fsdp_versoin' in fsdp_config (did you mean 'fsdp_version'?)
a.json|{"debug": true,\n "num_procesess": 2}|a.json:2: unknown key 'num_procesess' (did you mean 'num_processes'?)
a.yaml|"a\\nb\\e[31m": 1\n|a.yaml:1: unknown key 'a b [31m'
a.yaml|1: 2\n|a.yaml:1: unknown key '1'
a.yaml|? [a]\n: b\n|a.yaml:1: a key must be a single word
a.yaml|debug: !!python/object:os.system x\n|a.yaml:1: tags (!name) are not supported
a.yaml|debug: !mine x\n|a.yaml:1: tags (!name) are not supported
a.yaml|num_processes: !!int x\n|a.yaml:1: the value does not match its tag
a.yaml|debug: true\ngpu_ids: \377\376\n|a.yaml:2: not YAML: invalid leading UTF-8 octet
a.yaml|\377\376d\000:\000|a.yaml:1: not YAML
a.yaml|ipex_config: {ipex: true}\n|a.yaml:1: unknown key 'ipex_config'
a.yaml|region: eu\n|a.yaml:1: 'region' is a key for compute_environment: AMAZON_SAGEMAKER only
a.yaml|compute_environment: AMAZON_SAGEMAKER\nnum_processes: 2\n|a.yaml:2: 'num_processes' is not a key for SageMaker
a.yaml|distributed_type: DATA_PARALLEL\n|a.yaml:1: distributed_type: 'DATA_PARALLEL' needs compute_environment
a.yaml|compute_environment: AMAZON_SAGEMAKER\ndistributed_type: FSDP\n|a.yaml:2: distributed_type: 'FSDP' is not supported on SageMaker
a.json||a.json:1: not JSON: the file is empty
a.json|{"debug": true,\n|a.json:1: not JSON: expected a key in double quotes
a.json|{"debug": true,\n}|a.json:2: not JSON: expected a key in double quotes
a.json|{"debug": true\n "x": 1}|a.json:2: not JSON: expected a comma or }
a.json|{"debug" true}|a.json:1: not JSON: expected a colon after the key
a.json|{"debug":|a.json:1: not JSON: expected a value, but the file ends
a.json|{"tpu_name": "x|a.json:1: not JSON: unterminated string
a.json|{"tpu_name": "x\n"}|a.json:1: not JSON: unterminated string
a.json|{"debug": true}\n{}|a.json:2: not JSON: trailing text after the object
a.json|{"debug": tru}|a.json:1: not JSON: expected a value
a.json|{'debug': true}|a.json:1: not JSON: expected a key in double quotes
a.json|{"tpu_name": "\\ud800"}|a.json:1: not JSON: unpaired surrogate
a.json|{"tpu_name": "\\ud83d\\u0041"}|a.json:1: not JSON: unpaired surrogate
a.json|{"tpu_name": "\\ud83d\\ue000"}|a.json:1: not JSON: unpaired surrogate
a.json|{"tpu_name": "\\x"}|a.json:1: not JSON: unknown escape
a.json|{"debug": true,\n"tpu_name": "\377"}|a.json:2: not JSON: not valid UTF-8
a.json|{"num_processes": 01}|a.json:1: not JSON: expected a comma or }
a.json|{"main_process_port": NaN}|a.json:1: main_process_port: 'nan' is not an integer
a.json|{"num_processes": {"a": 1}}|a.json:1: num_processes: expected a single value, got a mapping
a.json|{"debug": 2}|a.json:1: debug: '2' is neither true nor false
a.json|[1]|a.json:1: expected an object
a.json|distributed_type: NO\n|a.json:1: not JSON
END

deep=$(printf '%40s' '' | tr ' ' '[')
echo "commands: $deep" >a.yaml
test_expect_success 'brackets without end' 'refuse a.yaml "a.yaml:1: nested too deep"'
echo "{\"commands\": $deep" >a.json
test_expect_success 'the same in JSON' 'refuse a.json "a.json:1: nested too deep"'

for name in a.yaml a.json; do
    { printf '{"tpu_name": "'; head -c 10000000 /dev/zero | tr '\0' x; printf '"}'; } >$name
    test_expect_success "10 MB in $name" "refuse $name '$name: larger than 1048576 bytes'"
    rm $name
done

test_expect_success 'a SageMaker file without its role' '
    printf "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: x\n" >aws.yaml && cp aws.yaml before &&
    test_exit 1 "$accelerate" config update --config_file aws.yaml 2>error &&
    grep "aws.yaml: missing key for SageMaker: iam_role_name" error && cmp aws.yaml before'
test_expect_success 'a bad value for SageMaker is refused in one line that says what to do' '
    printf "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: x\niam_role_name: r\n%s\n" \
        "distributed_type: DATA_PARALLEL" >aws.yaml &&
    test_exit 1 "$accelerate" launch --config_file aws.yaml x.py 2>error && cat error &&
    grep "ec2_instance_type: .x. is not an instance type such as ml.p3.2xlarge" error &&
    [ "$(wc -l <error)" = 1 ] && "$accelerate" config lint aws.yaml && "$accelerate" config update --config_file aws.yaml &&
    grep "py_version: py38" aws.yaml'

# ---- files that cannot be read or written ----

# one_line WORDS COMMAND...: exit 1 and one line with WORDS
one_line () {
    words=$1
    shift
    test_exit 1 "$@" >out 2>error || { cat out error; return 1; }
    cat error
    grep -F "$words" error && [ "$(wc -l <error)" = 1 ]
}

mkdir folder
good='distributed_type: NO'
for command in "config show --config_file" "config update --config_file" "launch --config_file" "env --config_file"; do
    # shellcheck disable=SC2086
    test_expect_success "$command: a folder, a missing file, a loop, a path below a file, a long name" '
        echo "$good" >good.yaml && ln -sf loop.yaml loop.yaml && program= &&
        case $command in launch*) program=true ;; esac &&
        one_line "folder: is a directory" "$accelerate" $command folder $program &&
        one_line "none.yaml: No such file" "$accelerate" $command none.yaml $program &&
        one_line "good.yaml/x: Not a directory" "$accelerate" $command good.yaml/x $program &&
        one_line "loop.yaml: Too many levels" "$accelerate" $command loop.yaml $program &&
        one_line "File name too long" "$accelerate" $command "$(printf "%300s" "" | tr " " x)" $program'
done
if as_nobody test -x "$accelerate"; then
    test_expect_success 'a file without read permission' '
        echo "$good" >secret.yaml && chmod 0 secret.yaml &&
        one_line "secret.yaml: Permission denied" as_nobody "$accelerate" config show --config_file secret.yaml'
else
    test_skip 'a file without read permission' 'the build folder is closed to others'
fi
test_expect_success 'a file of no bytes that says nothing of its size' '
    one_line "/dev/null: the file is empty" "$accelerate" config show --config_file /dev/null'
test_expect_success 'one without end' '
    one_line "/dev/zero: larger than" "$accelerate" config show --config_file /dev/zero'

test_expect_success 'folders where nothing can be made' '
    echo "$good" >good.yaml && one_line "good.yaml" "$accelerate" config default --config_file good.yaml/a/b.yaml &&
    one_line "/proc/none" "$accelerate" config default --config_file /proc/none/c.yaml &&
    one_line "/dev/full/x: cannot create" "$accelerate" config default --config_file /dev/full/x/c.yaml &&
    [ "$(cat good.yaml)" = "$good" ]'
test_expect_success 'a folder instead of a file' '
    one_line "folder" "$accelerate" config update --config_file folder && rmdir folder && mkdir folder'
test_expect_success 'a device is not replaced by a file' '
    mkfifo pipe.yaml && ln -s /dev/full full.yaml && { one_line "larger than" "$accelerate" config update --config_file full.yaml &&
    "$accelerate" config default --config_file full.yaml && [ -c /dev/full ] &&
    for file in pipe.yaml full.yaml; do one_line "$file: not a regular file" "$accelerate" config --config_file $file </dev/null || return 1; done &&
    [ -p pipe.yaml ]; }'
test_expect_success 'a link stays one, and a private file private' '
    mkdir -p dotfiles && echo "$good" >dotfiles/c.yaml && chmod 600 dotfiles/c.yaml && ln -s dotfiles/c.yaml link.yaml &&
    "$accelerate" config update --config_file link.yaml && [ -L link.yaml ] && grep machine_rank dotfiles/c.yaml &&
    [ "$(stat -c %a dotfiles/c.yaml)" = 600 ]'

# The limit on file sizes takes the place of a full disk: it needs neither a file system nor privileges.
file_limit_test 'a disk that is full: said, the old file as it was, nothing beside it' '
    echo "$good" >old.yaml && cp old.yaml before &&
    { (ulimit -f 0 && exec "$accelerate" config update --config_file old.yaml); echo $? >status; } 2>&1 | cat >error &&
    cat status error && [ "$(cat status)" = 1 ] && grep "old.yaml: cannot write: File too large" error && [ "$(wc -l <error)" = 1 ] &&
    cmp old.yaml before && [ "$(ls old.yaml*)" = old.yaml ]'
mkdir tiny
if mount -t tmpfs -o size=4k none tiny 2>/dev/null; then
    test_expect_success 'a file system of one page: the same' '
        echo "$good" >tiny/old.yaml && { head -c 8192 /dev/zero >tiny/filler || :; } &&
        one_line "tiny/old.yaml: cannot" "$accelerate" config update --config_file tiny/old.yaml &&
        grep "No space left" error && [ "$(cat tiny/old.yaml)" = "$good" ] && [ "$(ls tiny/old.yaml*)" = tiny/old.yaml ] &&
        one_line "No space left" "$accelerate" config default --config_file tiny/new.yaml && [ ! -e tiny/new.yaml ]'
    if mount -o remount,ro tiny 2>/dev/null; then
        test_expect_success 'a read-only file system: the same' '
            one_line "Read-only file system" "$accelerate" config update --config_file tiny/old.yaml &&
            [ "$(cat tiny/old.yaml)" = "$good" ]'
    fi
    umount tiny || exit 99
else
    test_skip 'a file system of one page: the same' 'nothing can be mounted here'
fi

# ---- the default place ----

test_expect_success 'HOME unset: the home of the user database, as in the original' '
    home=$(python3 -c "import os, pwd; print(pwd.getpwuid(os.getuid()).pw_dir)") &&
    (unset HOME; XDG_CACHE_HOME=$PWD/xdg "$accelerate" config default) &&
    [ -f xdg/huggingface/accelerate/default_config.yaml ] &&
    (unset HOME; "$accelerate" env) >out && grep -F "$home/.cache/huggingface/accelerate/default_config.yaml" out'
test_expect_success 'HOME empty: the root folder, as in the original' '
    (HOME=; export HOME; "$accelerate" env) >out && grep -F "/.cache/huggingface/accelerate/default_config.yaml" out'
test_expect_success 'HF_HOME that is a file' '
    echo x >afile && (HF_HOME=$PWD/afile; export HF_HOME; one_line "afile" "$accelerate" config default) &&
    [ "$(cat afile)" = x ]'
test_done
