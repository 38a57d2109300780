/* Trace points that can not be probed, or not everywhere: said once each, those of patterns only as a number. */
#include "live/run.h"

#include "insn/insn.h"

static void report_row(struct live_run *run, const struct load_row *row)
{
    char message[512];
    snprintf(message, sizeof message, "%s:%s%s%s: %s: %s", row->module, row->function, row->point[0] == '+' ? "" : ":", row->point,
             row->places ? "not every place can be probed" : "can not be probed", insn_reason_text(row->reason));
    print_run_error(&run->print, &(struct print_event){.name = run->options->name}, message);
}

void live_report_places(struct live_run *run)
{
    size_t count = load_session_row_count(run->session), refused = 0, trap_only = 0;
    const char *unreadable = load_session_unreadable(run->session);
    if (unreadable && !run->unreadable_reported)
        print_run_error(&run->print, &(struct print_event){.name = run->options->name}, unreadable);
    run->unreadable_reported = unreadable;
    for (; run->rows_reported < count; run->rows_reported++) {
        const struct load_row *row = load_session_row(run->session, run->rows_reported);
        if (row->reason == INSN_OK || row->reason == INSN_NO_RETURN)
            continue;
        refused++;
        trap_only += row->trap_only != 0;
        if (row->by_name || run->options->verbose)
            report_row(run, row);
    }
    if (refused > 1 && !run->options->quiet)
        fprintf(run->print.err, "%zu trace points can not be probed fully; -v says which\n", refused);
    if (refused > 1 && trap_only && !run->options->quiet)
        fprintf(run->print.err, "%zu of them take nothing but a trap, which --traps allows\n", trap_only);
}
