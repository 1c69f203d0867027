package installation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/options"
)

// Result says how a check ended.
type Result string

// Results of a check.
const (
	OK   Result = "ok"
	Warn Result = "warn" // it works, and should be better
	Fail Result = "FAIL" // payments fail, or secrets are open to others
)

// Finding holds the result of one check.
type Finding struct {
	// Check holds its name, which stays the same over versions.
	Check  string `json:"check"`
	Result Result `json:"result"`
	Says   string `json:"says"`
	Do     string `json:"do,omitempty"` // what to do about it
}

// Subject is an installation that is examined.
type Subject struct {
	Config []byte // Caddy's, as JSON
	Getenv func(string) string
	Path   func(string) string // makes a path absolute
	Now    func() time.Time
	// DefaultDataDir is the data directory of a purser that is told none.
	DefaultDataDir string
	// Running is the state of the purser that runs; nil: none does, and Silence says why.
	Running *adminapi.Status
	Silence string
	Wallets []adminapi.Wallet // of the purser that runs
	// Warnings tell of variables that are not in force.
	Warnings []string
	// Private are files that only their owner may read, besides the data directory.
	Private []string
}

// Report holds all findings.
type Report struct {
	Findings []Finding `json:"findings"`
	Warned   int       `json:"warned"`
	Failed   int       `json:"failed"`
}

// examineTime bounds all checks.
const examineTime = 15 * time.Second

// Examine makes all checks. It writes nothing, and asks the configured RPCs and nothing else.
func Examine(ctx context.Context, s Subject) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTime)
	defer cancel()
	e := examination{Subject: s}
	if err := json.Unmarshal(s.Config, &e.config); err != nil {
		return Report{}, fmt.Errorf("the configuration: %w", err)
	}
	if len(e.config.Apps.Purser) > 0 {
		if err := json.Unmarshal(e.config.Apps.Purser, &e.app); err != nil {
			return Report{}, fmt.Errorf("the configuration of purser: %w", err)
		}
	}
	checks := []func(context.Context) []Finding{
		e.running, e.networks, e.wallets, e.disk, e.variables, e.permissions, e.limits, e.authority, e.exposure,
	}
	found := make([][]Finding, len(checks))
	var all sync.WaitGroup
	for i, check := range checks {
		all.Go(func() { found[i] = check(ctx) })
	}
	all.Wait()
	r := Report{Findings: slices.Concat(found...)}
	for _, f := range r.Findings {
		switch f.Result {
		case Warn:
			r.Warned++
		case Fail:
			r.Failed++
		case OK:
		}
	}
	return r, nil
}

// Write writes the report for people.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString("This installation:\n\n")
	for _, f := range r.Findings {
		text := f.Says
		if f.Do != "" {
			text += "\n→ " + f.Do
		}
		lead := fmt.Sprintf("%-5s %-12s ", f.Result, f.Check)
		for line := range strings.Lines(wrapped(text)) {
			b.WriteString(lead + strings.TrimSuffix(line, "\n") + "\n")
			lead = strings.Repeat(" ", len(lead))
		}
	}
	fmt.Fprintf(&b, "\n%d checks, %d failed, %d to look at\n", len(r.Findings), r.Failed, r.Warned)
	_, err := io.WriteString(w, b.String())
	return err
}

// textWidth bounds a line of a finding, so that all fits 100 columns.
const textWidth = 81

// wrapped breaks lines between words.
func wrapped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		column := 0
		for i, word := range strings.Fields(line) {
			n := utf8.RuneCountInString(word)
			switch {
			case i > 0 && column+1+n > textWidth:
				b.WriteString("\n")
				column = 0
			case i > 0:
				b.WriteString(" ")
				column++
			}
			b.WriteString(word)
			column += n
		}
		b.WriteString("\n")
	}
	return b.String()
}

// examination holds what checks read.
type examination struct {
	Subject
	config caddyConfig
	app    appConfig
}

// appConfig holds the options of purser that checks read.
type appConfig struct {
	DataDir      options.Text    `json:"data_dir"`
	Networks     options.Text    `json:"networks"`
	RPCURL       options.Text    `json:"rpc_url"`
	RPCURLFile   options.Text    `json:"rpc_url_file"`
	RPCURL2      options.Text    `json:"rpc_url_2"`
	RPCURL2File  options.Text    `json:"rpc_url_2_file"`
	MaxPayment   options.Text    `json:"max_payment"`
	DailyBudget  options.Text    `json:"daily_budget"`
	Registration options.Text    `json:"registration"`
	Network      map[string]rpcs `json:"network"`
	Store        struct {
		Path options.Text `json:"path"`
	} `json:"store"`
}

type rpcs struct {
	RPCURL      options.Text `json:"rpc_url"`
	RPCURLFile  options.Text `json:"rpc_url_file"`
	RPCURL2     options.Text `json:"rpc_url_2"`
	RPCURL2File options.Text `json:"rpc_url_2_file"`
}

// value returns an option: as it is configured, else its variable, else its default.
func (e *examination) value(given options.Text, variable, unset string) string {
	return cmp.Or(filled(string(given), e.Getenv), e.Getenv(variable), unset)
}

func one(check string, result Result, do, format string, args ...any) []Finding {
	return []Finding{{check, result, fmt.Sprintf(format, args...), do}}
}

// running tells whether a purser runs, and where.
func (e *examination) running(context.Context) []Finding {
	at, err := AddressesIn(e.Config, e.Getenv)
	where := "nowhere"
	if all := slices.Concat(at.Proxy, at.REST, at.Sidecar, at.Metrics); err == nil && len(all) > 0 {
		slices.Sort(all)
		where = strings.Join(slices.Compact(all), " ")
	}
	switch s := e.Running; {
	case s == nil:
		return one("running", Warn, "purser run; then examine it once more: what follows is from its files", "no purser runs here: %s. It would listen on %s", e.Silence, where)
	case s.Paused != nil:
		return one("running", Warn, "purser resume", "purser %s, pid %d, on %s: all payments are paused", s.Version, s.Process, where)
	case !s.OK:
		return one("running", Fail, "purser status names the part", "purser %s, pid %d, on %s: not all is well, and payments may fail", s.Version, s.Process, where)
	}
	return one("running", OK, "", "purser %s, pid %d, on %s", e.Running.Version, e.Running.Process, where)
}
