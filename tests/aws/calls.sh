#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Calls of AWS: signatures, errors in words, retries, buckets and uploads, hostile answers.
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

call=$builddir/tests/aws/call
serve root requests || exit 99
serve other others || exit 99
other=$url
url=http://127.0.0.1:$(cat root/.port)
AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=SECRETSECRET AWS_SESSION_TOKEN=TOKENTOKEN AWS_REGION=eu-west-1
AWS_ENDPOINT_URL=$url/api AWS_ENDPOINT_URL_S3=$url AWS_ENDPOINT_URL_IAM=$url/iam AWS_ENDPOINT_URL_STS=$url/sts
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_REGION
export AWS_ENDPOINT_URL AWS_ENDPOINT_URL_S3 AWS_ENDPOINT_URL_IAM AWS_ENDPOINT_URL_STS

# fails TEXT WORD...: the call fails with this message, which has nothing of the keys
fails () {
    text=$1
    shift
    test_exit 1 timeout "$patience" "$call" "$@" >out 2>err || return 1
    ! grep -E "SECRETSECRET|TOKENTOKEN" err && grep -F -e "$text" err
}
describe='json sagemaker DescribeTrainingJob {"TrainingJobName":"x"}'
create='json sagemaker CreateTrainingJob {"TrainingJobName":"x"}'

# ---- requests ----

echo '{"TrainingJobStatus":"InProgress"}' >root/job
printf '<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/me</Arn>' >root/me
printf '<UserId>U</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>' >>root/me
printf '<GetRoleResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><GetRoleResult><Role>' >root/role
printf '<Path>/</Path><Arn>arn:aws:iam::123456789012:role/r</Arn></Role></GetRoleResult></GetRoleResponse>' >>root/role
: >root/nothing
test_expect_success 'JSON: method, target, body' '
    rules "/api/ file=job" && "$call" $describe >out && grep -x "{\"TrainingJobStatus\":\"InProgress\"}" out && requests_are 1 &&
    grep "^POST /api/ " requests/1 && grep "^X-Amz-Target: SageMaker.DescribeTrainingJob" requests/1 &&
    grep "^Content-Type: application/x-amz-json-1.1" requests/1 && tail -n 1 requests/1 >body && grep "^{\"TrainingJobName\":\"x\"}$" body &&
    "$call" json logs GetLogEvents {} >out && grep "^X-Amz-Target: Logs_20140328.GetLogEvents" requests/2'
test_expect_success 'XML: forms and elements' '
    rules "/iam/ file=role" && "$call" query iam GetRole RoleName "a b&c" GetRoleResult/Role/Arn >out &&
    grep -x "arn:aws:iam::123456789012:role/r" out && tail -n 1 requests/1 >body &&
    grep "^Action=GetRole&Version=2010-05-08&RoleName=a%20b%26c$" body && grep "/us-east-1/iam/aws4_request" requests/1'
test_expect_success 'who we are, asked once' '
    rules "/sts/ file=me" && echo | "$call" -n 2 identity >out &&
    test "$(grep -cx "123456789012 arn:aws:iam::123456789012:user/me" out)" = 2 && requests_are 1'
test_expect_success 'an empty answer is an empty object' 'rules "/api/ file=nothing" && "$call" json sagemaker StopTrainingJob {} >out && grep -x "{}" out'
head -c 300000 /dev/urandom >big
test_expect_success 'buckets and objects' '
    rules "/a-bucket/ match=HEAD_ status=404" "/a-bucket/ file=nothing" "/a-bucket/job/s%20c.tar.gz file=nothing" &&
    "$call" bucket a-bucket 123456789012 >out && grep -x new out && grep "^PUT /a-bucket/ " requests/2 &&
    grep "<LocationConstraint>eu-west-1</LocationConstraint>" requests/2 && grep "^x-amz-expected-bucket-owner: 123456789012" requests/1 &&
    "$call" put a-bucket "job/s c.tar.gz" big 123456789012 aws:kms && tail -c 300000 requests/3 >sent && cmp big sent &&
    grep "^x-amz-server-side-encryption: aws:kms" requests/3 && grep "^x-amz-expected-bucket-owner: 123456789012" requests/3 &&
    rules "/a-bucket/ file=nothing" && "$call" bucket a-bucket 123456789012 >out && grep -x old out && requests_are 1 &&
    rules "/a-bucket/ match=HEAD_ status=404" "/a-bucket/ file=nothing" && "$call" -r us-east-1 bucket a-bucket 123456789012 >out &&
    ! grep Location requests/2'
if command -v python3 >/dev/null; then
    test_expect_success 'every signature is right' '
        rules "/a-bucket/ match=HEAD_ status=404" "* file=nothing" "/a-bucket/k file=nothing" && "$call" bucket a-bucket 123456789012 &&
        "$call" put a-bucket "k/ü +(x)=1.gz" big 123456789012 aws:kms && "$call" $create && "$call" json logs GetLogEvents "{\"x\":\"ü\"}" &&
        { "$call" query iam GetRole RoleName "ü b" x || :; } && (unset AWS_SESSION_TOKEN && "$call" $describe) && requests_are 7 &&
        python3 "$srcdir/tests/aws/signature.py" SECRETSECRET requests/* >verdicts && test "$(grep -c ": ok s3 eu-west-1$" verdicts)" = 3 &&
        test "$(grep -c ": ok sagemaker eu-west-1$" verdicts)" = 2 && grep ": ok iam us-east-1$" verdicts && grep ": ok logs eu-west-1$" verdicts'
    test_expect_success 'and that would be seen' 'test_exit 1 python3 "$srcdir/tests/aws/signature.py" SECRETSECREX requests/1'
else
    test_skip 'every signature is right' 'needs python3'
fi
test_expect_success 'headers that this libcurl would sign in the wrong order' '
    rules "/a-bucket/k file=nothing" && { "$call" put a-bucket k big 123456789012 aws:kms arn:aws:kms:eu-west-1:1:key/2 2>err || :; } &&
    if test -s err; then grep "cannot sign the headers x-amz-server-side-encryption and .*: install version 8.10 or later" err; else
        ! command -v python3 || python3 "$srcdir/tests/aws/signature.py" SECRETSECRET requests/1; fi'

# ---- errors ----

echo '{"__type":"com.amazonaws.sagemaker#ResourceInUse","message":"Training job names must be unique."}' >root/taken
echo '{"__type":"ThrottlingException","message":"Rate exceeded"}' >root/throttled
printf '<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message><RequestId>R</RequestId></Error>' >root/slow
echo '{"__type":"InvalidSignatureException","message":"x-amz-security-token:TOKENTOKEN"}' >root/signature
echo '{"__type":"AccessDeniedException","message":"User: x is not authorized"}' >root/denied
test_expect_success 'an error has the words and the code of AWS' '
    rules "/api/ status=400 file=taken" && fails "sagemaker CreateTrainingJob: ResourceInUse: Training job names must be unique" $create &&
    grep -x "error ResourceInUse 400 0 1" err && requests_are 1'
test_expect_success 'no permission: which one, and whose' '
    rules "/api/ status=400 file=denied" && fails "AWS_ACCESS_KEY_ID needs the permission sagemaker:CreateTrainingJob" $create'
test_expect_success 'a wrong signature does not show the request' '
    rules "/api/ status=403 file=signature" && fails "the secret key of AWS_ACCESS_KEY_ID does not belong to its access key" $create'
test_expect_success 'a wrong clock' '
    rules "/api/ status=403 file=signature header=Date:Thu,_01_Jan_2015_00:10:00_GMT" && fails "minutes ahead of Amazon" $create &&
    rules "/api/ status=403 file=signature header=Date:Thu,_01_Jan_2099_00:10:00_GMT" && fails "minutes behind Amazon" $create'
test_expect_success 'throttling and failures of the service are waited out' '
    rules "/api/ status=400 file=throttled times=2" "/api/ file=job" && "$call" $describe >out && requests_are 3 &&
    rules "/api/ status=500 times=1" "/api/ file=job" && "$call" $create >out && requests_are 2 &&
    rules "/a-bucket/k status=503 file=slow times=1" "/a-bucket/k file=nothing" && "$call" put a-bucket k big && requests_are 2 &&
    tail -c 300000 requests/2 >sent && cmp big sent'
test_expect_success 'but not for ever' '
    rules "/api/ status=400 file=throttled" && fails "ThrottlingException: Rate exceeded (tried 5 times)" $describe && requests_are 5'
test_expect_success 'a connection that broke: what only reads is asked again, what creates is not' '
    rules "/api/ drop times=1" "/api/ file=job" && "$call" $describe >out && requests_are 2 &&
    rules "/api/ drop times=1" "/api/ file=job" && fails "sagemaker CreateTrainingJob: http://127.0.0.1" $create && requests_are 1 &&
    grep -x "error - 0 4 1" err'
test_expect_success 'no region' '
    (unset AWS_REGION && fails "no AWS region: set AWS_REGION, or '\''region'\'' in the AWS profile '\''default'\''" $describe) &&
    (export AWS_ENDPOINT_URL=http://api.moon-1.invalid AWS_REGION=moon-1 && fails "Or is there no AWS region moon-1?" $describe)'
test_expect_success 'an end that the caller wants: of a request, of a program that gives keys' '
    rules "/api/ stall=0 file=job" && echo | fails "interrupted" -s $describe && grep -x "error - 0 9 1" err &&
    mkdir -p "$HOME/.aws" && printf "[profile slow]\ncredential_process = sleep 1000\n" >"$HOME/.aws/config" &&
    echo | fails "interrupted" -s -p slow $describe && grep -x "error - 0 9 0" err'
test_expect_success 'a bucket of another account or region' '
    rules "/a-bucket/ status=403" && fails "S3 bucket a-bucket belongs to another account than 123456789012, or AWS_ACCESS_KEY_ID needs" bucket a-bucket 123456789012 &&
    rules "/a-bucket/ status=301 header=x-amz-bucket-region:us-west-2" &&
    fails "S3 bucket a-bucket is in region us-west-2, not in eu-west-1" bucket a-bucket 123456789012 &&
    printf "<Error><Code>BucketAlreadyExists</Code><Message>taken</Message></Error>" >root/exists &&
    rules "/a-bucket/ match=HEAD_ status=404" "/a-bucket/ status=409 file=exists" && fails "belongs to another account" bucket a-bucket 123456789012 &&
    printf "<Error><Code>BucketAlreadyOwnedByYou</Code><Message>yours</Message></Error>" >root/yours &&
    rules "/a-bucket/ match=HEAD_ status=404" "/a-bucket/ status=409 file=yours" && "$call" bucket a-bucket 123456789012 &&
    fails "not a valid name of an S3 bucket: '\''a/b'\''" bucket a/b 123456789012'
test_expect_success 'files that cannot be uploaded' '
    fails "cannot read nowhere: No such file" put a-bucket k nowhere && fails "not a regular file" put a-bucket k .'
if truncate -s 5368709121 huge 2>err; then
    test_expect_success 'a file that is too large' '
        fails "huge has 5.0 GiB, but S3 takes at most 5 GiB in one piece" put a-bucket k huge && rm huge'
else
    test_skip 'a file that is too large' 'there is a limit for the size of files'
fi

# ---- hostile answers ----

test_expect_success 'redirects are not followed, and the keys stay here' '
    for status in 301 302 307 308; do
        rules "/api/ status=$status header=Location:$other/api/" && fails "sagemaker DescribeTrainingJob: " $describe &&
        rules "/a-bucket/k status=$status header=Location:$other/k" && fails "s3 PutObject: " put a-bucket k big || return 1
    done && test -z "$(ls others)"'
test_expect_success 'answers that are too large, not JSON, not XML, of something else' '
    rules "/api/ endless" && fails "larger than" $describe && rules "/api/ garbage" && fails "not HTTP" $describe &&
    echo "[1]" >root/list && rules "/api/ file=list" && fails "the answer is not a JSON object" $describe &&
    echo "{" >root/open && rules "/api/ file=open" && fails "sagemaker DescribeTrainingJob: the answer is not a JSON object" $describe &&
    rules "/iam/ file=open" && fails "iam GetRole: the answer is: not valid XML" query iam GetRole x &&
    rules "/iam/ file=me" && fails "expected <GetRoleResponse>, got <GetCallerIdentityResponse>" query iam GetRole x &&
    printf "<GetCallerIdentityResponse/>" >root/anonymous && rules "/sts/ file=anonymous" && fails "no account of 12 digits" identity &&
    sed "s/123456789012</12345678901x</" root/me >root/other && rules "/sts/ file=other" && fails "no account of 12 digits" identity'
test_expect_success 'words of a server that a terminal would obey, or that quote the keys' '
    printf "{\"__type\":\"X\",\"message\":\"\\\\u001b[2J a SECRETSECRET b TOKENTOKEN\"}" >root/rude && rules "/api/ status=400 file=rude" &&
    fails "X: \\x1b[2J a *** b ***" $describe'
test_done
