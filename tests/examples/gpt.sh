#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/gpt: it trains as PyTorch does, the same on any number of processes, also killed and resumed; transformers
# reads its models.  gpt_peer.py has made gpt.golden, from the weights that test 1 begins with.
. "${srcdir:-.}/tests/testlib.sh"

gpt=$builddir/examples/gpt/gpt
text=$srcdir/examples/data/shakespeare.txt
size="--data $text --n_embd 32 --n_layer 2 --n_head 2 --n_positions 32 --length 32"
rate="--warmup_steps 5 --evaluate_every 1000 --evaluation_batches 2 --sample 0"
steps=20
is_long && steps=100
# train PROCESSES FOLDER OPTION...
train () {
    processes=$1 folder=$2
    shift 2
    "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 "$gpt" $size $rate \
        --total_batch_size 8 --batch_size 2 --project_dir "$folder" "$@"
}
# near BOUND A B: equal steps, losses that differ by less than BOUND times the first one
near () {
    sed -n 's/^step *\([0-9]*\) of .*  loss \([0-9.]*\)  norm.*/\1 \2/p' "$3" >near.b
    sed -n 's/^step *\([0-9]*\) of .*  loss \([0-9.]*\)  norm.*/\1 \2/; /^[0-9]* [0-9.]*$/p' "$2" >near.a
    [ -s near.a ] && [ "$(wc -l <near.a)" = "$(wc -l <near.b)" ] && paste near.a near.b | awk -v bound="$1" '
        { difference = $2 - $4; if (difference < 0) difference = -difference
          if ($1 != $3 || difference > bound * $2) { print "differ:", $0; bad = 1 } }
        END { exit bad }'
}

test_expect_success 'the losses of 50 steps are those of PyTorch' '
    train 1 torch --steps 50 >log && near 1e-4 "$srcdir/tests/examples/gpt.golden" log'
for processes in 1 2 4; do
    test_expect_success "$processes process(es) train" '
        train $processes on$processes --steps $steps --save model$processes >log$processes && near 1e-5 log1 log$processes'
done
is_thread_sanitized && skip_reason='OpenMP waits in ways that the sanitizer does not see'
test_expect_success 'two threads learn what one does; the same again gives the same bits' '
    for folder in threads again; do
        "$accelerate" launch --cpu --num_processes 1 --num_cpu_threads_per_process 2 "$gpt" $size $rate --batch_size 2 \
            --total_batch_size 8 --project_dir $folder --steps $steps --save $folder.model >log || return 1
    done && near 1e-5 log1 log && cmp threads.model/model.safetensors again.model/model.safetensors'
skip_reason=

# strike PROCESSES CALL OPTION...: a run that is killed before this one of a process's calls that change a file
strike () {
    processes=$1 at=$2
    shift 2
    rm -rf killed && "$accelerate" launch --cpu --num_processes "$processes" --num_cpu_threads_per_process 1 env \
        LD_PRELOAD="$module" STRIKE_ROOT="$PWD/killed" STRIKE_LOG="$PWD/calls" STRIKE_SIGNAL=9 STRIKE_AT="$at" \
        "$gpt" $size $rate --total_batch_size 8 --batch_size 2 --project_dir killed "$@"
}
module=$builddir/tests/fault/.libs/strike.so calls=
[ -f "$module" ] && ! is_sanitized || skip_reason='needs a module that is loaded first'
test_expect_success 'killed and started again, it ends with the same bits' '
    strike 1 -1 --steps $steps --save_every 5 >log && calls=$(cat calls) &&
    test_exit 137 strike 2 $((calls / 2)) --steps $steps --save_every 5 >log && cp -r killed half &&
    train 2 killed --steps $steps --save_every 5 --save again >log && cat log && ! grep "step  *1 of" log &&
    cmp again/model.safetensors model2/model.safetensors'
test_expect_success 'and on another number of processes with the same losses' '
    train 1 half --steps $steps --save_every 5 >log && sed -n "s/^step *\([0-9]*\) of.*norm.*/\1/p" log | sed 1q >first &&
    sed -n "/^step *$(cat first) of/,\$p" log1 >rest && near 1e-5 rest log'
skip_reason=

test_expect_success 'it writes text: the same again, if asked' '
    train 1 text --steps 0 --warmup_steps 0 --model model1 --sample 30 --prompt "ROMEO:" >one && grep "^ROMEO:" one &&
    train 1 text2 --steps 0 --warmup_steps 0 --model model1 --sample 30 --prompt "ROMEO:" >two && diff one two'
# refuses WORDS OPTION...: with one line that has these words
refuses () {
    words=$1
    shift
    test_exit 1 "$gpt" $size $rate --project_dir bad "$@" 2>err && cat err && grep "$words" err && [ "$(wc -l <err)" = 1 ]
}
printf 'short' >short
head -c 2500 "$text" >few
mkdir -p broken narrow && cp model1/config.json broken/ && sed 's/"n_embd": 32/"n_embd": 64/' model1/config.json >narrow/config.json &&
    cp model1/model.safetensors narrow/
test_expect_success 'bad input is one sentence' '
    refuses "few" --data short && refuses "few" --data few --batch_size 8 &&
    refuses "too many" --batch_size 1000000 --length 4000 --n_positions 4000 && refuses "prompt" --prompt "" &&
    refuses "longer than the model" --length 33 && refuses "multiple" --n_embd 33 &&
    refuses "token [0-9]*, but the model has 64" --vocab_size 64 && refuses "model.safetensors" --model broken &&
    refuses "shape" --model narrow && refuses "config.json" --model nothing && refuses "unknown option" --depth 3 &&
    refuses "steps: expected" --steps many'
# The sums are those of what the package tokenizers writes: bpe/peer.py.
bpe=$srcdir/tests/examples/bpe
[ -x "$builddir/examples/gpt/tokenize" ] || skip_reason='needs libpcre2-dev'
tokenize () { "$builddir/examples/gpt/tokenize" "$bpe/vocab.json" "$bpe/merges.txt" "$@"; }
test_expect_success 'tokens are those of the package tokenizers, and become the text again' '
    while read -r file sum; do
        tokenize <"$file" >tokens && cksum <tokens >got && echo "$sum" | diff - got &&
        od -An -tu2 -v -w2 tokens >numbers && tokenize --decode <numbers >decoded && cmp decoded "$file" || return 1
    done <<EOF
$text 4101831711 1082486
$bpe/hard.txt 4147758973 15804
EOF'
test_expect_success 'the model learns tokens' '
    tokenize <"$text" >text.bin && train 1 learnt --steps 30 --lr 0.01 --data text.bin --format uint16 --vocab_size 600 >log &&
    sed -n "s/.*  loss \([0-9.]*\)  norm.*/\1/p" log | awk "NR == 1 { first = \$1 } { last = \$1 } END { exit !(last < first - 0.5) }"'
test_expect_success 'a text or vocabulary that is none is one sentence' '
    printf "a\377b" | test_exit 1 tokenize 2>err >out && grep "not UTF-8 from byte 1 on" err && [ ! -s out ] &&
    echo 600 | test_exit 1 tokenize --decode 2>err >out && grep "600 is no token" err &&
    echo "{" >bad.json && test_exit 1 "$builddir/examples/gpt/tokenize" bad.json "$bpe/merges.txt" 2>err && grep "bad.json:2: " err &&
    echo "a b c" >bad.txt && test_exit 1 "$builddir/examples/gpt/tokenize" "$bpe/vocab.json" bad.txt 2>err && grep "bad.txt:1: expected two" err'
skip_reason=
if python3 -c 'import transformers, torch' 2>/dev/null; then
    test_expect_success 'transformers reads its models' '
        python3 "$srcdir/tests/examples/gpt_peer.py" model1 "$text" >peer &&
        train 1 peers --steps 50 --model model1 >log && near 1e-4 peer log'
else
    test_skip 'transformers reads its models' 'needs Python packages transformers and torch'
fi
test_done
