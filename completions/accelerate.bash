# SPDX-License-Identifier: Apache-2.0
# Completion of accelerate(1) for bash.  Made from the option table by `make regen`; do not edit.
_accelerate ()
{
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} at=2
    local options valued words i name
    COMPREPLY=()
    # '=' is a word of its own here
    if [[ $cur == = ]]; then
        cur=
    elif [[ $prev == = ]]; then
        prev=${COMP_WORDS[COMP_CWORD-2]}
    fi
    case ${COMP_WORDS[0]##*/} in
    accelerate-*)
        command=${COMP_WORDS[0]##*accelerate-} at=1
        ;;
    *)
        if ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W 'config env launch --help --version' -- "$cur")
            return
        fi
        ;;
    esac
    case $command in
    config)
        options='--config_file --mixed_precision'
        valued='--config_file --mixed_precision'
        words='default'
        ;;
    env)
        options='--config_file --json'
        valued='--config_file'
        words=''
        ;;
    launch)
        options='--config_file --quiet --module --no_python --num_machines --machine_rank --main_process_ip --main_process_port --debug --cpu --multi_gpu --dynamo_backend --dynamo_mode --dynamo_use_fullgraph --dynamo_use_dynamic --dynamo_use_regional_compilation --gpu_ids --num_processes --num_cpu_threads_per_process --mixed_precision --dry_run --json --grace --failure_report'
        valued='--config_file --num_machines --machine_rank --main_process_ip --main_process_port --dynamo_backend --dynamo_mode --gpu_ids --num_processes --num_cpu_threads_per_process --mixed_precision --grace --failure_report'
        words=''
        ;;
    *)
        return
        ;;
    esac
    # Behind the program everything is the program's.
    for ((i = at; i < COMP_CWORD; i++)); do
        name=${COMP_WORDS[i]//-/_}
        if [[ ${COMP_WORDS[i]} != -* ]]; then
            [[ ${COMP_WORDS[i]} == = ]] && { ((i++)); continue; }
            mapfile -t COMPREPLY < <(compgen -f -- "$cur")
            return
        elif [[ " $valued " == *" --${name#__} "* && ${COMP_WORDS[i+1]} != = ]]; then
            ((i++))
        fi
    done
    prev=${prev//-/_}
    case --${prev#__} in
    --config_file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --dynamo_backend)
        mapfile -t COMPREPLY < <(compgen -W 'no eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt aot_torchxla_trace_once torchxla_trace_once tvm' -- "$cur")
        return
        ;;
    --dynamo_mode)
        mapfile -t COMPREPLY < <(compgen -W 'default reduce-overhead max-autotune' -- "$cur")
        return
        ;;
    --mixed_precision)
        mapfile -t COMPREPLY < <(compgen -W 'no fp16 bf16' -- "$cur")
        return
        ;;
    --failure_report)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac
    if [[ " $valued " == *" --${prev#__} "* ]]; then
        return
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options --help" -- "$cur")
    elif [[ $command == launch ]]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    fi
}
complete -o filenames -F _accelerate accelerate accelerate-launch accelerate-config
