/* The commands. Each gets its own name as argv[0] and returns the exit status of the tool. */
#ifndef PIANO_TOOL_CLI_COMMANDS_H
#define PIANO_TOOL_CLI_COMMANDS_H

int cmd_build(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_snapshot(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_view(int argc, char **argv);
int cmd_list(int argc, char **argv);
int cmd_tag(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_cc_wrap(int argc, char **argv);

#endif
