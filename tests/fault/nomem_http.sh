#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A single allocation that fails while the command speaks with a hub: it does its work all the same, or fails with a
# message.  That it was the memory is not always known: libcurl says that the host is unknown, jansson that JSON is invalid.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

module=$builddir/tests/fault/.libs/nomem.so
if [ ! -f "$module" ] || ! command -v python3 >/dev/null || grep -q '^SAN_CFLAGS = .*[a-z]' "$builddir/Makefile"; then
    skip_rest 'needs shared libraries and python3, and no sanitizer, which has an allocator of its own'
fi
python3 "$srcdir/tests/http/make_hub.py" "$scratch/hub" "$srcdir/tests/golden/command/estimate.json" || exit 99
unset HF_HOME HF_TOKEN HF_TOKEN_PATH HF_HUB_CACHE HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HUGGINGFACE_HUB_CACHE
serve hub || exit 99
HF_ENDPOINT=$url
export HF_ENDPOINT
step=331
is_long && step=17
# without MODEL: each so many allocations; libraries may write lines of their own before the table
without () {
    "$accelerate" estimate-memory "$1" >reference && lines=$(wc -l <reference) && at=50 told=0 || return 1
    while [ $at -lt 6000 ]; do
        status=0
        timeout "$patience" env LD_PRELOAD="$module" NOMEM_AT=$at "$accelerate" estimate-memory "$1" >output 2>&1 || status=$?
        case $status in
        0) tail -n "$lines" output | cmp - reference || return 1 ;;
        1) grep "^accelerate: " output || return 1
           told=$((told + 1)) ;;
        127) grep "cannot allocate memory" output || return 1 ;; # by the loader, which then ends the process
        *) return 1 ;;
        esac
        at=$((at + step))
    done
    test $told -gt 0
}
test_expect_success 'estimate-memory of a model in shards' 'without org/llama'
test_expect_success 'estimate-memory of a GGUF file' 'without org/quantized/model-q4.gguf'
test_done
