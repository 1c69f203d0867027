package simulation

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	mutated  = flag.String("simulation.mutants", "a repeat gets", "catch the mutants whose names have this in them; all for every one")
	patience = flag.Int("simulation.patience", 3000, "how many seeds a mutant may survive")
)

// change replaces a text of a file of the product, wherever it is.
type change struct{ file, old, new string }

// mutant takes one protection out of the product.
type mutant struct{ name, file, old, new string }

// mutants lists one for each protection that docs/design names and the world has a way to need.
func mutants() []mutant {
	return append(slices.Concat(chainMutants(), mppMutants()), []mutant{
		{"a caller hears of a payment once the journal has it", "boltstore/committer.go", "failpoint.Off(failpoint.Journal)", "true"},
		{"a torn record of the journal does not count", "boltstore/journal_file.go", "if recordSum(seed, head, r.changes) != binary.BigEndian.Uint32(head[24:]) {", "if false {"},
		{"the database has the records of earlier epochs", "boltstore/journal_file.go", "if !ok || r.epoch != epoch || r.seq != uint64(len(c.records))+1 {", "if !ok {"},
		{"an outcome is applied once", "pay/outcome.go", "if p.State == Settled {\n\t\tif p.Transaction", "if false {\n\t\tif p.Transaction"},
		{"only a safe block proves that no money moved", "pay/evidence.go", "over := row.over(t)", "over := !t.Latest.Before(row.ValidBefore())"},
		{"a lost answer proves nothing", "pay/settle.go", "failpoint.Off(failpoint.Evidence)", "true"},
		{"\"used already\" is no refusal", "pay/evidence.go", "case !ans.Success && UsedReason(ans.Reason):\n\t\treturn usedClaim(ans.Reason, ans.Raw)", "case !ans.Success && UsedReason(ans.Reason):\n\t\treturn claim{alone: Outcome{Verdict: VerdictVoid, Reason: ans.Reason}}"},
		{"a refused payment is doubted", "pay/outcome.go", "p.Refused, p.Doubted, p.Reason = true, true, o.Reason", "p.Refused, p.Doubted, p.Reason = true, false, o.Reason"},
		{"the money of a doubted payment stays reserved", "pay/outcome.go", "fx.Counters = p.release(AtRefused)\n", "fx.Counters = p.release(AtVoid)\n"},
		{"a hold ends on evidence only", "pay/outcome.go", "at := AtSettled\n", "at := AtSettled | AtEvidence\n"},
		{"a wallet's balance is shared by its open payments", "pay/judge.go", "if l.Max == nil ||", "if true ||"},
		{"a balance counts what has moved since it was read", "pay/reservation.go", `if moved := r.Moved(); moved != "" && r.Release&at != 0 {`, "if false {\n\t\t\tmoved := r.Moved()"},
		{"a budget counts open payments", "pay/spending.go", "if most.Max() == nil ||", "if true ||"},
		{"a repeat gets its earlier payment", "pay/repeat.go", "failpoint.Off(failpoint.Repeats)", "true || failpoint.Off(failpoint.Repeats)"},
		{"a repeat of an unanswered payment gets it", "pay/payment.go", `return p.IdempotencyKey == "" && p.Lives() && !p.Answered`, `return p.IdempotencyKey == "" && p.Lives() && !p.Answered && p.State == Settled`},
		{"an equal call that comes later while the first waits is a repeat", "pay/caller.go", "return !a.repeats(h.began) && (wrote == 0 || a.number < wrote)", "return true"},
		{"a call of MCP is known by its content", "proxy/carrier_mcp.go", `pay.HashOf("mcp", c.call.Content())`, `pay.HashOf("mcp", c.call.ID(), c.call.Content())`},
		{"the end of a stream is no answer", "proxy/carrier_mcp.go", "c.waits, c.ids = true, &eventIDs{}", "c.waits, c.ids = false, &eventIDs{}"},
		{"terms are taken out of a resumed stream", "proxy/resumption.go", "if instead := t.resumed(req, call, resp, c, e.data); instead != nil {", "if instead := t.resumed(req, call, resp, c, e.data); false {"},
		{"a redirect of a paid answer buys nothing", "proxy/redirects.go", "wait time.Duration) {\n\tkeyID, started", "wait time.Duration) {\n\tif wait >= 0 {\n\t\treturn\n\t}\n\tkeyID, started"},
		{"failures are bounded", "pay/failures.go", "p.Failed = true\n", "p.Failed = true\n\tif p.Failed {\n\t\treturn nil\n\t}\n"},
		{"a restored store is reconciled before anything is paid", "pay/reconcile.go", "return r.Refusal()", "return nil"},
		{"a withdrawal's nonce tells its order", "pay/tagged.go", "NonceTag(string(of[:]), seed) == tag", "NonceTag(string(of[:]), seed) == tag && false"},
		{"a dispute counts as a failure", "pay/outcome.go", "p.Disputed, p.Reason = true, o.Reason\n\t\t\tfx.Counters = p.fail()", "p.Disputed, p.Reason = true, o.Reason"},
		{"an approval is used once", "pay/approval.go", "a.PaymentID, a.Used = p.ID, p.Created", "a.PaymentID = p.ID"},
		{"a call is judged by what is in force", "pay/judge.go", "err == nil && revision != b.PolicyRevision", "err == nil && revision != b.PolicyRevision && false"},
		{"a paused key begins nothing", "pay/judge.go", "err = b.Paused.refusal(\"the key\")", "err = nil"},
		{"a dispute takes the spending back", "pay/outcome.go", "e.Corrects = p.EventID", "_ = p.EventID"},
		{"a settled payment is confirmed with the chain's transaction", "pay/outcome.go", `if o.Transaction != "" && o.Transaction != p.Transaction {
				if p.Transaction`, `if false {
				if p.Transaction`},
	}...)
}

// TestMutants takes protections out of purser, one by one. The rules must notice each of them. By default
// it takes out a single one, which shows quickly that the rules can be broken.
func TestMutants(t *testing.T) {
	for _, m := range mutants() {
		if *mutated != "all" && !strings.Contains(m.name, *mutated) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			began := time.Now()
			took, rule := caught(t, m)
			if took == 0 {
				t.Errorf("%q survives %d seeds", m.name, *patience)
				return
			}
			t.Logf("%4d seeds, %3.0f s: %s: %s", took, time.Since(began).Seconds(), m.name, rule)
		})
	}
}

var (
	ran   = regexp.MustCompile(`(\d+) seeds from`)
	found = regexp.MustCompile(`_test.go:\d+: (?:seed \d+: )?(.*)`)
)

// build builds the simulation with changes of the product, which stays as it is.
func build(t *testing.T, changes ...change) (program string) {
	t.Helper()
	root, dir := filepath.Dir(must(os.Getwd())), t.TempDir()
	files, texts := map[string]string{}, map[string]string{}
	for i, c := range changes {
		path := filepath.Join(root, filepath.FromSlash(c.file))
		if texts[path] == "" {
			texts[path], files[path] = string(must(os.ReadFile(path))), filepath.Join(dir, fmt.Sprint("changed-", i, ".go"))
		}
		if !strings.Contains(texts[path], c.old) {
			t.Fatalf("%s has no %q", c.file, c.old)
		}
		texts[path] = strings.ReplaceAll(texts[path], c.old, c.new)
	}
	write := func(path string, text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range texts {
		write(files[path], []byte(text))
	}
	overlay, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "changed.test")
	write(overlay, must(json.Marshal(map[string]any{"Replace": files})))
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// caught builds the simulation with a mutant and returns how many seeds it took to notice it, and the rule that
// was broken. 0: none did.
func caught(t *testing.T, m mutant) (seeds int, rule string) {
	t.Helper()
	program := build(t, change{m.file, m.old, m.new})
	for seeds < *patience {
		var said bytes.Buffer
		play := exec.CommandContext(t.Context(), program, "-test.run=TestSeeds", "-test.timeout=2m", "-simulation.quiet", "-simulation.first", //nolint:gosec // built here
			"-simulation.again=0", fmt.Sprint("-simulation.seed=", seeds+1), fmt.Sprint("-simulation.seeds=", portion))
		play.Stdout, play.Stderr = &said, &said
		if play.Run() == nil {
			seeds += portion
			continue
		}
		number, broken := ran.FindStringSubmatch(said.String()), found.FindStringSubmatch(said.String())
		if number == nil || broken == nil {
			return seeds + portion, "the program does not come to its end"
		}
		last := 0
		_, _ = fmt.Sscan(number[1], &last)
		return seeds + last, broken[1]
	}
	return 0, ""
}

// portion is the number of seeds that one process runs of a mutant, which may hang.
const portion = 50

// must returns a value, or panics.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
