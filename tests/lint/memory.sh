#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# comm, collectives and train touch the elements of tensors only through struct memory; memory.py says what counts.
. "${srcdir:-.}/tests/testlib.sh"

if ! command -v python3 >/dev/null; then
    skip_rest 'needs python3'
fi
memory=$srcdir/tests/lint/memory.py
test_expect_success 'comm, collectives and train touch tensor data through struct memory' 'python3 "$memory" "$srcdir"'

# planted TEXT: whether a line in one of these folders is found
planted () {
    mkdir -p house/src/lib/train
    printf '    %s\n' "$1" >house/src/lib/train/planted.c
    ! python3 "$memory" house >out && test "$(wc -l <out)" -eq 1
}

while read -r line; do
    test_expect_success "planted: $line" "planted '$line'"
done <<'END'
memset (grad->data, 0, bytes);
memcpy (model->kept[i], grad->data, bytes);
tensor_copy (&row.dl, tensor);
reduce_scale (data, dtype, count, scale);
floats_widen (block, from, dtype, count);
float first = grad->data[0];
*model->parameters[i].grad->data = 0;
loop ((float *) model->trained[index].data->data + at);
float *values = grad->data;
END
while read -r line; do
    test_expect_success "not found: $line" "! planted '$line' && test ! -s out"
done <<'END'
model->memory->zero (model->device, grad->data, bytes);
const DLTensor *data = model->trained[i].data;
void *data = memory_data (tensor);
if (grad->data == other->data)
int x; /* memcpy (a, b, c) */
END
test_done
