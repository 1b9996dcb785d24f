#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# AWS credentials: every source, their order, what is refused and how.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

call=$builddir/tests/aws/call
serve root requests || exit 99
mkdir -p "$HOME/.aws/sso/cache"
AWS_EC2_METADATA_DISABLED=true
export AWS_EC2_METADATA_DISABLED

# later SECONDS: that time from now on
later () {
    date -u -d "@$(($(date +%s) + $1))" +%Y-%m-%dT%H:%M:%SZ
}
# json ACCESS SECRET TOKEN-NAME TOKEN SECONDS: credentials as servers give them
json () {
    printf '{"Version":1,"Code":"Success","AccessKeyId":"%s","SecretAccessKey":"%s","%s":"%s","Expiration":"%s"}' \
        "$1" "$2" "$3" "$4" "$(later "$5")"
}
# role ACTION ACCESS SECONDS: what STS answers
role () {
    printf '<%sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%sResult><Credentials><AccessKeyId>%s</AccessKeyId>' "$1" "$1" "$2"
    printf '<SecretAccessKey>S%s</SecretAccessKey><SessionToken>T%s</SessionToken><Expiration>%s</Expiration></Credentials>' "$2" "$2" "$(later "$3")"
    printf '</%sResult></%sResponse>' "$1" "$1"
}
# keys_are ACCESS SECRET TOKEN SOURCE [OPTION...]: what is found
keys_are () {
    printf 'access %s\nsecret %s\ntoken %s\nsource %s\n' "$1" "$2" "$3" "$4" >expected
    shift 4
    timeout "$patience" "$call" "$@" keys >got || return 1
    grep -v "^expires" got >found
    diff expected found
}
# refused TEXT [OPTION...]: why there are none
refused () {
    text=$1
    shift
    status=0
    timeout "$patience" "$call" "$@" keys >got 2>err || status=$?
    case $status in 1 | 3) ;; *) return 1 ;; esac
    grep -F -e "$text" err
}

# ---- variables and files ----

test_expect_success 'none at all' 'refused "no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run"'
cat >"$HOME/.aws/credentials" <<'END'
[default]
aws_access_key_id = DEFAULT
aws_secret_access_key = SDEFAULT
[work]
aws_access_key_id = WORK
aws_secret_access_key = SWORK
aws_session_token = TWORK
[half]
aws_access_key_id = HALF
[empty]
aws_access_key_id = EMPTY
aws_secret_access_key = SEMPTY
aws_session_token =
END
cat >"$HOME/.aws/config" <<'END'
[default]
region = eu-north-1
[profile work]
region = eu-west-3
[profile both]
aws_access_key_id = BOTH
aws_secret_access_key = SBOTH
[bare]
region = x
END
test_expect_success 'variables come before the default profile' '
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV && keys_are ENV SENV "(none)" AWS_ACCESS_KEY_ID)'
test_expect_success 'with a session token' '
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV AWS_SESSION_TOKEN=TENV && keys_are ENV SENV TENV AWS_ACCESS_KEY_ID) &&
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV AWS_SECURITY_TOKEN=OLD && keys_are ENV SENV OLD AWS_ACCESS_KEY_ID) &&
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV AWS_SECURITY_TOKEN=OLD AWS_SESSION_TOKEN=T &&
     keys_are ENV SENV T AWS_ACCESS_KEY_ID)'
test_expect_success 'half of them are refused' '
    (export AWS_ACCESS_KEY_ID=ENV && refused "AWS_ACCESS_KEY_ID is set, but AWS_SECRET_ACCESS_KEY is not") &&
    (export AWS_PROFILE=half && refused "AWS profile '\''half'\'' has aws_access_key_id, but no aws_secret_access_key")'
test_expect_success 'the default profile, a variable, an option' '
    keys_are DEFAULT SDEFAULT "(none)" "AWS profile '\''default'\'' ($HOME/.aws/credentials)" &&
    (export AWS_PROFILE=work && keys_are WORK SWORK TWORK "AWS profile '\''work'\'' ($HOME/.aws/credentials)") &&
    (export AWS_DEFAULT_PROFILE=work && keys_are WORK SWORK TWORK "AWS profile '\''work'\'' ($HOME/.aws/credentials)") &&
    keys_are EMPTY SEMPTY "(none)" "AWS profile '\''empty'\'' ($HOME/.aws/credentials)" -p empty &&
    (export AWS_PROFILE=work && keys_are BOTH SBOTH "(none)" "AWS profile '\''both'\'' ($HOME/.aws/config)" -p both)'
test_expect_success 'a variable that names a profile does not hide the keys of variables, an option does' '
    (export AWS_PROFILE=work AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV &&
     keys_are ENV SENV "(none)" AWS_ACCESS_KEY_ID &&
     keys_are WORK SWORK TWORK "AWS profile '\''work'\'' ($HOME/.aws/credentials)" -p work)'
test_expect_success 'keys of the caller come first' '
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV &&
     keys_are A B "(none)" "the access key on the command line" -p work -k A,B) && refused "needs its secret key" -k A'
test_expect_success 'profiles that are missing, or named without "profile"' '
    refused "no AWS profile '\''nothing'\'' in $HOME/.aws/config or $HOME/.aws/credentials" -p nothing &&
    (export AWS_PROFILE=nothing && refused "AWS_PROFILE: no AWS profile '\''nothing'\''") &&
    refused "$HOME/.aws/config: the section of AWS profile '\''bare'\'' must begin with [profile bare]" -p bare'
test_expect_success 'what is in both files: the credentials file counts' '
    cp "$HOME/.aws/credentials" saved && printf "[default]\nregion = ca-west-1\n" >>"$HOME/.aws/credentials" &&
    "$call" region >out && grep "^ca-west-1 " out && mv saved "$HOME/.aws/credentials"'
test_expect_success 'files elsewhere, and a file that is wrong' '
    printf "[default]\naws_access_key_id=OTHER\naws_secret_access_key=S\n" >"$HOME/other" && printf "[x]\nword\n" >wrong &&
    (export AWS_SHARED_CREDENTIALS_FILE="~/other" && keys_are OTHER S "(none)" "AWS profile '\''default'\'' ($HOME/other)") &&
    (export AWS_CONFIG_FILE="$PWD/wrong" && refused "wrong:2: expected '\''[section]'\''")'
test_expect_success 'files that may not be read are not there' '
    mkdir closed && printf "[default]\naws_access_key_id=X\naws_secret_access_key=Y\n" >closed/file && printf word >closed/other &&
    chmod 0 closed && (export AWS_SHARED_CREDENTIALS_FILE="$PWD/closed/file" AWS_CONFIG_FILE="$PWD/closed/other" &&
     { as_nobody "$call" keys >out 2>err || :; } && chmod 700 closed && grep "no AWS credentials" err)'
test_expect_success 'the region: option, variables, profile' '
    "$call" region >out && grep -x "eu-north-1 aws amazonaws.com" out &&
    "$call" -p work region >out && grep -x "eu-west-3 aws amazonaws.com" out &&
    (export AWS_DEFAULT_REGION=us-east-2 && "$call" -p work region >out && grep "^us-east-2 " out) &&
    (export AWS_DEFAULT_REGION=us-east-2 AWS_REGION=us-west-1 && "$call" -p work region >out && grep "^us-west-1 " out) &&
    (export AWS_REGION=us-west-1 && "$call" -r cn-north-1 region >out && grep -x "cn-north-1 aws-cn amazonaws.com.cn" out) &&
    test_exit 3 "$call" -r evil.example/ region 2>err && grep "not a valid AWS region: .evil.example/." err'

# ---- a program ----

cat >give <<END
#!/bin/sh
echo "\$#:\$1:\$2" >"$PWD/arguments"
cat "$PWD/given"
exit \$(cat "$PWD/status")
END
chmod +x give
printf '[profile prog]\ncredential_process = %s "one two" \\$HOME\n' "$PWD/give" >>"$HOME/.aws/config"
echo 0 >status
test_expect_success 'a program gives them, without a shell in between' '
    json PROG SPROG SessionToken TPROG 3600 >given &&
    keys_are PROG SPROG TPROG "AWS profile '\''prog'\'' (credential_process)" -p prog && grep -Fx "2:one two:\$HOME" arguments'
test_expect_success 'a program that fails, prints something else, too much, or is missing' '
    echo 7 >status && refused "credential_process $PWD/give failed with status 7" -p prog && echo 0 >status &&
    echo "no JSON" >given && refused "the output of credential_process is not a JSON object" -p prog &&
    echo "{\"Version\":2}" >given && refused "has no '\''Version'\'' 1" -p prog &&
    echo "{\"Version\":1,\"AccessKeyId\":\"x\"}" >given && refused "'\''SecretAccessKey'\'' is missing" -p prog &&
    head -c 100000 /dev/zero >given && refused "prints more than 65536 bytes" -p prog &&
    printf "[profile gone]\ncredential_process = /nowhere/give\n[profile open]\ncredential_process = a \"b\n" >>"$HOME/.aws/config" &&
    refused "cannot execute credential_process /nowhere/give: No such file" -p gone &&
    refused "has an opening quote without a closing one" -p open'

# ---- roles ----

# with_role NAME ROLE LINE...: a profile that has a role
with_role () {
    printf '[profile %s]\nrole_arn = arn:aws:iam::123456789012:role/%s\n' "$1" "$2"
    shift 2
    printf '%s\n' "$@"
}
# own_keys NAME: as a profile has them
own_keys () { printf 'aws_access_key_id = %s\naws_secret_access_key = S%s\n' "$1" "$1"; }
{
    with_role role r 'source_profile = work' 'external_id = e/1'
    with_role role2 r2 'source_profile = role' 'role_session_name = me'
    with_role byenv r 'credential_source = Environment'
    with_role badsource r 'credential_source = Moon'
    with_role bybox r 'credential_source = EcsContainer'
    with_role loop1 r 'source_profile = loop2'
    with_role loop2 r 'source_profile = loop1'
    with_role self r 'source_profile = self' "$(own_keys SELF)"
    with_role rich r 'source_profile = work' "$(own_keys RICH)"
    with_role byrich r 'source_profile = rich'
    with_role alone r "$(own_keys ALONE)"
    with_role orphan r 'source_profile = nobody'
    with_role mfa r 'source_profile = work' 'mfa_serial = arn:aws:iam::123456789012:mfa/me'
    with_role web w "web_identity_token_file = $PWD/token" 'role_session_name = mine'
} >>"$HOME/.aws/config"
printf 'identity-token\n' >token
AWS_ENDPOINT_URL_STS=$url/sts
AWS_ENDPOINT_URL_SSO=$url/sso
export AWS_ENDPOINT_URL_STS AWS_ENDPOINT_URL_SSO
role AssumeRole ROLE 3600 >root/role
role AssumeRole ROLE2 3600 >root/role2
role AssumeRoleWithWebIdentity WEB 3600 >root/web
test_expect_success 'a role is assumed with the keys of another profile' '
    rules "/sts/ file=role" && keys_are ROLE SROLE TROLE "AWS profile '\''role'\'' (arn:aws:iam::123456789012:role/r)" -p role &&
    grep "Credential=WORK/" requests/1 && grep -x "X-Amz-Security-Token: TWORK.*" requests/1 && ! test -e requests/2 &&
    tail -n 1 requests/1 >body &&
    grep "^Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A123456789012%3Arole%2Fr&RoleSessionName=accelerate-[0-9]*&ExternalId=e%2F1$" body'
test_expect_success 'and a role with the keys of a role' '
    rules "/sts/ file=role times=1" "/sts/ file=role2" &&
    keys_are ROLE2 SROLE2 TROLE2 "AWS profile '\''role2'\'' (arn:aws:iam::123456789012:role/r2)" -p role2 &&
    grep "Credential=ROLE/" requests/2 && grep "RoleSessionName=me$" requests/2'
test_expect_success 'with variables, or with keys of its own' '
    rules "/sts/ file=role" &&
    (export AWS_ACCESS_KEY_ID=ENV AWS_SECRET_ACCESS_KEY=SENV && "$call" -p byenv keys >out && grep "access ROLE" out) &&
    grep "Credential=ENV/" requests/1 && "$call" -p self keys >out && grep "access ROLE" out && grep "Credential=SELF/" requests/2'
test_expect_success 'the keys of a source profile come before its role; a role needs a source' '
    rules "/sts/ file=role" && "$call" -p byrich keys >out && grep "access ROLE" out && grep "Credential=RICH/" requests/1 &&
    ! test -e requests/2 && refused "AWS profile '\''alone'\'' has role_arn, but neither source_profile nor credential_source" -p alone'
test_expect_success 'circles, missing profiles, codes' '
    refused "AWS profile '\''loop1'\'': AWS profile '\''loop2'\'': source_profile leads back to '\''loop1'\''" -p loop1 &&
    refused "no AWS profile '\''nobody'\'' (source_profile)" -p orphan && refused "mfa_serial" -p mfa &&
    refused "invalid credential_source '\''Moon'\'': expected Environment, Ec2InstanceMetadata or EcsContainer" -p badsource &&
    (export AWS_CONTAINER_CREDENTIALS_FULL_URI=ftp://h && refused "AWS_CONTAINER_CREDENTIALS_FULL_URI" -p bybox) &&
    refused "there are no credentials to assume the role with" -p byenv'
test_expect_success 'what STS says, and what it should not say' '
    printf "<ErrorResponse><Error><Code>AccessDenied</Code><Message>not you</Message></Error></ErrorResponse>" >root/no &&
    rules "/sts/ status=403 file=no" &&
    refused "sts AssumeRole: AccessDenied: not you: AWS profile '\''work'\'' ($HOME/.aws/credentials) needs the permission sts:AssumeRole" -p role &&
    rules "/sts/ file=web" && refused "expected <AssumeRoleResponse>, got <AssumeRoleWithWebIdentityResponse>" -p role &&
    echo "<AssumeRoleResponse/>" >root/empty && rules "/sts/ file=empty" && refused "has no '\''AccessKeyId'\''" -p role &&
    sed "s/<SessionToken>[^<]*/<SessionToken>/" root/role >root/none && rules "/sts/ file=none" && refused "has no '\''SessionToken'\''" -p role &&
    sed "s/<Expiration>[^<]*/<Expiration>soon/" root/role >root/soon && rules "/sts/ file=soon" &&
    refused "'\''Expiration'\'' is not a valid time" -p role'
test_expect_success 'a role for a token, of variables or of a profile, unsigned' '
    rules "/sts/ file=web" && keys_are WEB SWEB TWEB "the role arn:aws:iam::123456789012:role/w" -p web &&
    grep "RoleSessionName=mine&WebIdentityToken=identity-token$" requests/1 && ! grep -i "^authorization" requests/1 &&
    (export AWS_WEB_IDENTITY_TOKEN_FILE="$PWD/token" AWS_ROLE_ARN=arn:x AWS_ROLE_SESSION_NAME=s &&
     keys_are WEB SWEB TWEB "the role arn:x" && grep "RoleSessionName=s&" requests/2 &&
     unset AWS_ROLE_SESSION_NAME && keys_are WEB SWEB TWEB "the role arn:x" && grep "RoleSessionName=accelerate-[0-9]*&" requests/3) &&
    (export AWS_WEB_IDENTITY_TOKEN_FILE="$PWD/token" && refused "set AWS_ROLE_ARN") &&
    (export AWS_WEB_IDENTITY_TOKEN_FILE=/nowhere/token AWS_ROLE_ARN=arn:x && refused "/nowhere/token")'

# ---- IAM Identity Center ----

cat >>"$HOME/.aws/config" <<'END'
[sso-session corp]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1
[profile sso]
sso_session = corp
sso_account_id = 123456789012
sso_role_name = Dev Ops
[profile legacy]
sso_start_url = https://corp.awsapps.com/start
sso_region = us-east-1
sso_account_id = 123456789012
sso_role_name = Dev
[profile nosession]
sso_session = nothing
[profile norole]
sso_session = corp
sso_account_id = 1
END
# cache NAME SECONDS: the names of files are SHA-1 of "corp" and of the URL
cache () {
    printf '{"startUrl":"x","accessToken":"SSO-TOKEN","expiresAt":"%s"}' "$(later "$2")" >"$HOME/.aws/sso/cache/$1.json"
}
corp=ee0bfd2552fbd840c02cc48b6e823320543c450f
start=a51746d4aa793ae07b25e90c3a5db96fc7832bd7
printf '{"roleCredentials":{"accessKeyId":"SSO","secretAccessKey":"SSSO","sessionToken":"TSSO","expiration":%s000}}' \
    "$(($(date +%s) + 3600))" >root/sso
test_expect_success 'a session of aws sso login, by name or by URL' '
    cache $corp 600 && cache $start 600 && rules "/sso/federation/credentials file=sso" &&
    keys_are SSO SSSO TSSO "AWS profile '\''sso'\'' (IAM Identity Center)" -p sso &&
    grep "^GET /sso/federation/credentials?role_name=Dev%20Ops&account_id=123456789012 " requests/1 &&
    grep "^x-amz-sso_bearer_token: SSO-TOKEN" requests/1 && ! grep -i "^authorization" requests/1 &&
    keys_are SSO SSSO TSSO "AWS profile '\''legacy'\'' (IAM Identity Center)" -p legacy'
test_expect_success 'no session, an old one, one that the server does not know' '
    cache $corp -5 && refused "the session has expired; run: aws sso login --profile sso" -p sso &&
    echo "{}" >"$HOME/.aws/sso/cache/$corp.json" && refused "is not a session of" -p sso &&
    rm "$HOME"/.aws/sso/cache/* && refused "not logged in; run: aws sso login --profile sso" -p sso &&
    cache $corp 600 && rules "/sso/federation/credentials status=401" && refused "the session is no longer valid" -p sso &&
    (export AWS_ENDPOINT_URL_SSO="file:///etc" && refused "AWS_ENDPOINT_URL_SERVICE or endpoint_url: not a valid endpoint URL" -p sso) &&
    refused "there is no section [sso-session nothing]" -p nosession && refused "sso_role_name is missing" -p norole'

# ---- containers and instances ----

rm "$HOME/.aws/config" "$HOME/.aws/credentials"
json BOX SBOX Token TBOX 3600 >root/box
test_expect_success 'a container, with its token' '
    rules "/box file=box" && printf "BOX-TOKEN\n" >boxtoken &&
    (export AWS_CONTAINER_CREDENTIALS_FULL_URI="$url/box" AWS_CONTAINER_AUTHORIZATION_TOKEN=T1 &&
     keys_are BOX SBOX TBOX "the container" && grep "^Authorization: T1" requests/1 &&
     export AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE="$PWD/boxtoken" && keys_are BOX SBOX TBOX "the container" &&
     grep "^Authorization: BOX-TOKEN" requests/2)'
test_expect_success 'but not just any host' '
    for place in http://example.org/box http://127.0.0.1.example.org/ http://127.0.0.1@example.org/ http://localhost:1@example.org/ \
        "http://localhost\\@example.org" ftp://127.0.0.1/ gopher://x; do
        (export AWS_CONTAINER_CREDENTIALS_FULL_URI="$place" && refused "AWS_CONTAINER_CREDENTIALS_FULL_URI is not https") || return 1
    done &&
    (export AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=.example.org/ && refused "does not begin with")'
test_expect_success 'a container that refuses, or answers with something else' '
    (export AWS_CONTAINER_CREDENTIALS_FULL_URI="$url/box" && rules "/box status=403" &&
     refused "the container'\''s credentials: the answer has status 403" && rules "/box status=302 header=Location:$url/other" &&
     refused "status 302" &&
     (export AWS_CONTAINER_CREDENTIALS_FULL_URI=http://127.0.0.1:1/secret-path &&
      refused "no answer from the server of AWS_CONTAINER_CREDENTIALS_FULL_URI" && ! grep secret-path err) && echo "[]" >root/list && rules "/box file=list" && refused "is not a JSON object" &&
     echo "{\"Code\":\"Failure\"}" >root/failure && rules "/box file=failure" && refused "has the code '\''Failure'\''" &&
     (export AWS_CONTAINER_AUTHORIZATION_TOKEN="a
X-Evil: b" && rules "/box file=box" && refused "must be one line"))'

unset AWS_EC2_METADATA_DISABLED
AWS_EC2_METADATA_SERVICE_ENDPOINT=$url
export AWS_EC2_METADATA_SERVICE_ENDPOINT
roles=/latest/meta-data/iam/security-credentials/
json EC2 SEC2 Token TEC2 3600 >root/ec2
printf EC2-TOKEN >root/token2
printf 'my-role\n' >root/name
test_expect_success 'an instance, by a session (IMDSv2)' '
    rules "/latest/api/token match=PUT_ file=token2" "$roles unless=EC2-TOKEN status=401" "$roles file=name" "${roles}my-role file=ec2" &&
    keys_are EC2 SEC2 TEC2 "the EC2 instance'\''s role my-role" && grep "^X-aws-ec2-metadata-token-ttl-seconds: 21600" requests/1 &&
    grep "^X-aws-ec2-metadata-token: EC2-TOKEN" requests/2 && grep "^X-aws-ec2-metadata-token: EC2-TOKEN" requests/3 && ! test -e requests/4'
test_expect_success 'never over a proxy' '
    rules "/latest/api/token match=PUT_ file=token2" "$roles file=name" "${roles}my-role file=ec2" &&
    (export http_proxy=http://127.0.0.1:1 && "$call" keys >out && grep "access EC2" out)'
test_expect_success 'an instance without a role, or none' '
    rules "/latest/api/token match=PUT_ file=token2" && refused "no AWS credentials" &&
    rules "/latest/api/token delay=60000" && before=$(date +%s) && refused "no AWS credentials" &&
    test $(($(date +%s) - before)) -lt 50 && (export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:1 && refused "no AWS credentials") &&
    (export AWS_EC2_METADATA_DISABLED=true && rules "* file=token2" && refused "no AWS credentials" && ! test -e requests/1)'
test_expect_success 'the servers of other clouds are not asked further' '
    for status in 400 403 405; do
        rules "/latest/api/token status=$status" && refused "no AWS credentials" && ! test -e requests/2 || return 1
    done'
test_expect_success 'an instance that fails' '
    rules "/latest/api/token file=token2" "$roles status=500" && refused "the EC2 instance'\''s role: the answer has status 500"'

# ---- renewal ----

AWS_ENDPOINT_URL=$url/api
AWS_REGION=us-east-1
export AWS_ENDPOINT_URL AWS_REGION
echo '{}' >root/ok
echo '{"__type":"ExpiredTokenException","message":"old"}' >root/expired
test_expect_success 'keys that expire soon are renewed, others are not' '
    rules "/latest/api/token file=token2" "$roles file=name" "${roles}my-role file=ec2" "/api/ file=ok" &&
    printf "\n\n" | "$call" -n 3 json sagemaker ListTrainingJobs "{}" >out && test "$(grep -l security-credentials/my-role requests/* | wc -l)" = 1 &&
    json EC3 SEC3 Token TEC3 300 >root/ec3 && rules "/latest/api/token file=token2" "$roles file=name" "${roles}my-role file=ec3 times=1" \
        "${roles}my-role file=ec2" "/api/ file=ok" &&
    printf "\n\n" | "$call" -n 3 json sagemaker ListTrainingJobs "{}" >out && test "$(grep -l security-credentials/my-role requests/* | wc -l)" = 2 &&
    test "$(grep -l "Credential=EC3/" requests/* | wc -l)" = 1 && test "$(grep -l "Credential=EC2/" requests/* | wc -l)" = 2'
test_expect_success 'if that fails, the old ones are used while they last' '
    rules "/latest/api/token file=token2" "$roles file=name" "${roles}my-role file=ec3 times=1" "${roles}my-role status=500" "/api/ file=ok" &&
    printf "\n" | "$call" -n 2 json sagemaker ListTrainingJobs "{}" >out && test "$(grep -l "Credential=EC3/" requests/* | wc -l)" = 2'
test_expect_success 'keys that AWS takes for expired are looked for once more' '
    rules "/latest/api/token file=token2" "$roles file=name" "${roles}my-role file=ec3 times=1" "${roles}my-role file=ec2" \
        "/api/ match=Credential=EC3/ status=400 file=expired" "/api/ file=ok" &&
    "$call" json sagemaker ListTrainingJobs "{}" >out && grep -x "{}" out &&
    rules "/latest/api/token file=token2" "$roles file=name" "${roles}my-role file=ec2" "/api/ status=400 file=expired" &&
    test_exit 1 "$call" json sagemaker ListTrainingJobs "{}" 2>err && grep "have expired: renew them" err &&
    test "$(grep -l "^POST /api/" requests/* | wc -l)" = 2'
# Makes two calls; between them, another program writes other keys into the file.
renewed_meanwhile () {
    printf "[default]\naws_access_key_id=OLD\naws_secret_access_key=S\naws_session_token=T\n" >"$HOME/.aws/credentials"
    sed "s/OLD/NEW/" "$HOME/.aws/credentials" >new
    mkfifo go || return 1
    "$call" -n 2 json sagemaker DescribeX "{}" <go >out &
    pid=$!
    exec 9>go
    wait_for test -e requests/1 || return 1
    mv new "$HOME/.aws/credentials"
    echo >&9
    exec 9>&-
    wait "$pid"
}
AWS_EC2_METADATA_DISABLED=true
export AWS_EC2_METADATA_DISABLED
test_expect_success 'also in a file, which another program may have renewed' '
    rules "/api/ match=Credential=OLD/ file=ok times=1" "/api/ match=Credential=OLD/ status=400 file=expired" "/api/ file=ok" &&
    renewed_meanwhile && grep "Credential=OLD/" requests/2 && grep "Credential=NEW/" requests/3'
test_done
