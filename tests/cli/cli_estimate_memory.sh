#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate estimate-memory: Accelerate's numbers, from the headers of files on a hub, in its cache or in a folder.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
python3 "$srcdir/tests/http/make_hub.py" "$scratch/hub" "$srcdir/tests/golden/command/estimate.json" || exit 99
unset HF_HOME HF_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HUGGINGFACE_HUB_CACHE \
    HUGGING_FACE_HUB_TOKEN HF_HUB_DISABLE_IMPLICIT_TOKEN
serve hub requests || exit 99
HF_ENDPOINT=$url
export HF_ENDPOINT
rules () {
    printf '%s\n' "$@" >hub/.rules.new && mv hub/.rules.new hub/.rules
    rm -f requests/*
}
# sizes MODEL DTYPE LARGEST TOTAL TRAINING
sizes () {
    "$accelerate" estimate-memory "$1" --json --dtypes "$2" >out && python3 - "$3" "$4" "$5" <<END
import json, sys
row = json.load(open("out"))["loading"][0]
assert [row["largest_layer"], row["total"], row["training_adam"]] == [json.loads(x) for x in sys.argv[1:]], row
END
}
# refused STATUS TEXT ARGUMENT...: one line on standard error
refused () {
    wanted=$1 text=$2
    shift 2
    test_exit "$wanted" "$accelerate" estimate-memory "$@" >out 2>err && test "$(wc -l <err)" = 1 && ! test -s out &&
        grep -F -e "$text" err
}

# ---- Accelerate's own tests ----

test_expect_success 'test_invalid_model_name' 'refused 1 "model '\''somebrokenname'\'' does not exist on the hub" somebrokenname'
test_expect_success 'test_invalid_model_name_timm' 'refused 1 "was to be read with timm, but has no safetensors" muellerzr/dummy --library_name timm'
test_expect_success 'test_invalid_model_name_transformers' '
    refused 1 "was to be read with transformers, but has no config.json" muellerzr/dummy --library_name transformers'
test_expect_success 'test_no_metadata' 'refused 1 "has no library metadata on the hub" muellerzr/dummy'
test_expect_success 'test_gated' '
    rules "/bert-base-cased/resolve/main/model.safetensors status=401 header=X-Error-Code:GatedRepo" &&
    HF_HUB_DISABLE_IMPLICIT_TOKEN=1 && export HF_HUB_DISABLE_IMPLICIT_TOKEN && refused 1 "is gated: accept its conditions" bert-base-cased && rules'
test_expect_success 'test_remote_code' '
    refused 1 "add --trust_remote_code" hf-internal-testing/test_dynamic_model &&
    "$accelerate" estimate-memory hf-internal-testing/test_dynamic_model --trust_remote_code >out && grep float32 out'
test_expect_success 'code of its own is not asked for where transformers has its own' '
    sizes org/code_for_bert float32 90669056 433249280 1732997120 &&
    "$accelerate" estimate-memory org/own_tokenizer >out && grep float32 out'
test_expect_success 'test_explicit_dtypes' '
    sizes bert-base-cased float32 90669056 433249280 1732997120 && sizes bert-base-cased float16 45334528 216624640 866498560 &&
    "$accelerate" estimate-memory bert-base-cased --dtypes float32 float16 >out && test "$(grep -c "│ *float" out)" = 2 &&
    ! grep int out'
test_expect_success 'test_transformers_model' 'sizes bert-base-cased float32 90669056 433249280 1732997120'
test_expect_success 'test_no_split_modules' '
    "$accelerate" estimate-memory HuggingFaceM4/idefics-80b-instruct --json >out && grep "\"largest_layer\": 3240165632" out &&
    grep "\"stored_bytes\": 260094099456" out'
test_expect_success 'test_timm_model' 'sizes timm/resnet50.a1_in1k float32 9437184 102441032 409764128'

# ---- the table ----

cat >table <<'END'
┌────────────────────────────────────────────────────┐
│     Memory Usage for loading `bert-base-cased`     │
├───────┬─────────────┬──────────┬───────────────────┤
│ dtype │Largest Layer│Total Size│Training using Adam│
├───────┼─────────────┼──────────┼───────────────────┤
│float32│   86.47 MB  │413.18 MB │      1.61 GB      │
│float16│   43.23 MB  │206.59 MB │     826.36 MB     │
│  int8 │   21.62 MB  │103.29 MB │        N/A        │
│  int4 │   10.81 MB  │ 51.65 MB │        N/A        │
└───────┴─────────────┴──────────┴───────────────────┘
END
test_expect_success 'the table is Accelerate'\''s' '"$accelerate" estimate-memory bert-base-cased >out && diff table out'
cat >long <<'END'
┌──────────────────────────────────────────────────────────────────┐
│  Memory Usage for loading `HuggingFaceM4/idefics-80b-instruct`   │
├───────┬─────────────┬──────────┬─────────────────────────────────┤
END
test_expect_success 'and so is one with a long title' '
    "$accelerate" estimate-memory HuggingFaceM4/idefics-80b-instruct >out && head -n 3 out | diff long -'
cat >compare.py <<'END'
import json, subprocess, sys
wrong = 0
for model in json.load(open(sys.argv[2])):
    out = subprocess.run([sys.argv[1], "estimate-memory", "golden/" + model["name"], "--json"], stdout=subprocess.PIPE, check=True)
    row = json.loads(out.stdout)["loading"][0]
    if [row["total"], row["largest_layer"]] != [model["total"], model["largest"]]:
        print(model["name"], row, model["total"], model["largest"])
        wrong += 1
sys.exit(wrong > 0)
END
test_expect_success 'Accelerate'\''s numbers for 46 kinds of models' 'python3 compare.py "$accelerate" "$srcdir/tests/golden/command/estimate.json"'

# ---- quantized models ----

cat >same.py <<'END'
import json, subprocess, sys
golden = next(model for model in json.load(open(sys.argv[2])) if model["name"] == "llama")
methods = {"gptq": 4, "gptq3": 3, "awq": 4, "nf4": 4, "nf4_in_bf16": 4, "int8": 8, "fp8": 8, "mxfp4": 4, "int4": 4, "w8a8": 8, "nvfp4": 4, "bitnet": 2}
plain = sum(4 * eval("*".join(map(str, shape))) for name, _, shape in golden["tensors"] if "_proj" not in name and "lm_head" not in name)
values = sum(eval("*".join(map(str, shape))) for name, _, shape in golden["tensors"] if "_proj" in name)
for method, bits in methods.items():
    out = subprocess.run([sys.argv[1], "estimate-memory", "quantized/" + method, "--json", "--context_length", "10"], stdout=subprocess.PIPE, check=True)
    answer = json.loads(out.stdout)
    row, stored = answer["loading"][0], answer["inference"][-1]
    assert [row["total"], row["largest_layer"]] == [golden["total"], golden["largest"]], (method, row, golden["total"], golden["largest"])
    assert answer["quantization"] and stored["dtype"] == "as stored" and stored["weights"] == answer["stored_bytes"], (method, answer)
    assert stored["keys_and_values"] == answer["inference"][1]["keys_and_values"], answer
    # The scales are in it, too.
    assert plain + values * bits / 8 < answer["stored_bytes"] < plain + values * bits / 8 * 1.5 + 20000, (method, answer, plain, values)
END
test_expect_success 'quantized: the numbers of the model that it was made from' 'python3 same.py "$accelerate" "$srcdir/tests/golden/command/estimate.json"'
test_expect_success 'quantized: what is stored is a row of its own' '
    "$accelerate" estimate-memory quantized/gptq --context_length 10 >out && test "$(grep -c "│as stored│" out)" = 2 && grep -F "│as stored│             │" out'
test_expect_success 'quantized: what is not known is not guessed' '
    refused 1 "is quantized with aqlm: its files have" quantized/unknown &&
    grep "and do not say how many parameters the model has: name the model that it was made from" err && refused 1 "is quantized with gptq: its files have" quantized/marlin &&
    refused 1 "is packed, and config.json does not say with how many bits" quantized/no_bits &&
    refused 1 "or with different numbers in different layers" quantized/two_widths &&
    refused 1 "or with different numbers in different layers" quantized/two_groups &&
    refused 1 "is packed in an unknown way" quantized/other_names && refused 1 "are not whole values of 7 bits" quantized/seven &&
    refused 1 "is packed, and there is no quantization_config" quantized/no_config'

# ---- what is fetched ----

test_expect_success 'headers only, and a header that is longer than the first bytes' '
    rules && "$accelerate" estimate-memory org/llama >out && grep -q "5.48 MB" out &&
    grep -h "^Range: bytes=0-99999" requests/* >first && test "$(wc -l <first)" = 2 &&
    grep -h "^Range: bytes=100000-" requests/* >second && test "$(wc -l <second)" = 2'
cat >progress.py <<'END'
import os, pty, re, subprocess, sys
ours, theirs = pty.openpty()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=theirs, check=True)
os.close(theirs)
shown = b""
try:
    while chunk := os.read(ours, 4096):
        shown += chunk
except OSError:
    pass
counts = [(int(done), int(count)) for done, count in re.findall(rb"(\d+) of (\d+) files", shown)]
assert counts[-1] == (4, 4) and all(done <= count for done, count in counts), shown
END
terminal_test 'on a terminal: how many files are done' '
    rules "* delay=250" && python3 progress.py "$accelerate" estimate-memory org/llama && rules'
test_expect_success 'a server without ranges' '
    rules "/bert-base-cased/resolve/main/model.safetensors whole" && "$accelerate" estimate-memory bert-base-cased >out && diff table out && rules'
test_expect_success 'the files are elsewhere: the token stays here' '
    mkdir -p store && cp hub/bert-base-cased/resolve/main/model.safetensors store/ && here=$url && serve store stored &&
    rules "/bert-base-cased/resolve/main/model.safetensors status=302 header=Location:$url/model.safetensors?signature=1" &&
    HF_ENDPOINT=$here HF_TOKEN=SECRET "$accelerate" estimate-memory bert-base-cased >out && diff table out &&
    grep -l "Authorization: Bearer SECRET" requests/* && ! grep SECRET stored/* && rules'
test_expect_success 'a token from its file' '
    mkdir -p home/.cache/huggingface && echo FILETOKEN >home/.cache/huggingface/token && rules &&
    "$accelerate" estimate-memory bert-base-cased >out && grep -h "Bearer FILETOKEN" requests/* && rules &&
    HF_HUB_DISABLE_IMPLICIT_TOKEN=1 "$accelerate" estimate-memory bert-base-cased >out && ! grep FILETOKEN requests/* &&
    rm home/.cache/huggingface/token'
test_expect_success 'a busy hub' '
    rules "* status=503 times=1" && "$accelerate" estimate-memory bert-base-cased >out && diff table out'

# ---- what can be wrong ----

info=/api/models/bert-base-cased
test_expect_success 'gated, with a token that has no access' '
    rules "/bert-base-cased/resolve/main/config.json status=403 header=X-Error-Code:GatedRepo" && HF_TOKEN=x && export HF_TOKEN &&
    refused 1 "is gated, and your token has no access to it" bert-base-cased'
test_expect_success 'messages show no password of HF_ENDPOINT' '
    rules "/bert-base-cased/resolve/main/config.json status=403 header=X-Error-Code:GatedRepo" &&
    HF_ENDPOINT=http://somebody:SECRET@${HF_ENDPOINT#http://} && refused 1 "is gated: accept its conditions at http://127.0.0.1" bert-base-cased &&
    ! grep SECRET err && rules'
test_expect_success 'a token that is not accepted; a model that is unknown or private; access refused; too many requests' '
    rules "$info status=401" && (HF_TOKEN=x && export HF_TOKEN && refused 1 "does not accept your token" bert-base-cased) &&
    rules "$info status=401 header=X-Error-Code:RepoNotFound" && refused 1 "does not exist on the hub; if it is private" bert-base-cased &&
    rules "$info status=403" && refused 1 "the hub refuses access" bert-base-cased &&
    rules "$info status=429 header=Retry-After:1000" && refused 1 "too many requests" bert-base-cased &&
    rules "$info status=418" && refused 1 "answered with status 418" bert-base-cased && rules'
test_expect_success 'the hub talks nonsense' '
    printf "<html>" >hub/nonsense && rules "$info file=nonsense" && refused 1 "the answer is not valid JSON" bert-base-cased &&
    printf "[]" >hub/nonsense && refused 1 "not a JSON object" bert-base-cased &&
    rules "/bert-base-cased/resolve/main/config.json file=nonsense" && refused 1 "config.json" bert-base-cased && rules'
test_expect_success 'files of wrong sizes' '
    weights=hub/bert-base-cased/resolve/main/model.safetensors && mv $weights whole &&
    : >$weights && refused 1 "is not a safetensors file, or is truncated" bert-base-cased &&
    head -c 5 whole >$weights && refused 1 "is not a safetensors file, or is truncated" bert-base-cased &&
    head -c 3000 whole >$weights && refused 1 "is not a safetensors file, or is truncated" bert-base-cased &&
    head -c 400000 whole >$weights && refused 1 "the file has 400000 bytes, but its header describes 4" bert-base-cased &&
    printf "\377\377\377\377\377\377\377\377{}" >$weights && refused 1 "is not a safetensors file" bert-base-cased &&
    mv whole $weights'
test_expect_success 'an index that is wrong' '
    index=hub/org/llama/resolve/main/model.safetensors.index.json && cp $index kept &&
    sed "s/model.norm.weight/model.norm.other/" kept >$index && refused 1 "model.norm.other" org/llama &&
    sed "s|model-00002-of-00002.safetensors|../../../x|" kept >$index && refused 1 "model.safetensors.index.json" org/llama &&
    sed "s|model-00002-of-00002.safetensors|missing.safetensors|" kept >$index && refused 1 "has no file missing.safetensors" org/llama &&
    mv kept $index'
test_expect_success 'several safetensors files without an index' '
    refused 1 "has 2 safetensors files (first.safetensors ...) and no index" org/two'
test_expect_success 'no safetensors' 'refused 1 "has no safetensors files, only pytorch_model.bin" org/pickled'
test_expect_success 'pickled files: what their index says' '
    sizes pickled/shards float32 null 26953678848 107814715392 && "$accelerate" estimate-memory pickled/shards >out 2>err && grep "│float16│     N/A     │ 12.55 GB │" out &&
    grep "note: the files are pickled" err && sizes pickled/new_key float32 null 2000 8000 && sizes hub/pickled/shards/resolve/main float16 null 13476839424 53907357696 &&
    sizes hub/pickled/shards/resolve/main/pytorch_model.bin.index.json float16 null 13476839424 53907357696'
test_expect_success 'pickled files: what their index does not say' '
    refused 1 "the pickled files have 1000 bytes, but config.json does not say of which type" pickled/untyped &&
    refused 1 "has no metadata.total_size" pickled/no_total && refused 1 "has no metadata.total_size" hub/pickled/no_total/resolve/main &&
    refused 1 "is quantized with gptq: its files have 1000 bytes of tensors" pickled/packed'
test_expect_success 'invalid names' '
    for name in a/b/c ../nowhere_at_all "a b" a//b /a a/ a..b; do
        refused 1 "neither a file or folder nor the name of a model" "$name" || return 1
    done'
test_expect_success 'no server' '
    HF_ENDPOINT=http://127.0.0.1:$(free_port) && refused 1 "cannot reach the hub, and model '\''bert-base-cased'\'' is not in the cache" bert-base-cased'
test_expect_success 'the command line' '
    refused 2 "no model given" && refused 2 "unexpected argument '\''b'\''" a b && refused 2 "invalid value for --dtypes: '\''float8'\''" a --dtypes float8 &&
    refused 2 "no model given" --dtypes float16 && refused 2 "library_name" a --library_name keras'

# ---- cache, folders and files ----

revision=0123456789abcdef0123456789abcdef01234567
cached=home/.cache/huggingface/hub/models--golden--llama
test_expect_success 'offline, from the cache, which consists of links' '
    mkdir -p $cached/refs $cached/snapshots/$revision $cached/blobs && printf $revision >$cached/refs/main &&
    cp hub/golden/llama/resolve/main/model.safetensors $cached/blobs/1 && cp hub/golden/llama/resolve/main/config.json $cached/blobs/2 &&
    ln -s ../../blobs/1 $cached/snapshots/$revision/model.safetensors && ln -s ../../blobs/2 $cached/snapshots/$revision/config.json &&
    rules && "$accelerate" estimate-memory golden/llama >wanted && rules &&
    HF_HUB_OFFLINE=1 "$accelerate" estimate-memory golden/llama >out && diff wanted out && test -z "$(ls requests)" &&
    HF_ENDPOINT=http://127.0.0.1:$(free_port) "$accelerate" estimate-memory golden/llama >out && diff wanted out'
test_expect_success 'no server, and a cache without weights' '
    mkdir -p home/.cache/huggingface/hub/models--a--b/refs home/.cache/huggingface/hub/models--a--b/snapshots/$revision && printf $revision >home/.cache/huggingface/hub/models--a--b/refs/main &&
    HF_ENDPOINT=http://127.0.0.1:$(free_port) && refused 1 "cannot reach the hub, and cannot use the cache: " a/b && grep "has no safetensors or GGUF file" err'
test_expect_success 'offline, and not in the cache' '
    HF_HUB_OFFLINE=yes && export HF_HUB_OFFLINE && refused 1 "HF_HUB_OFFLINE is set, and model '\''bert-base-cased'\'' is not in the cache" bert-base-cased'
test_expect_success 'another cache' '
    mv home/.cache/huggingface/hub elsewhere && HF_HUB_OFFLINE=1 HF_HUB_CACHE=elsewhere "$accelerate" estimate-memory golden/llama >out && diff wanted out &&
    HF_HUB_OFFLINE=1 && export HF_HUB_OFFLINE && refused 1 "is not in the cache" golden/llama'
test_expect_success 'a folder, its index and a file' '
    HF_HUB_OFFLINE=1 && export HF_HUB_OFFLINE && "$accelerate" estimate-memory hub/org/llama/resolve/main --json >out && grep "\"source\": \"folder\"" out &&
    total=$(grep -m 1 "\"total\"" out) && "$accelerate" estimate-memory hub/org/llama/resolve/main/model.safetensors.index.json --json >out &&
    grep "$total" out && "$accelerate" estimate-memory hub/timm/resnet50.a1_in1k/resolve/main/model.safetensors --json >out &&
    grep "\"total\": 102441032" out && grep "\"library\": \"timm\"" out'
test_expect_success 'a folder comes before a model of the hub' '
    unset HF_HUB_OFFLINE && cp -r hub/timm/resnet50.a1_in1k/resolve/main bert-base-cased && sizes bert-base-cased float32 9437184 102441032 409764128 &&
    rm -r bert-base-cased && sizes bert-base-cased float32 90669056 433249280 1732997120'
test_expect_success '~ is the home folder, also in variables' '
    cp -r hub/timm/resnet50.a1_in1k/resolve/main home/resnet && "$accelerate" estimate-memory "~/resnet" >out && grep "loading .~/resnet. " out &&
    refused 1 "neither a file or folder nor the name" "~/nothing" && mv elsewhere home/elsewhere && HF_HUB_OFFLINE=1 && export HF_HUB_OFFLINE &&
    HF_HUB_CACHE="~/elsewhere" "$accelerate" estimate-memory golden/llama >out && diff wanted out &&
    mkdir home/elsewhere2 && mv home/elsewhere home/elsewhere2/hub && HF_HOME="~/elsewhere2" "$accelerate" estimate-memory golden/llama >out &&
    diff wanted out && mkdir home/elsewhere3 && mv home/elsewhere2 home/elsewhere3/huggingface && XDG_CACHE_HOME="~/elsewhere3" "$accelerate" estimate-memory golden/llama >out &&
    diff wanted out && HF_HOME="\$HOME/elsewhere3/huggingface" "$accelerate" estimate-memory golden/llama >out && diff wanted out &&
    HF_HUB_CACHE="\${HOME}/elsewhere3/huggingface/hub" "$accelerate" estimate-memory golden/llama >out && diff wanted out &&
    HF_HUB_CACHE="\$HOME_/\${un/\$" && export HF_HUB_CACHE && refused 1 "is not in the cache (\$HOME_/\${un/\$)" golden/llama && unset HF_HUB_CACHE &&
    unset HF_HUB_OFFLINE && rules && echo TILDE >home/token && HF_TOKEN_PATH="~/token" "$accelerate" estimate-memory bert-base-cased >out && grep -h "Bearer TILDE" requests/*'
odd=$(printf "o'd\\d \033[31m\377 \"x\" %%s ü")
test_expect_success 'odd names of folders' '
    mv home/resnet "$odd" && "$accelerate" estimate-memory "$odd" >out && ! grep -q "$(printf "\033")" out && grep -F "\x1b[31m\xff" out &&
    "$accelerate" estimate-memory "$odd" --json >out && python3 -c "
import json
assert json.load(open(\"out\"))[\"model\"] == \"o\x27d\x5cd \x5cx1b[31m\x5cxff \x22x\x22 %s ü\", json.load(open(\"out\"))"'
test_expect_success 'folders without weights' '
    mkdir empty pickles && : >pickles/pytorch_model.bin && refused 1 "empty: has no safetensors or GGUF file" empty &&
    refused 1 "pickles: has only pickled weights (pytorch_model.bin)" pickles &&
    mkdir two && : >two/a.gguf && : >two/b.gguf && refused 1 "two: has more than one model, such as a.gguf; name the file" two'

# ---- GGUF, inference, training ----

test_expect_success 'GGUF: on the hub, with a long vocabulary, and in parts' '
    "$accelerate" estimate-memory org/quantized/model-q4.gguf --json >out && grep "\"parameters\": 518144" out &&
    grep "\"stored_bytes\": 659456" out && "$accelerate" estimate-memory org/quantized/big-00001-of-00002.gguf --json >parts &&
    grep "\"parameters\": 518144" parts && refused 1 "has 2 GGUF files: name one, such as" org/quantized'
test_expect_success 'GGUF: local, and truncated' '
    folder=hub/org/quantized/resolve/main && "$accelerate" estimate-memory $folder/model-q4.gguf >out && grep "│as stored│ *│ 644.0 KB │" out &&
    head -c 2000 $folder/model-q4.gguf >cut.gguf && refused 1 "cut.gguf: byte" cut.gguf &&
    printf GGUF >cut.gguf && refused 1 "the header is cut off" cut.gguf && printf "GGUF\1\0\0\0" >cut.gguf && refused 1 "GGUF version 1" cut.gguf'
test_expect_success 'GGUF: tensors of a header that is read in two steps count once' '
    "$accelerate" estimate-memory hub/many --json >out && grep "\"parameters\": 286000" out'
test_expect_success 'GGUF: files that are not as they say' '
    folder=hub/org/quantized/resolve/main && size=$(stat -c %s $folder/model-q4.gguf) && head -c $((size - 1)) $folder/model-q4.gguf >cut.gguf &&
    refused 1 "cut.gguf: the file has $((size - 1)) bytes, but its header describes $size" cut.gguf &&
    cp cut.gguf $folder/cut.gguf && refused 1 "cut.gguf: the file has $((size - 1)) bytes, but its header describes $size" org/quantized/cut.gguf && rm $folder/cut.gguf &&
    mkdir pieces && for i in 1 2; do cp $folder/big-0000$i-of-00002.gguf pieces/ || return 1; done && "$accelerate" estimate-memory pieces >out &&
    cp pieces/big-00001-of-00002.gguf one.gguf && refused 1 "one.gguf: is part 1 of 2 of a model: the parts must be called NAME-00001-of-00002.gguf" one.gguf &&
    for i in 1 2 3; do cp pieces/big-00001-of-00002.gguf three-0000$i-of-00003.gguf || return 1; done &&
    refused 1 "three-00001-of-00003.gguf: is called part 1 of 3, but its metadata say part 1 of 2" three-00002-of-00003.gguf &&
    cp $folder/model-q4.gguf none-00001-of-00003.gguf &&
    refused 1 "is called part 1 of 3, but its metadata do not say that it is a part of a model" none-00001-of-00003.gguf &&
    mv pieces/big-00002-of-00002.gguf kept.gguf && refused 1 "big-00002-of-00002.gguf" pieces/big-00001-of-00002.gguf &&
    cp pieces/big-00001-of-00002.gguf pieces/big-00002-of-00002.gguf &&
    refused 1 "big-00002-of-00002.gguf: is called part 2 of 2, but its metadata say part 1 of 2" pieces &&
    python3 -c "
data = open(\"kept.gguf\", \"rb\").read()
for name in (\"big-00001-of-00002\", \"big-00002-of-00002\"):
    part = open(\"$folder/\" + name + \".gguf\", \"rb\").read()
    key = b\"split.tensors.count\\4\\0\\0\\0\"
    open(\"pieces/\" + name + \".gguf\", \"wb\").write(part.replace(key + b\"\\3\", key + b\"\\4\"))" &&
    refused 1 "the parts have 3 tensors together, but the metadata say 4" pieces'
test_expect_success 'GGUF: tensors that cannot be where they are said to be, of unknown types, and too large' '
    refused 1 "begins at byte 585696 of the data; expected 585728" hub/wrong/overlap.gguf && refused 1 "begins at byte 9223372036854312960 of the data" hub/wrong/far.gguf &&
    for value in 0 48 1073741824; do refused 1 "general.alignment is $value" hub/wrong/aligned_$value.gguf || return 1; done &&
    size=$(stat -c %s hub/wrong/coarse.gguf) && refused 1 "but its header describes" hub/wrong/coarse.gguf && truncate -s +4096 hub/wrong/coarse.gguf &&
    "$accelerate" estimate-memory hub/wrong/coarse.gguf >out && refused 1 "rows of 128 elements are not whole blocks of 256" hub/wrong/blocks.gguf &&
    refused 1 "tensor '\''new'\'': unknown type 99" hub/wrong/type.gguf && refused 1 "tensor '\''old'\'': unknown type 5" hub/wrong/old_type.gguf &&
    refused 1 "tensor '\''huge'\'': too large" hub/wrong/huge.gguf && refused 1 "too large" hub/wrong/sum.gguf'
# keys_of MODEL LENGTH BATCH BYTES: of float16
keys_of () {
    "$accelerate" estimate-memory "$1" --context_length "$2" --batch_size "$3" --dtypes float16 --json >out &&
        grep "\"keys_and_values\": $4," out
}
test_expect_success 'keys and values: 2 layers of 2 heads of 64, of 2 bytes each' '
    keys_of org/llama 1000 1 1024000 && keys_of org/llama 1000 3 3072000 && keys_of org/quantized/model-q4.gguf 1000 1 1024000'
test_expect_success 'keys and values: one pair for all heads, but not in the new Falcon' '
    keys_of org/one_pair 1000 1 512000 && keys_of org/new_falcon 1000 1 1024000'
# Eight layers of 2 x 128 16-bit elements, 10000 tokens: a layer without a window has 5120000 bytes.
windows_are () {
    while [ $# -gt 0 ]; do
        keys_of "hub/windows/$1.gguf" 10000 1 "$2" || return 1
        shift 2
    done
}
test_expect_success 'keys and values: windows of GGUF files, by architecture, by a number, by a list' '
    windows_are \
        gemma3_100 5478400 \
        gemma3_100_4 10547200 \
        gemma3_100_0 409600 \
        gemma3_0 40960000 \
        gemma3 40960000 \
        gemma2 28868608 \
        phi3_100 40960000 \
        phi3_100_3 10547200 \
        llama4 35405824 \
        llama4_0 40960000 \
        gpt-oss_100 20684800 \
        gemma3_100_10101010 20684800 \
        gemma3_100_00000000 40960000 \
        gemma3_100_111111111 409600 \
        gemma3_100_20202020 5478400'
test_expect_success 'keys and values: one of two layers keeps a window of 100' '
    keys_of org/windows 1000 1 563200 && keys_of org/windows 50 1 51200'
test_expect_success 'keys and values: windows of all layers, of none, of later ones, of all but each second; chunks' '
    keys_of org/all_windows 1000 1 102400 && keys_of org/unused_windows 1000 1 1024000 && keys_of org/later_windows 1000 1 563200 &&
    keys_of org/gemma2 1000 1 563200 && keys_of org/pattern 1000 1 563200 && keys_of org/letters 1000 1 563200 && keys_of org/null_window 1000 1 1024000 &&
    keys_of org/chunks 1000 1 563200 && keys_of org/chunks 60 1 61440'
test_expect_success 'keys and values: layers without any, heads of another size, a pair for each head, one latent vector of 80' '
    keys_of org/linear 1000 1 512000 && keys_of org/small_heads 1000 1 512000 && keys_of org/every_head 1000 1 2048000 && keys_of org/latent 1000 1 320000'
test_expect_success 'keys and values: of the language model of one with pictures' '
    keys_of org/pictures 1000 1 563200 && keys_of org/one_pair_of_pictures 1000 1 512000'
test_expect_success 'a model without layers has no context' '
    refused 1 "does not say how many layers" timm/resnet50.a1_in1k --context_length 5'
cat >training.py <<'END'
import json, sys
rows = json.load(open("out"))["training"]
sizes = {(row["optimizer"], row["mixed_precision"]): [row[key] for key in ("weights", "gradients", "optimizer_states", "each_process")] for row in rows}
assert len(rows) == 24
assert sizes[sys.argv[1], sys.argv[2]] == [int(x) for x in sys.argv[3:]], sizes
END
# the parameters of org/llama without its head
n=$((256 * 1000 + 2 * (256 * 256 * 2 + 128 * 256 * 2 + 3 * 512 * 256 + 512) + 256))
test_expect_success 'an unknown type of model; timm models with a type' '
    sizes org/nobody_knows float32 $((4 * (256 * 256 * 2 + 128 * 256 * 2 + 3 * 512 * 256 + 512))) $((4 * n)) $((16 * n)) &&
    "$accelerate" estimate-memory org/nobody_knows --library_name timm --json >out && grep "\"total\": $((4 * n))," out'
# needs_of STAGE WEIGHTS GRADIENTS STATES: of one of 8 processes
needs_of () {
    "$accelerate" estimate-memory org/llama --num_processes 8 --zero_stage "$1" --json >out &&
        python3 training.py adam no "$2" "$3" "$4" $(($2 + $3 + $4))
}
test_expect_success 'training: optimizers, precisions, ZeRO' '
    "$accelerate" estimate-memory org/llama --training --json >out &&
    python3 training.py adamw no $((4 * n)) $((4 * n)) $((8 * n)) $((16 * n)) &&
    python3 training.py adamw bf16 $((2 * n)) $((2 * n)) $((12 * n)) $((16 * n)) &&
    python3 training.py sgd no $((4 * n)) $((4 * n)) 0 $((8 * n)) && python3 training.py lion fp16 $((2 * n)) $((2 * n)) $((8 * n)) $((12 * n)) &&
    needs_of 1 $((4 * n)) $((4 * n)) $n && needs_of 2 $((4 * n)) $((n / 2)) $n && needs_of 3 $((n / 2)) $((n / 2)) $n'
cat >zero.py <<'END'
import json, subprocess, sys
n, states = int(sys.argv[2]), {"adamw": 8, "adam": 8, "adamw-amsgrad": 12, "lion": 4, "sgd-momentum": 4, "sgd": 0}
sizes = {"no": (4, 4, 0), "fp16": (2, 2, 4), "bf16": (2, 2, 4), "fp8": (1, 2, 4)}  # of a weight, its gradient, its master
for stage in range(4):
    for processes in (1, 7):
        out = subprocess.run([sys.argv[1], "estimate-memory", "org/llama", "--json", "--zero_stage", str(stage), "--num_processes", str(processes)],
                             stdout=subprocess.PIPE, check=True)
        rows = json.loads(out.stdout)["training"]
        assert {(row["optimizer"], row["mixed_precision"]) for row in rows} == {(o, p) for o in states for p in sizes}
        for row in rows:
            weight, gradient, master = sizes[row["mixed_precision"]]
            wanted = [n * weight, n * gradient, n * (states[row["optimizer"]] + master)]
            # Stage 1 divides the last, stage 2 the last two, stage 3 all three; the largest share counts.
            wanted = [-(-x // processes) if stage >= 3 - i else x for i, x in enumerate(wanted)]
            got = [row[key] for key in ("weights", "gradients", "optimizer_states")]
            assert got == wanted and row["each_process"] == sum(wanted) and row["zero_stage"] == stage, (row, wanted)
END
test_expect_success 'training: every optimizer, precision and stage by its formula' 'python3 zero.py "$accelerate" $n'
test_expect_success 'training: the table has a row for fp8' '
    "$accelerate" estimate-memory org/llama --training >out && test "$(grep -c "│ *fp8 *│" out)" = 6'
# ---- config.json alone ----

# config_of NAME: one of the models of the golden file, with all sizes
cat >config_of.py <<'END'
import json, os, sys
golden = next(model for model in json.load(open(sys.argv[1])) if model["name"] == sys.argv[2])
os.makedirs(sys.argv[3], exist_ok=True)
json.dump({"vocab_size": 1000, "intermediate_size": 96, **golden["config"], **json.loads(sys.argv[4])}, open(sys.argv[3] + "/config.json", "w"))
print(golden["total"], golden["largest"])
END
config_of () { python3 config_of.py "$srcdir/tests/golden/command/estimate.json" "$1" bare "${2-{\}}" >sizes; }
test_expect_success 'config.json alone: the sizes that the model has with weights' '
    for name in gpt2 llama mistral qwen2 qwen3; do
        config_of $name && read -r total largest <sizes && sizes ./bare float32 "$largest" "$total" $((4 * total)) || return 1
    done && grep "\"stored_bytes\": 0" out && grep "\"source\": \"folder\"" out'
# 2 layers with 64 + 32 + 32 + 64 elements in biases of attention, and 96 + 96 + 64 in others
test_expect_success 'config.json alone: biases, an inner width, what was quantized' '
    config_of llama "{\"attention_bias\": true, \"mlp_bias\": true}" && read -r total largest <sizes &&
    sizes ./bare float32 "$largest" $((total + 4 * 2 * 448)) $((4 * (total + 4 * 2 * 448))) &&
    config_of gpt2 "{\"n_inner\": 250}" && read -r total largest <sizes &&
    sizes ./bare float32 "$largest" $((total - 4 * 2 * 6 * 129)) $((4 * (total - 4 * 2 * 6 * 129))) &&
    config_of llama "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}" && read -r total largest <sizes &&
    sizes ./bare float32 "$largest" "$total" $((4 * total)) && grep "\"quantization\": null" out'
test_expect_success 'config.json alone: what is not known is not guessed' '
    config_of bert && refused 1 "bare: has no safetensors or GGUF file" bare &&
    config_of gpt2 "{\"n_layer\": null}" && refused 1 "bare: config.json: '\''n_layer'\'' is required, because there are no weights" ./bare &&
    config_of gpt2 "{\"n_layer\": 1025}" && refused 1 "n_layer is 1025, but must be at most 1024" ./bare &&
    config_of llama "{\"hidden_size\": 2147483647, \"head_dim\": 2147483647, \"num_attention_heads\": 2147483647, \"num_key_value_heads\": 2147483647}" &&
    refused 1 "too large: size overflows" ./bare'

# ---- sharding ----

cat >table <<'END'
┌────────────────────────────────────────────────────────────────────────────┐
│     Native training using AdamW, mixed precision no, shared parameters     │
├─────────┬──────────┬────────────────────────────┬────────────┬─────────────┤
│Processes│ZeRO Stage│ Weights, Gradients, States │Each Process│All Processes│
├─────────┼──────────┼────────────────────────────┼────────────┼─────────────┤
│    1    │    0     │7.13 MB + 7.13 MB + 14.26 MB│  28.52 MB  │   28.52 MB  │
└─────────┴──────────┴────────────────────────────┴────────────┴─────────────┘
END
test_expect_success 'sharding: the table has each stage for 1, 2, 4 ... processes and the number given; no other training' '
    config_of gpt2 "{\"n_embd\": 256}" && "$accelerate" estimate-memory ./bare --sharding --share_parameters --num_processes 6 >out &&
    sed -n "/Native training/,\$p" out >rows && grep -c "^│ *[0-9]" rows >count && test "$(cat count)" = 13 &&
    for n in 2 4 6; do test "$(grep -c "^│ *$n *│" rows)" = 4 || return 1; done && ! grep "Optimizer" out &&
    "$accelerate" estimate-memory ./bare --sharding --share_parameters --num_processes 1 >out && tail -n 7 out | diff table - &&
    "$accelerate" estimate-memory ./bare --sharding --float32_gradients --mixed_precision bf16 --num_processes 1 >out &&
    grep "Native training using AdamW, mixed precision bf16, float32 gradients " out'
cat >shares.py <<'END'
# shares.py COMMAND MODEL GOLDEN: the rows of a model by the rules of accel_sharding(3), tensor by tensor
import json, math, subprocess, sys
tensors = next(model for model in json.load(open(sys.argv[3])) if model["name"] == "gpt2")["tensors"]
sizes = [math.prod(shape) for _, _, shape in tensors]
for precision, weight, gradient, state in ("no", 4, 4, 8), ("bf16", 2, 2, 12), ("fp16", 2, 2, 12), ("bf16", 2, 4, 12):
    for shares in False, True:
        out = subprocess.run([sys.argv[1], "estimate-memory", sys.argv[2], "--json", "--sharding", "--num_processes", "7", "--mixed_precision", precision] +
                             ["--share_parameters"] * shares + ["--float32_gradients"] * (gradient == 4), stdout=subprocess.PIPE, check=True)
        rows = json.loads(out.stdout)["sharding"]
        assert [(row["processes"], row["zero_stage"]) for row in rows] == [(1, 0)] + [(n, stage) for n in (2, 4, 7) for stage in range(4)], rows
        for row in rows:
            n, stage = row["processes"], row["zero_stage"]
            chunks = [size // n // 16 * 16 for size in sizes]
            chunks = [chunk if n > 1 and chunk >= 1024 else 0 for chunk in chunks]
            whole, own = sum(sizes), sum(sizes) - (n - 1) * sum(chunks)
            shared = shares and stage > 0
            weights = weight * (own if stage == 3 and not shared else whole) // (n if shared else 1)
            wanted = [weights, gradient * (own if stage > 1 else whole), state * (own if stage else whole)]
            everything = (weight * whole + n * wanted[1] + state * whole) if shared else n * sum(wanted)
            got = [row[key] for key in ("weights", "gradients", "optimizer_states", "each_process", "all_processes")]
            assert got == wanted + [sum(wanted), everything] and row["share_parameters"] == shared and row["mixed_precision"] == precision, (row, wanted, everything)
END
test_expect_success 'sharding: chunks and what is left over, tensor by tensor' '
    python3 shares.py "$accelerate" golden/gpt2 "$srcdir/tests/golden/command/estimate.json"'
cat >formulae.py <<'END'
# formulae.py COMMAND MODEL: bytes per parameter, as in the paper on ZeRO
import json, subprocess, sys
formulae = {"no": [lambda n: 16, lambda n: 8 + 8 / n, lambda n: 4 + 12 / n, lambda n: 16 / n],
            "bf16": [lambda n: 16, lambda n: 4 + 12 / n, lambda n: 2 + 14 / n, lambda n: 16 / n]}
for precision in formulae:
    for shares in False, True:
        out = subprocess.run([sys.argv[1], "estimate-memory", sys.argv[2], "--json", "--sharding", "--num_processes", "8", "--mixed_precision", precision] +
                             ["--share_parameters"] * shares, stdout=subprocess.PIPE, check=True)
        answer = json.loads(out.stdout)
        for row in answer["sharding"]:
            n, stage, weight = row["processes"], row["zero_stage"], 4 if precision == "no" else 2
            wanted = formulae[precision][stage](n)
            if row["share_parameters"] and stage < 3: # a copy for all
                wanted += weight / n - weight
            for key, bytes in ("each_process", wanted), ("all_processes", n * wanted):
                got = row[key] / answer["parameters"]
                assert abs(got / bytes - 1) < 0.005, (key, got, bytes, row)
END
test_expect_success 'sharding: bytes per parameter are those of the formulae' '
    config_of gpt2 "{\"n_embd\": 4096, \"n_layer\": 32, \"vocab_size\": 50257}" && python3 formulae.py "$accelerate" ./bare'
test_expect_success 'sharding: options that need another one, or cannot be' '
    refused 2 "--sharding needs --num_processes" ./bare --sharding &&
    refused 2 "--share_parameters needs --sharding" ./bare --share_parameters &&
    refused 2 "--float32_gradients needs --sharding" ./bare --float32_gradients &&
    refused 2 "8-bit parameters cannot be divided" ./bare --sharding --num_processes 2 --mixed_precision fp8'

# What a run really has: the sum of Pss of its processes, in which a page that several have counts once.
cat >rank.sh <<'END'
echo $$ >"pid.$RANK"
exec "$@"
END
cat >compare_run.py <<'END'
# compare_run.py STAGE PROCESSES: kB on standard input, one sample a line.  Beside the table are 15 MB for each process,
# which the page names, and in stage 3 the others' weights: examples/gpt does not say which layer it computes.
import json, sys
rows = {(row["zero_stage"], row["processes"]): row for row in json.load(open("out"))["sharding"]}
stage, processes = int(sys.argv[1]), int(sys.argv[2])
row = rows[stage, processes]
wanted = row["all_processes"] + processes * 15e6
if stage == 3 and not row["share_parameters"]:
    wanted += processes * (rows[2, processes]["weights"] - row["weights"])
used = max(int(line) for line in sys.stdin) * 1024
print(f"stage {sys.argv[1]}: expected {wanted:.0f}, used {used}: {100 * used / wanted - 100:+.1f} %")
sys.exit(abs(used / wanted - 1) > 0.05)
END
# sample: the sum, five times, while the ranks in pid.* evaluate: no bucket of gradients is whole then
sample () {
    for _ in 1 2 3 4 5; do
        for file in pid.*; do
            read -r pid <"$file" && cat "/proc/$pid/smaps_rollup" || return 1
        done | awk '$1 == "Pss:" { sum += $2 } END { print sum }' && sleep 0.3
    done >samples
}
# has_stepped: or it has ended
has_stepped () { grep -q "^step *2 of" log || ! kill -0 "$job"; }
# runs_as_estimated STAGE PROCESSES PRECISION [own]: examples/gpt, which shares parameters if it is asked for the stage itself
runs_as_estimated () {
    shard=$1 shares=--share_parameters how=--cpu
    [ "$1" != 0 ] || shares=
    [ -z "${4-}" ] || shard=0 shares='' how="--use_deepspeed --zero_stage $1"
    rm -rf pid.* project samples log
    config_of gpt2 "{\"n_embd\": 1024, \"n_layer\": 8, \"vocab_size\": 256}" || return 1
    # shellcheck disable=SC2086 # words
    "$accelerate" launch $how --num_processes "$2" --num_cpu_threads_per_process 1 --mixed_precision "$3" \
        sh ./rank.sh "$builddir/examples/gpt/gpt" --data "$srcdir/examples/data/shakespeare.txt" \
        --n_embd 1024 --n_layer 8 --n_positions 128 --length 8 --total_batch_size "$2" --batch_size 1 \
        --steps 100000 --save_every 100000 --evaluate_every 2 --evaluation_batches 100000 --project_dir project --shard $shard >log 2>&1 &
    job=$!
    { wait_for has_stepped && sample; } || :
    cat pid.* | xargs kill -KILL || :
    wait $job || :
    cat log
    stage=$1 processes=$2
    set -- ./bare --json --sharding --num_processes "$2" --mixed_precision "$3" --float32_gradients # as examples/gpt has
    "$accelerate" estimate-memory "$@" $shares >out && python3 compare_run.py "$stage" "$processes" <samples
}
# why_not GB: why a run of that size cannot be compared, if so
why_not () {
    if is_sanitized || [ ! -r /proc/self/smaps_rollup ]; then
        echo 'needs no sanitizer and smaps_rollup'
    elif [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)" -lt $(($1 * 1000000)) ]; then
        echo "needs $1 GB"
    fi
}
# A model of 101 million parameters.  A row: stage, processes, precision, GB, the form of the test, whose parameters.
while read -r number processes precision gb form whose; do
    is_long || [ "$form" = short ] || continue
    skip_reason=$(why_not "$gb")
    test_expect_success "sharding: examples/gpt, stage $number, $processes processes, $precision${whose:+, $whose parameters}: what is estimated, within 5 %" '
        runs_as_estimated $number $processes $precision $whose'
done <<'END'
0 1 no 3 long
0 2 no 5 long
1 2 no 4 long
2 2 no 4 long
3 2 no 4 long
0 4 no 9 long
1 4 no 5 long
2 4 no 4 long
3 4 no 4 long
0 1 bf16 3 short
0 2 bf16 5 long
1 2 bf16 4 long
2 2 bf16 4 long
3 2 bf16 4 short
0 4 bf16 9 long
1 4 bf16 5 long
2 4 bf16 4 long
3 4 bf16 4 long
1 2 no 5 long own
2 2 no 4 long own
3 2 no 4 long own
1 4 no 7 long own
2 4 no 6 long own
1 2 bf16 5 long own
2 2 bf16 4 long own
3 2 bf16 4 long own
1 4 bf16 7 long own
2 4 bf16 6 long own
END
skip_reason=
test_expect_success 'no secrets, nothing written' 'test ! -e home/.cache/huggingface/hub && ! grep -r SECRET out err'
test_done
