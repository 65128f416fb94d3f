# fish completion for piano

# Is the command one of ARGV, and is the word under the cursor still one for piano? Words after `--`
# or after the name of a program belong to that program.
function __piano_command
    set -l words (commandline -opc)
    set -q words[2]
    and contains -- $words[2] $argv
    and test (__piano_program_at $words) -eq 0
end

# The number of the first of the WORDS of a command line that belong to a program; 0 if none does.
function __piano_program_at
    set -l with_value -o --output --pid --duration --kill-timeout --snapshot-every --max-size
    set -l before
    for at in (seq 3 (count $argv))
        if test "$argv[$at]" = --
            math $at + 1
            return
        end
        if contains -- $argv[2] run record
            and not string match -q -- '-*' $argv[$at]
            and not contains -- "$before" $with_value
            echo $at
            return
        end
        set before $argv[$at]
    end
    echo 0
end

# Completes the command line of the program.
function __piano_program
    set -l words (commandline -opc)
    set -l at (__piano_program_at $words)
    set -l line
    test $at -gt 0; and test $at -le (count $words)
    and set line (string escape -- $words[$at..-1])
    complete --do-complete=(string join ' ' -- $line (commandline -ct))
end

function __piano_in_program
    set -l words (commandline -opc)
    set -q words[2]
    and contains -- $words[2] build profile run record
    and test (__piano_program_at $words) -ne 0
end

# Functions that the last build of the project found, with and without their namespaces and classes.
function __piano_functions
    set -l dir $PWD
    while test -n "$dir"; and not test -d "$dir/.piano/build/units"
        set dir (string replace -r '/[^/]*$' '' -- $dir)
    end
    set -l units $dir/.piano/build/units/*.unit
    set -q units[1]
    and awk -F '\t' '$1 == "fn" && $2 ~ /^[A-Za-z0-9_:~]+$/ { print $2; n = split($2, part, "::"); if (n > 1) print part[n] }' $units | sort -u
end

function __piano_runs
    set -l dir .piano/runs
    test -n "$PIANO_RUNS_DIR"
    and set dir $PIANO_RUNS_DIR
    for file in $dir/*.ndjson $dir/*.json $dir/*.rec
        string replace -r '^.*/' '' -- $file | string replace -r '\.[^.]*$' ''
    end
end

# Processes with a recording, which `piano snapshot` accepts.
function __piano_pids
    grep -lsE '^[^ ]+ rw-s .*\.rec' /proc/*/maps 2>/dev/null | cut -d/ -f3 | string match -r '^[0-9]+$'
end

complete -c piano -f
complete -c piano -n __piano_in_program -a '(__piano_program)'

complete -c piano -n __fish_is_first_token -l help -d 'explain the commands'
complete -c piano -n __fish_is_first_token -l version -d 'the version'
for command in \
    'profile build, run and report in one step' \
    'build build the project with chosen functions instrumented' \
    'run run an instrumented program' \
    'record run any program and record its memory, CPU time and waits' \
    'snapshot take a snapshot of a program that is being recorded' \
    'report show where the time, the allocations and the memory went' \
    'diff compare two runs, or two groups of runs' \
    'export write a recording for Speedscope, pprof, flame graphs or Perfetto' \
    'view look at a run in a browser, or as one HTML file' \
    'list list the recorded runs' \
    'tag give a run a name' \
    'doctor check that this machine has what piano needs' \
    'help explain a command'
    set -l words (string split -m 1 ' ' -- $command)
    complete -c piano -n __fish_is_first_token -a $words[1] -d $words[2]
    test $words[1] = help
    or complete -c piano -n '__piano_command help' -a $words[1] -d $words[2]
    test $words[1] = help
    or complete -c piano -n "__piano_command $words[1]" -l help -d 'explain the command'
end

complete -c piano -n '__piano_command build profile' -l fn -x -a '(__piano_functions)' -d 'functions with this in their name'
complete -c piano -n '__piano_command build profile' -l exact -d 'patterns are whole names'
complete -c piano -n '__piano_command build profile' -l file -rF -d 'functions of this file'
complete -c piano -n '__piano_command build profile' -l dir -x -a '(__fish_complete_directories)' -d 'functions below this directory'
complete -c piano -n '__piano_command build profile' -l skip -x -a '(__piano_functions)' -d 'not this function'
complete -c piano -n '__piano_command build profile' -l frame -x -a '(__piano_functions)' -d 'each call of this function is a frame'
complete -c piano -n '__piano_command build profile' -s j -x -d 'processes at once'
complete -c piano -n '__piano_command build profile' -l verbose -d 'show what the build prints'
complete -c piano -n '__piano_command build' -l list-skipped -d 'say what was left out'

complete -c piano -n '__piano_command profile run record' -l duration -x -d 'end it after so many seconds'
complete -c piano -n '__piano_command profile run record' -l kill-timeout -x -d 'kill it so many seconds after that'
complete -c piano -n '__piano_command profile run' -l every-call -d 'time every call, estimate none'
complete -c piano -n '__piano_command run record' -a '(__piano_program)'

complete -c piano -n '__piano_command record' -l heap -d 'sample one allocation in so many bytes'
complete -c piano -n '__piano_command record' -l cpu -d 'sample the CPU so often a second'
complete -c piano -n '__piano_command record' -l events -d 'event loops'
complete -c piano -n '__piano_command record' -l kernel -d 'with the frames of the kernel'
complete -c piano -n '__piano_command record' -l pid -x -a '(__fish_complete_pids)' -d 'a process that runs'
complete -c piano -n '__piano_command record' -l maps -d 'anonymous mmap too'
complete -c piano -n '__piano_command record' -l children -d 'and the processes it starts'
complete -c piano -n '__piano_command record' -l snapshot-every -x -d 'a snapshot every so many seconds, 0 for none'
complete -c piano -n '__piano_command record' -l max-size -x -d 'how large a recording may get, 1M to 1G'
complete -c piano -n '__piano_command record' -s o -l output -rF -d 'the recording'

complete -c piano -n '__piano_command snapshot' -a '(__piano_pids)' -d process

complete -c piano -n '__piano_command report profile' -l frames -d 'frame by frame'
complete -c piano -n '__piano_command report profile' -l threads -d 'by thread'
complete -c piano -n '__piano_command report profile diff list tag' -l json -d 'for programs'
complete -c piano -n '__piano_command report profile diff' -l top -x -d 'only this many'
complete -c piano -n '__piano_command report profile diff list' -l all -d 'every row'
complete -c piano -n '__piano_command report profile' -l places -d 'with file and line'
complete -c piano -n '__piano_command report profile' -l cpu-time -d 'rank by CPU time'
complete -c piano -n '__piano_command report profile' -l wall -d 'rank by wall time'
complete -c piano -n '__piano_command report profile' -l uncorrected -d 'times as measured'
complete -c piano -n '__piano_command report profile' -l budget -x -d 'spikes are frames above this time'
complete -c piano -n '__piano_command report' -l polls -d 'turns of event loops, polls of tasks'
complete -c piano -n '__piano_command report' -l cpu -d 'functions by CPU time'
complete -c piano -n '__piano_command report' -l heap -d 'who holds the memory'
complete -c piano -n '__piano_command report' -l tree -d 'the call tree'
complete -c piano -n '__piano_command report' -l leaks -d 'what was not freed'
complete -c piano -n '__piano_command report' -l growth -d 'between two snapshots'
complete -c piano -n '__piano_command report' -l peak -d 'at the peak'
complete -c piano -n '__piano_command report' -l from -x -d 'the first snapshot'
complete -c piano -n '__piano_command report' -l to -x -d 'the last snapshot'
complete -c piano -n '__piano_command report' -l by -x -a 'live allocated peak churn cpu off-cpu' -d figure
complete -c piano -n '__piano_command export' -l by -x -a 'live allocated peak cpu off-cpu' -d figure
complete -c piano -n '__piano_command report export diff' -l skip -x -d 'a wrapper of malloc'
complete -c piano -n '__piano_command report export diff' -l no-skip -d 'wrappers are sites too'
complete -c piano -n '__piano_command report export view diff tag' -Fa '(__piano_runs)' -d run

complete -c piano -n '__piano_command export' -l format -x -a 'speedscope pprof collapsed chrome' -d 'for which tool'
complete -c piano -n '__piano_command export view' -s o -l output -rF -d 'the file to write'
complete -c piano -n '__piano_command export view' -l force -d 'even if it exists'
complete -c piano -n '__piano_command view' -l port -x -d 'serve at this port'
complete -c piano -n '__piano_command view' -l no-open -d 'no browser'
complete -c piano -n '__piano_command view' -l alone -d 'without the other one of the same process'
complete -c piano -n '__piano_command diff' -l fail-above -x -d 'exit with 1 above so many percent'
complete -c piano -n '__piano_command tag' -l add -d 'one more run under the name'
complete -c piano -n '__piano_command tag' -l force -d 'move the name'
complete -c piano -n '__piano_command tag' -l delete -d 'forget the name'
