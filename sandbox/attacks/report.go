package attacks

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Result says how an attack ended.
type Result string

// Results of an attack.
const (
	Held   Result = "ok"
	Failed Result = "FAIL"
	// Off: the user's configuration has no protection here, or nothing to attack.
	Off Result = "off"
	// Unmade: the attack could not be made, so its result is unknown.
	Unmade Result = "error"
)

// Finding holds the result of one attack.
type Finding struct {
	Group string `json:"group"`
	// Attack holds its name, which stays the same over versions.
	Attack string `json:"attack"`
	Result Result `json:"result"`
	// Says tells people what was tried and what held, or why it failed.
	Says string `json:"says"`
	// Story tells what the customers saw, and what books and ledger contain. It is set when the
	// attack succeeded.
	Story   []string `json:"story,omitempty"`
	Seconds float64  `json:"seconds"`
}

// Report holds the findings of the attacks.
type Report struct {
	// TestBuild reports that the program can switch its protections off. It must not handle money then.
	TestBuild bool      `json:"test_build"`
	Changes   []Change  `json:"changes"`
	Findings  []Finding `json:"findings"`
	Held      int       `json:"held"`
	Failed    int       `json:"failed"`
	Off       int       `json:"off"`
	Unmade    int       `json:"unmade"`
	Seconds   float64   `json:"seconds"`
}

// add adds a finding and counts its result.
func (r *Report) add(f Finding) {
	r.Findings = append(r.Findings, f)
	switch f.Result {
	case Held:
		r.Held++
	case Failed:
		r.Failed++
	case Off:
		r.Off++
	case Unmade:
		r.Unmade++
	}
}

// Summary returns the last line of the report.
func (r Report) Summary() string {
	text := fmt.Sprintf("%d held, %d failed, %d off, in %s", r.Held, r.Failed, r.Off,
		time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond))
	switch {
	case r.Unmade > 0 && r.Failed == 0:
		return fmt.Sprintf("%s; %d could not be made", text, r.Unmade)
	case r.Failed > 0:
		return text + ": do not let this purser handle money"
	case r.TestBuild:
		return text + ": but this is a test build, which must not handle money"
	}
	return text
}

// testBuild warns of a program that can switch its protections off.
const testBuild = "THIS IS A TEST BUILD: its protections can be switched off, so that nothing below is said of a purser that handles money."

// WriteHead announces the attacks on a program and lists the differences from the user's
// installation.
func (r Report) WriteHead(w io.Writer, program string) {
	text := ""
	if r.TestBuild {
		text = testBuild + "\n\n"
	}
	text += "A scratch copy of your purser is attacked. No real money, key or service is involved, and nothing\n" +
		"but 127.0.0.1 is dialled. The program is " + program + ". It is as you configured it, but for:\n"
	for _, c := range r.Changes {
		text += fmt.Sprintf("  %-16s %s", c.What, c.Scratch)
		if c.Yours != "" {
			text += " (yours: " + c.Yours + ")"
		}
		text += "\n"
	}
	_, _ = io.WriteString(w, text) // a closed output is no reason to stop
}

// WriteFinding writes the line of an attack, and its story if there is one.
func WriteFinding(w io.Writer, f Finding) {
	text := fmt.Sprintf("%-5s %-18s %s", f.Result, f.Attack, f.Says)
	if f.Seconds >= 0.05 {
		text += fmt.Sprintf("  %.1fs", f.Seconds)
	}
	text += "\n"
	for _, line := range f.Story {
		text += "        " + strings.ReplaceAll(line, "\n", "\n        ") + "\n"
	}
	_, _ = io.WriteString(w, text)
}
