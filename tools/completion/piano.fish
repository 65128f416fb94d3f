# fish completion for piano. piano.bash explains the table that `piano --complete` prints.

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
    set -l before
    for at in (seq 3 (count $argv))
        if test "$argv[$at]" = --
            math $at + 1
            return
        end
        if contains -- $argv[2] $__piano_with_program
            and not string match -q -- '-*' $argv[$at]
            and not contains -- "$before" $__piano_with_value
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
    and contains -- $words[2] $__piano_with_program $__piano_with_command
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
function __piano_recorded
    grep -lsE '^[^ ]+ rw-s .*\.rec' /proc/*/maps 2>/dev/null | cut -d/ -f3 | string match -r '^[0-9]+$'
end

complete -c piano -f
complete -c piano -n __piano_in_program -a '(__piano_program)'
complete -c piano -n __fish_is_first_token -l help -d 'explain the commands'
complete -c piano -n __fish_is_first_token -l version -d 'the version'

set -g __piano_with_value # flags before a program that have a value
set -g __piano_with_program # commands whose words are a program
set -g __piano_with_command # commands that take a command after `--`

function __piano_add_command -a name how text
    set -l on "__piano_command $name"
    complete -c piano -n __fish_is_first_token -a $name -d $text
    test $name = help
    or complete -c piano -n '__piano_command help' -a $name -d $text
    switch $how
        case run
            complete -c piano -n $on -Fa '(__piano_runs)' -d run
        case recorded
            complete -c piano -n $on -a '(__piano_recorded)' -d process
        case program
            complete -c piano -n $on -a '(__piano_program)'
            set -ga __piano_with_program $name
        case command
            set -ga __piano_with_command $name
    end
end

function __piano_add_flag -a name flag value how text
    set -l option -l (string replace -- -- '' $flag)
    string match -q -- '--*' $flag
    or set option -s (string replace -- - '' $flag)
    if not string match -qr -- '^(-$|\[)' $value
        contains -- $name $__piano_with_program
        and set -ga __piano_with_value $flag
        switch $how
            case 'words *'
                set -a option -x -a (string replace 'words ' '' $how)
            case function
                set -a option -x -a '(__piano_functions)'
            case file
                set -a option -rF
            case directory
                set -a option -x -a '(__fish_complete_directories)'
            case process
                set -a option -x -a '(__fish_complete_pids)'
            case '*'
                set -a option -x
        end
    end
    complete -c piano -n "__piano_command $name" $option -d $text
end

for row in (command piano --complete 2>/dev/null)
    set -l field (string split \t -- $row)
    if test $field[2] = -
        __piano_add_command $field[1] $field[4] $field[6]
    else
        __piano_add_flag $field[1] $field[2] $field[3] $field[4] $field[6]
    end
end
