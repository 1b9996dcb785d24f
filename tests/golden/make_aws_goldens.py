#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what moto's server answers to our calls of AWS: make_aws_goldens.py BUILD-FOLDER [--check]

Needs moto[server]. Runs tests/aws/call of the build folder for each case against the server, with a recorder in between,
and writes tests/golden/aws/CASE/: `words` (the arguments, one a line), `rules` and files with the answers, as
tests/http/server takes them, and `output`. tests/aws/golden.sh replays them. With --check, nothing is written, and what
is printed is compared with `output`, except for times, random identifiers and keys.
"""
import http.client
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

from moto.server import ThreadedMotoServer

FOLDER = pathlib.Path(__file__).resolve().parent / "aws"
ACCOUNT = "123456789012"
BUCKET = f"sagemaker-us-west-2-{ACCOUNT}"
GROUP = "/aws/sagemaker/TrainingJobs"
JOB = ('{"TrainingJobName":"job-1","AlgorithmSpecification":{"TrainingImage":"i","TrainingInputMode":"File"},'
       f'"RoleArn":"arn:aws:iam::{ACCOUNT}:role/r","OutputDataConfig":{{"S3OutputPath":"s3://{BUCKET}/"}},'
       '"ResourceConfig":{"InstanceCount":1,"InstanceType":"ml.p3.2xlarge","VolumeSizeInGB":30},'
       '"StoppingCondition":{"MaxRuntimeInSeconds":86400}}')
TRUST = ('{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sagemaker.amazonaws.com"},'
         '"Action":"sts:AssumeRole"}]}')
POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sagemaker:*"],"Resource":"*"}]}'

# In this order: what one case makes, the next ones see.
CASES = {
    "identity": ["identity"],
    "bucket_new": ["bucket", BUCKET, ACCOUNT],
    "bucket_old": ["bucket", BUCKET, ACCOUNT],
    "put": ["put", BUCKET, "job-1/source/sourcedir.tar.gz", "FILE", ACCOUNT, "aws:kms"],
    "put_no_bucket": ["put", "no-such-bucket-here", "k", "FILE"],
    "role_missing": ["query", "iam", "GetRole", "RoleName", "r", "GetRoleResult/Role/Arn"],
    "role_new": ["query", "iam", "CreateRole", "RoleName", "r", "AssumeRolePolicyDocument", TRUST,
                 "CreateRoleResult/Role/Arn"],
    "role_again": ["query", "iam", "CreateRole", "RoleName", "r", "AssumeRolePolicyDocument", TRUST,
                   "CreateRoleResult/Role/Arn"],
    "role_policy": ["query", "iam", "PutRolePolicy", "RoleName", "r", "PolicyName", "r_policy_permission",
                    "PolicyDocument", POLICY, "ResponseMetadata/RequestId"],
    "role": ["query", "iam", "GetRole", "RoleName", "r", "GetRoleResult/Role/Arn"],
    "job_missing": ["json", "sagemaker", "DescribeTrainingJob", '{"TrainingJobName":"job-1"}'],
    "job_new": ["json", "sagemaker", "CreateTrainingJob", JOB],
    "job_again": ["json", "sagemaker", "CreateTrainingJob", JOB],
    "job": ["json", "sagemaker", "DescribeTrainingJob", '{"TrainingJobName":"job-1"}'],
    "job_list": ["json", "sagemaker", "ListTrainingJobs", '{"NameContains":"job"}'],
    "logs_missing": ["json", "logs", "DescribeLogStreams", f'{{"logGroupName":"{GROUP}"}}'],
    "logs_group": ["json", "logs", "CreateLogGroup", f'{{"logGroupName":"{GROUP}"}}'],
    "logs_stream": ["json", "logs", "CreateLogStream", f'{{"logGroupName":"{GROUP}","logStreamName":"job-1/algo-1"}}'],
    "logs_put": ["json", "logs", "PutLogEvents", f'{{"logGroupName":"{GROUP}","logStreamName":"job-1/algo-1",'
                 '"logEvents":[{"timestamp":TIME,"message":"one \\u00fc"},{"timestamp":TIME,"message":"two"}]}'],
    "logs_streams": ["json", "logs", "DescribeLogStreams",
                     f'{{"logGroupName":"{GROUP}","logStreamNamePrefix":"job-1/"}}'],
    "logs": ["json", "logs", "GetLogEvents",
             f'{{"logGroupName":"{GROUP}","logStreamName":"job-1/algo-1","startFromHead":true}}'],
    "assume": ["-p", "assume", "keys"],
}
KEPT = ("content-type", "x-amzn-requestid", "x-amzn-errortype", "x-amz-bucket-region")


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes requests on to moto, and keeps the answers."""
    protocol_version = "HTTP/1.1"
    answers = []
    target = None

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = http.client.HTTPConnection(*self.target)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "expect"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        data = answer.read()
        self.answers.append((answer.status, [(n, v) for n, v in answer.getheaders() if n.lower() in KEPT], data))
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() in KEPT:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_HEAD = pass_on

    def log_message(self, *_):
        pass


def run(build, words, port, home):
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
                   "AWS_REGION": "us-west-2", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "SECRET",
                   "AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run([str(build / "tests/aws/call"), *words], env=environment, cwd=home, timeout=60, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.decode() + f"status {done.returncode}\n"


def mask(text):
    for form in (r"\d{4}-\d\d-\d\dT[0-9:.]+Z?", r"\d{9,}(\.\d+)?", r"[A-Za-z0-9+/=_-]{16,}"):
        text = re.sub(form, "*", text)
    return text


def rename(text):
    """Keys of moto look as if they were real."""
    text = re.sub(r"ASIA[A-Z0-9]{16}", "ASIAEXAMPLE", text)
    text = re.sub(r"(<SecretAccessKey>|^secret )[^<\n]*", r"\1secret/example", text, flags=re.M)
    return re.sub(r"(<SessionToken>|^token )[^<\n]*", r"\1token/example", text, flags=re.M)


def write(name, words, output):
    folder = FOLDER / name
    folder.mkdir(parents=True)
    (folder / "words").write_text("".join(word + "\n" for word in words))
    (folder / "output").write_text(rename(output))
    rules = ""
    for number, (status, headers, data) in enumerate(Recorder.answers, 1):
        (folder / f"answer{number}").write_text(rename(data.decode()))
        values = "".join(f" header={n}:{v.replace(' ', '_')}" for n, v in headers)
        rules += f"* times=1 status={status}{values} file=answer{number}\n"
    (folder / "rules").write_text(rules)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    check = "--check" in sys.argv
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    Recorder.target = moto.get_host_and_port()
    recorder = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    home = pathlib.Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
    (home / "FILE").write_bytes(b"bytes\n" * 20000)
    (home / ".aws").mkdir()
    (home / ".aws/config").write_text(f"[profile assume]\nrole_arn = arn:aws:iam::{ACCOUNT}:role/r\n"
                                      "credential_source = Environment\n")
    time = subprocess.check_output(["date", "+%s000"], text=True).strip()
    if not check:
        shutil.rmtree(FOLDER, ignore_errors=True)
    wrong = 0
    for name, words in CASES.items():
        Recorder.answers.clear()
        words = [word.replace("TIME", time) for word in words]
        output = run(build, words, recorder.server_port, home).replace(str(home), "HOME")
        if not check:
            write(name, words, output)
        elif mask(rename(output)) != mask((FOLDER / name / "output").read_text()):
            wrong += 1
            print(f"{name}: WRONG: {output}")
        else:
            print(f"{name}: as expected")
    shutil.rmtree(home)
    moto.stop()
    return wrong != 0


sys.exit(main())
