/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the option table: SageMaker, all but one keys of files only; options.c includes them. */

    { .key = "ec2_instance_type", OPT_TEXT (ec2_instance_type), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "EC2 instance type",
      .doc = "SageMaker: the EC2 instance type, such as ml.p3.2xlarge." },

    { .key = "iam_role_name", OPT_TEXT (iam_role_name), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "IAM role of the job",
      .doc = "SageMaker: the IAM role that the job runs as." },

    { .key = "image_uri", OPT_TEXT (image_uri), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "URI",
      .help = "Docker image",
      .doc = "SageMaker: the Docker image to run instead of a standard one." },

    { .key = "profile", OPT_TEXT (profile), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "NAME",
      .help = "AWS profile",
      .doc = "SageMaker: the AWS profile whose keys are used." },

    { .key = "region", OPT_TEXT (region), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "NAME",
      .help = "AWS region",
      .doc = "SageMaker: the AWS region." },

    { .key = "base_job_name", OPT_TEXT (base_job_name), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "NAME",
      .help = "prefix of job names",
      .doc = "SageMaker: the prefix of job names." },

    { .key = "pytorch_version", OPT_TEXT (pytorch_version), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "VERSION",
      .help = "PyTorch version",
      .doc = "SageMaker: the PyTorch version of the standard image." },

    { .key = "transformers_version", OPT_TEXT (transformers_version), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "VERSION",
      .help = "transformers version",
      .doc = "SageMaker: the transformers version of the standard image." },

    { .key = "py_version", OPT_TEXT (py_version), .group = GROUP_AWS, .properties = PROPERTY_FILE | PROPERTY_NO_FLAG,
      .metavar = "VERSION",
      .help = "Python version",
      .doc = "SageMaker: the Python version of the standard image, such as py38." },

    { .key = "sagemaker_inputs_file", OPT_PATH (sagemaker_inputs_file), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "FILE",
      .help = "TSV file of input channels",
      .doc = "SageMaker: a tab-separated file with an input channel and an S3 address in each line." },

    { .key = "sagemaker_metrics_file", OPT_PATH (sagemaker_metrics_file), .group = GROUP_AWS,
      .properties = PROPERTY_FILE | PROPERTY_NO_FLAG, .metavar = "FILE",
      .help = "TSV file of metrics",
      .doc = "SageMaker: a tab-separated file with a metric's name and a regular expression in each line." },

    { .key = "detach", OPT_FLAG (detach), .group = GROUP_AWS, .commands = COMMAND_LAUNCH,
      .properties = PROPERTY_EXTENSION,
      .help = "leave a SageMaker job running",
      .doc = "SageMaker: exit when the job is created instead of following it to its end; print its name." },
