#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# accelerate config creates the role of SageMaker jobs, against a server that gives moto's answers (tests/golden/aws).
. "${srcdir:-.}/tests/testlib.sh"
. "$srcdir/tests/http/serve"

serve root requests || exit 99
AWS_ENDPOINT_URL_IAM=$url/iam AWS_ACCESS_KEY_ID=AKIDEXAMPLE AWS_SECRET_ACCESS_KEY=SECRETKEY AWS_EC2_METADATA_DISABLED=true
export AWS_ENDPOINT_URL_IAM AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_EC2_METADATA_DISABLED
aws=$srcdir/tests/golden/aws
cp "$aws/role_new/answer1" root/new
cp "$aws/role_policy/answer1" root/policy
cp "$aws/role_again/answer1" root/again
cat >root/denied <<'END'
<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/"><Error><Type>Sender</Type><Code>AccessDenied</Code>
<Message>not authorized to perform: iam:CreateRole</Message></Error><RequestId>x</RequestId></ErrorResponse>
END
# config RULE...: the answers with which a role is created
config () {
    rm -f requests/* c.yaml
    printf '%s\n' "$@" >root/.rules.new
    mv root/.rules.new root/.rules
    printf '1\n1\n\n1\n\n\n\n\n\n\n\n' | timeout "$patience" "$accelerate" config --config_file c.yaml >out 2>err
}
decoded () {
    python3 -c 'import sys, urllib.parse; print(urllib.parse.unquote_plus(open(sys.argv[1]).read()))' "$1"
}

test_expect_success 'a new role, with its trust and its permissions' '
    config "* times=1 file=new" "* file=policy" && grep -x "role accelerate_sagemaker_execution_role created" out &&
    grep -x "iam_role_name: accelerate_sagemaker_execution_role" c.yaml && test "$(ls requests | wc -l)" -eq 2 &&
    grep "Action=CreateRole" requests/1 && grep "Action=PutRolePolicy" requests/2 && ! grep -r SECRETKEY requests out c.yaml'
if python3 -c "import urllib.parse" 2>/dev/null; then
    test_expect_success 'they are those of Accelerate' '
        decoded requests/1 >create && grep "\"Service\": \"sagemaker.amazonaws.com\"" create && grep "sts:AssumeRole" create &&
        decoded requests/2 >put && grep "PolicyName=accelerate_sagemaker_execution_role_policy_permission" put &&
        test "$(grep -Ec "\"(sagemaker|ecr|cloudwatch|logs|s3):" put)" -eq 19 && grep "\"Resource\": \"\*\"" put'
else
    test_skip 'they are those of Accelerate' 'needs python3'
fi
# list ACTION LIST [MEMBER]: an answer about the policies of a role
list () {
    echo "<$1Response xmlns=\"https://iam.amazonaws.com/doc/2010-05-08/\"><$1Result><IsTruncated>false</IsTruncated><$2>${3-}</$2></$1Result></$1Response>"
}
list ListRolePolicies PolicyNames >root/no_policies
list ListRolePolicies PolicyNames "<member>p</member>" >root/policies
list ListAttachedRolePolicies AttachedPolicies >root/none_attached
list ListAttachedRolePolicies AttachedPolicies "<member><PolicyName>p</PolicyName></member>" >root/attached
test_expect_success 'a role that exists stays as it is' '
    config "* status=409 times=1 file=again" "* file=policies" &&
    grep -x "role accelerate_sagemaker_execution_role exists; left unchanged" out && test "$(ls requests | wc -l)" -eq 2 &&
    config "* status=409 times=1 file=again" "* times=1 file=no_policies" "* file=attached" &&
    grep -x "role accelerate_sagemaker_execution_role exists; left unchanged" out && test "$(ls requests | wc -l)" -eq 3'
test_expect_success 'also where its policies may not be read' '
    config "* status=409 times=1 file=again" "* status=403 file=denied" && test "$(ls requests | wc -l)" -eq 2'
test_expect_success 'a role without any permissions gets them: the last attempt ended halfway' '
    config "* status=409 times=1 file=again" "* times=1 file=no_policies" "* times=1 file=none_attached" "* file=policy" &&
    test "$(ls requests | wc -l)" -eq 4 &&
    grep "Action=PutRolePolicy" requests/4'
test_expect_success 'the answers survive a refusal' '
    test_exit 1 config "* status=403 file=denied" &&
    grep "the configuration is saved, but: cannot create role accelerate_sagemaker_execution_role: .*AccessDenied" err &&
    grep -x "ec2_instance_type: ml.p3.2xlarge" c.yaml'
test_expect_success 'a role without permissions is said' '
    test_exit 1 config "* times=1 file=new" "* status=403 file=denied" && grep "was created, but without permissions: iam PutRolePolicy: AccessDenied: not authorized" err'
test_expect_success 'the file names an existing role now: the next time, it is only used' '
    rm -f requests/* && "$accelerate" config --yes --config_file c.yaml && test -z "$(ls requests)"'
test_done
