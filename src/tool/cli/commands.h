/* The commands. Each gets its own name as argv[0] and returns the exit status of the tool. `main`
 * prints its help for --help and -h; `cmd_record` and `cmd_run` also print their own. */
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

extern const char cmd_build_help[];
extern const char cmd_run_help[];
extern const char cmd_profile_help[];
extern const char cmd_record_help[];
extern const char cmd_snapshot_help[];
extern const char cmd_report_help[];
extern const char cmd_diff_help[];
extern const char cmd_export_help[];
extern const char cmd_view_help[];
extern const char cmd_list_help[];
extern const char cmd_tag_help[];
extern const char cmd_doctor_help[];

#endif
