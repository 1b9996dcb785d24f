#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What moto's server answered (tests/golden/aws), again: calls, errors, and what is made of them.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

call=$builddir/tests/aws/call
serve root || exit 99
AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=SECRET AWS_REGION=us-west-2 AWS_ENDPOINT_URL=$url AWS_EC2_METADATA_DISABLED=true
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_REGION AWS_ENDPOINT_URL AWS_EC2_METADATA_DISABLED
mkdir "$HOME/.aws"
cat >"$HOME/.aws/config" <<'END'
[profile assume]
role_arn = arn:aws:iam::123456789012:role/r
credential_source = Environment
END
echo bytes >FILE
# replay FOLDER: one case
replay () {
    cp "$1"/answer* root || return 1
    cp "$1/rules" root/.rules.new && mv root/.rules.new root/.rules || return 1
    set -- "$1" --
    while IFS= read -r word; do
        set -- "$@" "$word"
    done <"$1/words"
    folder=$1
    shift 2
    status=0
    timeout "$patience" "$call" "$@" >out 2>&1 || status=$?
    echo "status $status" >>out
    sed "s|$HOME|HOME|g" out >shown
    diff "$folder/output" shown
}
for folder in "$srcdir"/tests/golden/aws/*; do
    test_expect_success "${folder##*/}" 'replay "$folder"'
done
test_done
