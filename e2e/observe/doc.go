// Package observe tests the signals that a running purser-sandbox gives to operators: metrics that
// follow the payments, the alerts and the dashboard of deploy/, traces, and the log. promtool
// checks them independently.
//
// promtool is looked for as PROMTOOL or in PATH (Debian's package prometheus has it). Package
// needed handles its absence. PURSER_SANDBOX_BIN names a binary to use instead of building one.
package observe
