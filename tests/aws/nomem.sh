#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Memory that ends at every allocation while AWS credentials are looked for: they are found all the same, or the message
# says that it was the memory. (Programs are not started: a copy of this process would end them.)
. "${srcdir:-.}/tests/testlib.sh"

module=$builddir/tests/fault/.libs/nomem.so
if [ ! -f "$module" ]; then
    skip_rest 'this build has no shared libraries'
fi
if grep -q '^SAN_CFLAGS = .*[a-z]' "$builddir/Makefile"; then
    skip_rest 'a sanitizer has an allocator of its own'
fi
AWS_EC2_METADATA_DISABLED=true AWS_REGION=eu-west-1
export AWS_EC2_METADATA_DISABLED AWS_REGION
mkdir "$HOME/.aws"
cat >"$HOME/.aws/config" <<'END'
# a comment
[profile "plain"]
aws_access_key_id = A
aws_secret_access_key = B
aws_session_token = C
[profile sso]
sso_session = corp
sso_account_id = 1
sso_role_name = b
[sso-session corp]
sso_start_url = https://x
sso_region = a
[profile loop]
role_arn = arn:x
source_profile = loop2
[profile loop2]
role_arn = arn:x
source_profile = loop
[profile s]
services = s
[services s]
sagemaker =
  endpoint_url = http://h/
END
printf '[x]\nword\n' >wrong
corp=ee0bfd2552fbd840c02cc48b6e823320543c450f # SHA-1 of its name
# without_memory STATUS WORD...
without_memory () {
    status=$1 && shift && test_exit "$status" "$builddir/tests/aws/call" "$@" >reference 2>&1 &&
        test_exit "$status" timeout "$patience" env LD_PRELOAD="$module" NOMEM_LOG="$PWD/log" \
            NOMEM_REFERENCE="$PWD/reference" "$builddir/tests/aws/call" "$@" >output 2>&1 &&
        tail -n 1 log | grep -x "[1-9][0-9]* cases, 0 bad"
}
test_expect_success 'keys of a file' 'without_memory 0 -p plain keys'
test_expect_success 'keys of the caller' 'without_memory 0 -k A,B,C keys'
test_expect_success 'a missing session' 'without_memory 1 -p sso keys'
test_expect_success 'an old one' '
    mkdir -p "$HOME/.aws/sso/cache" && echo "{\"accessToken\":\"T\",\"expiresAt\":\"2020-01-01T00:00:00Z\"}" >"$HOME/.aws/sso/cache/$corp.json" &&
    without_memory 1 -p sso keys && grep "has expired" reference'
test_expect_success 'a circle' 'without_memory 1 -p loop keys'
test_expect_success 'none' 'without_memory 1 keys'
test_expect_success 'another server' 'without_memory 0 -p s endpoint sagemaker'
test_expect_success 'a wrong file' '(export AWS_CONFIG_FILE="$PWD/wrong" && without_memory 3 keys)'
test_done
