#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# examples/gpt: it trains as PyTorch does, the same on any number of processes, also killed and resumed; transformers
# reads its models, and it reads those of transformers.  gpt_peer.py has made gpt.golden, from the weights that test 1
# begins with; gpt_tiny.py has made gpt_tiny/, and what transformers computes with it.
. "${srcdir:-.}/tests/testlib.sh"

gpt=$builddir/examples/gpt/gpt
text=$srcdir/examples/data/shakespeare.txt
size="--data $text --n_embd 32 --n_layer 2 --n_head 2 --n_positions 32 --length 32"
rate="--warmup_steps 5 --evaluate_every 1000 --evaluation_batches 2 --sample 0"
steps=20 precision=no
OMP_NUM_THREADS=1 # OpenMP's threads wait in ways that the thread sanitizer does not see
! is_thread_sanitized || export OMP_NUM_THREADS
is_long && steps=100
# train PROCESSES FOLDER OPTION...
train () {
    processes=$1 folder=$2
    shift 2
    "$accelerate" launch --cpu --mixed_precision "$precision" --num_processes "$processes" --num_cpu_threads_per_process 1 \
        "$gpt" $size $rate --total_batch_size 8 --batch_size 2 --project_dir "$folder" "$@"
}
# near BOUND A B: equal steps, losses that differ by less than BOUND times the first one
near () {
    sed -n 's/^step *\([0-9]*\) of .*  loss \([0-9.]*\)  grad_norm.*/\1 \2/p' "$3" >near.b
    sed -n 's/^step *\([0-9]*\) of .*  loss \([0-9.]*\)  grad_norm.*/\1 \2/; /^[0-9]* [0-9.]*$/p' "$2" >near.a
    [ -s near.a ] && [ "$(wc -l <near.a)" = "$(wc -l <near.b)" ] && paste near.a near.b | awk -v bound="$1" '
        { difference = $2 - $4; if (difference < 0) difference = -difference
          if ($1 != $3 || difference > bound * $2) { print "differ:", $0; bad = 1 } }
        END { exit bad }'
}
# agrees: two files of logits differ by less than 1e-4
agrees () {
    [ "$(wc -w <"$1")" = "$(wc -w <"$2")" ] && paste -d " " "$1" "$2" | awk '
        { for (i = 1; i <= NF / 2; i++) { difference = $i - $(i + NF / 2)
              if (difference > 1e-4 || difference < -1e-4) bad = 1 } }
        END { exit bad || !NR }'
}
tiny=$srcdir/tests/examples/gpt_tiny
tokens='1 5 19 0 7 7 3 12 11 2'

test_expect_success 'the losses of 50 steps are those of PyTorch' '
    train 1 torch --steps 50 >log && near 1e-4 "$srcdir/tests/examples/gpt.golden" log'
for processes in 1 2 4; do
    test_expect_success "$processes process(es) train" '
        train $processes on$processes --steps $steps --save model$processes >log$processes && near 1e-5 log1 log$processes'
done
for stage in 1 2 3; do
    test_expect_success "sharding, stage $stage: 2 processes have the same losses; without it, the run continues" '
        train 2 sharded$stage --shard $stage --steps $steps --save sharded.model >log && grep "ZeRO stage $stage" log &&
        near 1e-6 log2 log && { [ $stage -gt 1 ] || cmp sharded.model/model.safetensors model2/model.safetensors; } &&
        train 2 half$stage --shard $stage --steps $((steps / 2)) --warmup_steps 2 >log &&
        train 2 half$stage --steps $steps --warmup_steps 2 --save half.model >log && grep "ZeRO stage 0" log &&
        grep "step  *$steps of" log && test -s half.model/model.safetensors'
    test_expect_success "sharding, stage $stage, of 4 processes, 2 of which divide layers: the losses of one, which continues" '
        train 4 grid$stage --tp 2 --shard $stage --steps $steps --save grid.model >log && grep "ZeRO stage $stage, tp 2$" log &&
        near 1e-6 log1 log && train 1 grid$stage --steps $((steps + 1)) >log && grep "^step  *$((steps + 1)) of" log &&
        train 4 again$stage --tp 2 --shard $stage --steps 0 --model grid.model --save again.model >log &&
        cmp grid.model/model.safetensors again.model/model.safetensors'
done
for processes in 2 4; do
    test_expect_success "$processes processes, 2 of which divide layers, have the losses of one, which continues their run" '
        train $processes parts$processes --tp 2 --steps $steps --save parts.model >log && grep "tp 2$" log &&
        near 1e-6 log1 log && train 1 parts$processes --tp 1 --steps $((steps + 1)) >log && grep "^step  *$((steps + 1)) of" log &&
        train 2 whole$processes --tp 2 --steps 0 --model parts.model --save again.model >log &&
        cmp parts.model/model.safetensors again.model/model.safetensors'
done
# Sequences are as long as the longest text, so that training and writing take the same memory, but for what is kept.
test_expect_success 'layers that are computed again give the same bits; so does what is written after them' '
    while read -r count options; do
        for again in 0 1; do
            rm -rf layers && train $count layers --steps 3 --batch_size 1 --sample 32 --recompute $again --save layers$again $options </dev/null >log &&
            sed "1,/^the best/d" log >text$again || return 1
        done && cmp layers0/model.safetensors layers1/model.safetensors && [ -s text0 ] && cmp text0 text1 || return 1
    done <<EOF
1
2
2 --tp 2
EOF'
test_expect_success 'layers are computed again if accelerate launch was asked for that' '
    grep "recompute 1," log && FSDP_ACTIVATION_CHECKPOINTING=true ACCELERATE_USE_FSDP=true FSDP_SHARDING_STRATEGY=NO_SHARD \
        "$gpt" $size $rate --steps 1 --project_dir asked >log && grep "recompute 1, ZeRO stage 0" log'
test_expect_success 'a vocabulary that cannot be divided is whole; heads are refused' '
    train 1 odd --vocab_size 257 --steps 5 >log && train 2 odd2 --tp 2 --vocab_size 257 --steps 5 --sample 20 >other &&
    near 1e-6 log other && test_exit 1 train 2 bad --tp 2 --n_head 1 2>err && grep "n_head: 1 is not a multiple of --tp 2" err'
# OpenBLAS takes its kernel Prescott for a processor that is newer than itself.
# unknown FOLDER OPTION...: a run for which it does so, with the line that says who computes products first
unknown () { OPENBLAS_CORETYPE=Prescott train 1 "$@"; }
if ! grep -q '^DNNL_LIBS = -ldnnl' "$builddir/Makefile" || ! grep -q avx2 /proc/cpuinfo; then
    skip_reason='needs oneDNN, and AVX2'
elif ! DNNL_MAX_CPU_ISA=SSE41 unknown slow --steps 1 >slow.log || ! grep -q 'by OpenBLAS, kernel Prescott,' slow.log; then
    skip_reason='needs an OpenBLAS that has kernels for several processors'
fi
test_expect_success 'oneDNN computes in place of an OpenBLAS that does not know the processor' '
    unknown fast --steps 50 >log && grep "float32 products by oneDNN," log && near 1e-4 "$srcdir/tests/examples/gpt.golden" log'
skip_reason=
test_expect_success 'without BLAS and oneDNN, a loop computes the same losses, and logits of transformers' '
    train 1 whole5 --steps 5 >log5 && gpt=$builddir/tests/examples/gpt_plain && train 1 plain5 --steps 5 >log &&
    grep "float32 products by a loop," log && near 1e-5 log5 log && "$builddir/tests/examples/gpt_plain_logits" --length 8 \
        --format uint16 --model "$tiny" --prompt "$tokens" >logits && agrees logits "$tiny/logits"'
# Twice: with the products that this processor has, and with float32 products.
precision=bf16
test_expect_success 'bfloat16 weights: losses near those of PyTorch, alike on 2 processes' '
    train 1 narrow --steps 50 --save narrow.model >log.narrow && near 1e-3 "$srcdir/tests/examples/gpt.golden" log.narrow &&
    grep -q "\"dtype\":\"BF16\"" narrow.model/model.safetensors && train 2 narrow2 --steps 50 >log && near 1e-3 log.narrow log &&
    DNNL_MAX_CPU_ISA=AVX2 train 1 wide --steps 50 --sample 30 >log && grep "float32 products" log && near 1e-3 log.narrow log'
grep -q GenuineIntel /proc/cpuinfo && ! grep -q amx_bf16 /proc/cpuinfo || skip_reason='needs an Intel processor without AMX'
test_expect_success 'whose products are float32 where those of bfloat16 are slower' 'grep "float32 products" log.narrow'
skip_reason=
precision=fp16
test_expect_success 'other precisions are refused' '
    test_exit 1 train 1 bad --steps 1 2>err && grep "mixed_precision: expected no or bf16" err'
precision=no
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
    train 1 half --steps $steps --save_every 5 >log && sed -n "s/^step *\([0-9]*\) of.*grad_norm.*/\1/p" log | sed 1q >first &&
    sed -n "/^step *$(cat first) of/,\$p" log1 >rest && near 1e-5 rest log'
skip_reason=

# has_stepped: or it has ended
has_stepped () { grep -q "^step *3 of" log || ! kill -0 "$launcher"; }
begin () {
    "$accelerate" launch --cpu --num_processes 2 --num_cpu_threads_per_process 1 "$gpt" $size $rate --save_every 1000000 \
        --total_batch_size 8 --batch_size 2 --steps 1000000 --project_dir stopped >log 2>err &
    launcher=$!
}
test_expect_success 'asked to stop, all ranks save the same step; started again, they continue with the next one' '
    : >log && begin && wait_for has_stepped && kill -TERM $launcher && test_exit 143 wait $launcher &&
    grep "saved step [0-9]* on all ranks, then ended by SIGTERM$" err && step=$(sed -n "s/.*saved step \([0-9]*\) on.*/\1/p" err) &&
    grep "^step" log | tail -1 | grep "^step  *$step of" && train 2 stopped --steps $((step + 1)) >log && cat log &&
    sed -n "s/^step *\([0-9]*\) of.*grad_norm.*/\1/p" log >steps && echo $((step + 1)) | diff - steps'
test_expect_success 'a run that continues says so first, also that what --model has is not used' '
    train 1 base --steps 1 --save base.model >log && train 1 tuned --model base.model --steps 3 --save tuned.model >log &&
    ! grep "^continues" log && train 1 tuned --model base.model --steps 3 --save same.model >log && sed 1q log |
        grep "^continues .*/tuned/checkpoints/checkpoint_0 at step 3; its weights replace those of --model; another" &&
    cmp tuned.model/model.safetensors same.model/model.safetensors && train 1 tuned --steps 4 >log &&
    sed 1q log | grep "^continues .*/checkpoint_0 at step 3$"'
test_expect_success 'each step shows how fast it is and how long the rest will take' '
    train 1 speed --steps 2 --peak_tflops 0.1 >log && cat log &&
    grep "^step  *2 of 2  loss .* [0-9]* tokens/s  mfu [0-9.]*%  0:00 left$" log && [ "$(grep -c "left$" log)" = 1 ]'
# Nothing is learnt with this rate, so the first evaluation stays the best.
test_expect_success 'the best checkpoint stays besides the last ones, and a loss that gets no better ends the run' '
    train 1 best --steps 20 --lr 100 --weight_decay 0 --evaluate_every 1 --save_every 1 --patience 5 >log && cat log &&
    best=$(sed -n "s/^the best checkpoint: //p" log) && [ -f "$best/model.safetensors" ] &&
    [ "$(ls best/checkpoints | wc -l)" = 3 ] && number=$(sed -n "s/^step  *\([0-9]*\) of.*  since_best 0$/\1/p" log | tail -1) &&
    [ "$best" = "best/checkpoints/checkpoint_$((number - 1))" ] && grep "^step  *$((number + 5)) of" log &&
    ! grep "^step  *$((number + 6)) of" log &&
    train 1 rare --steps 20 --lr 100 --weight_decay 0 --evaluate_every 1 --save_every 99 --patience 2 >log && cat log &&
    best=$(sed -n "s/^the best checkpoint: //p" log) && [ -f "$best/model.safetensors" ] &&
    [ "$(ls rare/checkpoints | wc -l)" -ge 2 ]'
test_expect_success 'a step may be a number of tokens; an epoch has whole steps' '
    head -c 1500 "$text" >some && train 1 whole --data some --tokens_per_step 128 --steps 20 --lr 0 >log &&
    grep "2 passes per step" log && sed -n "s/^step *[0-9]* of .*  loss \([0-9.]*\)  grad_norm.*/\1/p" log >losses &&
    awk "{ sum[int ((NR - 1) / 10)] += \$1 } END { exit !(NR == 20 && (sum[0] - sum[1]) ^ 2 < 1e-7) }" losses'

folder=$srcdir/examples/gpt
test_expect_success 'the README counts the lines' '
    for file in gpt.h gpt.c train.c options.h options.c tokenize.c; do
        grep "^| .$file. | $(wc -l <"$folder/$file") |" "$folder/README.md" || return 1
    done && cat "$folder/gpt.h" "$folder/gpt.c" "$folder/train.c" >core && all=$(wc -l <core) && [ "$all" -le 900 ] &&
    ours=$(grep -c "accel_\|ACCEL_\|accel/" core) && [ "$ours" -le 150 ] &&
    grep "train.c. have $all lines, $ours of which" "$folder/README.md" && lines=$(cat "$folder"/*.[ch] | wc -l) && grep "^| together | $((lines - $(wc -l <"$folder/tokenize.c"))) |" "$folder/README.md"'

# writes OPTION...: what the model says after ROMEO
writes () {
    "$gpt" $size $rate --steps 0 --project_dir text --model model1 --sample 30 --prompt "ROMEO:" "$@" >written &&
        sed 1d written
}
test_expect_success 'it writes text: the same again with the same seed, and by temperature, top-k and top-p' '
    writes >one && writes >two && diff one two && grep "^ROMEO:" one && [ "$(wc -c <one)" -gt 30 ] &&
    writes --seed 2 >two && test_exit 1 diff one two && writes --temperature 0 >least && test_exit 1 diff one least &&
    writes --temperature 1 --top_k 1 >two && diff least two && writes --top_k 0 --top_p 0.000001 >two && diff least two &&
    writes --temperature 0.00001 --top_k 0 --top_p 0 >two && diff least two'

# wide: ASCII becomes tokens of 16 bits, as nanoGPT has them; llmc: after a header of 256 int32, for 3201 tokens
wide () { tr '\n' '\001' | LC_ALL=C sed 's/./&\x00/g' | tr '\001' '\n'; }
llmc () { printf '\210\330\064\001\001\000\000\000\201\014\000\000' && head -c 1012 /dev/zero && wide; }
test_expect_success 'files of nanoGPT and llm.c are the same tokens as a text; several files, and one to evaluate with' '
    head -c 6401 "$text" >both && wide <both >both.bin && head -c 3201 both | llmc >half_1.llmc &&
    tail -c 3201 both | llmc >half_2.llmc &&
    train 1 uint8 --data both --eval_data both --steps 5 >log && grep " evaluation_loss" log >evaluation &&
    train 1 uint16 --data both.bin --eval_data both.bin --format uint16 --steps 5 >other && near 1e-6 log other &&
    grep " evaluation_loss" other | diff evaluation - &&
    train 1 llmc --data "half_*.llmc" --eval_data half_2.llmc --format llmc --steps 5 >other && near 1e-6 log other &&
    grep " evaluation_loss" other >second && test_exit 1 diff evaluation second'

test_expect_success 'a model as the Hub has GPT-2 gives the logits that it gives in transformers' '
    "$builddir/tests/examples/gpt_logits" --length 8 --format uint16 --model "$tiny" --prompt "$tokens" >logits && agrees logits "$tiny/logits"'
test_expect_success 'and is saved with the names that transformers writes' '
    head -c 1000 "$text" | LC_ALL=C tr "\000-\377" "[\001*]" >small && "$gpt" --data small --length 8 --total_batch_size 4 --steps 0 --sample 0 --project_dir tiny --model "$tiny" --save tiny.model >log &&
    tr , "\n" <tiny.model/model.safetensors | grep -a "transformer.h.1.attn.c_attn.weight" >/dev/null &&
    ! grep -a "[.]attn.bias" tiny.model/model.safetensors && grep "\"model_type\": \"gpt2\"" tiny.model/config.json &&
    "$builddir/tests/examples/gpt_logits" --length 8 --format uint16 --model tiny.model --prompt "$tokens" >resaved && agrees resaved "$tiny/logits"'

# refuses WORDS OPTION...: with one line that has these words
refuses () {
    words=$1
    shift
    test_exit 1 "$gpt" $size $rate --steps 0 --project_dir bad "$@" 2>err && cat err && grep -e "$words" err && [ "$(wc -l <err)" = 1 ]
}
printf 'short' >short
head -c 2500 "$text" >few
# config NAME EXPRESSION: a folder with the model, and config.json changed by this expression of sed
config () {
    mkdir -p "$1" && sed "$2" model1/config.json >"$1/config.json" && cp model1/model.safetensors "$1/"
}
config width 's/"n_embd": 32/"n_embd": 64/'
config layers 's/"n_layer": 2/"n_layer": 3/'
config fewer 's/"n_layer": 2/"n_layer": 1/'
config vocabulary 's/"vocab_size": 256/"vocab_size": 300/'
config context 's/"n_positions": 32/"n_positions": 16/'
config absurd 's/"n_embd": 32/"n_embd": 99999999999999999999/'
config huge 's/"n_embd": 32/"n_embd": 98304/; s/"n_layer": 2/"n_layer": 1000/'
config negative 's/"n_layer": 2/"n_layer": -2/'
config word 's/"n_head": 2/"n_head": "two"/'
config heads 's/"n_head": 2/"n_head": 5/'
config without '/n_layer/d'
config relu 's/gelu_new/relu/'
config untied 's/{/{"tie_word_embeddings": false,/'
config unscaled 's/"scale_attn_weights": true/"scale_attn_weights": false/'
config inverse 's/"scale_attn_by_inverse_layer_idx": false/"scale_attn_by_inverse_layer_idx": true/'
config epsilon 's/"layer_norm_epsilon": [0-9.e-]*/"layer_norm_epsilon": 1e-6/'
config lost 's/x/x/' && rm lost/model.safetensors
config damaged 's/x/x/' && head -c 3000 model1/model.safetensors >damaged/model.safetensors
test_expect_success 'bad input is one sentence' '
    while IFS="|" read -r words options; do
        refuses "$words" $options || return 1
    done <<EOF
short: 0 sequences of 32 tokens are too few|--data short
few: 14 sequences of 32 tokens are too few to evaluate 16|--data few --batch_size 16
few: 78 sequences of 32 tokens are too few for a step of 100|--data few --total_batch_size 100
nothing.bin|--data nothing.bin
few: not an llm.c|--data few --format llmc
--format: expected bytes, uint16, uint32, llmc, got .words.|--format words
--batch_size: expected a whole number from 1 to 2000, got|--batch_size 2001
longer than the model|--length 33
longer than the model|--model context
not a multiple of --length|--tokens_per_step 33
not a multiple|--n_embd 33
tp_size is 2, but does not divide the number of processes, 1|--tp 2
shakespeare.txt: token [0-9]*, but vocab_size is 64|--vocab_size 64 --steps 1
width/model.safetensors: tensor .* has shape .* but the parameter|--model width
layers does not fit the model: 12 parameters are missing|--model layers
fewer does not fit the model: 12 unexpected tensors|--model fewer
vocabulary/model.safetensors: tensor .*wte.weight. has shape .256, 32., but the parameter .* has .300, 32.|--model vocabulary
absurd/config.json: n_embd: expected a whole number from 1 to 100000, got|--model absurd
parameters need [0-9]* GiB, but there are|--model huge
negative/config.json: n_layer: expected|--model negative
word/config.json: n_head: expected|--model word
n_embd: 32 is not a multiple of n_head 5|--model heads
without/config.json: "n_layer" is missing|--model without
relu/config.json: activation_function: expected gelu_new, got .relu.|--model relu
untied/config.json: tie_word_embeddings: expected true, got .false.|--model untied
unscaled/config.json: scale_attn_weights: expected true, got .false.|--model unscaled
inverse/config.json: scale_attn_by_inverse_layer_idx: expected false, got .true.|--model inverse
epsilon/config.json: layer_norm_epsilon: expected .*1e-05.*, got .1e-6.|--model epsilon
nothing/config.json: |--model nothing
lost: .*model.safetensors|--model lost
damaged/model.safetensors|--model damaged
unknown option .--stebs.*did you mean .--steps|--stebs 3
steps: expected|--steps many
--top_p: expected a number from 0 to 1, got .2.|--top_p 2
--steps: missing value|--steps
EOF'
test_expect_success 'so is a prompt that is none' '
    refuses "token 999, but the model has 256" --model model1 --sample 3 --format uint16 --data both.bin --prompt 999 &&
    refuses "expected numbers of tokens, got .x" --model model1 --sample 3 --format uint16 --data both.bin --prompt x'
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
    sed -n "s/.*  loss \([0-9.]*\)  grad_norm.*/\1/p" log | awk "NR == 1 { first = \$1 } { last = \$1 } END { exit !(last < first - 0.5) }"'
test_expect_success 'a text or vocabulary that is none is one sentence' '
    printf "a\377b" | test_exit 1 tokenize 2>err >out && grep "not UTF-8 from byte 1 on" err && [ ! -s out ] &&
    echo 600 | test_exit 1 tokenize --decode 2>err >out && grep "600 is no token" err &&
    echo "{" >bad.json && test_exit 1 "$builddir/examples/gpt/tokenize" bad.json "$bpe/merges.txt" 2>err && grep "bad.json:2: " err &&
    echo "a b c" >bad.txt && test_exit 1 "$builddir/examples/gpt/tokenize" "$bpe/vocab.json" bad.txt 2>err && grep "bad.txt:1: expected two" err'
skip_reason=
if python3 -c 'import transformers, torch' 2>/dev/null; then
    test_expect_success 'transformers reads its models' '
        python3 "$srcdir/tests/examples/gpt_peer.py" model1 "$text" >peer &&
        train 1 peers --steps 50 --model model1 >log && near 1e-4 peer log &&
        python3 "$srcdir/tests/examples/gpt_tiny.py" model1 $tokens >theirs &&
        "$builddir/tests/examples/gpt_logits" --length 8 --format uint16 --model model1 --prompt "$tokens" >ours && agrees ours theirs'
else
    test_skip 'transformers reads its models' 'needs Python packages transformers and torch'
fi
test_done
