// Package observe tests what operators see of a running purser-sandbox: metrics that follow the
// payments, the alerts and the dashboard of deploy/, traces, and the log, with promtool, which
// nobody here wrote.
//
// promtool is looked for as PROMTOOL or in PATH (Debian's package prometheus has it); without it
// its tests are skipped. PURSER_SANDBOX_BIN names a binary to use instead of building one.
package observe
