#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate to-fsdp2: the same data as Accelerate's, and files that are complete or unchanged.
. "${srcdir:-.}/tests/testlib.sh"

cat >one.yaml <<'EOT'
# a comment
num_processes: 4
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: SHARD_GRAD_OP
  fsdp_use_orig_params: true
  fsdp_forward_prefetch: false
  fsdp_transformer_layer_cls_to_wrap: 'no'
EOT
cp one.yaml kept.yaml
to_fsdp2 () { "$accelerate" to-fsdp2 "$@"; }

test_expect_success 'a new file' '
    to_fsdp2 --config_file one.yaml --output_file two.yaml >out 2>notes && cat two.yaml notes && cmp one.yaml kept.yaml &&
    grep -Fx "saved in two.yaml" out && cat >wanted <<-EOT && cmp wanted two.yaml
	num_processes: 4
	distributed_type: FSDP
	fsdp_config:
	  fsdp_reshard_after_forward: false
	  fsdp_transformer_layer_cls_to_wrap: '\''no'\''
	  fsdp_version: 2
	EOT'
test_expect_success 'omitted keys are reported' '
    grep -Fx "accelerate: note: fsdp_use_orig_params is removed: FSDP2 no longer has it" notes &&
    grep -Fx "accelerate: note: fsdp_forward_prefetch is removed: FSDP2 does not have it yet" notes &&
    [ "$(wc -l <notes)" = 2 ]'
test_expect_success 'and the same under its old names' '
    mkdir old && for name in fsdp_backward_prefetch_policy backward_prefetch_policy; do
        printf "fsdp_config:\n  $name: BACKWARD_PRE\n" >old/a.yaml && rm -f old/b.yaml &&
        to_fsdp2 --config_file old/a.yaml --output_file old/b.yaml 2>old/notes && cat old/b.yaml old/notes &&
        ! grep prefetch old/b.yaml && grep "note: $name is removed" old/notes || return 1
    done'
test_expect_success 'what was written can be launched' '
    "$accelerate" launch --dry_run --config_file two.yaml --num_processes 2 true >plan &&
    grep "FSDP_VERSION=2" plan && grep "FSDP_RESHARD_AFTER_FORWARD=false" plan'
test_expect_success 'again: nothing to do' '
    to_fsdp2 --config-file two.yaml --output-file three.yaml 2>notes && cmp two.yaml three.yaml &&
    grep "is for FSDP2 already" notes && grep "set fsdp_version to 1" notes'
test_expect_success 'in place, with the mode that it had' '
    cp one.yaml place.yaml && chmod 600 place.yaml && to_fsdp2 --config_file place.yaml --overwrite 2>/dev/null &&
    cmp two.yaml place.yaml && [ "$(stat -c %a place.yaml)" = 600 ]'
test_expect_success 'over another file' '
    echo old >other.yaml && to_fsdp2 --config_file one.yaml --output_file other.yaml --overwrite 2>/dev/null &&
    cmp two.yaml other.yaml'
test_expect_success 'JSON in, JSON out' '
    echo "{\"num_processes\": 2, \"fsdp_config\": {\"fsdp_sharding_strategy\": \"FULL_SHARD\"}}" >in.json &&
    to_fsdp2 --config_file in.json --output_file out.json && tr -d " \n" <out.json >flat &&
    [ "$(cat flat)" = "{\"fsdp_config\":{\"fsdp_reshard_after_forward\":true,\"fsdp_version\":2},\"num_processes\":2}" ]'
test_expect_success 'a file of SageMaker has no such section' '
    printf "compute_environment: AMAZON_SAGEMAKER\nfsdp_config:\n  fsdp_use_orig_params: true\n" >aws.yaml &&
    test_exit 1 to_fsdp2 --config_file aws.yaml --output_file aws2.yaml 2>error && grep "aws.yaml:2: .fsdp_config." error &&
    [ ! -e aws2.yaml ]'

# How it is called, exit status, what is said.
while IFS='|' read -r flags status said; do
    test_expect_success "refused: $flags" "
        cp one.yaml before && test_exit $status to_fsdp2 $flags >out 2>error && grep -F -- '$said' error &&
        cmp one.yaml before && [ ! -e new.yaml ]"
done <<'EOT'
|2|missing option: accelerate to-fsdp2 --config_file FILE
--config_file none.yaml|1|none.yaml: No such file or directory
--config_file one.yaml|2|give --output_file FILE or --overwrite
--config_file one.yaml --output_file two.yaml|1|two.yaml exists; replace it with --overwrite
--config_file one.yaml --output_file no/new.yaml|1|no/new.yaml
--config_file . --output_file new.yaml|1|directory
--config_file one.yaml --output_file new.yaml word|2|unexpected argument
--config_file one.yaml --output_fil new.yaml|2|output_file
EOT
# Text of the file, what is said.
while IFS='|' read -r text said; do
    test_expect_success "a file that is wrong: $text" "
        printf -- '$text' >bad.yaml && test_exit 1 to_fsdp2 --config_file bad.yaml --output_file new.yaml 2>error &&
        grep -F '$said' error && [ ! -e new.yaml ]"
done <<'EOT'
a: 1\n|bad.yaml:1: unknown key
fsdp_config:\n  fsdp_sharding_strategi: x\n|bad.yaml:2: unknown key
fsdp_config:\n  fsdp_sharding_strategy: SOME\n|is not one of FULL_SHARD, SHARD_GRAD_OP
fsdp_config: 5\n|bad.yaml:1
- a\n- b\n|bad.yaml
fsdp_config:\n  - [|bad.yaml
|empty
EOT
test_expect_success 'no room: the old file stays' '
    cp one.yaml full.yaml &&
    { (trap "" XFSZ && ulimit -f 0 && to_fsdp2 --config_file full.yaml --overwrite 2>&1); echo $? >status; } | cat >error &&
    test "$(cat status)" = 1 &&
    grep "full.yaml: cannot write" error &&
    cmp one.yaml full.yaml && ! ls full.yaml.* 2>/dev/null'

if command -v python3 >/dev/null; then
    python3 "$srcdir/tests/golden/command/fsdp2_compare.py" "$accelerate" "$srcdir/tests/golden/command/fsdp2.json" >golden 2>&1
    golden_status=$?
    while read -r line; do
        case $line in
        'ok '*) test_expect_success "as the original: ${line#ok * - }" true ;;
        'not ok '*) test_expect_success "as the original: ${line#not ok * - }" 'cat golden; false' ;;
        esac
    done <golden
    test_expect_success 'all cases ran' 'cat golden && test $golden_status = 0 && tail -n 1 golden | grep "^1\.\.[1-9]"'
else
    test_skip 'as the original' 'no python3'
fi
test_done
