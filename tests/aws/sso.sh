#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tokens of 'aws sso login' that end are renewed, and kept where Amazon's tools look for them.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

call=$builddir/tests/aws/call
serve root requests || exit 99
AWS_EC2_METADATA_DISABLED=true AWS_ENDPOINT_URL_SSO=$url/sso AWS_ENDPOINT_URL_SSO_OIDC=$url/oidc
export AWS_EC2_METADATA_DISABLED AWS_ENDPOINT_URL_SSO AWS_ENDPOINT_URL_SSO_OIDC
folder=$HOME/.aws/sso/cache
mkdir -p "$folder"
cat >"$HOME/.aws/config" <<'END'
[sso-session corp]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1
[profile sso]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = Dev
[profile legacy]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1
sso_account_id = 123456789012
sso_role_name = Dev
END
odd='a$(b)`c`!' quoted="'a\$(b)\`c\`!'"
sed '/^\[profile legacy/,$!d;s/legacy/'"$odd"'/' "$HOME/.aws/config" >other && cat other >>"$HOME/.aws/config"
cache=$folder/ee0bfd2552fbd840c02cc48b6e823320543c450f.json # SHA-1 of "corp"
start=$folder/a51746d4aa793ae07b25e90c3a5db96fc7832bd7.json # of the URL
later () {
    date -u -d "@$(($(date +%s) + $1))" +%Y-%m-%dT%H:%M:%SZ
}
# token SECONDS [REGISTRATION-SECONDS [MEMBER]]: a file of the cache, without a member
token () {
    printf '{"startUrl":"u","accessToken":"OLD","expiresAt":"%s","clientId":"ID","clientSecret":"SECRET-C","refreshToken":"SECRET-R","scopes":["s"],"registrationExpiresAt":"%s"}' \
        "$(later "$1")" "$(later "${2:-9000}")" | sed "s/\"${3:-none}\":\"[^\"]*\",//" >"$cache" && chmod 640 "$cache"
}
refused () {
    test_exit 1 timeout "$patience" "$call" -p "${2:-sso}" keys >got 2>err && ! grep "SECRET" err && grep -F -e "$1" err
}
found () {
    timeout "$patience" "$call" -p sso keys >got && grep -x "access SSO" got
}
printf '{"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"SSSO","sessionToken":"TSSO","expiration":%s000}}' \
    "$(($(date +%s) + 3600))" >root/sso
echo '{"accessToken":"NEW","tokenType":"Bearer","expiresIn":28800,"refreshToken":"SECRET-N"}' >root/new
echo '{"error":"invalid_grant","error_description":"SECRET-R is not known"}' >root/wrong
renewed='/oidc/token file=new'
keys='/sso/federation/credentials file=sso'

test_expect_success 'an old token is renewed: the request' '
    token -5 && rules "$renewed" "$keys" && found && grep "^POST /oidc/token " requests/1 && ! grep -i "^authorization" requests/1 &&
    grep "^Content-Type: application/json" requests/1 && tail -n 1 requests/1 >body &&
    echo "{\"grantType\":\"refresh_token\",\"clientId\":\"ID\",\"clientSecret\":\"SECRET-C\",\"refreshToken\":\"SECRET-R\"}" | tr -d "\n" | cmp - body &&
    grep "^x-amz-sso_bearer_token: NEW" requests/2'
test_expect_success 'the file: what is new, what is kept, readable by its owner only' '
    grep "\"accessToken\":\"NEW\"" "$cache" && grep "\"refreshToken\":\"SECRET-N\"" "$cache" && ! grep "OLD\|SECRET-R" "$cache" &&
    grep "\"startUrl\":\"u\"" "$cache" && grep "\"scopes\":\\[\"s\"\\]" "$cache" && grep "\"clientSecret\":\"SECRET-C\"" "$cache" &&
    test "$(stat -c %a "$cache")" = 600 && test "$(find "$folder" -type f | wc -l)" = 1 &&
    end=$(sed "s/.*\"expiresAt\":\"\\([^\"]*\\)\".*/\\1/" "$cache") && left=$(($(date -d "$end" +%s) - $(date +%s))) &&
    test $left -gt 28000 && test $left -le 28800'
test_expect_success 'and is used until it ends' 'rules "$keys" && found && grep "^x-amz-sso_bearer_token: NEW" requests/1'
test_expect_success 'one that ends soon is renewed, or used if it cannot be' '
    token 600 && rules "$renewed" "$keys" && found && grep "^x-amz-sso_bearer_token: NEW" requests/2 && rm requests/* &&
    token 1200 && found && grep "^x-amz-sso_bearer_token: OLD" requests/1 &&
    token 600 && rules "/oidc/token status=400 file=wrong" "$keys" && found && grep "^x-amz-sso_bearer_token: OLD" requests/2'
test_expect_success 'an answer without a refresh token leaves the old one' '
    sed "s/,\"refreshToken\":\"SECRET-N\"//" root/new >root/less && token -5 && rules "/oidc/token file=less" "$keys" && found &&
    grep "\"refreshToken\":\"SECRET-R\"" "$cache" && grep "\"accessToken\":\"NEW\"" "$cache"'
login="run: aws sso login --profile sso"
test_expect_success 'what there is to do when the server refuses' '
    token -5 && cp "$cache" before && rules "/oidc/token status=400 file=wrong header=x-amzn-errortype:InvalidGrantException" &&
    refused "(IAM Identity Center): the session has expired, and cannot be renewed: sso-oidc CreateToken: InvalidGrantException; $login" &&
    cmp before "$cache" && test -e requests/1 && ! test -e requests/2'
test_expect_success 'or does not answer, or answers with something else' '
    token -5 && cp "$cache" before && rules "/oidc/token drop" && refused "cannot be renewed: sso-oidc CreateToken: http://127.0.0.1" && cmp before "$cache" &&
    echo "[]" >root/list && rules "/oidc/token file=list" && refused "sso-oidc CreateToken: the answer is not a JSON object; $login" &&
    for change in "s/NEW\",/NEW\",,/" "s/\"accessToken\":\"NEW\",//" "s/28800/\"28800\"/" "s/28800/-5/" "s/28800/9223372036854775807/"; do
        sed "$change" root/new >root/bad && rules "/oidc/token file=bad" && refused "cannot be renewed: sso-oidc CreateToken: the answer" || return 1
        cmp before "$cache" || return 1
    done'
test_expect_success 'nothing is asked without a refresh token, or after the registration' '
    rules "$renewed" "$keys" &&
    for member in refreshToken clientId clientSecret; do
        token -5 9000 $member && refused "the session has expired; $login" || return 1
    done && token -5 -5 && refused "the session has expired; $login" && test -z "$(ls requests)"'
test_expect_success 'a file without a token is not a session' '
    token 600 9000 accessToken && refused "$cache is not a session of '\''aws sso login'\''" && test -z "$(ls requests)"'
test_expect_success 'nor is a token renewed for a profile without a session, whose tokens have none' '
    token -5 && cp "$cache" "$start" && refused "the session has expired; run: aws sso login --profile legacy" legacy && rm "$start" &&
    test -z "$(ls requests)"'
if as_nobody test -x "$call"; then
    test_expect_success 'nor when the new token could not be kept' '
        token -5 && rules "$renewed" "$keys" && chmod o+rx "$HOME" "$HOME/.aws" "$HOME/.aws/sso" && chmod 644 "$cache" "$HOME/.aws/config" && chmod 555 "$folder" &&
        { as_nobody timeout "$patience" "$call" -p sso keys >got 2>err || :; } && chmod 755 "$folder" && test ! -s got && grep "cannot be renewed: $cache: cannot create a temporary file" err && test -z "$(ls requests)"'
else
    test_skip 'nor when the new token could not be kept' 'the build folder is closed to others'
fi
test_expect_success 'the command can be typed, whatever the name of the profile' '
    rm -f "$start" && refused "not logged in; run: aws sso login --profile $quoted" "$odd"'
test_expect_success 'another process was faster' '
    token -5 && rules "/oidc/token until=replaced status=400 file=wrong" "$keys" &&
    sed "s/OLD/THEIRS/; s/\"expiresAt\":\"[^\"]*\"/\"expiresAt\":\"2099-01-01T00:00:00Z\"/" "$cache" >theirs && {
        timeout "$patience" "$call" -p sso keys >got 2>err &
        child=$!
    } && wait_for test -e requests/1 && cp theirs "$folder/x" && mv "$folder/x" "$cache" && : >root/replaced && wait $child &&
    grep "^x-amz-sso_bearer_token: THEIRS" requests/2'
test_expect_success 'the region of the session says where' '
    token -5 && (unset AWS_ENDPOINT_URL_SSO_OIDC && export https_proxy="$url" && rules "*  status=502" && refused "cannot be renewed" ) &&
    grep "^CONNECT oidc.us-east-1.amazonaws.com:443 " requests/1'
test_done
